#!/usr/bin/env python3
"""Flat mode on the benchmark set: what devices hold, and what it costs.

    bench/flat_memory.py [--bin build/bin] [--case NAME...] [--cap 64MiB...]
                         [--json FILE]

Compiles every case of bench/cases.py at full size in both memory modes for each
staging limit, and has `dt-plan verify` check the flat plan. One row per case
and limit: the most bytes that a device holds above the larger of its source and
its destination, the predicted time over that of rollback under the same limit
and over the lower bound, counts, sizes, and seconds of CPU time to compile and
to verify. Exits with 1 when a plan is refused or a device holds more than the
limit; the whole set takes a quarter of an hour of CPU time.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import CASES
from plan_quality import ROOT, machine, ratio, table, write_request

CAPS = ["64MiB", "256MiB", "1GiB"]
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--case", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--cap", nargs="+", default=CAPS, metavar="SIZE")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def bytes_of(size):
    number, unit = re.fullmatch(r"(\d+)(\w+)", size).groups()
    return int(number) * UNITS[unit]


def timed(*command):
    """(result, seconds of CPU time) of a tool."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime
    return done, seconds + after.ru_stime - before.ru_stime


def compile_case(case, cap, mode, options, folder):
    """(plan, facts, seconds); facts are the error where it is refused."""
    options.staging, options.mode = cap, mode
    request = write_request(case, folder, options)
    plan = folder / f"{case.name}-{mode}.dtplan"
    done, seconds = timed(options.bin / "dt-opt", request, "-o", plan)
    if done.returncode:
        return plan, done.stderr.strip(), seconds
    facts, _ = timed(options.bin / "dt-plan", "inspect", plan, "--json")
    return plan, json.loads(facts.stdout), seconds


def measure(case, cap, options):
    with tempfile.TemporaryDirectory() as folder:
        return measure_in(Path(folder), case, cap, options)


def measure_in(folder, case, cap, options):
    _, fast, _ = compile_case(case, cap, "rollback", options, folder)
    plan, facts, seconds = compile_case(case, cap, "flat", options, folder)
    row = {"case": case.name, "cap": cap, "compile_s": seconds}
    for problem in (fast, facts):
        if isinstance(problem, str):
            return {**row, "problem": problem}
    done, verify_s = timed(options.bin / "dt-plan", "verify", plan)
    if done.returncode:
        return {**row, "problem": done.stderr.strip()}
    above = int(re.search(r"at most (\d+) bytes above", done.stderr).group(1))
    times = facts["time"]
    row |= {
        "above": above,
        "over_rollback": ratio(
            times["predicted_s"], fast["time"]["predicted_s"]
        ),
        "over_bound": ratio(times["predicted_s"], times["lower_bound_s"]),
        "wire": ratio(
            facts["bytes"]["wire"], facts["bytes"]["wire_lower_bound"]
        ),
        "device_peak": facts["memory"]["device_peak"],
        "rollback_peak": fast["memory"]["device_peak"],
        "messages": facts["counts"]["messages"],
        "plan_bytes": plan.stat().st_size,
        "verify_s": verify_s,
    }
    if above > bytes_of(cap):
        row["problem"] = f"holds {above} bytes above, more than {cap}"
    return row


def print_rows(rows):
    heads = ["case", "cap", "above MiB", "device GiB", "rollback GiB"]
    heads += ["time/rollback", "time/bound", "messages", "plan MB"]
    heads += ["compile s", "verify s"]
    table(
        heads,
        [
            [
                row["case"],
                row["cap"],
                f"{row['above'] / 2**20:.1f}",
                f"{row['device_peak'] / 2**30:.1f}",
                f"{row['rollback_peak'] / 2**30:.1f}",
                f"{row['over_rollback']:.3f}",
                f"{row['over_bound']:.3f}",
                str(row["messages"]),
                f"{row['plan_bytes'] / 1e6:.0f}",
                f"{row['compile_s']:.1f}",
                f"{row['verify_s']:.1f}",
            ]
            for row in rows
            if "above" in row
        ],
    )


def main():
    options = parse_arguments()
    rows = []
    for case in CASES:
        if options.case and not any(n in case.name for n in options.case):
            continue
        for cap in options.cap:
            rows.append(measure(case, cap, options))
            print(rows[-1], file=sys.stderr, flush=True)
    print_rows(rows)
    if options.json:
        about = {"machine": machine(), "command": " ".join(sys.argv)}
        options.json.write_text(
            "".join(json.dumps({**row, **about}) + "\n" for row in rows)
        )
    problems = [row for row in rows if "problem" in row]
    for row in problems:
        print(f"{row['case']}, {row['cap']}: {row['problem']}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
