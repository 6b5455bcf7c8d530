"""Whether storage comes and goes by whole pages: on stdin the dump of a plan
with one parameter, as arguments elements of a page and of a buffer."""

import re
import sys

page, whole = map(int, sys.argv[1:])
kind, found = "", []
for line in sys.stdin:
    if step := re.match(r"\s*\d+: (\w+)", line):
        kind = step[1]
    elif kind in ("create", "release"):
        begin, end = map(int, re.search(r"\[(\d+):(\d+)\)", line).groups())
        found.append((kind, begin, end))
for side in ("create", "release"):
    ranges = sorted(one[1:] for one in found if one[0] == side)
    if len(ranges) < 3 or ranges[0][0] != 0 or ranges[-1][1] != whole:
        sys.exit(f"error: {side} has {ranges}")
odd = [
    one for one in found if one[1] % page or (one[2] % page and one[2] != whole)
]
print("whole pages" if not odd else f"not whole pages: {odd[0]}")
