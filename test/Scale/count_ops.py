"""Counts the routing ops of a module on stdin and holds them to a bound.

Usage: dt-opt ... --dt-route | count_ops.py AT_MOST

Prints the counts; exit code 1 when they add up to more, or when an op stands
for one piece on average: then it is no class.
"""

import re
import sys
from collections import Counter

OP = re.compile(r"^\s*dt\.(keep|copy|transfer|zero|derive|param) ")
LATER_HOP = re.compile(r"^\s*<")
CLASS_OF_PIECES = re.compile(r"\[((?:\w+: \d+(?:, )?)+)\] (?:from|on) ")


def pieces_of(line):
    """Pieces that the classes of one op stand for."""
    total = 0
    for ranges in CLASS_OF_PIECES.findall(line):
        count = 1
        for size in re.findall(r": (\d+)", ranges):
            count *= int(size)
        total += count
    return total


def count(lines):
    """Families, pieces in classes, and ops by kind."""
    counts, pieces = Counter(), 0
    for line in lines:
        if op := OP.match(line):
            counts[op.group(1)] += 1
        if op or LATER_HOP.match(line):
            pieces += pieces_of(line)
    return counts.pop("param", 0), pieces, counts


def main(at_most):
    families, pieces, counts = count(sys.stdin)
    print(f"{families} families, {pieces} pieces in classes, {dict(counts)}")
    total = sum(counts.values())
    return 0 if 0 < total <= at_most and pieces > total else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
