"""Processes of an elastic job on this machine: started, watched, killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import noise
import torch.distributed as dist

#: Seconds of any wait in the job, and for it: far more than any takes.
TIMEOUT, HANGS = 300, 900


class Started:
    """Processes of one program, each with its output in a file; by: what
    Python runs to start one, such as an agent of torchrun's."""

    def __init__(self, program, folder, store, by=()):
        self.program, self.folder, self.store = program, folder, store
        self.by = by
        self.all, self.lost = [], []

    def start(self, count, *arguments):
        """So many processes of the program."""
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            # Gloo would look up this host's name.
            "GLOO_SOCKET_IFNAME": "lo",
        }
        command = [sys.executable, *self.by, str(self.program)]
        command += [f"127.0.0.1:{self.store.port}", *arguments]
        for _ in range(count):
            out = self.folder / f"out-{len(self.all)}"
            with out.open("w") as file:
                process = subprocess.Popen(
                    command, stdout=file, stderr=file, env=environment
                )
            self.all.append((process, out))

    def lines(self):
        """What all of them have told so far."""
        for _, out in self.all:
            yield from out.read_text().splitlines()

    def steps(self):
        """{step: (epoch, size, loss)} that rank 0 of each world has told."""
        found = {}
        for line in self.lines():
            told = re.fullmatch(
                r"step (\d+) epoch (\d+) rank 0 of (\d+) loss (\S+)", line
            )
            if told:
                step, epoch, size = map(int, told.groups()[:3])
                # A step may have been taken again.
                if step not in found or found[step][0] <= epoch:
                    found[step] = epoch, size, float(told[4])
        return found

    def until(self, epoch, steps):
        """Waits until a world has taken so many steps."""
        end = time.monotonic() + HANGS
        while sum(one[0] == epoch for one in self.steps().values()) < steps:
            self.check(time.monotonic() < end, f"no world {epoch}")
            self.check(
                all(process.poll() in (None, 0) for process in self.there()),
                "a process has failed",
            )
            time.sleep(0.1)

    def there(self):
        """Those that have not been killed."""
        return [one for one, _ in self.all if one not in self.lost]

    def lose(self, number):
        """Kills one of them."""
        process, _ = self.all[number]
        self.lost.append(process)
        process.kill()
        process.wait()

    def lose_worker(self, number):
        """Kills what an agent has started."""
        agent, _ = self.all[number]
        tasks = Path(f"/proc/{agent.pid}/task").glob("*/children")
        for task in tasks:
            for worker in task.read_text().split():
                os.kill(int(worker), signal.SIGKILL)

    def join(self):
        """Waits for all to end."""
        end = time.monotonic() + HANGS
        for process in self.there():
            process.wait(max(1, end - time.monotonic()))
            self.check(process.returncode == 0, "a process has failed")

    def check(self, holds, what):
        if holds:
            return
        self.kill()
        for _, out in self.all:
            print(f"--- {out.name}\n{out.read_text()[-4000:]}")
        raise SystemExit(what)

    def kill(self):
        for process, _ in self.all:
            process.kill()
            process.wait()


def store():
    """On the loopback address, in this process."""
    return dist.TCPStore(
        "127.0.0.1",
        0,
        is_master=True,
        timeout=timedelta(seconds=TIMEOUT),
        wait_for_workers=False,
    )


def keys_left(hosted):
    """Names of a store's keys, without the numbers that differ each time."""
    return sorted(
        re.sub(r"-[0-9a-f]{8}$", "", key) for key in hosted.list_keys()
    )


def traced(arguments):
    """What a program is given where its launcher is: --trace FOLDER."""
    if "--trace" not in arguments:
        return []
    at = arguments.index("--trace")
    return arguments[at : at + 2]


def through_worlds(program, folder, layouts, more=()):
    """Runs a program (`scripted.py`, `record.py`) through 4 -> 6 -> 3 -> 4
    processes, in these layouts: two join, three leave, one joins. {step:
    (epoch, size, loss)}, and the keys that are left in the store."""
    script, record = folder / "script.json", folder / "record"
    wishes = {
        2: {"after": 3, "leave": [1, 3, 4], "layout": layouts[2]},
        4: {"after": 4, "end": True},
    }
    script.write_text(json.dumps(wishes))
    record.mkdir()
    hosted = store()
    job = Started(program, folder, hosted)
    first, second, _, last = map(json.dumps, layouts)
    common = ["--record", str(record), "--script", str(script)]
    common += ["--timeout", str(TIMEOUT), *more]
    try:
        job.start(4, "--processes", "4", "--layout", first, *common)
        job.until(epoch=1, steps=3)
        job.start(
            2, "--processes", "2", "--launch", "more",
            "--layout", second, *common,
        )  # fmt: skip
        job.until(epoch=3, steps=3)
        job.start(1, "--layout", last, *common)
        job.join()
    finally:
        job.kill()
    return job.steps(), keys_left(hosted)


def staying(program, folder, processes, layout, steps, more=()):
    """The losses of so many steps of a run that never switches."""
    folder.mkdir()
    script = folder / "script.json"
    script.write_text(json.dumps({1: {"after": steps, "end": True}}))
    told = _run(program, folder, script, processes, layout, more)
    return [told[step][2] for step in range(1, steps + 1)]


def losing(program, folder, layout, more=()):
    """{step: (epoch, size, loss)} of a run of four processes, of which one is
    killed."""
    script = folder / "script.json"
    script.write_text(json.dumps({2: {"after": 6, "end": True}}))
    more = ["--snapshots", "4", *more]
    return _run(program, folder, script, 4, layout, more, loses=True)


def _run(program, folder, script, processes, layout, more, loses=False):
    job = Started(program, folder, store())
    try:
        job.start(
            processes, "--processes", str(processes),
            "--layout", json.dumps(layout), "--script", str(script), *more,
        )  # fmt: skip
        if loses:
            job.until(epoch=1, steps=6)
            job.lose(1)
        job.join()
    finally:
        job.kill()
    return job.steps()


def held_against(program, folder, steps, stay, more=()):
    """Prints through which worlds a run has gone that took these steps, and how
    its losses differ from those of runs that never switch; stay: (processes,
    layout) of each."""
    runs = [
        staying(program, folder / f"stay-{n}", *one, max(steps), more)
        for n, one in enumerate(stay)
    ]
    worlds = dict(sorted(told[:2] for told in steps.values()))
    print("worlds of", " -> ".join(map(str, worlds.values())), "processes")
    assert sorted(steps) == list(range(1, max(steps) + 1)), steps
    print(noise.compare([steps[n][2] for n in sorted(steps)], runs))
