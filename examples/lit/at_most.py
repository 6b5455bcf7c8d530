"""Fails if a number of a plan is above a limit, or there is none.

Usage: at_most.py PLAN KEY LIMIT, where KEY is of `dt-plan inspect --json`, such
as time.predicted_s, memory.device_peak or counts.waves.
"""

import json
import subprocess
import sys


def main(plan, key, limit):
    text = subprocess.run(
        ["dt-plan", "inspect", "--json", plan],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    value = json.loads(text)
    for part in key.split("."):
        value = value[part]
    print(f"{key} is {value}, limit {limit}")
    return 1 if value > float(limit) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
