"""Passes text on if it fits a screen: less than 60 lines of less than 120
columns, or of the columns that are given, and not none.

Usage: screen.py [COLUMNS] < TEXT
"""

import sys

columns = int(sys.argv[1]) if len(sys.argv) > 1 else 120
lines = sys.stdin.read().splitlines()
print("\n".join(lines))
if not 0 < len(lines) < 60:
    sys.exit(f"{len(lines)} lines, expected 1 to 59")
for line in lines:
    if len(line) >= columns:
        sys.exit(f"{len(line)} columns, expected less than {columns}: {line}")
