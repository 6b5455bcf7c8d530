"""Replicas that are unequal, and then fewer, and a run that does not notice.

torchrun --nproc-per-node=4 examples/uneven_replicas.py

Each process is a data-parallel replica. dt-advise deals the micro-batches of a
step out so that the slowest replica ends first; the deal is data, and `Replica`
applies it: which micro-batches, how much its gradient counts, the learning rate
by samples, dropout by sample number. First all are alike, then one is three
times as slow, then that one is gone. Weights stay those of a single process
that takes every micro-batch in turn, to the last digits that sums in another
order change.
"""

import math

import torch
import torch.distributed as dist
from dynatrain import advise

SEED, WIDTH, GLOBAL, MICRO, LAYERS = 17, 16, 24, 2, 3
WARM_UP, DECAY = 48, 240  # samples


def learning_rate(samples):
    """By samples, so that no layout and no batch of a replica changes it."""
    warm = min(1.0, (samples + 1) / WARM_UP)
    return 0.05 * warm * (0.5 + 0.5 * math.cos(math.pi * samples / DECAY))


def sample_of(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(2, WIDTH, generator=generator, dtype=torch.float64)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(SEED)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
            for _ in range(LAYERS)
        )

    def forward(self, x, first_sample):
        for number, layer in enumerate(self.layers):
            stream = advise.random_stream(SEED, first_sample, number)
            generator = torch.Generator().manual_seed(stream % 2**63)
            x = torch.tanh(layer(x))
            kept = torch.rand(x.shape, generator=generator) < 0.9
            x = x * kept / 0.9
        return x


class Replica:
    """Trains its part of each step as a deal says."""

    def __init__(self, group=None):
        self.model = Model()
        self.sgd = torch.optim.SGD(self.model.parameters(), momentum=0.9)
        self.group = group  # None: alone
        self.consumed = 0  # samples of the run

    def step(self, deal, replica):
        count = deal["micro_batches"][replica]
        start = deal["first_micro_batch"][replica]
        self.sgd.zero_grad()
        for micro in range(start, start + count):
            first = self.consumed + micro * MICRO
            samples = [sample_of(first + i) for i in range(MICRO)]
            x, target = torch.stack(samples, 1)
            loss = (self.model(x, first) - target).square().mean()
            (loss / count).backward()
        for parameter in self.model.parameters():
            parameter.grad *= deal["gradient_weights"][replica]
            if self.group:
                dist.all_reduce(parameter.grad, group=self.group)
        for group in self.sgd.param_groups:
            group["lr"] = learning_rate(self.consumed)
        self.sgd.step()
        self.consumed += GLOBAL


def demonstrate():
    """The phases on every rank; how far weights are from those of one process,
    per phase, with the deals."""
    rank, world = dist.get_rank(), dist.get_world_size()
    fewer = dist.new_group(list(range(world - 1)))
    replica, alone = Replica(dist.group.WORLD), Replica()
    everything = advise.deal_batches(GLOBAL, 1, micro=MICRO)
    phases = [
        advise.deal_batches(GLOBAL, world, micro=MICRO),
        advise.deal_batches(
            GLOBAL, world, micro=MICRO, slowdown=[1] * (world - 1) + [3]
        ),
        advise.deal_batches(GLOBAL, world - 1, micro=MICRO),
    ]
    told = []
    for deal in phases:
        if rank >= len(deal["micro_batches"]):
            break
        if len(deal["micro_batches"]) < world:
            replica.group = fewer
        for _ in range(3):
            replica.step(deal, rank)
            alone.step(everything, 0)
        far = max(
            (a - b).detach().abs().max().item()
            for a, b in zip(
                replica.model.parameters(), alone.model.parameters()
            )
        )
        assert far < 1e-12, far
        told.append((deal["micro_batches"], far))
    return told


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = demonstrate()
    if dist.get_rank() == 0:
        for counts, far in told:
            print(f"micro-batches {counts}: weights within {far:.1e} of one "
                  "process's")  # fmt: skip
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
