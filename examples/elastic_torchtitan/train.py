"""One process of an elastic job: torchtitan's own trainer with FSDP2 and tensor
parallelism, while processes come and go.

python examples/elastic_torchtitan/train.py HOST:PORT --processes 4 --layout
    '{"data_parallel_shard_degree": 4}' --steps 100

Start it as many times as --processes says, and more later: those join while the
others train. launch.py does so, 4 -> 6 -> 3 -> 4 processes.
"""

import math
import os
import sys
import warnings

from framework import Trainer, configured, start  # isort: skip

import dynatrain.torchtitan
import torch
import torch.distributed as dist
from record import Recorder
from scripted import Script, options_of

#: 4, 3, 2 and 1 parts of data parallelism have equal parts of the batch.
BATCH, LOCAL = 12, 1


class Telling(Trainer):
    """Sums up the losses of a step; the trainer itself writes them to its log
    only."""

    own_loss = 0.0

    def forward_backward_step(self, **more):
        loss = super().forward_backward_step(**more)
        # Every process of a tensor group has the same loss.
        self.own_loss += loss.detach().item() / self.parallel_dims.tp
        return loss

    def train_step(self, batches):
        self.own_loss = 0.0
        return super().train_step(batches)


def fitting(layout, size):
    """What the processes that are left can have of what was asked for."""
    if math.prod(layout.values()) == size:
        return layout
    return {"data_parallel_shard_degree": size}


def tell(job, step):
    """The loss of a step, of all processes together."""
    own = job.state.progress.trainer.own_loss
    told = torch.tensor(own, dtype=torch.float64)
    dist.all_reduce(told)
    world = job.world
    print(
        f"step {step} epoch {world.epoch} rank {world.rank} of {world.size} "
        f"loss {told.item()!r}",
        flush=True,
    )


def elastic_of(steps):
    def make(world):
        config = configured(world.layout, steps, BATCH, LOCAL)
        trainer = Telling(config)
        if world.founded:
            start(trainer)
        return trainer

    return dynatrain.torchtitan.Elastic(make)


def main():
    args = options_of(__doc__).parse_args()
    elastic = elastic_of(args.steps)
    job = dynatrain.Job(
        args.store,
        elastic.build,
        layout=args.layout,
        layout_for=fitting,
        processes=args.processes,
        launch=args.launch,
        timeout=args.timeout,
        snapshots=args.snapshots,
        trace=args.trace,
        backend="nccl" if torch.cuda.is_available() else "gloo",
        default_group=True,
    )
    recorder, script = Recorder(args.record), Script(args.script)

    def boundary(job, step):
        tell(job, step)
        if script.follow(job, step):
            return False
        return recorder.boundary(job, step)

    with job:
        recorder.joined(job)
        elastic.train(job, boundary)


if __name__ == "__main__":
    warnings.simplefilter("default", dynatrain.JobWarning)
    main()
    # Gloo's threads may still ask for Python, which would end before them.
    sys.stdout.flush()
    os._exit(0)
