"""A plan from an old one beside a plan from zero: bench/replan.py [--losses N]

For each case compiles a transition and then, for random losses of a node, the
changed transition three times:

  zero      by a process that knows nothing: `dt-opt REQUEST`
  fresh     by a process that knows nothing, from the old plan:
            `dt-opt --replan OLD REQUEST`
  resident  by a process that had read and verified the old plan before, and
            expects requests like the old one: `dt-opt --replan OLD --requests`,
            from when it is asked until it has answered; each loss is the first
            that its process is asked for

One line of JSON for each case, with medians, least and most of all losses.
`fresh_cpu` and the like are seconds as a part of what a plan from zero takes in
the same run, CPU (user and system, from the kernel) and by the clock; the same
in seconds; `ready_s` is how long the resident process takes by the clock until
it can be asked, `resident_mib` what it holds then. `predicted` is the time that
the new plan predicts, as a part of what that from zero does. `kept` counts the
losses whose plan has copies of the old one's programs, and the tool says which
share of bytes goes from where to where it went. The plans of both processes
have to be the same, byte for byte, and are checked by `dt-plan verify`, which
is not counted.

  replaced   a node of the destination has failed, a spare one has its place
  lost       the old plan goes on without one node, the new one without another
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = {
    "param": "bf16",
    "master": "f32",
    "exp_avg": "f32",
    "exp_avg_sq": "f32",
}
NODE = 8
CLUSTER = {
    "devices_per_node": NODE,
    "intra_node_GBps": 200,
    "inter_node_GBps": 25,
    "latency_us": 10,
}


def request(model, source, destination):
    return {
        "model": str(ROOT / "examples" / "models" / f"{model}.json"),
        "state": STATE,
        "source": {**source, "zero": 1},
        "destination": {**destination, "zero": 1},
        "cluster": CLUSTER,
        "memory": {"staging": "1GiB", "mode": "rollback"},
    }


def replaced(model, world, source, destination):
    """Node `lost` of the destination is the first one behind the world."""

    def without(lost=None):
        devices = list(range(world))
        if lost is not None:
            first = lost * NODE
            devices[first : first + NODE] = range(world, world + NODE)
        return request(model, source, {**destination, "devices": devices})

    return lambda rng: (without(), without(rng.randrange(world // NODE)))


def lost(model, world, source):
    """A data-parallel replica has a node, and one of them is lost."""

    def without(node):
        left = [d for d in range(world) if d // NODE != node]
        destination = {
            **source,
            "world": len(left),
            "dp": source["dp"] - 1,
            "devices": left,
        }
        return request(model, source, destination)

    def pair(rng):
        old = rng.randrange(world // NODE - 1)
        return without(old), without(old + 1)

    return pair


def cases(world):
    return {
        "qwen3-235b-a22b, ep16 pp4 to ep32 pp2, node replaced": replaced(
            "qwen3-235b-a22b",
            world,
            {
                "world": world,
                "ep": 16,
                "pp": 4,
                "dp": world // 4,
                "pp_layers": [24, 23, 23, 24],
            },
            {"world": world, "ep": 32, "pp": 2, "dp": world // 2},
        ),
        "llama3-70b, tp8 pp4 to tp8 pp2, node replaced": replaced(
            "llama3-70b",
            world,
            {"world": world, "tp": 8, "pp": 4, "dp": world // 32},
            {"world": world, "tp": 8, "pp": 2, "dp": world // 16},
        ),
        "llama3-70b, tp8, the next node lost": lost(
            "llama3-70b", world, {"world": world, "tp": 8, "dp": world // NODE}
        ),
    }


def run(*command):
    """(seconds of CPU, by the clock, words) of a process that must succeed."""
    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], stderr=errors
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        errors.seek(0)
        words = errors.read()
    if status:
        raise SystemExit(f"{command} failed: {words}")
    return used.ru_utime + used.ru_stime, wall, words


class Resident:
    """A process that holds a plan. Asked once, so that no loss is helped by
    what another one has left in its memory."""

    def __init__(self, tool, plan, request):
        start = time.perf_counter()
        self.process = subprocess.Popen(
            [tool, "--replan", plan, "--requests"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()
        self.say({"expect": str(request)})
        if not self.answer()["expected"]:
            raise SystemExit(f"{request} cannot be expected")
        self.ready = time.perf_counter() - start
        self.mib = self.memory()

    def say(self, line):
        print(json.dumps(line), file=self.process.stdin, flush=True)

    def answer(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "it has ended"}
        if "error" in answer:
            raise SystemExit(f"{self.process.args}: {answer['error']}")
        return answer

    def cpu(self):
        """Seconds of user and system so far, of threads that are gone too."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def ask(self, request, plan):
        """(seconds of CPU, by the clock, the answer)"""
        before, start = self.cpu(), time.perf_counter()
        self.say({"request": str(request), "output": str(plan)})
        answer = self.answer()
        wall = time.perf_counter() - start
        return self.cpu() - before, wall, answer

    def end(self):
        self.process.stdin.close()
        if self.process.wait():
            raise SystemExit(f"{self.process.args} failed")


def predicted(binaries, plan):
    run(binaries / "dt-plan", "verify", plan)
    facts = subprocess.run(
        [binaries / "dt-plan", "inspect", "--json", plan],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(facts.stdout)["time"]["predicted_s"]


def measure(binaries, pair, rng, folder):
    """One loss: ratios of replanning to a plan from zero, and shares kept."""
    old, new = (folder / f"{name}.json" for name in ("old", "new"))
    plans = {
        name: folder / f"{name}.dtplan"
        for name in ("old", "zero", "fresh", "resident")
    }
    tool = binaries / "dt-opt"
    before, changed = (json.dumps(content) for content in pair(rng))
    if not old.exists() or old.read_text() != before:
        old.write_text(before)
        run(tool, old, "-o", plans["old"])
    new.write_text(changed)
    resident = Resident(tool, plans["old"], old)
    zero = run(tool, new, "-o", plans["zero"])
    fresh = run(tool, "--replan", plans["old"], new, "-o", plans["fresh"])
    cpu, wall, answer = resident.ask(new, plans["resident"])
    resident.end()
    if plans["fresh"].read_bytes() != plans["resident"].read_bytes():
        raise SystemExit(f"two plans of {new}")
    wire = answer["bytes"]["wire"]
    return {
        "zero_cpu_s": zero[0],
        "zero_wall_s": zero[1],
        "fresh_cpu": fresh[0] / zero[0],
        "fresh_wall": fresh[1] / zero[1],
        "resident_cpu": cpu / zero[0],
        "resident_wall": wall / zero[1],
        "resident_cpu_s": cpu,
        "resident_wall_s": wall,
        "ready_s": resident.ready,
        "resident_mib": resident.mib,
        "predicted": predicted(binaries, plans["resident"])
        / predicted(binaries, plans["zero"]),
        "on_route": answer["bytes"]["on_old_route"] / wire,
        "in_wave": answer["bytes"]["in_old_wave"] / wire,
        "copied": answer["programs_copied"],
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bin", default=ROOT / "build/bin", type=Path)
    parser.add_argument("--losses", default=20, type=int)
    parser.add_argument("--world", default=1024, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--case", default="", help="only those that have it")
    parser.add_argument("--rows", action="store_true", help="of each loss too")
    options = parser.parse_args()
    for name, pair in cases(options.world).items():
        if options.case not in name:
            continue
        rng = random.Random(options.seed)
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.losses):
                rows.append(measure(options.bin, pair, rng, Path(folder)))
                if options.rows:
                    print(json.dumps(rows[-1]), flush=True)
        line = {"case": name, "ranks": options.world, "losses": len(rows)}
        line["kept"] = sum(row["copied"] > 0 for row in rows)
        for key in rows[0]:
            values = [row[key] for row in rows]
            line[key] = [
                round(value, 3)
                for value in (
                    statistics.median(values),
                    min(values),
                    max(values),
                )
            ]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
