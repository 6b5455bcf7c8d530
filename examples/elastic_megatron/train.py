"""One process of an elastic job: Megatron-Core's GPT under tensor, pipeline and
data parallelism with the distributed optimizer, while processes come and go.

python examples/elastic_megatron/train.py HOST:PORT --processes 4 --layout
    '{"tp": 2}' --steps 100

Start it as many times as --processes says, and more later: those join while the
others train. launch.py does so, 4 -> 6 -> 3 -> 4 processes.
"""

import os
import sys
import warnings
from pathlib import Path

from framework import (  # isort: skip
    BACKEND,
    Kind,
    Sizes,
    Trainer,
    independent,
    megatron,
)

import dynatrain
import torch
import torch.distributed as dist
from record import Recorder
from scripted import Script, options_of

#: In single precision, so that losses can be compared; 4, 6, 3, 2 and 1
#: replicas have equal parts of the batch.
KIND = Kind(half=False, batch=12)


def options():
    parser = options_of(__doc__)
    parser.add_argument("--weights", help="file of the first world's weights")
    return parser.parse_args()


class Training(megatron.Training):
    """What a switch moves, and the trainer that has it."""

    def __init__(self, trainer, globals, seed):
        super().__init__(
            trainer.chunks,
            trainer.optimizer,
            trainer.scheduler,
            globals=globals,
            seed=seed,
        )
        self.trainer = trainer


def builder(weights):
    def build(world):
        sizes, seed = Sizes(**world.layout), world.epoch
        if not world.founded:
            # The switch brings weights and generators, and enters the world.
            with megatron.Globals.of_thread() as own:
                trainer = Trainer(sizes, KIND, seed=None)
                training = Training(trainer, own, seed)
            return dynatrain.State(training=training, step=0)
        with megatron.Globals.aside() as own:
            trainer = Trainer(sizes, KIND, seed)
            if weights:
                begin_with(trainer, Path(weights))
            training = Training(trainer, own, seed)
        own.enter()
        return dynatrain.State(training=training, step=0)

    return build


def begin_with(trainer, file):
    """The weights of another run, or its own for others."""
    if file.exists():
        independent.load(trainer, torch.load(file, weights_only=True))
        return
    weights = independent.full_weights(trainer)
    if dist.get_rank() == 0:
        torch.save(weights, file)


def fitting(layout, size):
    """What the processes that are left can have of what was asked for."""
    parts = layout.get("tp", 1) * layout.get("pp", 1)
    return {} if size % parts else layout


def rows(state):
    """All that this process holds, as Megatron-Core itself says."""
    trainer = state.training.trainer
    return independent.rows_of(trainer, independent.place_of(trainer.sizes))


def main():
    args = options()
    job = dynatrain.Job(
        args.store,
        builder(args.weights),
        layout=args.layout,
        layout_for=fitting,
        processes=args.processes,
        launch=args.launch,
        timeout=args.timeout,
        snapshots=args.snapshots,
        trace=args.trace,
        backend=BACKEND,
        # Of which Megatron-Core makes its groups.
        default_group=True,
    )
    recorder, script = Recorder(args.record, rows), Script(args.script)
    with job:
        recorder.joined(job)
        while (state := job.state).step < args.steps:
            if script.follow(job, state.step):
                break
            trainer = state.training.trainer
            trainer.iteration = state.step
            try:
                loss = trainer.step()
            except RuntimeError as error:
                if not job.recover(error):
                    break
                continue
            state.step += 1
            world = job.world
            print(
                f"step {state.step} epoch {world.epoch} rank {world.rank} of "
                f"{world.size} loss {loss!r}",
                flush=True,
            )
            if not recorder.boundary(job, state.step):
                print(f"left after step {state.step}", flush=True)
                break


if __name__ == "__main__":
    warnings.simplefilter("default", dynatrain.JobWarning)
    main()
    # Gloo's threads may still ask for Python, which would end before them.
    sys.stdout.flush()
    os._exit(0)
