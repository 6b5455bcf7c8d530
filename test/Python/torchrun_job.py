"""A trainer for torchrun with the loop of docs/ElasticJobs.md: a State, a
function, a folder of plans, and nothing else.

    torchrun --standalone --nproc-per-node=3 torchrun_job.py OUT PLANS [STEP]

In the first world the layout is changed, in the second one the last process
leaves, the third one is the last. What a process has seen goes to OUT, under
the rank that torchrun gave it. STEP: how many steps are over at first, as after
a checkpoint.
"""

import json
import os
import sys
from pathlib import Path

import dynatrain
import torch
import torch.distributed as dist

ROWS, COLUMNS = 12, 5
#: Steps of a world before something is asked for, and of the last one.
FEW = 4
LAST_WORLD = 3


def full(step):
    """The whole tensor after so many steps."""
    numbers = torch.arange(ROWS * COLUMNS, dtype=torch.float32)
    return numbers.view(ROWS, COLUMNS) + 1000 * step


class Shard(dynatrain.Part):
    """A process's part of it: of rows, or of columns."""

    def __init__(self, rank, size, layout=None, filled=False):
        cut = 1 if layout == "columns" else 0
        self.offset, self.size = [0, 0], [ROWS, COLUMNS]
        first, end = (at * self.size[cut] // size for at in (rank, rank + 1))
        self.offset[cut], self.size[cut] = first, end - first
        own = self.part_of(full(0)).clone()
        self.own = own if filled else dynatrain.hollow(own.to("meta"))

    def part_of(self, whole):
        for dim in (0, 1):
            whole = whole.narrow(dim, self.offset[dim], self.size[dim])
        return whole

    def tensors(self):
        where = (ROWS, COLUMNS), tuple(self.offset), tuple(self.size)
        return {("w", "param"): dynatrain.capture.Piece(self.own, *where)}


def build(world):
    return dynatrain.State(shard=Shard(world.rank, world.size, world.layout))


class Trainer:
    """Checks each step, and asks for the worlds."""

    def __init__(self, state, begin):
        self.state, self.begin = state, begin
        self.seen, self.in_world = [], 0
        self.steps = begin + FEW

    def train_step(self, job):
        world, shard = job.world, job.state.shard
        assert torch.equal(
            shard.own, shard.part_of(full(job.step - self.begin))
        )
        assert (job.state is self.state) == world.founded
        dist.all_reduce(torch.ones(1), group=world.group)
        shard.own += 1000
        is_new = not self.seen or self.seen[-1][1] != world.epoch
        self.in_world = 1 if is_new else self.in_world + 1
        self.seen.append([job.step, world.epoch, world.rank, world.size])
        if self.in_world == FEW:
            self.ask(job)
        if world.epoch < LAST_WORLD:
            # A switch comes when all are ready for it.
            self.steps = job.step + 1 + FEW

    def ask(self, job):
        if job.world.epoch == 1:
            job.request(layout="columns")
        if job.world.epoch == 2:
            job.request(leave=[2])


def main():
    out, plans = sys.argv[1:3]
    begin = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    state = dynatrain.State(shard=Shard(rank, size, filled=True))
    trainer = Trainer(state, begin)
    more = {"step": begin} if begin else {}
    with dynatrain.Job(state, build=build, plans=plans, **more) as job:
        while job.step < trainer.steps:
            trainer.train_step(job)
            job.boundary()
        left = job.world is None
    told = {"seen": trainer.seen, "left": left}
    Path(out, f"{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
