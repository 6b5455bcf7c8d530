"""Runs dt-opt, dt-plan and dt-run for the drivers in this folder."""

import json
import subprocess
from pathlib import Path

# Ends a tool that hangs; far more than any takes where many run at once.
TIMEOUT_SECONDS = 3600


class ToolError(Exception):
    """A tool that should have succeeded did not."""


class Tools:
    """The tools of one build, found in its bin folder."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def start(self, tool, *arguments):
        """Runs a tool to its end; gives the finished process, texts decoded."""
        command = [str(self.folder / tool), *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        )

    def output(self, tool, *arguments):
        """The stdout of a tool that must succeed."""
        done = self.start(tool, *arguments)
        if done.returncode:
            words = " ".join(map(str, arguments))
            raise ToolError(
                f"{tool} {words}: {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def json(self, tool, *arguments):
        return json.loads(self.output(tool, *arguments))

    def compile(self, request, plan):
        self.output("dt-opt", request, "-o", plan)

    def deliveries(self, plan):
        text = self.output("dt-plan", "dump", plan, "--deliveries")
        return [json.loads(line) for line in text.splitlines()]


def refusal_problems(done, fragments=()):
    """What is wrong with how a tool refused its input: it must end with exit
    code 1, one line on stderr that starts with "error:", nothing on stdout."""
    problems = []
    lines = done.stderr.splitlines()
    if done.returncode != 1:
        problems.append(f"exit code {done.returncode}, expected 1")
    if len(lines) != 1 or not lines[0].startswith("error:"):
        problems.append(
            f"stderr is {done.stderr!r}, expected one 'error:' line"
        )
    if done.stdout:
        problems.append(f"stdout is {done.stdout[:200]!r}, expected nothing")
    for fragment in fragments:
        if fragment not in done.stderr:
            problems.append(
                f"stderr {done.stderr.strip()!r} lacks {fragment!r}"
            )
    return problems


def print_closing_line(passed, failed, skipped=0):
    """The line that scripts/tally.py reads; returns the exit code."""
    rest = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{rest}")
    return 1 if failed or not passed else 0
