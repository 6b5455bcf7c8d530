"""Every level says the same: what is lowered, specialized, proved and emitted.

Of every example request: the module that --dt-lower prints gives, by
--dt-prove and --dt-emit, the very bytes of the plan that dt-opt writes, on
whatever number of threads; and the programs of all devices that
--dt-specialize makes are right by --dt-verify-program, and print as `dt-plan
dump` prints those of the plan.
"""

import argparse
import filecmp
import itertools
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from plan_tools import ToolError, Tools, print_closing_line

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "requests"


def difference(printed, expected):
    """What two streams of lines differ by, or None, and how many lines are
    equal. Neither is held as a whole: together they are gigabytes."""
    lines = itertools.zip_longest(printed, expected, fillvalue=b"")
    number = 0
    for number, (line, other) in enumerate(lines, start=1):
        if line != other:
            found, meant = (
                f"'{text.decode(errors='replace').rstrip()}'"
                if text
                else "the end"
                for text in (line, other)
            )
            return f"line {number} is {found}, expected {meant}", number - 1
    return None, number


@contextmanager
def running(tools, *command):
    """The lines that a tool prints, as it prints them; it must succeed."""
    command = [str(tools.folder / command[0]), *map(str, command[1:])]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            yield process.stdout
            for _ in process.stdout:
                pass
        except BaseException:
            process.kill()
            raise
        if code := process.wait():
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            raise ToolError(f"{' '.join(command)}: {code}: {said}")


def check(tools, request, folder):
    """(problem or None, lines of programs) of one example."""
    plan, serial, lowered, emitted = (
        folder / name
        for name in ("plan.dtplan", "serial", "lowered.mlir", "emitted")
    )
    tools.output("dt-opt", request, "-o", plan)
    tools.output("dt-opt", request, "--mlir-disable-threading", "-o", serial)
    if not filecmp.cmp(plan, serial, shallow=False):
        return "one thread gives another plan", 0
    tools.output("dt-opt", request, "--dt-lower", "-o", lowered)
    passes = ["--dt-prove", f"--dt-emit=output={emitted}", "--dt-specialize"]
    passes += ["--dt-verify-program", "--dt-print-programs"]
    compile_it = ["dt-opt", lowered, *passes, "-o", "/dev/null"]
    dump_it = ["dt-plan", "dump", "--all-ranks", plan]
    with (
        running(tools, *compile_it) as programs,
        running(tools, *dump_it) as dump,
    ):
        differs, lines = difference(programs, dump)
    if differs:
        return f"the programs of --dt-specialize: {differs}", lines
    if not filecmp.cmp(plan, emitted, shallow=False):
        return "the module of --dt-lower gives another plan", lines
    return None, lines


def devices(request):
    """How many ranks both sides have."""
    sides = json.loads(request.read_text())
    return sides["source"]["world"] + sides["destination"]["world"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin", help="the tools' folder")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--requests", type=Path, default=EXAMPLES)
    parser.add_argument(
        "patterns", nargs="*", default=["*.json"], help="which of them"
    )
    options = parser.parse_args()
    requests = sorted(
        {
            path
            for each in options.patterns
            for path in options.requests.glob(each)
        },
        key=lambda path: (-devices(path), path.name),  # the longest first
    )

    def run(request):
        try:
            with tempfile.TemporaryDirectory(prefix="levels-") as folder:
                problem, lines = check(
                    Tools(options.bin), request, Path(folder)
                )
        except ToolError as error:
            problem, lines = str(error), 0
        print(
            f"{request.name}: {lines} lines of programs"
            if problem is None
            else f"{request.name} failed: {problem}",
            flush=True,
        )
        return problem is None

    with ThreadPoolExecutor(options.jobs) as pool:
        passed = sum(pool.map(run, requests))
    return print_closing_line(passed, len(requests) - passed)


if __name__ == "__main__":
    sys.exit(main())
