"""Compiles, verifies and runs every small example request.

Usage: examples.py FOLDER_OF_REQUESTS OUTPUT_FOLDER PATTERN

Wire bytes are the lower bounds. Every byte is checked, both packed as the plan
says and copied directly.
"""

import json
import subprocess
import sys
from pathlib import Path


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def check(request, plan):
    output("dt-opt", str(request), "-o", str(plan))
    output("dt-plan", "verify", str(plan))
    expected = json.loads(output("dt-plan", "inspect", str(plan), "--json"))
    figures = expected["bytes"]
    for key in ("wire", "inter_node"):
        assert figures[key] == figures[f"{key}_lower_bound"], (request, key)
    for options in [["--check"], ["--check", "--direct"]]:
        run = json.loads(output("dt-run", str(plan), "--json", *options))
        assert run["ok"] and run["mismatches"] == 0, run
        assert run["bytes_checked"] >= expected["bytes"]["destination"] > 0
        assert run["staging_peak"] <= expected["memory"]["staging_peak"]
    print(f"{request.name}: {run['bytes_checked']} bytes checked")


def main(folder, out, pattern):
    requests = sorted(Path(folder).glob(pattern))
    assert len(requests) > 0, f"no {pattern} in {folder}"
    Path(out).mkdir(parents=True, exist_ok=True)
    for request in requests:
        check(request, Path(out) / f"{request.stem}.dtplan")


if __name__ == "__main__":
    main(*sys.argv[1:])
