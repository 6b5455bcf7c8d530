"""Every level says the same: what is lowered, specialized, proved and emitted.

Usage: levels.py FOLDER_OF_REQUESTS OUTPUT_FOLDER PATTERN...

Of every example request: the module that --dt-lower prints gives, by
--dt-prove and --dt-emit, the very bytes of the plan that dt-opt writes; and the
programs of all devices that --dt-specialize makes are right by
--dt-verify-program, and print as `dt-plan dump` prints those of the plan.
"""

import filecmp
import subprocess
import sys
from pathlib import Path


def run(*command, stdout=None):
    done = subprocess.run(
        [str(part) for part in command],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr[:1000]}")


def check(request, out):
    plan, emitted = out / "plan.dtplan", out / "emitted.dtplan"
    lowered, dump, printed = (
        out / name for name in ("lowered.mlir", "dump.txt", "printed.txt")
    )
    run("dt-opt", request, "-o", plan)
    run("dt-opt", request, "--dt-lower", "-o", lowered)
    emit = f"--dt-emit=output={emitted}"
    run("dt-opt", lowered, "--dt-prove", emit, "-o", "/dev/null")
    assert filecmp.cmp(plan, emitted, shallow=False), (
        f"{request.name}: the lowered module gives another plan"
    )
    with open(dump, "w") as file:
        run("dt-plan", "dump", "--all-ranks", plan, stdout=file)
    programs = ["--dt-specialize", "--dt-verify-program"]
    print_them = f"--dt-print-programs=output={printed}"
    run("dt-opt", lowered, *programs, print_them, "-o", "/dev/null")
    assert filecmp.cmp(dump, printed, shallow=False), (
        f"{request.name}: --dt-specialize shows other programs than the plan's"
    )
    print(f"{request.name}: {dump.stat().st_size} characters of programs")
    for path in (plan, emitted, lowered, dump, printed):
        path.unlink()


def main(folder, out, *patterns):
    requests = sorted(
        path for pattern in patterns for path in Path(folder).glob(pattern)
    )
    assert len(requests) > 0, f"no {patterns} in {folder}"
    Path(out).mkdir(parents=True, exist_ok=True)
    for request in requests:
        check(request, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
