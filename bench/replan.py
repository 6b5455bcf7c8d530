"""A plan from an old one beside a plan from zero: bench/replan.py [--losses N]

For each case compiles a transition and then, for random losses of a node, the
changed transition twice, in turns: from zero, and with `dt-opt --replan` from
the old plan. One line of JSON for each case, with what replanning takes as a
part of what a plan from zero takes in the same run: seconds of CPU (user and
system, from the kernel) and by the clock, and the time that both plans predict;
and how much of the old plan was kept, as the tool says it. Every plan is
checked by `dt-plan verify`, which is not counted.

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
KEPT = re.compile(
    r"of the bytes on the wire ([\d.]+) % go from where to where they went, "
    r"([\d.]+) % in the same wave"
)


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
    plans = [folder / f"{name}.dtplan" for name in ("old", "zero", "again")]
    for path, content in zip((old, new), pair(rng), strict=True):
        path.write_text(json.dumps(content))
    tool = binaries / "dt-opt"
    run(tool, old, "-o", plans[0])
    zero = run(tool, new, "-o", plans[1])
    again = run(tool, "--replan", plans[0], new, "-o", plans[2])
    kept = KEPT.search(again[2])
    return {
        "cpu": again[0] / zero[0],
        "wall": again[1] / zero[1],
        "zero_cpu_s": zero[0],
        "predicted": predicted(binaries, plans[2])
        / predicted(binaries, plans[1]),
        "on_route": float(kept[1]) if kept else 0.0,
        "in_wave": float(kept[2]) if kept else 0.0,
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
    options = parser.parse_args()
    for name, pair in cases(options.world).items():
        rng = random.Random(options.seed)
        with tempfile.TemporaryDirectory() as folder:
            rows = [
                measure(options.bin, pair, rng, Path(folder))
                for _ in range(options.losses)
            ]
        line = {"case": name, "ranks": options.world, "losses": len(rows)}
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
