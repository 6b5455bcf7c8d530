"""Whether a request takes no more to compile than another, plain one.

Usage: check_time_class.py DT_OPT PLAIN OTHER

Seconds of CPU, the least of three runs each: at most twice as many, and a
second.
"""

import os
import subprocess
import sys
import tempfile


def seconds(dt_opt, request):
    """Of CPU, all threads together."""
    spent = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            before = os.times()
            subprocess.run(
                [dt_opt, request, "-o", f"{folder}/plan.dtplan"], check=True
            )
            after = os.times()
        spent.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return min(spent)


def main(dt_opt, plain, other):
    expected, found = seconds(dt_opt, plain), seconds(dt_opt, other)
    print(f"{found:.2f} s of CPU, {expected:.2f} s of the plain one")
    return 0 if found <= 2 * expected + 1 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
