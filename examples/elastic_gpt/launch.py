"""Runs a job through 4 -> 6 -> 3 -> 4 processes while it trains, and checks it.

python examples/elastic_gpt/launch.py [--moe | --flat | --lose | --torchrun]
    [--trace FOLDER]

With --moe: a mixture of experts, whose experts are on as many processes of each
replica as the layout says.
With --flat: memory of the old world goes while that of the new one comes.
With --lose: a process is killed, twice, 4 -> 3 -> 2, and what it held comes
from snapshots; each time the steps since the last one are taken again.
With --torchrun: each process is a worker of an agent of its own, which starts
it again when it is killed: it joins, 4 -> 3 -> 4.

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
from launching import (  # noqa: E402
    TIMEOUT,
    Started,
    keys_left,
    store,
    through_worlds,
    traced,
)
from record import check  # noqa: E402

MOST = 1e-9  # of the difference between losses

#: Who trains leaves the processors to who starts, builds and compiles.
RESTS = ["--rest", "0.3"]

TP1 = {"tp": 1, "zero": True}
TP2 = {"tp": 2, "zero": True}
TP4 = {"tp": 4, "zero": False}

#: Layouts of 4, 6, 3 and 4 processes.
GPT = [TP1, TP2, TP1, TP4]
MOE = [
    {"ep": 4, "zero": True},
    {"ep": 6, "zero": True},
    {"ep": 3, "zero": False},
    {"ep": 2, "zero": True},
]


def elastic(folder, model="gpt", layouts=GPT, more=()):
    """{step: (epoch, size, loss)} of the run, and the keys that are left."""
    more = ["--steps", "100000", "--model", model, *RESTS, *more]
    return through_worlds(HERE / "train.py", folder, layouts, more)


def alone(folder, steps, model="gpt"):
    """The same of one process."""
    job = Started(HERE / "train.py", folder, store())
    layout = json.dumps({"tp": 1, "ep": 1, "zero": True})
    try:
        job.start(
            1, "--layout", layout, "--steps", str(steps), "--model", model
        )
        job.join()
    finally:
        job.kill()
    return job.steps()


#: An agent for each process: where several share one, it ends all of them when
#: one is lost.
AGENT = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
AGENT += ["--max-restarts=1"]


def losing(folder, by_agents=False):
    """The same of a run that loses two processes; or one, which comes again."""
    script = folder / "script.json"
    script.write_text(json.dumps({"3": {"after": 6, "end": True}}))
    hosted = store()
    agents = AGENT if by_agents else ()
    job = Started(HERE / "train.py", folder, hosted, agents)
    try:
        job.start(
            4, "--processes", "4", "--layout", json.dumps(TP1),
            "--steps", "100000", "--script", str(script),
            "--timeout", str(TIMEOUT), "--snapshots", "4", *RESTS,
        )  # fmt: skip
        job.until(1, steps=6)
        if by_agents:
            job.lose_worker(1)
        else:
            job.lose(0)
            job.until(2, steps=6)
            job.lose(2)
        job.join()
    finally:
        job.kill()
    return job.steps(), keys_left(hosted)


def main():
    moe, torchrun = "--moe" in sys.argv[1:], "--torchrun" in sys.argv[1:]
    loses = torchrun or "--lose" in sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if loses:
            steps, keys = losing(folder, torchrun)
        else:
            of_model = ("moe", MOE) if moe else ()
            more = ["--flat"] if "--flat" in sys.argv[1:] else []
            more += traced(sys.argv)
            steps, keys = elastic(folder, *of_model, more=more)
        compared = None if loses else check(folder / "record")
        (folder / "alone").mkdir()
        plain = alone(folder / "alone", max(steps), "moe" if moe else "gpt")
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
