"""Runs a job through 4 -> 6 -> 3 -> 4 processes while it trains, and checks it.

python examples/elastic_gpt/launch.py [--lose]

With --lose: a process is killed, twice, 4 -> 3 -> 2, and what it held comes
from snapshots; each time the steps since the last one are taken again.

The store is this process's, so it outlives all of the job. Each switch is
checked bit for bit (record.py), and the losses are held against a run of one
process that never switches.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from record import check

HERE = Path(__file__).resolve().parent
#: Seconds of any wait in the job, and in here: far more than any takes.
TIMEOUT, HANGS = 300, 900
MOST = 1e-9  # of the difference between losses

TP1 = {"tp": 1, "zero": True}
TP2 = {"tp": 2, "zero": True}
TP4 = {"tp": 4, "zero": False}

#: In which world its first process asks for what, after so many steps.
SCRIPT = {
    2: {"after": 3, "leave": [1, 3, 4], "layout": TP1},
    4: {"after": 4, "end": True},
}


class Started:
    """Processes of one kind, each with its output in a file."""

    def __init__(self, folder, store):
        self.folder, self.store = Path(folder), store
        self.all, self.lost = [], []

    def start(self, count, *arguments):
        """So many processes of train.py, by the names of their outputs."""
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            # Gloo would look up this host's name.
            "GLOO_SOCKET_IFNAME": "lo",
        }
        command = [sys.executable, str(HERE / "train.py")]
        command += [f"127.0.0.1:{self.store.port}", *arguments]
        for _ in range(count):
            out = self.folder / f"out-{len(self.all)}"
            with out.open("w") as file:
                process = subprocess.Popen(
                    command, stdout=file, stderr=file, env=environment
                )
            self.all.append((process, out))

    def steps(self):
        """{step: (epoch, size, loss)} that rank 0 of each world has told."""
        found = {}
        for _, out in self.all:
            for line in out.read_text().splitlines():
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


def elastic(folder):
    """{step: (epoch, size, loss)} of the run, and the keys that are left."""
    script, record = folder / "script.json", folder / "record"
    script.write_text(json.dumps(SCRIPT))
    record.mkdir()
    hosted = store()
    job = Started(folder, hosted)
    common = ["--steps", "100000", "--record", str(record)]
    common += ["--script", str(script), "--timeout", str(TIMEOUT)]
    try:
        job.start(4, "--processes", "4", "--layout", json.dumps(TP1), *common)
        job.until(epoch=1, steps=3)
        job.start(
            2, "--processes", "2", "--launch", "more",
            "--layout", json.dumps(TP2), *common,
        )  # fmt: skip
        job.until(epoch=3, steps=3)
        job.start(1, "--layout", json.dumps(TP4), *common)
        job.join()
    finally:
        job.kill()
    return job.steps(), hosted.list_keys()


def alone(folder, steps):
    """The same of one process."""
    job = Started(folder, store())
    try:
        job.start(1, "--layout", json.dumps(TP1), "--steps", str(steps))
        job.join()
    finally:
        job.kill()
    return job.steps()


def losing(folder):
    """The same of a run that loses two processes."""
    script = folder / "script.json"
    script.write_text(json.dumps({"3": {"after": 6, "end": True}}))
    hosted = store()
    job = Started(folder, hosted)
    try:
        job.start(
            4, "--processes", "4", "--layout", json.dumps(TP1),
            "--steps", "100000", "--script", str(script),
            "--timeout", str(TIMEOUT), "--snapshots", "4",
        )  # fmt: skip
        for epoch, number in (1, 0), (2, 2):
            job.until(epoch, steps=6)
            job.lose(number)
        job.join()
    finally:
        job.kill()
    return job.steps(), hosted.list_keys()


def main():
    loses = sys.argv[1:] == ["--lose"]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        steps, keys = (losing if loses else elastic)(folder)
        compared = None if loses else check(folder / "record")
        (folder / "alone").mkdir()
        plain = alone(folder / "alone", max(steps))
    worlds = {epoch: size for epoch, size, _ in steps.values()}
    print("worlds of", " -> ".join(map(str, worlds.values())), "processes")
    if not loses:
        print(f"all state is right: {compared} bytes compared")
    assert sorted(steps) == list(range(1, max(steps) + 1)), steps
    far = max(abs(steps[n][2] - plain[n][2]) for n in steps)
    print(f"{len(steps)} losses differ by {far:.1e} from those of one process")
    assert far < MOST, (steps, plain)
    print("keys left:", *sorted(re.sub(r"-[0-9a-f]{8}$", "", k) for k in keys))


if __name__ == "__main__":
    main()
