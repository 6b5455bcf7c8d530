#!/usr/bin/env python3
"""Event by event against the formula: every case of bench/cases.py.

    bench/simulate.py [--bin build/bin] [--only NAME...] [--modes rollback flat]
                      [--plans FOLDER] [--jitter 5] [--factor 2] [--json FILE]

Prints two Markdown tables. The first has, per case and mode, the plan's
predicted seconds, those of `dt-plan simulate` and what the latter lost by
cause, nothing disturbed. The second has what is lost with jitter (percent) and
with the first device of the destination `factor` times slower: each alone,
both, and who was waited for longest. With --plans plans are kept in a folder,
and taken from there when they are in it. Exits with 1 where the simulation
differs from the prediction by more than 10 %.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from cases import CASES
from plan_quality import ROOT, exit_status, ratio, run, table, write_json

MOST_DIFFERENCE = 0.10
CAUSES = ["order", "latency", "copies", "sharing"]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--modes", nargs="+", default=["rollback"])
    parser.add_argument("--plans", type=Path, metavar="FOLDER")
    parser.add_argument("--jitter", type=float, default=5)
    parser.add_argument("--factor", type=float, default=2)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def plan_of(case, mode, options, folder):
    """Path of the case's plan, compiled unless it is there."""
    plan = folder / f"{case.name}-{mode}.dtplan"
    if not plan.exists():
        request = case.write(folder, mode=mode)
        run(options.bin / "dt-opt", request, "-o", plan)
    return plan


def simulate(options, plan, *arguments):
    command = [options.bin / "dt-plan", "simulate", plan, "--json"]
    return json.loads(run(*command, *arguments))


def measure(case, mode, options, folder):
    """Simulates a case, undisturbed and disturbed, and gives its row."""
    plan = plan_of(case, mode, options, folder)
    calm = simulate(options, plan)
    slow = case.destination.get("devices", [0])[0]
    rough = simulate(
        options,
        plan,
        f"--jitter={options.jitter}",
        f"--slow={slow}={options.factor}",
    )
    if not options.plans:
        plan.unlink()
    alone = [one["lost_s"] for one in rough["disturbances"]]
    waited = max(rough["devices"], key=lambda d: d["kept_waiting_s"])
    return {
        "case": case.name,
        "mode": mode,
        "predicted_s": calm["predicted_s"],
        "bound_s": calm["lower_bound_s"],
        "simulated_s": calm["simulated_s"],
        "lost_s": calm["lost_s"],
        "slow_device": slow,
        "jitter_lost_s": alone[0],
        "slow_lost_s": alone[1],
        "disturbed_s": rough["simulated_s"],
        "waited_for": waited["device"],
        "waited_for_s": waited["kept_waiting_s"],
    }


def percent(part, whole):
    return f"{100 * ratio(part, whole):+.1f} %" if whole else "-"


def print_calm(rows):
    heads = ["case", "mode", "predicted", "simulated", "ratio"]
    heads += [f"{cause} ms" for cause in CAUSES]
    table(
        heads,
        [
            [
                row["case"],
                row["mode"],
                f"{row['predicted_s'] * 1e3:.1f} ms",
                f"{row['simulated_s'] * 1e3:.1f} ms",
                f"{ratio(row['simulated_s'], row['predicted_s']):.3f}",
                *(f"{row['lost_s'][cause] * 1e3:.2f}" for cause in CAUSES),
            ]
            for row in rows
        ],
    )


def print_rough(rows, options):
    heads = ["case", "mode", f"jitter {options.jitter:g} %", "slow device"]
    heads += [f"{options.factor:g} x slower", "both", "most waited for"]
    print()
    table(
        heads,
        [
            [
                row["case"],
                row["mode"],
                percent(row["jitter_lost_s"], row["simulated_s"]),
                str(row["slow_device"]),
                percent(row["slow_lost_s"], row["simulated_s"]),
                percent(
                    row["disturbed_s"] - row["simulated_s"], row["simulated_s"]
                ),
                f"{row['waited_for']} ({row['waited_for_s'] * 1e3:.0f} ms)",
            ]
            for row in rows
        ],
    )


def problems(rows):
    return [
        f"{row['case']}, {row['mode']}: simulated is "
        f"{ratio(row['simulated_s'], row['predicted_s']):.3f} of predicted"
        for row in rows
        if abs(ratio(row["simulated_s"], row["predicted_s"]) - 1)
        > MOST_DIFFERENCE
    ]


def main():
    options = parse_arguments()
    cases = [
        case
        for case in CASES
        if not options.only or any(text in case.name for text in options.only)
    ]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.plans or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for case in cases:
            for mode in options.modes:
                rows.append(measure(case, mode, options, folder))
                print(f"{case.name}, {mode}: done", file=sys.stderr)
    print_calm(rows)
    print_rough(rows, options)
    if options.json:
        write_json(options.json, rows)
    return exit_status(problems(rows))


if __name__ == "__main__":
    sys.exit(main())
