"""One process of an elastic pipeline: it measures what its layers take, and the
job moves them to other stages when dt-advise says that this pays.

python examples/elastic_pipeline/train.py HOST:PORT --layers 4,4,4,4

Start it as often as there are stages. launch.py does so, and checks all.
"""

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

import dynatrain
import torch
import torch.distributed as dist
from dynatrain import advise
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pipeline import MICRO_BATCHES, build, train_step  # noqa: E402
from record import Recorder  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", metavar="HOST:PORT")
    parser.add_argument(
        "--layers",
        type=lambda text: [int(part) for part in text.split(",")],
        required=True,
        help="of each stage, at first",
    )
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--heavy-from", type=int, default=6, metavar="STEP")
    parser.add_argument(
        "--every",
        type=int,
        default=3,
        metavar="STEPS",
        help="look whether another balance pays; 0: never",
    )
    parser.add_argument("--horizon", type=int, default=100, metavar="STEPS")
    parser.add_argument(
        "--after",
        type=int,
        default=6,
        metavar="STEPS",
        help="end when so many are taken in another world",
    )
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--record", help="folder for what each switch moved")
    return parser.parse_args()


class Balance:
    """What the layers of this stage take, and the request for other stages.

    The clock counts floating-point operations, a nanosecond each: what a stage
    takes must not depend on what else runs here. Processes of their own devices
    leave it out, and Profile takes seconds.
    """

    def __init__(self, horizon):
        self.counter = FlopCounterMode(display=False)
        self.profile = dynatrain.Profile(
            clock=lambda: 1e-9 * self.counter.get_total_flops()
        )
        self.horizon = horizon
        # The world whose layers are measured, and its first step.
        self.epoch = self.entered = None
        self.asked = None  # the world in which it did, and its last failure

    def step(self, state, world):
        """A step of the trainer, measured; not the first one in a world, which
        has costs of its own."""
        if self.epoch != world.epoch:
            self.profile.detach()
            self.epoch, self.entered = world.epoch, state.step
        elif state.step == self.entered + 1:
            self.profile.attach(state.model.numbered())
        with self.counter:
            loss = train_step(state, world)
            self.profile.end_step()
        return loss

    def everyones(self, world):
        """Seconds of each stage in a micro-batch, and of each layer; of those
        None before a step of this world has been measured."""
        exports = [None] * world.size
        dist.all_gather_object(
            exports, self.profile.export(), group=world.group
        )
        merged = dynatrain.merge_profiles(exports)
        stages = [sum(s for _, s in one["seconds"]) for one in exports]
        return stages, merged.get("layer_seconds")

    def look(self, job):
        """Asks the job for the layers that dt-advise proposes. All processes
        measure, the first one asks."""
        stages, layers = self.everyones(job.world)
        now = job.world.epoch, job.failure
        if layers is None or job.world.rank > 0 or self.asked == now:
            return
        nbytes = sum(tensor.nbytes for tensor in job.state.tensors.values())
        today = job.world.layout["layers"]
        proposal = advise.rebalance(
            layers,
            today,
            state_bytes=nbytes // today[0],
            micro_batches=MICRO_BATCHES,
            horizon_steps=self.horizon,
            GBps=1,
        )
        if proposal["pays"]:
            self.asked = now
            job.request(layout={"layers": proposal["pp_layers"]})
            tell("asked", job.state.step, today, stages, layers)


def tell(what, step, today, stages, layers):
    """A line for launch.py."""
    said = {
        "step": step,
        "layers": today,
        "stage_seconds": stages,
        "layer_seconds": layers,
    }
    print(what, json.dumps(said), flush=True)


def train(job, args):
    """Until all steps are taken, or `args.after` in another world."""
    recorder, first = Recorder(args.record), job.world.epoch
    balance = Balance(args.horizon)
    while job.state.step < args.steps:
        state, world = job.state, job.world
        state.model.grow(3 if state.step >= args.heavy_from else 1)
        loss = balance.step(state, world)
        state.step += 1
        if world.rank == 0:
            print(
                f"step {state.step} epoch {world.epoch} rank 0 of {world.size} "
                f"loss {loss!r}",
                flush=True,
            )
        if args.every and state.step % args.every == 0:
            balance.look(job)
        if world.epoch > first and state.step == balance.entered + args.after:
            break
        if not recorder.boundary(job, job.state.step):
            return
    measured = balance.everyones(job.world)
    if job.world.rank == 0:
        layers = job.world.layout["layers"]
        tell("measured", job.state.step, layers, *measured)


def main():
    args = options()
    torch.set_num_threads(1)
    with dynatrain.Job(
        args.store,
        build,
        layout={"layers": args.layers},
        processes=len(args.layers),
        timeout=args.timeout,
    ) as job:
        train(job, args)


if __name__ == "__main__":
    warnings.simplefilter("default", dynatrain.JobWarning)
    main()
    # Gloo's threads may still ask for Python, which would end before them.
    sys.stdout.flush()
    os._exit(0)
