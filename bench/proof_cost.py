"""Measures what compiling and proving cost: Qwen3-235B, full state, at growing
worlds.

For each world compiles a request with `dt-opt REQUEST -o PLAN` several times,
and prints one line of JSON: the machine, and per world the median and spread of
the proof's, the certificate's and the whole compiler's wall time, of its CPU
time, its peak memory, how many obligations the solver got (lemmas, and classes
of the plan), how many messages the certificate had to look at, and how long
`dt-plan verify` takes (not with --no-verify). The proof is the solver and what
it is asked; the certificate is the check that this plan keeps the rules and has
these classes, piece by piece; the pass is both. With --table also a Markdown
table, on stderr, with the pass's share of compiling and the growth of CPU time
from the world before, per doubling; with --passes also the seconds of each
pass.
"""

import argparse
import json
import math
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
WORLDS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
# First words of the obligations that are about classes; the rest are lemmas.
CLASSES = ("waves", "arenas", "cover")
# A row of --mlir-timing: seconds, share and name. The certificate stands there
# below ProvePlan, as the analysis that it is.
CERTIFICATE = "(A) dt::PlanCertificate"
ROW = rf"^\s*([\d.]+) \([^)]*\)\s+(\w+|{re.escape(CERTIFICATE)})$"


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


def compile_once(binaries, path, plan):
    """Wall seconds of each pass and in total, CPU seconds, and peak bytes."""
    command = [binaries / "dt-opt", path, "-o", plan, "--mlir-timing"]
    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        total = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        report = errors.read()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(
            process.returncode, command, stderr=report
        )
    rows = re.findall(ROW, report, re.M)
    seconds = {name: float(value) for value, name in rows}
    certificate = seconds.pop(CERTIFICATE)
    for name in ("Total", "Rest"):
        del seconds[name]
    seconds["beside passes"] = total - sum(seconds.values())
    return {
        "passes": seconds,
        "proof": seconds["ProvePlan"] - certificate,
        "certificate": certificate,
        "total": total,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss * 1024,
    }


def count_obligations(binaries, path, folder):
    """Obligations of each kind: the names' first words."""
    smtlib = folder / "obligations.smt2"
    options = f"output={os.devnull} emit-smtlib={smtlib}"
    subprocess.run(
        [binaries / "dt-opt", path, f"--dt-compile={options}"],
        check=True,
        capture_output=True,
    )
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


def verify_seconds(binaries, plan):
    start = time.perf_counter()
    subprocess.run(
        [binaries / "dt-plan", "verify", plan], check=True, capture_output=True
    )
    return time.perf_counter() - start


def measure(binaries, world, runs, folder, verifies):
    path, plan = folder / f"{world}.json", folder / f"{world}.dtplan"
    path.write_text(json.dumps(request(world)))
    results = [compile_once(binaries, path, plan) for _ in range(runs)]
    lemmas, classes = count_obligations(binaries, path, folder)
    out = {
        "world": world,
        "lemmas": lemmas,
        "classes": classes,
        "messages": count_messages(binaries, plan),
        "plan_bytes": plan.stat().st_size,
        "proof_s": spread([run["proof"] for run in results]),
        "certificate_s": spread([run["certificate"] for run in results]),
        "compile_s": spread([run["total"] for run in results]),
        "share": spread(
            [run["passes"]["ProvePlan"] / run["total"] for run in results]
        ),
        "cpu_s": spread([run["cpu"] for run in results]),
        "peak_MiB": round(max(run["peak"] for run in results) / 2**20),
        "passes_s": {
            name: statistics.median(run["passes"][name] for run in results)
            for name in results[0]["passes"]
        },
    }
    if verifies:
        out["verify_s"] = spread(
            [verify_seconds(binaries, plan) for _ in range(runs)]
        )
    plan.unlink()
    return out


def growth(before, row):
    """How much more CPU time twice the ranks take."""
    if before is None or row["world"] <= before["world"]:
        return "-"
    factor = row["cpu_s"]["median"] / before["cpu_s"]["median"]
    doublings = math.log2(row["world"] / before["world"])
    return f"{factor ** (1 / doublings):.2f}"


def table(rows):
    lines = [
        "| ranks | lemmas | classes | proof | messages | plan | certificate "
        "| compile | share of both | CPU | per doubling | peak memory "
        "| `dt-plan verify` |",
        "|---" * 13 + "|",
    ]
    for before, row in zip([None, *rows], rows):
        verify = row.get("verify_s", {}).get("median")
        lines.append(
            f"| {row['world']:,} | {row['lemmas']} | {row['classes']} "
            f"| {row['proof_s']['median']:.3f} s "
            f"| {row['messages']:,} "
            f"| {row['plan_bytes'] / 1e6:.0f} MB "
            f"| {row['certificate_s']['median']:.2f} s "
            f"| {row['compile_s']['median']:.2f} s "
            f"| {row['share']['median']:.0%} "
            f"| {row['cpu_s']['median']:.2f} s "
            f"| {growth(before, row)} "
            f"| {row['peak_MiB']:,} MiB "
            f"| {f'{verify:.2f} s' if verify is not None else '-'} |"
        )
    return "\n".join(lines)


def pass_table(rows):
    worlds = " | ".join(f"{row['world']:,}" for row in rows)
    lines = [f"| wall s | {worlds} |", "|---" * (len(rows) + 1) + "|"]
    for name in rows[-1]["passes_s"]:
        cells = [f"{row['passes_s'].get(name, 0):.2f}" for row in rows]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin")
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--no-verify", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(
                options.bin,
                world,
                options.runs,
                Path(folder),
                not options.no_verify,
            )
            for world in options.worlds
        ]
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps({"machine": machine, "runs": options.runs, "rows": rows}))
    if options.table:
        print(table(rows), file=sys.stderr)
    if options.passes:
        print(pass_table(rows), file=sys.stderr)


if __name__ == "__main__":
    main()
