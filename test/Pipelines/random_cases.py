"""Random cases by their numbers, in processes; failing ones keep files."""

import argparse
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from plan_tools import ToolError, Tools


def parse_arguments(words, count):
    """words: what the script does. count: of cases, if no other is given."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first"
    )
    parser.add_argument("--seed", default=str(time.time_ns() % 10**9))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="folder for the files of failing cases")
    return parser.parse_args()


def _run(arguments):
    """One case; (number, [problem], figures). Runs in a worker."""
    check, binaries, folder, seed, number = arguments
    place = Path(folder) / str(number)
    try:
        problems, figures = check(Tools(binaries), seed, number, place)
    except ToolError as error:
        problems, figures = [str(error)], Counter()
    except Exception:  # noqa: BLE001 - whatever went wrong is this case's result
        problems, figures = [traceback.format_exc(limit=-3)], Counter()
    if not problems:
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
    return number, problems, figures


def run_cases(options, check, name):
    """(sums of figures, how many failed) of check(tools, seed, number, folder),
    which gives ([problem], figures); prints the problems. name: of the cases,
    as "random NAME"."""
    folder = options.keep or tempfile.mkdtemp(prefix=f"random-{name}-")
    print(f"seed {options.seed}, {options.count} {name}", flush=True)
    numbers = range(options.first, options.first + options.count)
    work = [
        (check, options.bin, folder, options.seed, number) for number in numbers
    ]
    totals, failed = Counter(), 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, problems, figures in pool.map(_run, work):
            totals += figures
            if not problems:
                continue
            failed += 1
            print(f"--seed {options.seed} --first {number} --count 1 failed:")
            print(f"  files in {folder}/{number}")
            for problem in problems:
                print("  " + problem.rstrip().replace("\n", "\n  "))
    return totals, failed
