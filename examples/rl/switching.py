"""Weights go from training to generation and back, as reinforcement learning
wants it.

    torchrun --nproc-per-node=4 examples/rl/switching.py [--disjoint]
        [--changed-only] [--steps N]

A policy is trained in single precision under FSDP2, and generates in bf16 under
tensor parallelism. From there it comes back as the policy before the step, in
bf16 under FSDP2, against which the next one is held. Both plans are compiled
once; each step prepares them anew and moves. With --disjoint two processes
train and the other two generate. With --changed-only the frozen layer moves in
the first step, and after that only what is trained.
"""

import argparse
import sys
from pathlib import Path

import dynatrain
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cpu  # noqa: E402

WIDTH, HIDDEN, LAYERS = 32, 96, 3


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "up": nn.Linear(WIDTH, HIDDEN, bias=False),
                    "down": nn.Linear(HIDDEN, WIDTH, bias=False),
                }
            )
            for _ in range(LAYERS)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["down"](torch.relu(layer["up"](x)))
        return x


def trainer_of(mesh):
    """Single precision, FSDP2; the first layer is frozen."""
    torch.manual_seed(0)
    model = Policy()
    model.layers[0].requires_grad_(False)
    fully_shard(model, mesh=mesh)
    trained = [p for p in model.parameters() if p.requires_grad]
    return model, torch.optim.AdamW(trained, lr=1e-2)


def generator_of(mesh):
    """bf16, tensor parallelism; no values yet."""
    model = Policy().to(torch.bfloat16)
    styles = {}
    for number in range(LAYERS):
        styles[f"layers.{number}.up"] = ColwiseParallel()
        styles[f"layers.{number}.down"] = RowwiseParallel()
    parallelize_module(model, mesh, styles)
    return model.requires_grad_(False)


def weights(model, layers):
    """What is to move; nothing where there is no model."""
    return {
        (name, "param"): tensor.detach()
        for name, tensor in (model.named_parameters() if model else ())
        if int(name.split(".")[1]) in layers
    }


def whole(model):
    """{name: full tensor}, by torch's own gather."""
    return {
        name: t.full_tensor() if isinstance(t, DTensor) else t
        for name, t in (model.named_parameters() if model else ())
    }


class Way:
    """From one model to another, again and again, over all layers or some."""

    def __init__(self, source, destination, world, layers):
        # glue begins
        self.sides = weights(source, layers), weights(destination, layers)
        self.world = world
        self.plan = dynatrain.plan_between(*self.sides, world)

    def go(self):
        """Moves the values of now; the bytes that this process received."""
        with self.plan.prepare(self.world, *self.sides) as switch:
            switch.transfer()
            switch.commit()
            return switch.stats["bytes_received"]
        # glue ends


def check(source, destination):
    """The destination has the source's values, in its own precision."""
    wanted, found = whole(source), whole(destination)
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, wanted)
    wanted = next(own for own in everyones if own)
    for name, tensor in found.items():
        assert torch.equal(tensor, wanted[name].to(tensor.dtype)), name


def train_step(model, optimizer, before):
    """Away from the policy before the step, and towards a goal."""
    x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))
    optimizer.zero_grad()
    loss = (model(x) - x.roll(1, -1)).square().mean()
    with torch.no_grad():
        old = before(x.to(torch.bfloat16)).float()
    # Without a backward pass FSDP2 keeps the weights that it has gathered.
    before.reshard()
    (loss + 0.01 * (model(x) - old).square().mean()).backward()
    optimizer.step()
    return loss.item()


def generate(model, number):
    """Every process of tensor parallelism has the same."""
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(4, WIDTH, generator=generator).to(torch.bfloat16)
    with torch.no_grad():
        return model(x).float().mean().item()


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--disjoint", action="store_true")
    parser.add_argument("--changed-only", action="store_true")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    trains, generates = [0, 1, 2, 3], [0, 1]
    if options.disjoint:
        trains, generates = [0, 1], [2, 3]
    here, there = DeviceMesh("cpu", trains), DeviceMesh("cpu", generates)
    policy = optimizer = before = actor = None
    if rank in trains:
        policy, optimizer = trainer_of(here)
        before = fully_shard(Policy().to(torch.bfloat16), mesh=here)
    if rank in generates:
        actor = generator_of(there)
    world, every = dynatrain.World(timeout=60), range(LAYERS)
    out, back = (
        {
            layers: Way(*ends, world, layers)
            for layers in {every, range(bool(options.changed_only), LAYERS)}
        }
        for ends in ((policy, actor), (actor, before))
    )
    losses = []
    for number in range(options.steps):
        layers = range(bool(options.changed_only and number), LAYERS)
        received = out[layers].go() + back[layers].go()
        check(policy, actor)
        check(actor, before)
        if actor:
            generate(actor, number)
        if policy:
            losses.append(train_step(policy, optimizer, before))
        told = torch.tensor(received)
        dist.all_reduce(told)
        if rank == 0:
            print(f"{told.item()} bytes, loss {losses[-1]:.4f}", flush=True)
    assert not losses or losses[-1] < losses[0]


if __name__ == "__main__":
    main()
    cpu.leave()
