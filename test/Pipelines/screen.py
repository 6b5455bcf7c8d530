"""Passes text on if it fits a screen: less than 60 lines of less than 120
columns, and not none.

Usage: screen.py < TEXT
"""

import sys

lines = sys.stdin.read().splitlines()
print("\n".join(lines))
if not 0 < len(lines) < 60:
    sys.exit(f"{len(lines)} lines, expected 1 to 59")
for line in lines:
    if len(line) >= 120:
        sys.exit(f"{len(line)} columns, expected less than 120: {line}")
