"""Measures what a proof costs: Qwen3-235B, full state, at growing worlds.

For each world compiles a request with --mlir-timing several times, and prints
one line of JSON: the machine, and per world the median and spread of the
proof's and the whole compiler's wall time, how many obligations the solver got
(lemmas, and classes of the plan) and how many messages the certificate had to
look at, and how long `dt-plan verify` takes. With --table also a Markdown
table, on stderr.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORLDS = (64, 128, 1024, 8192)
# First words of the obligations that are about classes; the rest are lemmas.
CLASSES = ("waves", "arenas", "cover")


def request(world):
    """EP 16, PP 4 -> EP 32, PP 2, both with ZeRO-1 over what is left."""
    return {
        "model": str(ROOT / "examples/models/qwen3-235b-a22b.json"),
        "state": {
            "param": "bf16",
            "master": "f32",
            "exp_avg": "f32",
            "exp_avg_sq": "f32",
        },
        "source": {
            "world": world,
            "ep": 16,
            "pp": 4,
            "dp": world // 4,
            "pp_layers": [24, 23, 23, 24],
            "zero": 1,
        },
        "destination": {
            "world": world,
            "ep": 32,
            "pp": 2,
            "dp": world // 2,
            "zero": 1,
        },
        "cluster": {
            "devices_per_node": 8,
            "intra_node_GBps": 200,
            "inter_node_GBps": 25,
            "latency_us": 10,
        },
        "memory": {"staging": "1GiB", "mode": "rollback"},
    }


def compile_once(binaries, path, plan, smtlib):
    """Seconds of the proof, and of all passes."""
    done = subprocess.run(
        [
            binaries / "dt-opt",
            path,
            f"--dt-compile=output={plan} emit-smtlib={smtlib}",
            "-o",
            os.devnull,
            "--mlir-timing",
        ],
        check=True,
        capture_output=True,
        text=True,
    )

    def seconds(name):
        row = re.search(rf"^\s*([\d.]+) \([^)]*\)\s+{name}$", done.stderr, re.M)
        return float(row.group(1))

    return seconds("ProvePlan"), seconds("Total")


def count_obligations(smtlib):
    """Obligations of each kind: the names' first words."""
    names = re.findall(
        r"^; ([a-z-]+)[-\w]*: .*\n\(push", smtlib.read_text(), re.M
    )
    classes = [n for n in names if n.split("-")[0] in CLASSES]
    return len(names) - len(classes), len(classes)


def count_messages(binaries, plan):
    inspect = subprocess.run(
        [binaries / "dt-plan", "inspect", plan, "--json"],
        check=True,
        capture_output=True,
    )
    return json.loads(inspect.stdout)["counts"]["messages"]


def spread(values):
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


def measure(binaries, world, runs, folder):
    path, plan = folder / f"{world}.json", folder / f"{world}.dtplan"
    path.write_text(json.dumps(request(world)))
    smtlib = folder / "obligations.smt2"
    results = [compile_once(binaries, path, plan, smtlib) for _ in range(runs)]
    lemmas, classes = count_obligations(smtlib)
    verify = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(
            [binaries / "dt-plan", "verify", plan],
            check=True,
            capture_output=True,
        )
        verify.append(time.perf_counter() - start)
    messages = count_messages(binaries, plan)
    plan.unlink()
    return {
        "world": world,
        "lemmas": lemmas,
        "classes": classes,
        "messages": messages,
        "proof_s": spread([proof for proof, _ in results]),
        "compile_s": spread([total for _, total in results]),
        "share": spread([proof / total for proof, total in results]),
        "verify_s": spread(verify),
    }


def table(rows):
    lines = [
        "| ranks | lemmas | classes | messages | proof | compile | share "
        "| `dt-plan verify` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['world']:,} | {row['lemmas']} | {row['classes']} "
            f"| {row['messages']:,} "
            f"| {row['proof_s']['median']:.2f} s "
            f"| {row['compile_s']['median']:.2f} s "
            f"| {row['share']['median']:.0%} "
            f"| {row['verify_s']['median']:.2f} s |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin")
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(options.bin, world, options.runs, Path(folder))
            for world in options.worlds
        ]
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps({"machine": machine, "runs": options.runs, "rows": rows}))
    if options.table:
        print(table(rows), file=sys.stderr)


if __name__ == "__main__":
    main()
