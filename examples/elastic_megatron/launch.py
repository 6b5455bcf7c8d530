"""Runs Megatron-Core through 4 -> 6 -> 3 -> 4 processes while it trains, and
checks it.

python examples/elastic_megatron/launch.py [--lose] [--trace FOLDER]

TP2 DP2 -> TP2 DP3 -> DP3 -> PP4. Two processes join, three leave, one joins.
What each process held before and after a switch is read by Megatron-Core's own
names and ranges (../megatron/independent.py), and compared bit for bit; the
losses are held against those of runs without switches, in two layouts.

With --lose: a process is killed, TP2 DP2 -> DP3, and what it held comes from a
snapshot; the steps since then are taken again.
"""

import json
import sys
import tempfile
from pathlib import Path

from framework import independent  # isort: skip

import noise
from launching import Started, store, through_worlds, traced
from record import switches

HERE = Path(__file__).resolve().parent
#: What all processes import, for who starts them by a fork.
PRELOAD = ["framework"]

LAYOUTS = [{"tp": 2}, {"tp": 2}, {}, {"pp": 4}]
#: (processes, layout) of runs that never switch.
STAY = [("4", '{"tp": 2}'), ("1", "{}")]


def stay(folder, processes, layout, weights, steps):
    """The losses of a run that never switches."""
    folder.mkdir()
    job = Started(HERE / "train.py", folder, store())
    try:
        job.start(
            int(processes), "--processes", processes, "--layout", layout,
            "--weights", str(weights), "--steps", str(steps),
        )  # fmt: skip
        job.join()
    finally:
        job.kill()
    told = job.steps()
    return [told[step][2] for step in sorted(told)]


def losing(folder, more):
    """{step: (epoch, size, loss)} of a run that loses a process."""
    script = folder / "script.json"
    script.write_text(json.dumps({2: {"after": 6, "end": True}}))
    job = Started(HERE / "train.py", folder, store())
    try:
        job.start(
            4, "--processes", "4", "--layout", json.dumps(LAYOUTS[0]),
            "--script", str(script), "--snapshots", "4", *more,
        )  # fmt: skip
        job.until(epoch=1, steps=6)
        job.lose(1)
        job.join()
    finally:
        job.kill()
    return job.steps()


def compared(folder):
    """Values that are right after the switches of a job."""
    count = 0
    for before, after in switches(folder):
        full = independent.joined(before)
        assert independent.joined(after).keys() == full.keys()
        count += sum(independent.check(rows, full) for rows in after)
    return count


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        weights = folder / "weights.pt"
        more = ["--steps", "100000", "--weights", str(weights)]
        more += traced(sys.argv)
        if "--lose" in sys.argv[1:]:
            steps = losing(folder, more)
        else:
            program = HERE / "train.py"
            steps, keys = through_worlds(program, folder, LAYOUTS, more)
            print(f"all state is right: {compared(folder / 'record')} values")
            print("keys left:", *keys)
        runs = [
            stay(folder / f"stay-{n}", *one, weights, max(steps))
            for n, one in enumerate(STAY)
        ]
    worlds = dict(sorted(told[:2] for told in steps.values()))
    print("worlds of", " -> ".join(map(str, worlds.values())), "processes")
    assert sorted(steps) == list(range(1, max(steps) + 1)), steps
    print(noise.compare([steps[n][2] for n in sorted(steps)], runs))


if __name__ == "__main__":
    main()
