"""A pipeline whose middle layers grow three times as heavy while it trains, and
which moves layers between its stages without stopping, over Gloo.

torchrun --nproc-per-node=4 examples/rebalance_pipeline.py

Each process has one stage: whole layers with their AdamW state. What layers
take is measured while they run, in floating-point operations, so that every run
is alike; give `dynatrain.Profile` no clock and it takes seconds. Every few
steps the ranks put their profiles together and ask dt-advise whether moving
layers pays; if so, one compiles the change, all prepare it while training goes
on, and switch between two steps. Then every tensor is compared with what an
independent gather had before, and the losses with those of a pipeline that was
left alone.
"""

import argparse
import tempfile

import dynatrain
import torch
import torch.distributed as dist
from dynatrain import advise, capture
from torch.utils.flop_counter import FlopCounterMode

LAYERS, WIDTH, MICRO_BATCHES, SAMPLES = 16, 32, 4, 8
MIDDLE = range(4, 12)


class Layer(torch.nn.Module):
    """A residual block that runs `depth` times over its input."""

    def __init__(self, number):
        super().__init__()
        generator = torch.Generator().manual_seed(number)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.05, generator=generator)
        self.depth = 1

    def forward(self, x):
        for _ in range(self.depth):
            x = x + self.down(torch.relu(self.up(x)))
        return x


class Stage:
    """Layers [first, last) of the model, and their optimizer."""

    def __init__(self, first, last):
        self.layers = {i: Layer(i) for i in range(first, last)}
        self.optimizer = torch.optim.AdamW(self.named().values(), lr=1e-3)

    def named(self):
        """Parameters by their names in the full model."""
        return {
            f"layers.{i}.{name}": parameter
            for i, layer in self.layers.items()
            for name, parameter in layer.named_parameters()
        }

    def state(self):
        return dynatrain.training_state(self.named(), self.optimizer)


def batch_of(step, micro):
    generator = torch.Generator().manual_seed(1000 * step + micro)
    return torch.randn(2, SAMPLES, WIDTH, generator=generator)


def forward(stage, step, micro):
    """What the stage takes in and gives out, of one micro-batch."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    x, target = batch_of(step, micro)
    if rank > 0:
        dist.recv(x, rank - 1)
    taken = x.requires_grad_()
    for layer in stage.layers.values():
        x = layer(x)
    if rank < last:
        dist.send(x.detach(), rank + 1)
        return taken, x
    return taken, (x - target).square().mean() / MICRO_BATCHES


def backward(taken, given):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    gradient = None
    if rank < last:
        gradient = torch.empty_like(given)
        dist.recv(gradient, rank + 1)
    given.backward(gradient)
    if rank > 0:
        dist.send(taken.grad, rank - 1)


def train_step(stage, step, heavy_from):
    """All micro-batches forward, all backward, a step; the loss, everywhere."""
    for number, layer in stage.layers.items():
        layer.depth = 3 if number in MIDDLE and step >= heavy_from else 1
    stage.optimizer.zero_grad()
    runs = [forward(stage, step, micro) for micro in range(MICRO_BATCHES)]
    for taken, given in runs:
        backward(taken, given)
    stage.optimizer.step()
    is_last = dist.get_rank() == dist.get_world_size() - 1
    loss = sum(given.detach() for _, given in runs) if is_last else 0
    loss = torch.as_tensor(loss, dtype=torch.float32).reshape(1)
    dist.broadcast(loss, dist.get_world_size() - 1)
    return loss.item()


def gathered(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def agreed(value):
    """Rank 0's value."""
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def bounds(layers, rank):
    return sum(layers[:rank]), sum(layers[: rank + 1])


class Pipeline:
    """One rank of the job: its stage, its profile, and a change under way."""

    def __init__(self, layers, folder):
        self.layers = layers  # of each stage
        self.folder = folder
        self.stage = Stage(*bounds(layers, dist.get_rank()))
        self.counter = FlopCounterMode(display=False)
        self.profile = dynatrain.Profile(clock=self.counter.get_total_flops)
        self.profile.attach(self.stage.layers)
        self.next = self.switch = None
        self.changes = []  # (step, layers before, layers after)

    def train(self, step, heavy_from):
        with self.counter:
            loss = train_step(self.stage, step, heavy_from)
            self.profile.end_step()
        return loss

    def stage_work(self):
        """Measured work of each stage in a micro-batch, and of each layer."""
        exports = gathered(self.profile.export())
        layers = dynatrain.merge_profiles(exports)["layer_seconds"]
        return [sum(s for _, s in one["seconds"]) for one in exports], layers

    def consider(self, horizon):
        """Asks dt-advise, and begins to prepare what pays."""
        _, work = self.stage_work()
        state = sum(t.nbytes for t in self.stage.state().values())
        proposal = None
        if dist.get_rank() == 0:
            # A unit of work is called a nanosecond.
            proposal = advise.rebalance(
                [1e-9 * operations for operations in work],
                self.layers,
                state_bytes=state // len(self.stage.layers),
                micro_batches=MICRO_BATCHES,
                horizon_steps=horizon,
                GBps=1,
            )
        proposal = agreed(proposal)
        if not proposal["pays"]:
            return
        self.next = proposal["pp_layers"]
        self.prepare()

    def prepare(self):
        """The new stage, empty, and the plan that fills it."""
        rank, world = dist.get_rank(), dist.get_world_size()
        self.new = Stage(*bounds(self.next, rank))
        self.old_state = self.stage.state()
        self.fresh = dynatrain.fresh_state(self.new.named(), self.new.optimizer)
        seen = gathered(
            [
                capture.from_dtensors(side, world, ranks=[rank])
                for side in (self.old_state, self.fresh.tensors)
            ]
        )
        path = f"{self.folder}/{len(self.changes)}.dtplan"
        if rank == 0:
            before, after = (capture.merge(side) for side in zip(*seen))
            dynatrain.compile(capture.request(before, after), path)
        dist.barrier()
        self.switch = dynatrain.Plan.load(path).prepare(
            dynatrain.World(timeout=60), self.old_state, self.fresh.tensors
        )

    def is_ready(self):
        """Whether all ranks may stop now."""
        return self.switch is not None and all(gathered(self.switch.ready()))

    def change(self, step):
        """Moves the layers; the stage is the new one when it returns."""
        counters = gathered(
            dynatrain.counters(self.stage.named(), self.stage.optimizer)
        )
        whole = gathered(self.old_state)
        self.switch.transfer()
        self.switch.commit()
        self.fresh.install(
            {name: numbers for own in counters for name, numbers in own.items()}
        )
        self.changes.append((step, self.layers, self.next))
        self.profile.detach()
        self.stage, self.layers = self.new, self.next
        self.profile.attach(self.stage.layers)
        self.next = self.switch = self.new = self.old_state = self.fresh = None
        check(self.stage, whole)


def check(stage, whole):
    """The whole state is where it belongs, bit for bit, and layers in order."""
    before = {key: t for own in whole for key, t in own.items()}
    state = stage.state()
    for key, tensor in state.items():
        same = torch.equal(
            tensor.detach().view(torch.int32),
            before[key].detach().view(torch.int32),
        )
        assert same, f"{key} differs"
    held = gathered((list(stage.layers), list(state)))
    assert [i for layers, _ in held for i in layers] == list(range(LAYERS))
    assert sorted(key for _, keys in held for key in keys) == sorted(before)


def run(options, folder, rebalances):
    world = dist.get_world_size()
    even = [LAYERS * (r + 1) // world - LAYERS * r // world
            for r in range(world)]  # fmt: skip
    pipeline = Pipeline(even, folder)
    losses = []
    for step in range(options.steps):
        may_ask = rebalances and step > 0 and step % options.every == 0
        if pipeline.is_ready():
            pipeline.change(step)
        elif may_ask and not pipeline.switch:
            pipeline.consider(options.horizon)
        losses.append(pipeline.train(step, options.heavy_from))
    return pipeline, losses


def best_of_all(work, stages):
    """The slowest stage of the best partition, by trying all."""
    if stages == 1:
        return sum(work)
    return min(
        max(sum(work[:cut]), best_of_all(work[cut:], stages - 1))
        for cut in range(len(work) + 1)
    )


def demonstrate(options, folder):
    """Both runs, compared; what to tell, on every rank."""
    pipeline, losses = run(options, folder, rebalances=True)
    alone, wanted = run(options, folder, rebalances=False)
    stages, layers = pipeline.stage_work()
    before, _ = alone.stage_work()
    best = best_of_all(layers, dist.get_world_size())
    assert pipeline.changes, "nothing was rebalanced"
    assert losses == wanted, "the losses differ from those left alone"
    assert max(stages) <= 1.1 * best, (stages, best)
    return [
        *(
            f"step {step}: layers {old} -> {new}"
            for step, old, new in pipeline.changes
        ),
        f"slowest stage: {max(before) / best:.3f} of the optimum when left "
        f"alone, {max(stages) / best:.3f} rebalanced",
        f"losses {losses[0]:.4f} -> {losses[-1]:.4f}, the same bits as left "
        "alone; every tensor is as it was gathered",
    ]


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--heavy-from", type=int, default=6)
    parser.add_argument("--every", type=int, default=3, help="steps")
    parser.add_argument("--horizon", type=int, default=100, help="steps")
    return parser.parse_args(arguments)


def main():
    options = parse_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        lines = demonstrate(options, agreed(folder))
        if dist.get_rank() == 0:
            print("\n".join(lines))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
