"""Kills any one of four processes on two nodes, under ZeRO-1, and checks bit
for bit what the others go on with.

python bench/zero_losses.py [--kills 50] [--seed 0]

Each time four processes train with AdamW's moments cut into ranges, and take
snapshots every few steps. One of them is killed: before a step, in the middle
of its update, or after it. The other three go on, some steps further than the
step of the snapshot that they went back to. What they hold then is compared
with a run of three processes that is started from that step's state, which
comes from a run of four processes that loses nobody.
"""

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path

import job_recovery
from job_recovery import TIMEOUT, dynatrain, fork, torch

NODES = ["one", "one", "two", "two"]
WIDTH, LAYERS, BATCH = 24, 3, 8
#: A kill comes within so many steps, and so many follow the snapshot's.
STEPS, MORE = 12, 4
PLACES = ["before", "between", "after"]


class Training(job_recovery.Training):
    """Every process has samples of its own in every step."""

    def __init__(self, world, fate=None):
        super().__init__(world, WIDTH, LAYERS, BATCH)
        self.fate = fate

    def meet(self, number, place):
        if self.fate is not None and self.world.epoch == 1:
            self.fate(number, place)

    def step(self, number):
        world = self.world
        seed = (number * len(NODES) + world.rank) * len(NODES) + world.size
        draw = torch.Generator().manual_seed(seed)
        self.batch = torch.randn(BATCH, WIDTH, generator=draw)
        self.meet(number, "before")
        super().step(number)
        self.meet(number, "after")

    def _update(self, name, weight, gradient, number):
        super()._update(name, weight, gradient, number)
        if name == "0":
            self.meet(number, "between")

    def save(self, path):
        """What this process holds; whole tensors come of all of them."""
        torch.save((self.weights, self.moments), f"{path}-{self.world.rank}")

    def load(self, weights, moments):
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
            first, end = self.range(weight)
            for own, full in zip(self.moments[name], moments[name]):
                own.copy_(full[first:end])


def whole(path, size):
    """The full tensors of a state that `size` processes have saved."""
    parts = [torch.load(f"{path}-{rank}") for rank in range(size)]
    weights, _ = parts[0]
    for other, _ in parts[1:]:
        for name, weight in weights.items():
            assert torch.equal(weight, other[name]), name
    moments = {
        name: [
            torch.cat([part[1][name][number] for part in parts])
            for number in (0, 1)
        ]
        for name in weights
    }
    return weights, moments


def are_equal(one, other):
    return all(
        torch.equal(one[0][name], other[0][name])
        and all(map(torch.equal, one[1][name], other[1][name]))
        for name in one[0]
    )


# One process -----------------------------------------------------------------


def joined(port, rank, size, build, **options):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    return dynatrain.Job(
        f"127.0.0.1:{port}",
        build,
        processes=size,
        rank=rank,
        timeout=TIMEOUT,
        **options,
    )


def undisturbed(port, rank, size, start, steps, path):
    """From a whole state, or from the beginning: saves every step's."""

    def build(world):
        training = Training(world)
        if start is not None:
            training.load(*start[1])
        return dynatrain.State(training=training, step=start[0] if start else 0)

    with joined(port, rank, size, build) as job:
        while True:
            job.state.training.save(f"{path}-{job.state.step}")
            if job.state.step == steps:
                break
            job.state.training.step(job.state.step + 1)
            job.state.step += 1
            job.boundary(job.state.step)
    os._exit(0)


def bereaved(port, rank, size, every, fate, path, told):
    """Until some steps after the recovery: saves what it holds then."""

    def meet(number, place):
        if fate == (number, place):
            told.put(("killed", time.monotonic()))
            told.close()
            told.join_thread()
            os.kill(os.getpid(), signal.SIGKILL)

    def build(world):
        return dynatrain.State(training=Training(world, meet), step=0)

    end = None
    with joined(
        port, rank, size, build, snapshots=every, node=NODES[rank]
    ) as job:
        while end is None or job.state.step < end:
            try:
                job.state.training.step(job.state.step + 1)
            except RuntimeError as error:
                job.recover(error)
                told.put(("recovered", time.monotonic(), job.state.step))
                end = job.state.step + MORE
                continue
            job.state.step += 1
            job.boundary(job.state.step)
            if job.world.epoch == 2 and end is None:
                # It stood between two steps.
                told.put(("recovered", time.monotonic(), job.state.step))
                end = job.state.step + MORE
        job.state.training.save(path)
    told.close()
    told.join_thread()
    os._exit(0)


# Runs ------------------------------------------------------------------------


def run(size, body, *arguments):
    """Processes of one job, with a store of their own."""
    pipe, theirs = fork.Pipe(duplex=False)
    host = fork.Process(target=job_recovery.serve, args=(theirs,), daemon=True)
    host.start()
    port = pipe.recv()
    processes = []
    for rank in range(size):
        own = [one(rank) if callable(one) else one for one in arguments]
        process = fork.Process(target=body, args=(port, rank, size, *own))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()
    host.kill()
    host.join()
    return [process.exitcode for process in processes]


def restarted(folder, step, known):
    """What three processes hold that begin with `step` of the run of four."""
    if step not in known:
        start = step, whole(folder / f"four-{step}", 4)
        path = folder / f"three-{step}"
        codes = run(3, undisturbed, start, step + MORE, path)
        assert codes == [0] * 3, codes
        known[step] = whole(f"{path}-{step + MORE}", 3)
    return known[step]


def kill_one(draw, folder, known):
    """(whether all is right, seconds to recover, what was done)."""
    victim, every = draw.randrange(4), draw.randint(1, 4)
    fate = draw.randint(1, STEPS), draw.choice(PLACES)
    told, path = fork.Queue(), folder / "bereaved"
    for old in folder.glob("bereaved-*"):
        old.unlink()
    codes = run(
        4,
        bereaved,
        every,
        lambda rank: fate if rank == victim else None,
        path,
        lambda _: told,
    )
    words = [told.get(timeout=TIMEOUT) for _ in range(4)]
    (killed,) = [one[1] for one in words if one[0] == "killed"]
    recovered = [one for one in words if one[0] == "recovered"]
    steps = {step for *_, step in recovered}
    (step,) = steps
    right = (
        codes[victim] == -signal.SIGKILL
        and sorted(codes)[1:] == [0] * 3
        and step % every == 0
        and fate[0] - 2 * every <= step <= fate[0]
        and are_equal(whole(path, 3), restarted(folder, step, known))
    )
    done = {"victim": victim, "fate": fate, "every": every, "back to": step}
    return right, max(at for _, at, _ in recovered) - killed, done


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draw, known, seconds, wrong = random.Random(args.seed), {}, [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codes = run(4, undisturbed, None, STEPS, folder / "four")
        assert codes == [0] * 4, codes
        for _ in range(args.kills):
            right, took, done = kill_one(draw, folder, known)
            seconds.append(took)
            if not right:
                wrong.append(done)
    result = {
        "kills": args.kills,
        "right": args.kills - len(wrong),
        "wrong": wrong,
        "seconds to recover, median": statistics.median(seconds),
        "seconds to recover, most": max(seconds),
    }
    print(json.dumps(result, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
