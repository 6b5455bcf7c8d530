"""Checks that each bad request is refused with one clear error.

`bad-requests/expected.txt` has one line per request: NAME | who finds it | part
of the error. dt-opt must end with exit code 1, one line on stderr that starts
with "error:" and has that part, nothing on stdout, and no output file. On one
thread it says the same.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from plan_tools import Tools, print_closing_line, refusal_problems

FOLDER = Path(__file__).parent / "bad-requests"


def read_table():
    """[(path of the request, part of its error)]."""
    rows = []
    for line in (FOLDER / "expected.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, fragment = line.split(" | ", 2)
            rows.append((FOLDER / f"{name}.json", fragment))
    return rows


def check_request(tools, request, fragment, folder):
    """What is wrong with how dt-opt refuses a request."""
    plan = folder / "out.dtplan"
    done = tools.start("dt-opt", request, "-o", plan)
    problems = refusal_problems(done, [fragment])
    alone = tools.start(
        "dt-opt", request, "--mlir-disable-threading", "-o", plan
    )
    if alone.stderr != done.stderr:
        problems.append(f"one thread says {alone.stderr!r}")
    for left in folder.iterdir():
        problems.append(f"left {left.name} behind")
        left.unlink()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    options = parser.parse_args()
    table = read_table()
    listed = {path for path, _ in table}
    results = {
        path: [f"not in expected.txt: {path.name}"]
        for path in FOLDER.glob("*.json")
        if path not in listed
    }
    table.append((FOLDER / "no-such-request.json", "no-such-request.json"))
    with tempfile.TemporaryDirectory() as name:
        for path, fragment in table:
            results[path] = check_request(
                Tools(options.bin), path, fragment, Path(name)
            )
    for path, problems in results.items():
        for problem in problems:
            print(f"{path.name}: {problem}")
    failed = sum(bool(problems) for problems in results.values())
    return print_closing_line(len(results) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
