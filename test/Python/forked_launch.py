"""Runs a launcher of examples/, whose processes are forked from one that has
imported what all of them import.

    forked_launch.py LAUNCHER [ARGUMENTS...]

Those that an agent of torchrun's starts are not.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

forkserver = multiprocessing.get_context("forkserver")


def program(path, arguments, output, environment):
    """What Python would do in a process of its own."""
    os.environ |= environment
    for fd in (1, 2):
        with open(output, "a") as file:
            os.dup2(file.fileno(), fd)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")


class Forked:
    """As subprocess.Popen."""

    def __init__(self, path, arguments, output, environment):
        self.process = forkserver.Process(
            target=program, args=(path, arguments, output, environment)
        )
        self.process.start()
        self.pid = self.process.pid
        self.kill = self.process.kill

    @property
    def returncode(self):
        return self.process.exitcode

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        self.process.join(timeout)
        return self.returncode


def popen(command, stdout, stderr, env):
    _, path, *arguments = command
    if path.startswith("-"):  # an option of Python's
        return subprocess.Popen(command, stdout=stdout, stderr=stderr, env=env)
    return Forked(path, arguments, stdout.name, env)


def main():
    launcher = sys.argv.pop(1)
    folder = Path(launcher).resolve().parent
    paths = [str(folder), str(folder.parent)]
    sys.path[:0] = paths
    # The server of forks knows these by the environment alone.
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(paths)}
    import launching

    launching.subprocess = SimpleNamespace(Popen=popen)
    names = runpy.run_path(launcher)
    forkserver.set_forkserver_preload(
        ["dynatrain", "torch.distributed", *names.get("PRELOAD", [])]
    )
    names["main"]()


if __name__ == "__main__":
    main()
