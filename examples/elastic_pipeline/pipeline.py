"""A pipeline of residual blocks in plain PyTorch, with any number of layers on
each process: `world.layout` counts them.

`build` makes all of a world; that and the loop in train.py are what an elastic
job asks of a trainer.
"""

import dynatrain
import torch
import torch.distributed as dist
from torch import nn

LAYERS, WIDTH, MICRO_BATCHES, SAMPLES = 16, 32, 4, 8
MIDDLE = range(4, 12)


class Layer(nn.Module):
    """A residual block that runs `depth` times over its input."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.depth = 1

    def forward(self, x):
        for _ in range(self.depth):
            x = x + self.down(torch.relu(self.up(x)))
        return x


class Stage(nn.Module):
    """Layers [first, end), by their names in the full model."""

    def __init__(self, first, end):
        super().__init__()
        self.layers = nn.ModuleDict(
            {str(number): Layer() for number in range(first, end)}
        )

    def numbered(self):
        """Its layers by their numbers in the full model, in order."""
        return {int(name): layer for name, layer in self.layers.items()}

    def first_values(self):
        """The same model however it is cut."""
        for number, layer in self.numbered().items():
            seed = torch.Generator().manual_seed(number)
            for parameter in layer.parameters():
                nn.init.normal_(parameter, std=0.05, generator=seed)

    def grow(self, middle):
        """How heavy the layers in the middle are from now on."""
        for number, layer in self.numbered().items():
            layer.depth = middle if number in MIDDLE else 1

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return x


def build(world):
    """All that a process holds in a world of the job."""
    layers, rank = world.layout["layers"], world.rank
    if len(layers) != world.size or sum(layers) != LAYERS:
        raise ValueError(
            f"{world.size} processes have layers {layers}, expected "
            f"{LAYERS} in all"
        )
    first = sum(layers[:rank])
    stage = world.make(lambda: Stage(first, first + layers[rank]))
    if world.founded:
        stage.first_values()
    return dynatrain.State(
        model=stage,
        optimizer=torch.optim.AdamW(stage.parameters(), lr=1e-3),
        step=0,
    )


def _batch(step, micro):
    seed = torch.Generator().manual_seed(1000 * step + micro)
    return torch.randn(2, SAMPLES, WIDTH, generator=seed)


def _receive(tensor, world, rank):
    # dist.recv would look for the rank in the default group.
    dist.irecv(tensor, group=world.group, group_src=rank).wait()


def _forward(stage, world, step, micro):
    """What the stage takes in and gives out, of one micro-batch."""
    x, target = _batch(step, micro)
    if world.rank > 0:
        _receive(x, world, world.rank - 1)
    taken = x.requires_grad_()
    given = stage(taken)
    if world.rank < world.size - 1:
        dist.send(given.detach(), group=world.group, group_dst=world.rank + 1)
        return taken, given
    return taken, (given - target).square().mean() / MICRO_BATCHES


def _backward(world, taken, given):
    gradient = None
    if world.rank < world.size - 1:
        gradient = torch.empty_like(given)
        _receive(gradient, world, world.rank + 1)
    given.backward(gradient)
    if world.rank > 0:
        dist.send(taken.grad, group=world.group, group_dst=world.rank - 1)


def train_step(state, world):
    """All micro-batches forward, all backward, a step; the loss, everywhere."""
    state.optimizer.zero_grad()
    runs = [
        _forward(state.model, world, state.step, micro)
        for micro in range(MICRO_BATCHES)
    ]
    for taken, given in runs:
        _backward(world, taken, given)
    state.optimizer.step()
    last = world.size - 1
    loss = sum(given.detach() for _, given in runs) if world.rank == last else 0
    loss = torch.as_tensor(loss, dtype=torch.float32).reshape(1)
    dist.broadcast(loss, group=world.group, group_src=last)
    return loss.item()
