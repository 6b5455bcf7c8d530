"""What an armed `dynatrain.Job` costs while nothing happens to it.

python bench/armed_job.py [--pairs 5] [--steps 100] [--idle 20]

The trainer of job_recovery.py, four processes with ZeRO-1 over Gloo, runs
without a job (its groups are plain ones), with a job, and with one that makes
a snapshot every ten steps. By CPU: seconds of all of a process's threads per
step. By whole jobs: seconds of the run per step. Both of a pair run at the
same time, so that what else the machine does disturbs both alike; what is left
differs from pair to pair as it does, so look at the median. Then a process
that only is a member of a job, and does nothing: CPU seconds per second, of
all of its threads but Gloo's, which looks for messages in every trainer.
"""

import argparse
import json
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
    TIMEOUT,
    Training,
    add_size,
    dynatrain,
    fork,
    per_step,
    serve,
    torch,
)
from torch import distributed as dist  # noqa: E402

#: Seconds until what a world begins with is over.
SETTLES = 3.0


def prepared():
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)


def steps_of(training, count, boundary):
    began, worked = time.monotonic(), time.process_time()
    for number in range(count):
        training.step(number + 1)
        boundary()
    return {
        "seconds": (time.monotonic() - began) / count,
        "cpu": (time.process_time() - worked) / count,
    }


def plain(port, rank, options, told):
    """A trainer as it is without a job."""
    prepared()
    store = dist.TCPStore(
        "127.0.0.1", port, None, False, timedelta(seconds=TIMEOUT), False
    )
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


def armed(port, rank, options, told, snapshots=0, idle=0.0):
    """The same under a job; idle: so many seconds of nothing instead."""
    prepared()

    def build(world):
        training = Training(world, options.width, options.layers, options.batch)
        return dynatrain.State(training=training)

    with dynatrain.Job(
        f"127.0.0.1:{port}",
        build,
        processes=PROCESSES,
        rank=rank,
        timeout=TIMEOUT,
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


def begun(body, options, **more):
    """A run; what it gives waits for what its processes tell."""
    pipe, theirs = fork.Pipe(duplex=False)
    host = fork.Process(target=serve, args=(theirs,), daemon=True)
    host.start()
    told, port = fork.Queue(), pipe.recv()
    processes = [
        fork.Process(target=body, args=(port, rank, options, told), kwargs=more)
        for rank in range(PROCESSES)
    ]
    for process in processes:
        process.start()

    def ended():
        found = [told.get(timeout=10 * TIMEOUT) for _ in processes]
        for process in processes:
            process.join()
        host.kill()
        host.join()
        return found

    return ended


def compare(options, **more):
    """Of each pair, how much more than without a job."""
    pairs = []
    for _ in range(options.pairs):
        both = begun(plain, options), begun(armed, options, **more)
        pairs.append([one() for one in both])
    found = {}
    for what in ("cpu", "seconds"):
        shares = sorted(
            per_step(with_job, what) / per_step(without, what) - 1
            for without, with_job in pairs
        )
        found[what] = {
            "median": round(statistics.median(shares), 5),
            "pairs": [round(one, 5) for one in shares],
        }
    step = statistics.median(per_step(one, "cpu") for one, _ in pairs)
    return {**found, "cpu of a step": round(step, 5)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--idle", type=float, default=20.0)
    add_size(parser)
    options = parser.parse_args()
    result = {}
    if options.pairs:
        result["more with a job"] = compare(options)
        result["more with snapshots"] = compare(options, snapshots=EVERY)
    if options.idle:
        result["cpu of an idle process"] = max(
            round(one["cpu"], 6)
            for one in begun(armed, options, idle=options.idle)()
        )
    print(json.dumps(result | {"load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
