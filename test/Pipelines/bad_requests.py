"""Checks that each bad request is refused with one clear error.

`bad-requests/NAME.json` is a request with one mistake, and NAME.txt beside it
holds what the error must say, one fragment a line; other files there are what
the requests name. dt-opt must end with exit code 1, one line on stderr that
starts with "error:" and has every fragment, nothing on stdout, and no output
file.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from plan_tools import Tools, print_closing_line, refusal_problems


def check_request(tools, request, folder):
    """What is wrong with how dt-opt refuses a request."""
    expected = request.with_suffix(".txt")
    fragments = [line for line in expected.read_text().splitlines() if line]
    plan = Path(folder) / "out.dtplan"
    problems = refusal_problems(
        tools.start("dt-opt", request, "-o", plan), fragments
    )
    if not fragments:
        problems.append(f"{expected.name} names no fragment")
    for left in Path(folder).iterdir():
        problems.append(f"left {left.name} behind")
        left.unlink()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    options = parser.parse_args()
    failed = 0
    expectations = sorted(
        (Path(__file__).parent / "bad-requests").glob("*.txt")
    )
    requests = [path.with_suffix(".json") for path in expectations]
    with tempfile.TemporaryDirectory() as folder:
        for request in requests:
            problems = check_request(Tools(options.bin), request, folder)
            failed += bool(problems)
            for problem in problems:
                print(f"{request.name}: {problem}")
    return print_closing_line(len(requests) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
