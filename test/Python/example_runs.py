"""Runs an example several times in the same processes: what it imports costs
more than it does.

    torchrun ... example_runs.py SCRIPT OPTIONS [OPTIONS...]

Each of OPTIONS is what one run is given, in one argument. Rank 0 ends what a
run prints with a line of its own, END.
"""

import os
import runpy
import shlex
import sys
from pathlib import Path

END = "== end of a run"


def main():
    script, *runs = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    run = runpy.run_path(script)["main"]
    for options in runs:
        run(shlex.split(options))
        if os.environ["RANK"] == "0":
            print(END, flush=True)
    import cpu  # which the example has made known

    cpu.leave()


if __name__ == "__main__":
    main()
