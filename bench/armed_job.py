"""What an armed `dynatrain.Job` costs while nothing happens to it.

python bench/armed_job.py [--turns 100] [--steps 40] [--idle 20] [--starts 1]

The trainer of job_recovery.py, a process per core with ZeRO-1 over Gloo, runs
without a job (its groups are plain ones), with a job, and with one that makes
a snapshot every ten steps. All three stand beside each other and take turns of
so many steps: whose turn it is not is stopped (SIGSTOP), with its store, so
that each has the machine for itself, and what else the machine does in seconds
and minutes counts alike for those that are neighbours in time. The order within
a round turns round with each. A figure is what a round's turn took more than
its turn without a job: the median of all rounds, and the 95 % interval of that
median by order statistics (David and Nagaraja, Order Statistics, 7.1), which
asks nothing of how the noise is distributed. By seconds, and by CPU of all
threads of the processes.

Two processes of one program differ by a percent for as long as they live, by
where their memory lies. So with --starts all three are started so many times,
and what is compared is a start's medians of its turns. Where noise is larger
than what is looked for: what is a job's alone, in parts of a step, which is the
seconds inside `boundary`, and the CPU of threads that a trainer without a job
does not have (*own*) or uses less (Gloo's). Turns of ten steps, or twenty,
have as many snapshots each; of shorter ones most have none, and their median
knows nothing of it. What a snapshot does after its turn's last step falls into
the next turn of the same trainer.

Then a process that only is a member of a job, and does nothing: CPU seconds per
second, of all of its threads but Gloo's, which looks for messages in every
trainer.
"""

import argparse
import json
import math
import os
import signal
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/python"))

from elastic_job import cpu_of_threads, cpu_seconds  # noqa: E402
from job_recovery import (  # noqa: E402
    EVERY,
    Training,
    add_size,
    dynatrain,
    fork,
    serve,
    torch,
)
from torch import distributed as dist  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))
#: Seconds until what a world begins with is over.
SETTLES = 3.0
#: Trainers that have a job, and what they ask it for.
WITH_JOB = {"armed": {}, "snapshots": {"snapshots": EVERY}}


def prepared(rank):
    os.sched_setaffinity(0, {CORES[rank % len(CORES)]})
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)


def cpu_by_thread():
    """CPU seconds: all; of them Gloo's threads; and those that neither train
    nor are Gloo's, which may have ended since."""
    gloo = sum(used for name, used in cpu_of_threads() if "gloo" in name)
    cpu = time.process_time()
    return {"cpu": cpu, "gloo": gloo, "own": cpu - gloo - time.thread_time()}


def take_turns(training, orders, boundary):
    """Steps whenever it is told how many, until that is none."""
    number = 0
    orders.send("ready")
    while count := orders.recv():
        before, inside = cpu_by_thread(), 0.0
        began = time.perf_counter()
        for _ in range(count):
            number += 1
            training.step(number)
            stepped = time.perf_counter()
            boundary()
            inside += time.perf_counter() - stepped
        found = {"seconds": time.perf_counter() - began, "boundary": inside}
        for kind, used in cpu_by_thread().items():
            found[kind] = used - before[kind]
        orders.send({what: value / count for what, value in found.items()})


def plain(port, rank, options, orders):
    """A trainer as it is without a job."""
    prepared(rank)
    timeout = timedelta(seconds=options.timeout)
    store = dist.TCPStore("127.0.0.1", port, None, False, timeout, False)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=options.processes
    )
    world = SimpleNamespace(
        founded=True,
        rank=rank,
        size=options.processes,
        group=dist.group.WORLD,
    )
    training = Training(world, options.width, options.layers, options.batch)
    take_turns(training, orders, lambda: None)
    dist.barrier()
    os._exit(0)


def job_of(port, rank, options, snapshots, build=None, **more):
    """A job whose state is the trainer; build: of another one. more: what `Job`
    is told of it."""

    def by_default(world):
        training = Training(world, options.width, options.layers, options.batch)
        return dynatrain.State(training=training)

    return dynatrain.Job(
        f"127.0.0.1:{port}",
        build or by_default,
        processes=options.processes,
        rank=rank,
        timeout=options.timeout,
        snapshots=snapshots,
        **more,
    )


def armed(port, rank, options, orders, snapshots=0, idle=0.0):
    """The same under a job; idle: so many seconds of nothing instead."""
    prepared(rank)
    with job_of(port, rank, options, snapshots) as job:
        if idle:
            orders.send(idle_cost(idle))
        else:
            take_turns(job.state.training, orders, job.boundary)
        dist.barrier(group=job.world.group)
    os._exit(0)


def idle_cost(seconds):
    time.sleep(SETTLES)
    cpu, start = cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return {"cpu": (cpu_seconds() - cpu) / (time.perf_counter() - start)}


class Trainer:
    """The processes of one trainer, and the store that they speak to."""

    def __init__(self, body, options, **more):
        self.limit = options.limit
        pipe, theirs = fork.Pipe(duplex=False)
        host = fork.Process(target=serve, args=(theirs,), daemon=True)
        host.start()
        port = pipe.recv()
        self.pipes, self.processes = [], [host]
        for rank in range(options.processes):
            ours, theirs = fork.Pipe()
            self.pipes.append(ours)
            self.processes.append(
                fork.Process(
                    target=body,
                    args=(port, rank, options, theirs),
                    kwargs=more,
                    daemon=True,
                )
            )
            self.processes[-1].start()

    def told(self):
        """What each process has to say, by rank."""
        found = []
        for pipe in self.pipes:
            if not pipe.poll(self.limit):
                raise TimeoutError("a trainer says nothing")
            found.append(pipe.recv())
        return found

    def signal(self, number):
        for process in self.processes:
            os.kill(process.pid, number)

    def turn(self, steps):
        """Seconds of a step, means of the processes."""
        self.signal(signal.SIGCONT)
        for pipe in self.pipes:
            pipe.send(steps)
        found = self.told()
        self.signal(signal.SIGSTOP)
        return {
            what: statistics.mean(one[what] for one in found)
            for what in found[0]
        }

    def end(self):
        self.signal(signal.SIGCONT)
        for pipe in self.pipes:
            pipe.send(0)
        host, *members = self.processes
        for process in members:
            process.join()
        host.kill()
        host.join()


def interval_of_median(values):
    """The median of sorted values and the ends of its 95 % interval."""
    count = len(values)
    below, rank = 0, -1
    # Until more than 2.5 % is outside, in whole numbers.
    while 40 * below <= 2**count:
        rank += 1
        below += math.comb(count, rank)
    low = max(rank - 1, 0)
    return [
        round(one, 5)
        for one in (
            statistics.median(values),
            values[low],
            values[count - 1 - low],
        )
    ]


def rounds_of_start(options):
    """Turns of all three, started anew."""
    trainers = {
        "plain": Trainer(plain, options),
        **{
            name: Trainer(armed, options, **how)
            for name, how in WITH_JOB.items()
        },
    }
    for trainer in trainers.values():
        trainer.told()
        trainer.turn(options.steps)
    rounds = []
    for number in range(options.turns):
        order = list(trainers)[:: 1 if number % 2 else -1]
        rounds.append({one: trainers[one].turn(options.steps) for one in order})
    for trainer in trainers.values():
        trainer.end()
    return rounds


def medians(rounds):
    """Of rounds, by trainer and by what is measured."""
    return {
        name: {
            what: statistics.median(one[name][what] for one in rounds)
            for what in measured
        }
        for name, measured in rounds[0].items()
    }


def compare(options):
    """What a step takes more than without a job."""
    rounds = rounds_of_start(options)
    if options.starts > 1:
        rounds = [medians(rounds)]
        for _ in range(options.starts - 1):
            rounds.append(medians(rounds_of_start(options)))
    return {
        "of a step": {
            what: round(
                statistics.median(one["plain"][what] for one in rounds), 6
            )
            for what in rounds[0]["plain"]
        },
        **{name: more_than_plain(name, rounds) for name in WITH_JOB},
    }


def more_than_plain(name, rounds):
    """Parts of a step that a job takes: by the difference of neighbours in
    time, and by what is a job's alone."""
    found = {}
    for what in ("seconds", "cpu"):
        shares = [one[name][what] / one["plain"][what] - 1 for one in rounds]
        median, low, high = interval_of_median(sorted(shares))
        found[f"{what}, more"] = {"median": median, "interval": [low, high]}
    for what in ("boundary", "own", "gloo"):
        shares = [
            (one[name][what] - one["plain"][what]) / one["plain"]["seconds"]
            for one in rounds
        ]
        found[f"{what}, of a step"] = round(statistics.median(shares), 5)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=len(CORES))
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds of a turn at most"
    )
    add_size(parser)
    options = parser.parse_args()
    result = {}
    if options.turns:
        result = compare(options)
    if options.idle:
        members = Trainer(armed, options, idle=options.idle)
        result["cpu of an idle process"] = max(
            round(one["cpu"], 6) for one in members.told()
        )
        members.end()
    print(json.dumps(result | {"load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
