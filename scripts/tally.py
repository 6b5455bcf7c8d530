"""Adds up what the suites of scripts/test report.

Usage: tally.py RESULTS SUITE...

Of each suite RESULTS holds SUITE.code (its exit code), SUITE.log, and
SUITE.xml when its runner writes JUnit's format. Without the XML each part of
the suite must close with a line "N passed, N failed[, N skipped]" in the log. A
suite that ran no test, or that ended badly with no failure counted, counts as
one failure.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CLOSING_LINE = re.compile(
    r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed"
    r"(?:, (?P<skipped>\d+) skipped)?$"
)


def count_junit(path):
    """(passed, failed, skipped) of a JUnit file, counted case by case."""
    counts = [0, 0, 0]
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            counts[1] += 1
        elif case.find("skipped") is not None:
            counts[2] += 1
        else:
            counts[0] += 1
    return tuple(counts)


def count_log(path):
    """The counts of all closing lines of a log; none: all zero."""
    counts = [0, 0, 0]
    for line in path.read_text(errors="replace").splitlines():
        if match := CLOSING_LINE.match(line.strip()):
            found = [int(number or 0) for number in match.groups()]
            counts = [a + b for a, b in zip(counts, found, strict=True)]
    return tuple(counts)


def count_suite(results, name):
    """(passed, failed, skipped, complaint or None) of one suite."""
    code = int((results / f"{name}.code").read_text())
    xml = results / f"{name}.xml"
    try:
        passed, failed, skipped = (
            count_junit(xml)
            if xml.exists()
            else count_log(results / f"{name}.log")
        )
    except ElementTree.ParseError as error:
        return 0, 1, 0, f"cannot read {xml.name}: {error}"
    if passed + failed == 0:
        return passed, 1, skipped, "ran no test"
    if code != 0 and failed == 0:
        return (
            passed,
            1,
            skipped,
            f"ended with exit code {code}, no failure counted",
        )
    return passed, failed, skipped, None


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    results, names = Path(arguments[0]), arguments[1:]
    totals = [0, 0, 0]
    for name in names:
        *counts, complaint = count_suite(results, name)
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        print(f"{name:14} {counts[0]:6} passed {counts[1]:4} failed", end="")
        print(
            f" {counts[2]:4} skipped"
            + (f"  ({complaint})" if complaint else "")
        )
    skipped = f", {totals[2]} skipped" if totals[2] else ""
    print(f"{totals[0]} passed, {totals[1]} failed{skipped}")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
