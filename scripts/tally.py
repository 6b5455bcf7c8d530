"""Adds up what the suites of scripts/test report.

Usage: tally.py RESULTS SUITE...

Of each suite RESULTS holds SUITE.code (its exit code), SUITE.log, and
SUITE.xml when its runner writes JUnit's format. Without the XML each part of
the suite must close with a line "N passed, N failed[, N skipped]" in the log. A
suite that ran no test, or that ended badly with no failure counted, counts as
one failure. What failed is listed by name, with the lines that tell why.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CLOSING_LINE = re.compile(
    r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed"
    r"(?:, (?P<skipped>\d+) skipped)?$"
)


# Of each failed test: enough to see the cause, where only the end of a run's
# output is kept.
LINES_SHOWN = 12
TESTS_SHOWN = 10


def failure_of(case):
    """The element that says how a test case failed, or None."""
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return found
    return None


def count_junit(path):
    """(passed, failed, skipped) of a JUnit file, counted case by case."""
    counts = [0, 0, 0]
    for case in ElementTree.parse(path).iter("testcase"):
        if failure_of(case) is not None:
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


def failed_tests(results, name):
    """(name, what it said) of each failed test of a suite that writes JUnit's
    format. CTest gives a test's output beside the failure, pytest within."""
    try:
        cases = ElementTree.parse(results / f"{name}.xml").iter("testcase")
    except (OSError, ElementTree.ParseError):
        return
    for case in cases:
        if (found := failure_of(case)) is not None:
            said = found.text or case.findtext("system-out") or ""
            said = said.strip() or found.get("message", "")
            yield f"{case.get('classname')}.{case.get('name')}", said


def telling_lines(said):
    """GoogleTest's first failure, otherwise the end, where a trace tells."""
    lines = said.splitlines()
    for i, line in enumerate(lines):
        if line.endswith(": Failure"):
            return lines[i : i + LINES_SHOWN]
    return lines[-LINES_SHOWN:]


def show_failures(results, names):
    """Prints the failed tests of all suites, each with its telling lines."""
    failed = [
        (suite, *test)
        for suite in names
        for test in failed_tests(results, suite)
    ]
    for suite, name, said in failed[:TESTS_SHOWN]:
        print(f"failed: {suite}: {name}")
        for line in telling_lines(said):
            print(f"    {line[:200]}")
    if len(failed) > TESTS_SHOWN:
        print(f"and {len(failed) - TESTS_SHOWN} more")


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
    show_failures(results, names)
    skipped = f", {totals[2]} skipped" if totals[2] else ""
    print(f"{totals[0]} passed, {totals[1]} failed{skipped}")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
