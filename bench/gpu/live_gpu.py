"""A switch beside a training loop on one GPU, between processes that share it.

Each process steps a small model as a captured graph: alone, while a switch
prepares (and the step is captured once more), and after the switch. Prints one
line of JSON on rank 0: seconds per step alone and beside, how long warm-up,
transfer and commit stop the loop, and whether every byte is right.

    torchrun --nproc-per-node=2 bench/gpu/live_gpu.py PLAN
"""

import json
import os
import sys
import time

import dynatrain
import torch
import torch.distributed as dist
from dynatrain import _C, worker

WIDTH = 2048
STEPS = 100


class Trainer:
    """Steps of a small model as one graph."""

    def __init__(self, place):
        self.model = torch.nn.Linear(WIDTH, WIDTH, device=place)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), capturable=True
        )
        self.batch = torch.randn(256, WIDTH, device=place)
        for _ in range(3):
            self.eager()
        self.capture()

    def eager(self):
        self.optimizer.zero_grad(set_to_none=False)
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()

    def capture(self):
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.eager()

    def train(self, steps=STEPS):
        """Seconds per step."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            self.graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps


def bind(plan, rank, place):
    """Tensors of both sides, filled with known values."""
    sides = {"source": {}, "destination": {}}
    bound = []
    for entry in plan.expected(plan.devices[rank]):
        tensor = torch.empty(entry.shape, dtype=entry.dtype, device=place)
        key = (entry.tensor, entry.state)
        sides[entry.side].setdefault(key, []).append(tensor)
        bound.append(
            _C.Tensor(*key, entry.side == "source", entry.ordinal, tensor)
        )
    _C.fill_pattern(plan._native, plan.devices[rank], bound)
    return sides, bound


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main():
    place = worker.local_device("cuda")
    store, rank, size = next(dist.rendezvous("env://"))
    plan = dynatrain.Plan.load(sys.argv[1])
    world = dynatrain.World(
        store=dist.PrefixStore("live", store),
        rank=rank,
        world_size=size,
        backend="nccl",
    )
    trainer = Trainer(place)
    sides, bound = bind(plan, rank, place)
    alone = trainer.train()
    switch = plan.prepare(
        world,
        source_tensors=sides["source"],
        destination_tensors=sides["destination"],
    )
    trainer.capture()
    beside = [trainer.train(10)]
    while not switch.ready():
        beside.append(trainer.train(10))
    switch.wait()
    stops = {
        name: timed(getattr(switch, name))
        for name in ("warm_up", "transfer", "commit")
    }
    after = trainer.train()
    found = _C.check_pattern(plan._native, plan.devices[rank], bound)
    if rank == 0:
        row = {"bench": "live-gpu", "plan": os.path.basename(sys.argv[1])}
        row.update(alone_s=alone, beside_s=max(beside), after_s=after)
        row.update({f"{name}_s": value for name, value in stops.items()})
        row.update(mismatches=found["mismatches"])
        print(json.dumps(row))
    return 1 if found["mismatches"] else 0


if __name__ == "__main__":
    sys.exit(main())
