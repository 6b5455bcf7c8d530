"""Data and tensor parallelism with ZeRO-1 by hand, for any number of processes.

`build` makes all of a world; that and the loop in train.py are what an elastic
job asks of a trainer.
"""

from dataclasses import dataclass

import dynatrain
import torch
import torch.distributed as dist
from gpt import CONTEXT, VOCABULARY, Cut, Gpt

LENGTH, BATCH, MICRO = 240, 24, 2
RATE, BETAS, EPSILON, DECAY = 3e-3, (0.9, 0.95), 1e-8, 0.01


def data():
    """Sequences that a model can learn: each token follows from the last."""
    seed = torch.Generator().manual_seed(5)
    first = torch.randint(0, VOCABULARY, (LENGTH, 1), generator=seed)
    return (first * 5 ** torch.arange(CONTEXT + 1) + 3) % VOCABULARY


def grid(world, parts):
    """(replica, part) of this process, where replicas are cut into `parts`; the
    replicas of its part, and the parts of its replica."""
    if world.size % parts:
        raise ValueError(f"{world.size} processes, expected {parts} x n")
    replica, part = divmod(world.rank, parts)
    alike = Replicas(
        replica,
        world.size // parts,
        world.new_group(range(part, world.size, parts)),
    )
    first = replica * parts
    across = world.new_group(range(first, first + parts))
    return alike, Cut(part, parts, across if parts > 1 else None)


@dataclass
class Replicas:
    """All that hold the same parameters, and this process's place."""

    place: int
    count: int
    group: dist.ProcessGroup

    def range(self, elements, place=None):
        """Which of a parameter's elements a replica keeps the state of."""
        at = self.place if place is None else place
        return elements * at // self.count, elements * (at + 1) // self.count


class Training(dynatrain.Part):
    """Model and AdamW of one process. Of each parameter the replicas keep the
    optimizer's state in ranges, one each (ZeRO-1), or all of it."""

    def __init__(self, world):
        self.world = world
        self.model = self.make(world)
        if world.founded:
            self.model.first_values()
        self.moments = {
            name: [self._moment(*self.range(name)) for _ in BETAS]
            for name in self.model.weights
        }
        self.held = self._pieces()
        self.data = data()

    def make(self, world):
        """The model, and who takes samples: `replicas`."""
        self.replicas, cut = grid(world, world.layout["tp"])
        return world.make(lambda: Gpt(cut))

    def replicas_of(self, name):
        """Who holds the same of a parameter."""
        return self.replicas

    def range(self, name, place=None):
        """The elements of a parameter whose state a replica keeps."""
        count = self.model.weights[name].numel()
        if not self.world.layout["zero"]:
            return 0, count
        return self.replicas_of(name).range(count, place)

    def _moment(self, first, end):
        if self.world.founded:
            return torch.zeros(end - first, dtype=torch.float64)
        return dynatrain.hollow(
            torch.empty(end - first, dtype=torch.float64, device="meta")
        )

    def tensors(self):
        """What an elastic job moves, and which part of which tensor it is. Each
        snapshot asks for it."""
        return self.held

    def _pieces(self):
        found = {}
        for name, weight in self.model.weights.items():
            shape, offset, size = self.model.regions[name]
            where = shape, offset, size
            found[name, "param"] = dynatrain.capture.Piece(weight, *where)
            for state, moment in zip(
                ("exp_avg", "exp_avg_sq"), self.moments[name]
            ):
                found[name, state] = dynatrain.capture.Piece(
                    moment, *where, self.range(name)
                )
        return found

    def _by_replicas(self):
        """Names of parameters, by who holds the same of them."""
        found = {}
        for name in self.model.weights:
            replicas = self.replicas_of(name)
            found.setdefault(id(replicas), (replicas, []))[1].append(name)
        return list(found.values())

    def step(self, samples, number):
        """Takes the `number`th step, from 1; the loss of the global batch."""
        self.model.zero_grad()
        total = torch.zeros((), dtype=torch.float64)
        replicas = self.replicas
        for micro in samples.next(replicas.place, replicas.count):
            loss = self.model(self.data[micro.samples]) * micro.factor
            loss.backward()
            total += loss.detach()
        dist.all_reduce(total, group=replicas.group)
        with torch.no_grad():
            for alike, names in self._by_replicas():
                self._update(alike, names, number)
        return total.item() / replicas.count

    def _update(self, alike, names, number):
        """Of parameters that the same processes hold."""
        gradients = [self.model.weights[name].grad for name in names]
        flat = torch.cat([one.flatten() for one in gradients])
        dist.all_reduce(flat, group=alike.group)
        # Of the mean over all that take samples.
        flat /= self.replicas.count
        sizes = [one.numel() for one in gradients]
        for name, gradient in zip(names, flat.split(sizes)):
            self._adamw(name, gradient, number)
        if self.world.layout["zero"]:
            self._share(alike, names)

    def _adamw(self, name, gradient, number):
        first, end = self.range(name)
        own = self.model.weights[name].view(-1)[first:end]
        gradient = gradient[first:end]
        mean, square = self.moments[name]
        mean.lerp_(gradient, 1 - BETAS[0])
        square.lerp_(gradient * gradient, 1 - BETAS[1])
        mean_scale, square_scale = (1 - beta**number for beta in BETAS)
        own.mul_(1 - RATE * DECAY)
        spread = (square / square_scale).sqrt_().add_(EPSILON)
        own.sub_(RATE / mean_scale * mean / spread)

    def _share(self, alike, names):
        """Every replica has stepped its ranges: all get all of them."""
        for replica in range(alike.count):
            ranges = [
                self.model.weights[name].view(-1)[
                    slice(*self.range(name, replica))
                ]
                for name in names
            ]
            flat = torch.cat(ranges)
            dist.broadcast(flat, group=alike.group, group_src=replica)
            for own, came in zip(
                ranges, flat.split([r.numel() for r in ranges])
            ):
                own.copy_(came)


def build(world, training=Training):
    """All that a process holds in a world of the job."""
    return dynatrain.State(
        training=training(world),
        samples=dynatrain.Samples(LENGTH, BATCH, MICRO, seed=1),
        step=0,
    )
