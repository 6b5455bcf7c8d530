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

import sys
import tempfile
from pathlib import Path

from framework import independent  # isort: skip

from launching import held_against, losing, through_worlds, traced
from record import switches

PROGRAM = Path(__file__).resolve().parent / "train.py"
#: What all processes import, for who starts them by a fork.
PRELOAD = ["framework"]

LAYOUTS = [{"tp": 2}, {"tp": 2}, {}, {"pp": 4}]
#: (processes, layout) of runs that never switch.
STAY = [(4, {"tp": 2}), (1, {})]


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
        # On which the schedule depends; a run ends when its script says so.
        more = ["--steps", "1000", "--weights", str(folder / "weights.pt")]
        if "--lose" in sys.argv[1:]:
            steps = losing(PROGRAM, folder, LAYOUTS[0], more)
        else:
            seen = [*more, *traced(sys.argv)]
            steps, keys = through_worlds(PROGRAM, folder, LAYOUTS, seen)
            print(f"all state is right: {compared(folder / 'record')} values")
            print("keys left:", *keys)
        held_against(PROGRAM, folder, steps, STAY, more)


if __name__ == "__main__":
    main()
