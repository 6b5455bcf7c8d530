"""Runs torchtitan's trainer through 4 -> 6 -> 3 -> 4 processes while it trains,
and checks it.

python examples/elastic_torchtitan/launch.py [--lose] [--trace FOLDER]

FSDP4 -> FSDP3 x TP2 -> FSDP3 -> HSDP 2x2. Two processes join, three leave, one
joins. Each switch is checked bit for bit, by where torch says that the shards
of a DTensor lie (../record.py); the losses are held against those of runs
without switches, in two layouts.

With --lose: a process is killed, FSDP4 -> FSDP3, and what it held comes from a
snapshot; the steps since then are taken again.
"""

import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "train.py"
sys.path.insert(0, str(PROGRAM.parents[1]))
from launching import (  # noqa: E402
    held_against,
    losing,
    through_worlds,
    traced,
)
from record import check  # noqa: E402

#: What all processes import, for who starts them by a fork.
PRELOAD = ["framework"]

SHARD, REPLICATE = (
    "data_parallel_shard_degree",
    "data_parallel_replicate_degree",
)
LAYOUTS = [
    {SHARD: 4},
    {SHARD: 3, "tensor_parallel_degree": 2},
    {SHARD: 3},
    {SHARD: 2, REPLICATE: 2},
]
#: (processes, layout) of runs that never switch.
STAY = [(4, {SHARD: 4}), (2, {SHARD: 1, "tensor_parallel_degree": 2})]


#: On which the learning rate depends; a run ends when its script says so.
STEPS = ["--steps", "1000"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if "--lose" in sys.argv[1:]:
            steps = losing(PROGRAM, folder, LAYOUTS[0], STEPS)
        else:
            more = [*STEPS, *traced(sys.argv)]
            steps, keys = through_worlds(PROGRAM, folder, LAYOUTS, more)
            print(f"all state is right: {check(folder / 'record')} bytes")
            print("keys left:", *keys)
        held_against(PROGRAM, folder, steps, STAY, STEPS)


if __name__ == "__main__":
    main()
