"""What snapshots cost an elastic job, and how long it takes to survive a loss.

python bench/job_recovery.py [--pairs 5] [--losses 10] [--steps 100]

Four processes train a model of dense layers with ZeRO-1 over Gloo: each holds
the weights, and a fourth of AdamW's state, which nobody else holds. Cost: runs
with a snapshot every ten steps beside runs without, in turn, by their seconds
and CPU time per step; and the CPU time of snapshots alone, which other work on
the machine disturbs less. Losses: a process is killed at a random step; from
there to the moment when the others can take their next step. The same losses
survived in other ways: other_recoveries.py.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/python"))

import dynatrain  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from dynatrain.hollow import warm_up  # noqa: E402

# Processes that are forked off share what is imported already.
warm_up()

PROCESSES, EVERY = 4, 10
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.95), 1e-8
#: Seconds of any wait; a killed process is noticed much sooner.
TIMEOUT = 60.0

fork = multiprocessing.get_context("fork")


class Training(dynatrain.Part):
    """Layers, and this process's range of each one's moments."""

    def __init__(self, world, width, layers, batch):
        self.world = world
        self.batch = torch.ones(batch, width)
        self.weights, self.moments = {}, {}
        for layer in range(layers):
            weight = self._made(torch.eye, width)
            first, end = self.range(weight)
            self.weights[f"{layer}"] = weight
            self.moments[f"{layer}"] = [
                self._made(torch.zeros, end - first) for _ in BETAS
            ]

    def _made(self, factory, count):
        if self.world.founded:
            return factory(count)
        return dynatrain.hollow(factory(count, device="meta"))

    def range(self, weight):
        count, world = weight.numel(), self.world
        return (
            count * world.rank // world.size,
            count * (world.rank + 1) // world.size,
        )

    def tensors(self):
        found = {}
        for name, weight in self.weights.items():
            found[name, "param"] = weight
            where = tuple(weight.shape), (0, 0), tuple(weight.shape)
            for state, moment in zip(("m", "v"), self.moments[name]):
                found[name, state] = dynatrain.capture.Piece(
                    moment, *where, self.range(weight)
                )
        return found

    def step(self, number):
        held = [one.requires_grad_() for one in self.weights.values()]
        value = self.batch
        for weight in held:
            value = torch.tanh(value @ weight)
        gradients = torch.autograd.grad(value.square().mean(), held)
        for (name, weight), gradient in zip(self.weights.items(), gradients):
            weight.requires_grad_(False)
            self._update(name, weight, gradient, number)

    def _update(self, name, weight, gradient, number):
        world = self.world
        dist.all_reduce(gradient, group=world.group)
        first, end = self.range(weight)
        own = gradient.flatten()[first:end] / world.size
        for moment, beta, value in zip(
            self.moments[name], BETAS, (own, own.square())
        ):
            moment.lerp_(value, 1 - beta)
        mean, square = self.moments[name]
        scale = RATE / (1 - BETAS[0] ** number)
        ranges = [
            torch.empty(
                weight.numel() * (rank + 1) // world.size
                - weight.numel() * rank // world.size
            )
            for rank in range(world.size)
        ]
        ranges[world.rank] = weight.flatten()[first:end] - scale * mean / (
            square.sqrt() + EPSILON
        )
        for rank, part in enumerate(ranges):
            dist.broadcast(part, group_src=rank, group=world.group)
        weight.copy_(torch.cat(ranges).view_as(weight))


def member(port, snapshots, steps, fate, size, told, works=True):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)

    def build(world):
        return dynatrain.State(training=Training(world, *size), step=0)

    job = dynatrain.Job(
        f"127.0.0.1:{port}",
        build,
        processes=PROCESSES,
        timeout=TIMEOUT,
        snapshots=snapshots,
    )
    with job:
        began, worked = time.monotonic(), time.process_time()
        while job.state.step < steps:
            try:
                if fate == job.state.step and job.world.epoch == 1:
                    told.put({"killed": time.monotonic()})
                    told.close()
                    told.join_thread()
                    os.kill(os.getpid(), signal.SIGKILL)
                if works:
                    job.state.training.step(job.state.step + 1)
            except RuntimeError as error:
                before = job.state.step
                job.recover(error)
                told.put(
                    {
                        "recovered": time.monotonic(),
                        "steps": before - job.state.step,
                    }
                )
                continue
            job.state.step += 1
            job.boundary(job.state.step)
        told.put(
            {
                "seconds": (time.monotonic() - began) / steps,
                "cpu": (time.process_time() - worked) / steps,
            }
        )
        told.close()
        told.join_thread()
    os._exit(0)


def serve(pipe):
    """A process of its own: one that forks must have no threads."""
    hosted = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    pipe.send(hosted.port)
    while True:
        time.sleep(TIMEOUT)


def run(snapshots, steps, size, fate=None, works=True):
    """What the processes of one job tell."""
    pipe, theirs = fork.Pipe(duplex=False)
    host = fork.Process(target=serve, args=(theirs,), daemon=True)
    host.start()
    told, port = fork.Queue(), pipe.recv()
    processes = []
    for number in range(PROCESSES):
        own = fate if number == 1 else None
        processes.append(
            fork.Process(
                target=member,
                args=(port, snapshots, steps, own, size, told, works),
            )
        )
        processes[-1].start()
    words = 2 * PROCESSES - 1 if fate is not None else PROCESSES
    found = [told.get(timeout=10 * TIMEOUT) for _ in range(words)]
    for process in processes:
        process.join()
    host.kill()
    host.join()
    return found


def per_step(found, what):
    return statistics.mean(one[what] for one in found if what in one)


def seconds_to_recover(found):
    killed = next(one["killed"] for one in found if "killed" in one)
    return max(one["recovered"] - killed for one in found if "recovered" in one)


def add_size(parser):
    """What other_recoveries.py takes too."""
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)


def cost_of_snapshots(steps, size, cpu):
    """CPU seconds of one, of a process: of steps that do nothing but begin one,
    less those of steps that do nothing. The share is of steps of `cpu`."""
    taken, none = (
        per_step(run(every, steps, size, works=False), "cpu")
        for every in (1, 0)
    )
    return {
        "cpu of a snapshot": taken - none,
        "share of the cpu of ten steps": (taken - none) / (EVERY * cpu),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--losses", type=int, default=10)
    add_size(parser)
    args = parser.parse_args()
    size = args.width, args.layers, args.batch
    weights = 4 * args.width**2 * args.layers
    held = weights * (1 + 2 / PROCESSES)
    result = {"held_mib": held / 2**20, "steps": args.steps}
    pairs = [
        (run(0, args.steps, size), run(EVERY, args.steps, size))
        for _ in range(args.pairs)
    ]
    print(f"{len(pairs)} pairs are done", file=sys.stderr, flush=True)
    for what in ("seconds", "cpu") if pairs else ():
        plain = [per_step(one, what) for one, _ in pairs]
        kept = [per_step(one, what) for _, one in pairs]
        result[f"{what} of a step"] = statistics.median(plain)
        result[f"{what}, more with snapshots"] = sorted(
            b / a - 1 for a, b in zip(plain, kept)
        )
    if pairs:
        cpu = result["cpu of a step"]
        result |= cost_of_snapshots(args.steps, size, cpu)
    draw = random.Random(args.seed)
    times = sorted(
        seconds_to_recover(
            run(EVERY, args.steps, size, draw.randrange(1, args.steps))
        )
        for _ in range(args.losses)
    )
    if times:
        result["seconds to recover"] = times
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
