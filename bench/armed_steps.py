"""What a job takes of a trainer's steps, beside steps of the same processes.

python bench/armed_steps.py [--pairs 100] [--steps 20] [--batch 512]

Two processes of one program differ by a percent for as long as they live
(armed_job.py), and what is looked for is less. So the trainer of
job_recovery.py, a process per core with ZeRO-1 over Gloo, has a job, and tells
it of its steps in every second turn only: it takes so many steps with
`boundary` after each one, and as many without; which comes first turns round
with each pair. Both have the same memory, connections and threads. A figure is
what a turn with `boundary` took more than its neighbour without: the median of
the pairs, and the 95 % interval of that median by order statistics.

What the job's threads do all the time is in both. It is told beside: the CPU of
all threads but the trainer's own and Gloo's, in turns without `boundary`, in
parts of their seconds. (Of Gloo's threads a trainer with a job has as many as
one without: one per process. The counts are told too.)

First with a job alone, then with one that makes a snapshot every ten steps. A
turn has steps for two of them, which begin in its middle, so that what they do
beside the next steps is over when the turn is.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/python"))

from armed_job import (  # noqa: E402
    CORES,
    SETTLES,
    WITH_JOB,
    Trainer,
    cpu_by_thread,
    interval_of_median,
    prepared,
)
from job_recovery import (  # noqa: E402
    EVERY,
    Training,
    add_size,
    dynatrain,
)
from torch import distributed as dist  # noqa: E402


def turn(training, numbers, count, boundary):
    """Seconds, and CPU seconds by thread, of a step."""
    before, began = cpu_by_thread(), time.perf_counter()
    for _ in range(count):
        training.step(next(numbers))
        boundary()
    found = {"seconds": time.perf_counter() - began}
    for kind, used in cpu_by_thread().items():
        found[kind] = used - before[kind]
    return {what: value / count for what, value in found.items()}


def loops():
    """How many threads of Gloo's look for messages."""
    tasks = Path("/proc/self/task").iterdir()
    return [(task / "comm").read_text() for task in tasks].count(
        "gloo_tcp_loop\n"
    )


def alternate(port, rank, options, orders, snapshots=0):
    """A process's turns, in pairs: without `boundary`, and with it."""
    prepared(rank)

    def build(world):
        training = Training(world, options.width, options.layers, options.batch)
        return dynatrain.State(training=training)

    with dynatrain.Job(
        f"127.0.0.1:{port}",
        build,
        processes=options.processes,
        rank=rank,
        timeout=options.timeout,
        snapshots=snapshots,
    ) as job:
        training, numbers, pairs = job.state.training, itertools.count(1), []
        turn(training, numbers, EVERY // 2, job.boundary)
        time.sleep(SETTLES)
        for number in range(1 + options.pairs):
            turns = [
                turn(training, numbers, options.steps, how)
                for how in (lambda: None, job.boundary)[:: 1 - 2 * (number % 2)]
            ]
            pairs.append(turns[:: 1 - 2 * (number % 2)])
        orders.send({"pairs": pairs[1:], "loops": loops()})
        dist.barrier(group=job.world.group)
    os._exit(0)


def mean(turns):
    """Of one turn, over the processes."""
    return {
        what: statistics.mean(one[what] for one in turns) for what in turns[0]
    }


def compare(options, how):
    """What a step with `boundary` takes more."""
    trainer = Trainer(alternate, options, **how)
    told = trainer.told()
    trainer.end()
    pairs = [
        [mean(turns) for turns in zip(*pair)]
        for pair in zip(*(one["pairs"] for one in told))
    ]
    found = {
        "seconds of a step": round(
            statistics.median(without["seconds"] for without, _ in pairs), 6
        )
    }
    for what in ("seconds", "cpu"):
        shares = sorted(told[what] / off[what] - 1 for off, told in pairs)
        median, low, high = interval_of_median(shares)
        found[f"{what}, more"] = {"median": median, "interval": [low, high]}
    found["job's threads, of seconds"] = round(
        statistics.median(off["own"] / off["seconds"] for off, _ in pairs), 5
    )
    found["threads of Gloo's"] = max(one["loops"] for one in told)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=len(CORES))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument(
        "--limit", type=float, default=3600.0, help="seconds of a trainer"
    )
    add_size(parser)
    parser.set_defaults(steps=2 * EVERY)
    options = parser.parse_args()
    result = {name: compare(options, how) for name, how in WITH_JOB.items()}
    print(json.dumps(result | {"load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
