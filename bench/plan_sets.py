"""What it saves to compile plans as a set: bench/plan_sets.py [--runs N]

With --chained WORLD instead: what all losses of a node of llama3-70b take,
tensor parallel in each node, where each plan is made from the one before it
(`dt-opt --chain-set`), in times of the first of these plans alone.

One line of JSON for each set: seconds of CPU (user and system, from the
kernel) and peak memory of a dt-opt for every plan, and of one for the set, on
one thread and on all. Medians, and the least and the most, of runs that take
turns. CPU time and no other, so that what else runs on the machine matters
less.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "Pipelines"))

from plan_sets import alone, transitions  # noqa: E402

STATE = {
    "param": "bf16",
    "master": "f32",
    "exp_avg": "f32",
    "exp_avg_sq": "f32",
}


def losses(model, source, node, **family):
    return {
        "model": str(ROOT / "examples" / "models" / f"{model}.json"),
        "state": STATE,
        "source": {**source, "zero": 1},
        "destination": {"each_lost": "node", **family},
        "cluster": {"devices_per_node": node},
    }


SETS = {
    "llama-tiny, 8 ranks in 4 nodes": losses(
        "llama-tiny", {"world": 8, "tp": 2, "dp": 4}, 2
    ),
    "llama3-8b, 64 ranks in 8 nodes": losses(
        "llama3-8b", {"world": 64, "tp": 4, "dp": 16}, 8
    ),
    "llama3-70b, 128 ranks in 16 nodes": losses(
        "llama3-70b",
        {"world": 128, "tp": 8, "pp": 4, "dp": 4},
        8,
        spare="last",
    ),
}


def run(*command):
    """(seconds of CPU, MiB) of a process that must succeed."""
    process = subprocess.Popen([str(word) for word in command])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def compile_alone(tool, request, folder):
    cpu, peak = 0.0, 0.0
    for sides in transitions(request).values():
        (folder / "one.json").write_text(json.dumps(alone(request, sides)))
        used = run(tool, folder / "one.json", "-o", folder / "one.dtplan")
        cpu, peak = cpu + used[0], max(peak, used[1])
    return cpu, peak


def measure(tool, request, runs):
    found = {"alone": [], "set, one thread": [], "set": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "set.json").write_text(json.dumps(request))
        command = [tool, folder / "set.json", "-o", folder / "set"]
        for _ in range(runs):
            found["alone"].append(compile_alone(tool, request, folder))
            found["set, one thread"].append(
                run(*command, "--mlir-disable-threading")
            )
            found["set"].append(run(*command))
    return found


def measure_chained(tool, world):
    """A line for the set of all losses, each plan from the one before."""
    request = losses(
        "llama3-70b", {"world": world, "tp": 8, "dp": world // 8}, 8
    )
    sides = transitions(request)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "one.json").write_text(
            json.dumps(alone(request, next(iter(sides.values()))))
        )
        (folder / "set.json").write_text(json.dumps(request))
        one, _ = run(tool, folder / "one.json", "-o", folder / "one.dtplan")
        cpu, peak = run(
            tool, "--chain-set", folder / "set.json", "-o", folder / "set"
        )
        run(tool.with_name("dt-plan"), "verify", folder / "set")
    return {
        "ranks": world,
        "plans": len(sides),
        "one_cpu_s": round(one, 2),
        "chained_cpu_s": round(cpu, 2),
        "times_one": round(cpu / one, 1),
        "MiB": round(peak),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=ROOT / "build/bin", type=Path)
    parser.add_argument("--runs", default=5, type=int)
    parser.add_argument("--chained", metavar="WORLD", type=int)
    options = parser.parse_args()
    if options.chained:
        print(
            json.dumps(measure_chained(options.bin / "dt-opt", options.chained))
        )
        return
    for name, request in SETS.items():
        row = {"request": name, "plans": len(transitions(request))}
        found = measure(options.bin / "dt-opt", request, options.runs)
        for way, used in found.items():
            cpu = sorted(seconds for seconds, _ in used)
            row[way] = {
                "cpu_s": round(statistics.median(cpu), 2),
                "from_to": [round(cpu[0], 2), round(cpu[-1], 2)],
                "MiB": round(max(peak for _, peak in used)),
            }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
