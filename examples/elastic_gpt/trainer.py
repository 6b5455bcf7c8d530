"""Data and tensor parallelism with ZeRO-1 by hand, for any number of processes.

`build` makes all of a world; that and the loop in train.py are what an elastic
job asks of a trainer.
"""

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


class Training(dynatrain.Part):
    """Model and AdamW of one process. Of each parameter the replicas keep the
    optimizer's state in ranges, one each (ZeRO-1), or all of it."""

    def __init__(self, world):
        self.world = world
        parts = world.layout["tp"]
        self.replicas, uneven = divmod(world.size, parts)
        if uneven:
            raise ValueError(f"{world.size} processes, expected {parts} x n")
        self.replica, part = divmod(world.rank, parts)
        self.group = world.new_group(range(part, world.size, parts))
        first = self.replica * parts
        across = world.new_group(range(first, first + parts))
        cut = Cut(part, parts, across if parts > 1 else None)
        self.model = world.make(lambda: Gpt(cut))
        if world.founded:
            self.model.first_values()
        self.moments = {
            name: [self._moment(*self.range(w)) for _ in BETAS]
            for name, w in self.model.weights.items()
        }
        self.data = data()

    def range(self, weight, replica=None):
        """The elements of a parameter whose state a replica keeps."""
        count = weight.numel()
        if not self.world.layout["zero"]:
            return 0, count
        at = self.replica if replica is None else replica
        return count * at // self.replicas, count * (at + 1) // self.replicas

    def _moment(self, first, end):
        if self.world.founded:
            return torch.zeros(end - first, dtype=torch.float64)
        return dynatrain.hollow(
            torch.empty(end - first, dtype=torch.float64, device="meta")
        )

    def tensors(self):
        """What an elastic job moves, and which part of which tensor it is."""
        found = {}
        for name, weight in self.model.weights.items():
            shape, offset, size = self.model.regions[name]
            where = shape, offset, size
            found[name, "param"] = dynatrain.capture.Piece(weight, *where)
            for state, moment in zip(
                ("exp_avg", "exp_avg_sq"), self.moments[name]
            ):
                found[name, state] = dynatrain.capture.Piece(
                    moment, *where, self.range(weight)
                )
        return found

    def step(self, samples, number):
        """Takes the `number`th step, from 1; the loss of the global batch."""
        self.model.zero_grad()
        total = torch.zeros((), dtype=torch.float64)
        for micro in samples.next(self.replica, self.replicas):
            loss = self.model(self.data[micro.samples]) * micro.factor
            loss.backward()
            total += loss.detach()
        dist.all_reduce(total, group=self.group)
        gradients = [w.grad for w in self.model.weights.values()]
        flat = torch.cat([one.flatten() for one in gradients])
        dist.all_reduce(flat, group=self.group)
        flat /= self.replicas
        sizes = [one.numel() for one in gradients]
        with torch.no_grad():
            for (name, weight), gradient in zip(
                self.model.weights.items(), flat.split(sizes)
            ):
                self._adamw(weight, gradient, self.moments[name], number)
            if self.world.layout["zero"]:
                self._share()
        return total.item() / self.replicas

    def _adamw(self, weight, gradient, moments, number):
        first, end = self.range(weight)
        own, gradient = weight.view(-1)[first:end], gradient[first:end]
        mean, square = moments
        mean.lerp_(gradient, 1 - BETAS[0])
        square.lerp_(gradient * gradient, 1 - BETAS[1])
        mean_scale, square_scale = (1 - beta**number for beta in BETAS)
        own.mul_(1 - RATE * DECAY)
        spread = (square / square_scale).sqrt_().add_(EPSILON)
        own.sub_(RATE / mean_scale * mean / spread)

    def _share(self):
        """Every replica has stepped its ranges: all get all of them."""
        for replica in range(self.replicas):
            ranges = [
                weight.view(-1)[slice(*self.range(weight, replica))]
                for weight in self.model.weights.values()
            ]
            flat = torch.cat(ranges)
            dist.broadcast(flat, group=self.group, group_src=replica)
            for own, came in zip(
                ranges, flat.split([r.numel() for r in ranges])
            ):
                own.copy_(came)


def build(world):
    """All that a process holds in a world of the job."""
    return dynatrain.State(
        training=Training(world),
        samples=dynatrain.Samples(LENGTH, BATCH, MICRO, seed=1),
        step=0,
    )
