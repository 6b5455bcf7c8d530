"""Runs a job through 4 -> 6 -> 3 -> 4 processes while it trains, and checks it.

python examples/elastic_gpt/launch.py [--lose]

With --lose: a process is killed, twice, 4 -> 3 -> 2, and what it held comes
from snapshots; each time the steps since the last one are taken again.

The store is this process's, so it outlives all of the job. Each switch is
checked bit for bit (record.py), and the losses are held against a run of one
process that never switches.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from launching import TIMEOUT, Started, keys_left, store  # noqa: E402
from record import check  # noqa: E402

MOST = 1e-9  # of the difference between losses

TP1 = {"tp": 1, "zero": True}
TP2 = {"tp": 2, "zero": True}
TP4 = {"tp": 4, "zero": False}

#: In which world its first process asks for what, after so many steps.
SCRIPT = {
    2: {"after": 3, "leave": [1, 3, 4], "layout": TP1},
    4: {"after": 4, "end": True},
}


def elastic(folder):
    """{step: (epoch, size, loss)} of the run, and the keys that are left."""
    script, record = folder / "script.json", folder / "record"
    script.write_text(json.dumps(SCRIPT))
    record.mkdir()
    hosted = store()
    job = Started(HERE / "train.py", folder, hosted)
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
    return job.steps(), keys_left(hosted)


def alone(folder, steps):
    """The same of one process."""
    job = Started(HERE / "train.py", folder, store())
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
    job = Started(HERE / "train.py", folder, hosted)
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
    return job.steps(), keys_left(hosted)


def main():
    loses = sys.argv[1:] == ["--lose"]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        steps, keys = (losing if loses else elastic)(folder)
        compared = None if loses else check(folder / "record")
        (folder / "alone").mkdir()
        plain = alone(folder / "alone", max(steps))
    # Whose output comes first need not be rank 0 of the first world.
    worlds = dict(sorted(told[:2] for told in steps.values()))
    print("worlds of", " -> ".join(map(str, worlds.values())), "processes")
    if not loses:
        print(f"all state is right: {compared} bytes compared")
    assert sorted(steps) == list(range(1, max(steps) + 1)), steps
    far = max(abs(steps[n][2] - plain[n][2]) for n in steps)
    print(f"{len(steps)} losses differ by {far:.1e} from those of one process")
    assert far < MOST, (steps, plain)
    print("keys left:", *keys)


if __name__ == "__main__":
    main()
