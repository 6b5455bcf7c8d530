"""Checks that what --dt-explain says of a collective is what plans of nothing
else are predicted to take: as calls of a library, and as messages.

Usage: explained_seconds.py EXPLANATION CALLS.json MESSAGES.json

The JSON is that of `dt-plan inspect`.
"""

import json
import re
import sys
from pathlib import Path

HALF_A_DIGIT = 0.5e-6  # the explanation has milliseconds with three digits


def main(explanation, *plans):
    said = re.search(
        r"\(call ([\d.]+) ms, messages ([\d.]+) ms\)",
        Path(explanation).read_text(),
    )
    for milliseconds, plan in zip(said.groups(), plans, strict=True):
        seconds = float(milliseconds) / 1e3
        predicted = json.loads(Path(plan).read_text())["time"]["predicted_s"]
        if abs(seconds - predicted) > 1.001 * HALF_A_DIGIT:
            return f"{plan}: {seconds} s were said, {predicted} s predicted"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
