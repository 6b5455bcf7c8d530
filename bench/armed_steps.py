"""What a job takes of a trainer's steps, beside other steps of the same run.

python bench/armed_steps.py [--pairs 300] [--cycles 250] [--batch 512]
                            [--trainer layers | gpt | moe | megatron |
                             torchtitan] [--wider 8]

Two processes of one program differ by a percent for as long as they live
(armed_job.py), and what else the machine does makes two turns of twenty steps
differ by three. What is looked for is less. So steps are compared with their
neighbours in the same processes, the trainer of job_recovery.py with ZeRO-1
over Gloo, one per core, with a job; or, with --trainer, that of an elastic
example: Megatron-Core with its distributed optimizer, torchtitan with FSDP2, or
one of examples/elastic_gpt, under ZeRO-1 too, whose steps are as short as of no
real model: --wider multiplies the widths of its matrices:

- *armed*: pairs of steps, one with `boundary` and one without; which comes
  first turns round with each pair. Beside it what is inside `boundary`, as no
  more of an armed job runs on the trainer's thread.
- *snapshots*: `boundary` after each step makes a snapshot every ten steps. What
  each of the first four steps of ten, of which the first makes it, takes more
  than the mean of the other six; the sum, in parts of ten steps. (Of their
  median it would be more without any snapshot: it leaves out what else the
  machine does, of which the four have their part.) It goes by the messages of
  the next steps, and is over when they are; the steps are told one by one, so
  that this can be seen.

Of both the median, and the 95 % interval of that median by order statistics.
What the job's threads do all the time is on both sides: it is told beside, the
CPU of all threads but the trainer's own and Gloo's, in parts of a second. Of
Gloo's threads a trainer with a job has as many as one without, one per process;
their count is told too.
"""

import argparse
import importlib
import itertools
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build/python"))

from armed_job import (  # noqa: E402
    CORES,
    SETTLES,
    WITH_JOB,
    Trainer,
    cpu_by_thread,
    interval_of_median,
    job_of,
    prepared,
)
from elastic_job import cpu_of_threads  # noqa: E402
from job_recovery import EVERY, add_size  # noqa: E402
from torch import distributed as dist  # noqa: E402

#: Of ten steps, those that a snapshot may slow down.
SLOWED = 4


@dataclass
class Example:
    """A trainer of examples/. how: what `job_of` is told of it; step: of a
    State, what takes a step by its number."""

    folder: str
    how: Callable[[Any], dict[str, Any]]
    step: Callable[[Any], Callable[[int], Any]]


def with_zero(module, layout):
    """One of elastic_gpt's modules, under ZeRO-1."""

    def how(options):
        gpt = importlib.import_module("gpt")
        gpt.WIDTH, gpt.HIDDEN = (
            options.wider * one for one in (gpt.WIDTH, gpt.HIDDEN)
        )
        build = importlib.import_module(module).build
        return {"build": build, "layout": {**layout, "zero": True}}

    return how


def megatron(options):
    train = importlib.import_module("train")
    return {
        "build": train.builder(weights=None),
        "layout": {},
        "default_group": True,
    }


def torchtitan(options):
    train = importlib.import_module("train")
    return {
        "build": train.elastic_of(steps=sys.maxsize).build,
        "layout": {"data_parallel_shard_degree": options.processes},
        "default_group": True,
    }


def torchtitan_step(state):
    trainer = state.progress.trainer
    batches = trainer.batch_generator(trainer.dataloader)

    def step(number):
        trainer.step = number
        return trainer.train_step(batches)

    return step


def sampled(state):
    return lambda number: state.training.step(state.samples, number)


EXAMPLES = {
    "gpt": Example("elastic_gpt", with_zero("trainer", {"tp": 1}), sampled),
    "moe": Example("elastic_gpt", with_zero("moe", {"ep": 1}), sampled),
    "megatron": Example(
        "elastic_megatron",
        megatron,
        lambda state: lambda _: state.training.trainer.step(),
    ),
    "torchtitan": Example("elastic_torchtitan", torchtitan, torchtitan_step),
}


def trainer_of(options):
    """What `job_of` is told, and what takes steps of a State."""
    if options.trainer not in EXAMPLES:
        return {}, lambda state: state.training.step
    example = EXAMPLES[options.trainer]
    folder = ROOT / "examples"
    sys.path[:0] = [str(folder / example.folder), str(folder)]
    return example.how(options), example.step


def timed(step, boundary):
    """Seconds of a step, and of `boundary` in it."""
    began = time.perf_counter()
    step()
    stepped = time.perf_counter()
    boundary()
    ended = time.perf_counter()
    return ended - began, ended - stepped


def pairs_of(step, boundary, count):
    """Seconds of steps: without `boundary`, with it, and in it."""
    found = []
    for number in range(count):
        turn = 1 if number % 2 else -1
        kinds = [lambda: None, boundary][::turn]
        steps = [timed(step, kind) for kind in kinds][::turn]
        found.append([steps[0][0], *steps[1]])
    return found


def cycles_of(step, boundary, count):
    """Seconds of ten steps, of which the first makes a snapshot."""
    for _ in range(EVERY - 1):
        timed(step, boundary)
    return [
        [timed(step, boundary)[0] for _ in range(EVERY)] for _ in range(count)
    ]


def loops():
    """How many threads of Gloo's look for messages."""
    return [name for name, _ in cpu_of_threads()].count("gloo_tcp_loop")


def train(port, rank, options, orders, snapshots=0):
    """A process's steps."""
    prepared(rank)
    how, step_of = trainer_of(options)
    with job_of(port, rank, options, snapshots, **how) as job:
        take, numbers = step_of(job.state), itertools.count(1)

        def step():
            return take(next(numbers))

        for _ in range(2 * EVERY):
            timed(step, job.boundary)
        time.sleep(SETTLES)
        cpu, began = cpu_by_thread(), time.perf_counter()
        how, count = (
            (cycles_of, options.cycles)
            if snapshots
            else (pairs_of, options.pairs)
        )
        rows = how(step, job.boundary, count)
        own = cpu_by_thread()["own"] - cpu["own"]
        orders.send(
            {
                "rows": rows,
                "own": own / (time.perf_counter() - began),
                "loops": loops(),
            }
        )
        dist.barrier(group=job.world.group)
    os._exit(0)


def told_by(options, how):
    """Rows of seconds, means of the processes; and what else they say."""
    trainer = Trainer(train, options, **how)
    told = trainer.told()
    trainer.end()
    rows = [
        [statistics.mean(step) for step in zip(*row)]
        for row in zip(*(one["rows"] for one in told))
    ]
    return rows, {
        "job's threads, of a second": round(max(one["own"] for one in told), 5),
        "threads of Gloo's": max(one["loops"] for one in told),
    }


def summary(shares):
    median, low, high = interval_of_median(sorted(shares))
    return {"median": median, "interval": [low, high]}


def armed(options):
    pairs, more = told_by(options, WITH_JOB["armed"])
    return {
        "seconds of a step": round(statistics.median(o for o, *_ in pairs), 6),
        "seconds, more": summary(told / plain - 1 for plain, told, _ in pairs),
        "`boundary`, of a step": round(
            statistics.median(inside / plain for plain, _, inside in pairs), 6
        ),
        **more,
    }


def with_snapshots(options):
    cycles, more = told_by(options, WITH_JOB["snapshots"])
    base = [statistics.mean(one[SLOWED:]) for one in cycles]
    return {
        "seconds of a step": round(statistics.median(base), 6),
        "seconds, more": summary(
            (sum(one[:SLOWED]) / usual - SLOWED) / EVERY
            for one, usual in zip(cycles, base)
        ),
        "each of ten steps, more": [
            round(
                statistics.median(
                    one[place] / usual - 1 for one, usual in zip(cycles, base)
                ),
                4,
            )
            for place in range(EVERY)
        ],
        **more,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=len(CORES))
    parser.add_argument(
        "--trainer", choices=["layers", *EXAMPLES], default="layers"
    )
    parser.add_argument("--wider", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--cycles", type=int, default=250)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument(
        "--limit", type=float, default=3600.0, help="seconds of a trainer"
    )
    add_size(parser)
    options = parser.parse_args()
    result = {"armed": armed(options), "snapshots": with_snapshots(options)}
    print(json.dumps(result | {"load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
