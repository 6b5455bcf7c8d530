"""A pipeline of four processes whose middle layers grow three times as heavy
while it trains: the job moves layers between its stages. Runs and checks it.

python examples/elastic_pipeline/launch.py

After the change the slowest stage must be within 10 % of the best partition's,
which is found here by trying all; what a stage takes is counted, see train.py.
The switch is checked bit for bit (record.py) and for the order of layers; the
losses must be those of one process that has all layers and never switches, to
the bit.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from launching import TIMEOUT, Started, keys_left, store  # noqa: E402
from pipeline import LAYERS  # noqa: E402
from record import check, read  # noqa: E402

EVEN = [4, 4, 4, 4]
MOST = 1.10  # of the best partition's slowest stage


def run(folder, layers, *arguments):
    """The processes of a run that has ended, and its store."""
    folder.mkdir()
    hosted = store()
    job = Started(HERE / "train.py", folder, hosted)
    counts = ",".join(map(str, layers))
    try:
        job.start(
            len(layers), "--layers", counts, "--timeout", str(TIMEOUT),
            *map(str, arguments),
        )  # fmt: skip
        job.join()
    finally:
        job.kill()
    return job, hosted


def told(job, what):
    """What a run has measured, by its steps: lines of this name."""
    lines = (line.partition(" ") for line in job.lines())
    found = [json.loads(text) for name, _, text in lines if name == what]
    assert found, f"nobody has {what}"
    return sorted(found, key=lambda one: one["step"])


def best_of_all(seconds, stages):
    """The slowest stage of the best partition, by trying all."""
    ends = range(1, len(seconds))
    return min(
        max(
            sum(seconds[a:b]) for a, b in zip((0, *cuts), (*cuts, len(seconds)))
        )
        for cuts in itertools.combinations(ends, stages - 1)
    )


def share_of_best(measured):
    """The slowest stage over that of the best partition of the same layers."""
    stages = measured["stage_seconds"]
    best = best_of_all(measured["layer_seconds"], len(stages))
    return max(stages) / best


def check_order(folder):
    """Ranks hold whole layers, in order, before and after each switch."""
    for side in sorted(Path(folder).glob("*/*")):
        held = [
            list(dict.fromkeys(int(name.split(".")[1]) for name, _ in parts))
            for parts, _ in read(side)
        ]
        assert sum(held, []) == list(range(LAYERS)), (side, held)


def demonstrate(folder):
    """Both runs, compared; what to tell."""
    record = folder / "record"
    record.mkdir()
    job, hosted = run(folder / "elastic", EVEN, "--record", record)
    compared, steps = check(record), job.steps()
    check_order(record)
    asked, after = told(job, "asked"), told(job, "measured")[-1]
    assert share_of_best(after) <= MOST, after
    first = min(step for step, one in steps.items() if one[0] == 2)
    layers = " -> ".join(str(one["layers"]) for one in [*asked, after])
    # It looks after each step, also when none has been measured.
    plain, _ = run(
        folder / "alone", [LAYERS], "--steps", max(steps), "--every", 1
    )
    alone = plain.steps()
    assert sorted(steps) == sorted(alone) == list(range(1, max(steps) + 1))
    assert all(steps[n][2] == alone[n][2] for n in steps), (steps, alone)
    return [
        f"after step {asked[0]['step']} another balance pays, and is prepared",
        f"after step {first - 1}: layers {layers}",
        f"slowest stage: {share_of_best(asked[0]):.3f} of the optimum before, "
        f"{share_of_best(after):.3f} after",
        f"all state is right, layers are in order: {compared} bytes compared",
        f"{len(steps)} losses are those of one process, to the bit",
        " ".join(["keys left:", *keys_left(hosted)]),
    ]


def main():
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(demonstrate(Path(folder))))


if __name__ == "__main__":
    main()
