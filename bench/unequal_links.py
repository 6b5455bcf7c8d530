#!/usr/bin/env python3
"""Clusters whose links differ: each case of UNEQUAL in bench/cases.py.

    bench/unequal_links.py [--bin build/bin] [--only NAME...] [--json FILE]

Prints a Markdown table: predicted seconds over their lower bound, those of
`dt-plan simulate` over predicted. Each plan is verified. Exits with 1 where a
prediction is above 1.10 of its bound, where the simulation differs from it by
more than 10 %, or where bytes are above theirs.

A second table has the cases in which relays gain (RELAYED), compiled again
with "relays": time and bytes with and without. A case that gains nothing there
fails too.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from cases import UNEQUAL
from plan_quality import ROOT, exit_status, ratio, run, table, write_json

MOST_TIME_RATIO = 1.10
MOST_DIFFERENCE = 0.10
# Cases in which a third device has fast links to both ends of a slow pair.
RELAYED = ("slow-pair", "three-sites")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def compiled(case, options, folder):
    """What `inspect` and `simulate` say of the verified plan of a case."""
    plan = folder / f"{case.name}.dtplan"
    run(options.bin / "dt-opt", case.write(folder), "-o", plan)
    tool = options.bin / "dt-plan"
    run(tool, "verify", plan)
    facts = json.loads(run(tool, "inspect", plan, "--json"))
    simulated = json.loads(run(tool, "simulate", plan, "--json"))
    plan.unlink()
    return facts, simulated


def measure(case, options, folder):
    """Compiles, verifies and simulates a case, and gives its row."""
    facts, simulated = compiled(case, options, folder)
    size, times = facts["bytes"], facts["time"]
    return {
        "case": case.name,
        "wire": ratio(size["wire"], size["wire_lower_bound"]),
        "inter_node": ratio(size["inter_node"], size["inter_node_lower_bound"]),
        "predicted_s": times["predicted_s"],
        "bound_s": times["lower_bound_s"],
        "time": ratio(times["predicted_s"], times["lower_bound_s"]),
        "simulated": ratio(simulated["simulated_s"], times["predicted_s"]),
        "waves": facts["counts"]["waves"],
    }


def measure_relays(case, options, folder, without):
    """The same case with relays, and its row beside that without."""
    allowed = dataclasses.replace(
        case, cluster={**case.cluster, "relays": True}
    )
    facts, simulated = compiled(allowed, options, folder)
    predicted = facts["time"]["predicted_s"]
    return {
        "case": case.name,
        "without_s": without["predicted_s"],
        "predicted_s": predicted,
        "simulated": ratio(simulated["simulated_s"], predicted),
        "gain": ratio(without["predicted_s"], predicted),
        "wire_without": facts["bytes"]["wire_lower_bound"],
        "wire": facts["bytes"]["wire"],
    }


def print_relays(rows):
    print()
    heads = ["case", "gain", "simulated", "without", "relays", "GB", "GB then"]
    table(
        heads,
        [
            [
                row["case"],
                f"{row['gain']:.1f}",
                f"{row['simulated']:.3f}",
                f"{row['without_s']:.4g} s",
                f"{row['predicted_s']:.4g} s",
                f"{row['wire_without'] / 1e9:.1f}",
                f"{row['wire'] / 1e9:.1f}",
            ]
            for row in rows
        ],
    )


def relay_problems(rows):
    found = []
    for row in rows:
        if row["gain"] < 1.05:
            found.append(f"{row['case']}: relays gain nothing")
        if abs(row["simulated"] - 1) > MOST_DIFFERENCE:
            found.append(
                f"{row['case']}: simulated with relays is "
                f"{row['simulated']:.3f} of predicted"
            )
    return found


def print_rows(rows):
    heads = ["case", "time", "simulated", "predicted", "bound", "waves"]
    table(
        heads,
        [
            [
                row["case"],
                f"{row['time']:.3f}",
                f"{row['simulated']:.3f}",
                f"{row['predicted_s']:.4g} s",
                f"{row['bound_s']:.4g} s",
                str(row["waves"]),
            ]
            for row in rows
        ],
    )


def problems(rows):
    found = []
    for row in rows:
        if row["time"] > MOST_TIME_RATIO:
            found.append(f"{row['case']}: time is {row['time']:.3f} of bound")
        if abs(row["simulated"] - 1) > MOST_DIFFERENCE:
            found.append(
                f"{row['case']}: simulated is {row['simulated']:.3f} of "
                "predicted"
            )
        for what in ("wire", "inter_node"):
            if row[what] != 1:
                found.append(f"{row['case']}: {what} is {row[what]:.3f}")
    return found


def main():
    options = parse_arguments()
    rows, relayed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in UNEQUAL:
            if not options.only or case.name in options.only:
                rows.append(measure(case, options, Path(folder)))
                if case.name in RELAYED:
                    relayed.append(
                        measure_relays(case, options, Path(folder), rows[-1])
                    )
                print(f"{case.name}: done", file=sys.stderr)
    print_rows(rows)
    if relayed:
        print_relays(relayed)
    if options.json:
        write_json(options.json, {"cases": rows, "relays": relayed})
    return exit_status(problems(rows) + relay_problems(relayed))


if __name__ == "__main__":
    sys.exit(main())
