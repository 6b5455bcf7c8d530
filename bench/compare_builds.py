#!/usr/bin/env python3
"""Two builds of this project, side by side: is the later one as good?

    bench/compare_builds.py --before BIN [--after build/bin] [--repeat 3]
                            [--verify-before] [--only NAME...]
                            [--executor NAME...] [--json FILE]

Compiles every case of bench/cases.py with both builds in turn, and prints CPU
seconds of dt-opt (the least of all runs), bytes on the wire, and the time that
each plan takes by the event simulation of the later build, which judges both
plans alike. dt-opt verifies what it writes; with --verify-before the earlier
one did not, and its `dt-plan verify` counts as part of its work. Then runs
`executor-bw` of both on the cases of bench/executor, each with its own
compiler's plan: bytes per CPU second over those of a memcpy in the same run
(medians). --only and --executor choose cases; `--only -` or `--executor -`
none. Ends with the geometric means, later over earlier; exits with 1 where a
plan moves more bytes, or a mean is worse by more than 3 %.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import CASES
from plan_quality import ROOT, exit_status, run, table, write_json

sys.path.insert(0, str(ROOT / "bench" / "executor"))
from run import CASES as EXECUTOR_CASES  # noqa: E402

MOST_WORSE = 0.03


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--verify-before", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--executor", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def cpu_seconds(*command):
    """User and system time of a command; ends the bench where it fails."""
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def facts_of(plan, options):
    """Wire bytes and simulated seconds, by the later build's dt-plan."""
    tool = options.after / "dt-plan"
    size = json.loads(run(tool, "inspect", plan, "--json"))["bytes"]
    calm = json.loads(run(tool, "simulate", plan, "--json"))
    return {
        "wire": size["wire"],
        "inter_node": size["inter_node"],
        "seconds": calm["simulated_s"],
    }


def compile_case(case, options, folder):
    """Compiles a case with both builds and gives its row."""
    request = case.write(folder)
    row = {"case": case.name}
    plans = {side: folder / f"{side}.dtplan" for side in ("before", "after")}
    cpu = {side: [] for side in plans}
    for _ in range(options.repeat):
        for side, plan in plans.items():
            tools = getattr(options, side)
            seconds = cpu_seconds(tools / "dt-opt", request, "-o", plan)
            if side == "before" and options.verify_before:
                seconds += cpu_seconds(tools / "dt-plan", "verify", plan)
            cpu[side].append(seconds)
    for side, plan in plans.items():
        row[side] = {"cpu_s": min(cpu[side]), **facts_of(plan, options)}
        plan.unlink()
    return row


def execute_case(name, options, folder):
    """Runs an executor case with both builds in turn and gives its row."""
    request = folder / "executor.json"
    request.write_text(json.dumps(EXECUTOR_CASES[name]()))
    row = {"case": name, "before": {}, "after": {}}
    ratios = {"before": [], "after": []}
    for side in ratios:
        tools = getattr(options, side)
        run(tools / "dt-opt", request, "-o", folder / f"{side}.dtplan")
    for _ in range(options.repeat):
        for side, found in ratios.items():
            tool = getattr(options, side) / "executor-bw"
            line = run(tool, folder / f"{side}.dtplan", "--repeat", 3)
            found.append(json.loads(line)["cpu_ratio"]["median"])
    for side, found in ratios.items():
        row[side]["ratio"] = statistics.median(found)
        (folder / f"{side}.dtplan").unlink()
    return row


def over(row, key):
    """Later over earlier."""
    before = row["before"][key]
    return row["after"][key] / before if before else 1.0


def mean(rows, key):
    """Geometric, later over earlier."""
    logs = [math.log(over(row, key)) for row in rows]
    return math.exp(sum(logs) / len(logs))


def print_rows(rows, heads, keys):
    """Per key: earlier, later, later over earlier."""
    lines = [
        [row["case"]]
        + [
            text
            for key, form in keys
            for text in (
                *(form(row[side][key]) for side in ("before", "after")),
                f"{over(row, key):.3f}",
            )
        ]
        for row in rows
    ]
    table(heads, lines)
    for key, _ in keys:
        print(f"\n{key}: later over earlier {mean(rows, key):.3f} on average")


def print_compiled(rows):
    heads = ["case"]
    heads += ["CPU s", "later", "ratio", "simulated", "later", "ratio"]
    keys = [
        ("cpu_s", lambda seconds: f"{seconds:.2f}"),
        ("seconds", lambda seconds: f"{seconds * 1e3:.1f} ms"),
    ]
    print_rows(rows, heads, keys)


def problems(compiled, executed):
    found = [
        f"{row['case']}: {key} bytes were {row['before'][key]} and are "
        f"{row['after'][key]}"
        for row in compiled
        for key in ("wire", "inter_node")
        if row["after"][key] > row["before"][key]
    ]
    worse = [
        (key, mean(compiled, key)) for key in ("cpu_s", "seconds") if compiled
    ]
    if executed:
        worse.append(("executor ratio", 1 / mean(executed, "ratio")))
    return found + [
        f"{key} is worse by {(times - 1) * 100:.1f} % on average, expected at "
        f"most {MOST_WORSE * 100:g} %"
        for key, times in worse
        if times > 1 + MOST_WORSE
    ]


def main():
    options = parse_arguments()
    cases = [
        case
        for case in CASES
        if not options.only or any(text in case.name for text in options.only)
    ]
    names = [
        name
        for name in EXECUTOR_CASES
        if not options.executor or name in options.executor
    ]
    with tempfile.TemporaryDirectory() as folder:
        compiled = [compile_case(c, options, Path(folder)) for c in cases]
        executed = [execute_case(n, options, Path(folder)) for n in names]
    if compiled:
        print_compiled(compiled)
    if executed:
        print()
        heads = ["case", "of memcpy", "later", "ratio"]
        print_rows(executed, heads, [("ratio", lambda value: f"{value:.2f}")])
    if options.json:
        write_json(options.json, compiled + executed)
    return exit_status(problems(compiled, executed))


if __name__ == "__main__":
    sys.exit(main())
