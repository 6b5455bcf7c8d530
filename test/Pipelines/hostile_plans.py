#!/usr/bin/env python3
"""hostile_plans.py PLAN...: every tool on plans that say what no plan may say.

Each tool ends by itself, within a second of CPU time and 256 MiB (or ten times
the file): with success, or with one line that begins with "error: ". Prints per
plan what `dt-plan verify` says of it.
"""

import os
import resource
import subprocess
import sys
import tempfile

SECONDS = 1
BYTES = 256 << 20
PER_BYTE = 10


def commands(plan, page):
    yield ["dt-plan", "verify", plan]
    yield ["dt-plan", "inspect", plan]
    yield ["dt-plan", "inspect", "--json", plan]
    yield ["dt-plan", "dump", "--deliveries", plan]
    yield ["dt-plan", "dump", "--all-ranks", plan]
    yield ["dt-plan", "dump", "--all-ranks", "--json", plan]
    yield ["dt-plan", "diff", plan, plan]
    yield ["dt-plan", "draw", plan, "-o", page]
    yield ["dt-run", plan]
    yield ["dt-run", "--check", "--json", plan]


def run(command, plan):
    memory = max(BYTES, PER_BYTE * os.path.getsize(plan))

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    # Threads that have an arena each reserve 64 MiB each.
    environment = dict(os.environ, MALLOC_ARENA_MAX="1")
    return subprocess.run(
        command,
        capture_output=True,
        env=environment,
        errors="strict",
        preexec_fn=limit,
        text=True,
    )


def check(plan, page):
    """What is wrong with how a tool ended; and what verify says."""
    said = None
    for command in commands(plan, page):
        ended = run(command, plan)
        lines = ended.stderr.splitlines()
        words = " ".join(command)
        if said is None:
            said = lines[0] if lines else ""
        if ended.returncode == 0:
            continue
        # diff has 1 for plans that differ, and these are one plan.
        expected = 2 if command[1] == "diff" else 1
        if ended.returncode != expected:
            return f"{words}: exit code {ended.returncode}: {lines}", said
        if len(lines) != 1 or not lines[0].startswith("error: "):
            return f"{words}: expected one error: {lines}", said
        if len(lines[0]) > 1000:
            return f"{words}: an error of {len(lines[0])} characters", said
    return None, said


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for plan in sys.argv[1:]:
            wrong, said = check(plan, os.path.join(folder, "page.html"))
            print(f"{os.path.basename(plan)}: {said.replace(plan, 'PLAN')}")
            if wrong:
                print(f"error: {wrong}", file=sys.stderr)
                failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
