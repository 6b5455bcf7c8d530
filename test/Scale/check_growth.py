"""Holds what a compilation makes to twice as much, or little more, for twice
the ranks.

Usage: check_growth.py BENCH_FOLDER WORLD...

Compiles the request of bench/proof_cost.py at each world and compares counts,
which load on the machine does not change: ops at the routing level and
obligations of the solver, which are about classes and must not grow; ops at the
transport level, messages and bytes of the plan, which may grow by MOST per
doubling from the first world to the last. Between neighbours they jump, as the
scheduler finds this or that size of messages to be the fastest.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 2.2
MOST_ROUTING_OPS, MOST_OBLIGATIONS = 60, 7 + 24
ROUTING = re.compile(r"^\s*dt\.(keep|copy|transfer|zero) ", re.M)
TRANSPORT = re.compile(r"^\s*dt\.(wave|sendrecv) ", re.M)
OBLIGATION = re.compile(r"^\(push", re.M)


def run(*command):
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout


def count(path, folder):
    """Counts that must not grow, and counts that may."""
    plan, smtlib = folder / "plan.dtplan", folder / "obligations.smt2"
    routed = run("dt-opt", path, "--dt-group-families", "--dt-route", "-o", "-")
    options = f"--dt-compile=output={plan} emit-smtlib={smtlib}"
    staged = run("dt-opt", path, options, "-o", "-")
    inspect = json.loads(run("dt-plan", "inspect", plan, "--json"))
    constant = {
        "routing ops": len(ROUTING.findall(routed)),
        "obligations": len(OBLIGATION.findall(smtlib.read_text())),
    }
    growing = {
        "transport ops": len(TRANSPORT.findall(staged)),
        "messages": inspect["counts"]["messages"],
        "plan bytes": plan.stat().st_size,
    }
    return constant, growing


def main(bench, *worlds):
    sys.path.insert(0, bench)
    from proof_cost import request

    first, failures = None, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for world in map(int, worlds):
            path = folder / f"{world}.json"
            path.write_text(json.dumps(request(world)))
            constant, growing = count(path, folder)
            print(world, constant, growing)
            if constant["routing ops"] > MOST_ROUTING_OPS:
                failures.append(f"{world}: too many routing ops")
            if constant["obligations"] > MOST_OBLIGATIONS:
                failures.append(f"{world}: too many obligations")
            first = first or growing
    most = MOST ** math.log2(int(worlds[-1]) / int(worlds[0]))
    for what, now in growing.items():
        if now > most * first[what]:
            failures.append(f"{what}: {first[what]} grew to {now}")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
