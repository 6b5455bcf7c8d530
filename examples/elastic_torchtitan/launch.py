"""Runs torchtitan's trainer through 4 -> 6 -> 3 -> 4 processes while it trains,
and checks it.

python examples/elastic_torchtitan/launch.py [--trace FOLDER]

FSDP4 -> FSDP3 x TP2 -> FSDP3 -> HSDP 2x2. Two processes join, three leave, one
joins. Each switch is checked bit for bit, by where torch says that the shards
of a DTensor lie (../record.py); the losses are held against those of runs
without switches, in two layouts.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import noise  # noqa: E402
from launching import (  # noqa: E402
    Started,
    store,
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


def stay(folder, processes, layout, steps):
    """The losses of so many steps of a run that never switches."""
    folder.mkdir()
    script = folder / "script.json"
    script.write_text(json.dumps({1: {"after": steps, "end": True}}))
    job = Started(HERE / "train.py", folder, store())
    try:
        job.start(
            processes, "--processes", str(processes),
            "--layout", json.dumps(layout), "--script", str(script), *STEPS,
        )  # fmt: skip
        job.join()
    finally:
        job.kill()
    told = job.steps()
    return [told[step][2] for step in range(1, steps + 1)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        steps, keys = through_worlds(
            HERE / "train.py", folder, LAYOUTS, [*STEPS, *traced(sys.argv)]
        )
        compared = check(folder / "record")
        runs = [
            stay(folder / f"stay-{n}", *one, max(steps))
            for n, one in enumerate(STAY)
        ]
    worlds = dict(sorted(told[:2] for told in steps.values()))
    print("worlds of", " -> ".join(map(str, worlds.values())), "processes")
    print(f"all state is right: {compared} bytes compared")
    assert sorted(steps) == list(range(1, max(steps) + 1)), steps
    print(noise.compare([steps[n][2] for n in sorted(steps)], runs))
    print("keys left:", *keys)


if __name__ == "__main__":
    main()
