"""Finds the proofs that cost the solver most: examples, random requests of the
suite, and random meshes in two and three dims, cut unevenly; with --benchmark
also the benchmark set (cases.py).

Solves each obligation of each request with Z3 as dt-opt does, and prints one
line of JSON: how many there were, how many the solver left open, and the most
steps (as it counts them: the same on any machine) and CPU seconds of any. The
CPU time has Z3's start in it. --seed S repeats a run. Then "N passed, N
failed": one that was left open or took more than half a second has failed.
"""

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from cases import CASES
from proof_cost import ROOT

sys.path.append(str(ROOT / "test/Pipelines"))

from generate import random_request  # noqa: E402
from plan_tools import print_closing_line  # noqa: E402
from random_transitions import write_case  # noqa: E402

DTYPES = ["bf16", "f16", "f32"]
MOST_CPU_SECONDS = 0.5


def cuts(rng, size, parts):
    """Ends of `parts` pieces of a dim: even, even but for the last, or any."""
    kind = rng.choice(["even", "last", "any"])
    if kind == "even":
        return [size * i // parts for i in range(parts + 1)]
    if kind == "last":
        return [min(size, -(-size // parts) * i) for i in range(parts + 1)]
    return [0, *sorted(rng.sample(range(1, size), parts - 1)), size]


def mesh_rows(rng, shape, parts):
    """One shard per rank of a grid with so many parts per dim."""
    boxes = [[]]
    for size, count in zip(shape, parts, strict=True):
        ends = cuts(rng, size, count)
        boxes = [
            [*box, (lo, hi - lo)]
            for box in boxes
            for lo, hi in zip(ends, ends[1:], strict=False)
        ]
    return [
        {
            "tensor": "w",
            "rank": rank,
            "offset": [lo for lo, _ in box],
            "size": [size for _, size in box],
        }
        for rank, box in enumerate(boxes)
        if all(size for _, size in box)
    ]


def mesh_request(rng):
    dims = rng.choice([2, 2, 3])
    sizes = [17, 48, 96, 250, 1024, 3072] if dims == 3 else [96, 1000, 4096]
    shape = [rng.choice(sizes) for _ in range(dims)]
    sides, first = [], 0
    for _ in range(2):
        parts = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(dims)]
        world = 1
        for count in parts:
            world *= count
        sides.append(
            {
                "world": world,
                "shards": mesh_rows(rng, shape, parts),
                "devices": list(range(first, first + world)),
            }
        )
        first = rng.choice([0, world])
    mode = rng.choice(["flat", "flat", "rollback"])
    # Of what a device holds, a part: flat orders then cut in many ways.
    largest = max(
        4 * row["size"][0] * row["size"][1] * (row["size"][2:] or [1])[0]
        for side in sides
        for row in side["shards"]
    )
    staging = max(64 << 10, largest // rng.choice([2, 5, 16, 40]))
    return {
        "model": {
            "tensors": [
                {"name": "w", "shape": shape, "dtype": rng.choice(DTYPES)}
            ]
        },
        "source": sides[0],
        "destination": sides[1],
        "cluster": {"devices_per_node": rng.choice([2, 4, 8])},
        "memory": {"staging": staging, "mode": mode},
    }


def all_requests(options, folder):
    """Paths of requests."""
    paths = sorted((ROOT / "examples/requests").glob("*.json"))
    for number in range(options.random):
        case = random_request(f"{options.seed}/{number}")
        paths.append(write_case(case, folder / f"random-{number}"))
    rng = random.Random(options.seed)
    for number in range(options.meshes):
        path = folder / f"mesh-{number}.json"
        path.write_text(json.dumps(mesh_request(rng)))
        paths.append(path)
    if options.benchmark:
        paths += [case.write(folder) for case in CASES]
    return paths


def obligations_of(binaries, path):
    """{name: problem}; none where flat mode refuses the staging limit."""
    with tempfile.TemporaryDirectory() as folder:
        smtlib = Path(folder) / "obligations.smt2"
        options = f"output={os.devnull} emit-smtlib={smtlib}"
        done = subprocess.run(
            [binaries / "dt-opt", path, f"--dt-compile={options}"],
            capture_output=True,
            text=True,
        )
        if "smallest limit that works" in done.stderr:
            return {}
        if done.returncode:
            raise RuntimeError(f"{path}: {done.stderr}")
        text = smtlib.read_text()
    found = re.findall(
        r"^; ([\w-]+): [^\n]*\n\(push 1\)\n(.*?)^\(check-sat\)",
        text,
        re.M | re.S,
    )
    return dict(found)


@lru_cache(maxsize=256)
def solve(problem):
    """(answer, steps, CPU seconds) of one obligation, solved as dt-opt does."""
    script = f"{problem}(check-sat-using smt)\n(get-info :all-statistics)\n"
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            ["z3", "-in"], stdin=subprocess.PIPE, stdout=out, text=True
        )
        process.stdin.write(script)
        process.stdin.close()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        out.seek(0)
        text = out.read()
    steps = re.search(r":rlimit-count\s+(\d+)", text)
    cpu = usage.ru_utime + usage.ru_stime
    return text.split(maxsplit=1)[0], int(steps[1]) if steps else 0, cpu


def judge(binaries, path):
    """(steps, CPU seconds, answer, request, name) of each obligation."""
    rows = []
    for name, problem in obligations_of(binaries, path).items():
        answer, steps, cpu = solve(problem)
        rows.append((steps, cpu, answer, path.stem, name))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin")
    parser.add_argument("--meshes", type=int, default=300)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = all_requests(options, Path(name))
        with ThreadPoolExecutor(options.jobs) as pool:
            rows = pool.map(lambda path: judge(options.bin, path), paths)
            found = [row for own in rows for row in own]
    steps = max(found)
    slowest = max(found, key=lambda row: row[1])
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seed": options.seed,
        "requests": len({row[3] for row in found}),
        "obligations": len(found),
        "open": sum(row[2] != "unsat" for row in found),
        "most_steps": steps[0],
        "most_steps_of": " ".join(steps[3:]),
        "most_cpu_s": round(slowest[1], 3),
        "most_cpu_s_of": " ".join(slowest[3:]),
    }
    print(json.dumps(report))
    bad = sum(row[2] != "unsat" or row[1] > MOST_CPU_SECONDS for row in found)
    return print_closing_line(len(found) - bad, bad)


if __name__ == "__main__":
    sys.exit(main())
