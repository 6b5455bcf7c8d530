"""Runs a script as so many ranks, each forked from this process.

    python forked_ranks.py COUNT FIRST SCRIPT [ARGUMENT]...

They have what torchrun gives its workers in the environment. FIRST is Python
that runs once, before: what is imported there, they all have. Importing a
trainer's framework takes longer than its test's training.
"""

import os
import runpy
import signal
import socket
import sys
import traceback
from pathlib import Path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(script, arguments):
    """The script as a process of its own would; its exit code."""
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def rank(number, count, port, script, arguments):
    places = {"RANK": number, "LOCAL_RANK": number, "GROUP_RANK": 0}
    sizes = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in (places | sizes | meeting).items():
        os.environ[name] = str(value)
    sys.exit(run(script, arguments))


def wait_for(children):
    """Of those that fail, the first one's exit code; it ends the others."""
    failed = 0
    while children:
        pid, status = os.wait()
        children.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        if code and not failed:
            failed = code
            for child in children:
                os.kill(child, signal.SIGTERM)
    return failed


def main():
    count, first, script = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    arguments = sys.argv[4:]
    sys.path.insert(0, str(Path(script).resolve().parent))
    exec(first, {})
    port, children = free_port(), set()
    for number in range(count):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            rank(number, count, port, script, arguments)
        children.add(child)
    signal.signal(
        signal.SIGTERM,
        lambda *_: [os.kill(c, signal.SIGTERM) for c in children],
    )
    sys.exit(abs(wait_for(children)))


if __name__ == "__main__":
    main()
