"""What an armed `dynatrain.Job` costs while nothing happens to it.

python bench/armed_job.py [--pairs 6] [--steps 100] [--idle 20]

The trainer of job_recovery.py, four processes with ZeRO-1 over Gloo, runs
without a job (its groups are plain ones), with a job, and with one that makes
a snapshot every ten steps. By CPU: seconds of all of a process's threads per
step. By whole jobs: seconds of the run per step. Both of a pair run at the
same time, so that what else the machine does disturbs both alike, each on a
core of its own: what a job does in the background then lengthens its steps.
Pairs take the cores in turn, and two of them, one after the other, are one
figure, so that a faster core counts for neither; give an even number. Four
processes share a core here, so that the seconds are those of all four members,
as if each had a quarter of a core. Then a process that only is a member of a
job, and does nothing: CPU seconds per second, of all of its threads but
Gloo's, which looks for messages in every trainer.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/python"))

from elastic_job import cpu_seconds  # noqa: E402
from job_recovery import (  # noqa: E402
    EVERY,
    PROCESSES,
    Training,
    add_size,
    dynatrain,
    fork,
    per_step,
    serve,
    torch,
)
from torch import distributed as dist  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))
#: Seconds until what a world begins with is over, and so many steps.
SETTLES, FIRST_STEPS = 3.0, 3


def prepared(core):
    os.sched_setaffinity(0, {core})
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)


def steps_of(training, count, boundary):
    for number in range(FIRST_STEPS + count):
        if number == FIRST_STEPS:
            began, worked = time.monotonic(), time.process_time()
        training.step(number + 1)
        boundary()
    return {
        "seconds": (time.monotonic() - began) / count,
        "cpu": (time.process_time() - worked) / count,
    }


def plain(core, port, rank, options, told):
    """A trainer as it is without a job."""
    prepared(core)
    timeout = timedelta(seconds=options.timeout)
    store = dist.TCPStore("127.0.0.1", port, None, False, timeout, False)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=PROCESSES
    )
    world = SimpleNamespace(
        founded=True, rank=rank, size=PROCESSES, group=dist.group.WORLD
    )
    training = Training(world, options.width, options.layers, options.batch)
    told.put(steps_of(training, options.steps, lambda: None))
    dist.barrier()
    leave(told)


def armed(core, port, rank, options, told, snapshots=0, idle=0.0):
    """The same under a job; idle: so many seconds of nothing instead."""
    prepared(core)

    def build(world):
        training = Training(world, options.width, options.layers, options.batch)
        return dynatrain.State(training=training)

    with dynatrain.Job(
        f"127.0.0.1:{port}",
        build,
        processes=PROCESSES,
        rank=rank,
        timeout=options.timeout,
        snapshots=snapshots,
    ) as job:
        if idle:
            told.put(idle_cost(idle))
        else:
            training = job.state.training
            told.put(steps_of(training, options.steps, job.boundary))
        dist.barrier(group=job.world.group)
    leave(told)


def idle_cost(seconds):
    time.sleep(SETTLES)
    cpu, start = cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return {"cpu": (cpu_seconds() - cpu) / (time.perf_counter() - start)}


def leave(told):
    told.close()
    told.join_thread()
    os._exit(0)


def serve_on(core, pipe):
    """The store of a run, whose work is the run's."""
    os.sched_setaffinity(0, {core})
    serve(pipe)


def begun(body, core, options, **more):
    """A run; what it gives waits for what its processes tell."""
    pipe, theirs = fork.Pipe(duplex=False)
    host = fork.Process(target=serve_on, args=(core, theirs), daemon=True)
    host.start()
    told, port = fork.Queue(), pipe.recv()
    processes = [
        fork.Process(
            target=body, args=(core, port, rank, options, told), kwargs=more
        )
        for rank in range(PROCESSES)
    ]
    for process in processes:
        process.start()

    def ended():
        found = [told.get(timeout=options.limit) for _ in processes]
        for process in processes:
            process.join()
        host.kill()
        host.join()
        return found

    return ended


def pair_of(options, swapped, **more):
    """A run without a job and one with it, each on a core."""
    first, second = CORES[:2]
    if swapped:
        first, second = second, first
    both = begun(plain, first, options), begun(armed, second, options, **more)
    return [one() for one in both]


def compare(options, **more):
    """Of each two pairs, how much more than without a job."""
    pairs = [
        pair_of(options, number % 2 == 1, **more)
        for number in range(options.pairs)
    ]
    found = {}
    for what in ("cpu", "seconds"):
        shares = [
            per_step(with_job, what) / per_step(without, what)
            for without, with_job in pairs
        ]
        both = sorted(
            math.sqrt(one * other) - 1
            for one, other in zip(shares[::2], shares[1::2])
        )
        found[what] = {
            "median": round(statistics.median(both), 5),
            "of two pairs": [round(one, 5) for one in both],
        }
    step = statistics.median(per_step(one, "cpu") for one, _ in pairs)
    return {**found, "cpu of a step": round(step, 5)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument(
        "--limit", type=float, default=3600.0, help="seconds of a run at most"
    )
    add_size(parser)
    options = parser.parse_args()
    result = {}
    if options.pairs:
        result["more with a job"] = compare(options)
        result["more with snapshots"] = compare(options, snapshots=EVERY)
    if options.idle:
        result["cpu of an idle process"] = max(
            round(one["cpu"], 6)
            for one in begun(armed, CORES[0], options, idle=options.idle)()
        )
    print(json.dumps(result | {"load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
