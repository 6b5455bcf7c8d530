"""Runs Megatron-Core through 4 -> 6 -> 3 -> 4 processes while it trains, and
checks it.

python examples/elastic_megatron/launch.py

TP2 DP2 -> TP2 DP3 -> DP3 -> PP4. Two processes join, three leave, one joins.
What each process held before and after a switch is read by Megatron-Core's own
names and ranges (../megatron/independent.py), and compared bit for bit; the
losses are held against those of runs without switches, in two layouts.
"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "megatron")]
import cpu  # noqa: E402

cpu.for_megatron()

import independent  # noqa: E402
import noise  # noqa: E402
from launching import Started, keys_left, store, through_worlds  # noqa: E402
from record import switches  # noqa: E402

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
        steps, keys = through_worlds(
            HERE / "train.py", folder, LAYOUTS, more
        )
        count = compared(folder / "record")
        runs = [
            stay(folder / f"stay-{n}", *one, weights, max(steps))
            for n, one in enumerate(STAY)
        ]
    worlds = dict(sorted(told[:2] for told in steps.values()))
    print("worlds of", " -> ".join(map(str, worlds.values())), "processes")
    print(f"all state is right: {count} values compared")
    assert sorted(steps) == list(range(1, max(steps) + 1)), steps
    print(noise.compare([steps[n][2] for n in sorted(steps)], runs))
    print("keys left:", *keys)


if __name__ == "__main__":
    main()
