"""A job whose worlds are torch.distributed's own: trainers that ask for the
default group, and make meshes and groups of it, train while processes come and
go."""

import os
import time

import pytest
from processes import dist, dynatrain, run_ranks, store_of_rank_0, torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

TIMEOUT, HANGS = 120.0, 600
WIDTH, BATCH, MOST = 12, 12, 1e-9


@pytest.fixture(autouse=True)
def _loopback(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


# A trainer with FSDP2, by itself and with tensor parallelism ----------------


def plain_model():
    """The same values wherever it is made, without random numbers."""
    layers = [
        torch.nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64),
        torch.nn.GELU(),
        torch.nn.Linear(2 * WIDTH, WIDTH, dtype=torch.float64),
    ]
    for number, one in enumerate(layers[::2]):
        for at, weight in enumerate(one.parameters()):
            run = torch.arange(weight.numel(), dtype=torch.float64)
            torch.nn.init.zeros_(weight)
            weight.data += torch.sin(run + number + at).view_as(weight) / WIDTH
    return torch.nn.Sequential(*layers)


def batch_of(step):
    """Inputs and what is to come out."""
    run = torch.arange(BATCH * WIDTH, dtype=torch.float64) + step
    return torch.sin(run).view(BATCH, WIDTH), torch.cos(run).view(BATCH, WIDTH)


def loss_of(model, step, part=0, parts=1):
    given, wanted = (one.chunk(parts)[part] for one in batch_of(step))
    return (model(given) - wanted).square().mean()


def sharded(world):
    """Of a world, by what any trainer asks torch.distributed."""
    assert (dist.get_rank(), dist.get_world_size()) == (world.rank, world.size)
    assert dist.group.WORLD is world.group
    tensor = world.layout["tp"]
    mesh = init_device_mesh(
        "cpu", (world.size // tensor, tensor), mesh_dim_names=("dp", "tp")
    )
    model = plain_model()
    if tensor > 1:
        cuts = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, mesh["tp"], cuts)
    return fully_shard(model, mesh=mesh["dp"])


def build(world):
    model = sharded(world)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return dynatrain.State(model=model, optimizer=adamw, losses=[])


def train_step(job):
    """The job's next step; all processes have its loss."""
    state, tensor = job.state, job.world.layout["tp"]
    place = dist.get_rank() // tensor, dist.get_world_size() // tensor
    loss = loss_of(state.model, job.step, *place)
    loss.backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    told = loss.detach().clone()
    dist.all_reduce(told)
    state.losses = [*state.losses, told.item() / dist.get_world_size()]


def expected_losses(steps):
    """Of one process without a job."""
    model, losses = plain_model(), []
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        loss = loss_of(model, step)
        loss.backward()
        adamw.step()
        adamw.zero_grad()
        losses.append(loss.item())
    return losses


# 2 -> 3 -> 2 -> 2 processes --------------------------------------------------


def _trains(rank, store, beside, snapshots=0, fate=None):
    hosted = store_of_rank_0(rank, store, 3)
    if rank == 2:
        store.wait(["may join"])
    job = dynatrain.Job(
        hosted,
        build,
        layout={"tp": 1},
        processes=1 if rank == 2 else 2,
        launch="later" if rank == 2 else "start",
        timeout=TIMEOUT,
        beside=beside,
        default_group=True,
    )
    sizes = []
    with job:
        while job.world is not None and job.world.epoch < 5:
            train_step(job)
            sizes.append(job.world.size)
            asks(job, store, sizes)
            job.boundary()
            time.sleep(0.02)
        left = job.world is None
        losses = [] if left else job.state.losses
        if not left:
            assert dist.group.WORLD is job.world.group
            whole = job.state.model[0].weight.full_tensor()
            assert isinstance(job.state.model, FSDPModule)
            assert isinstance(job.state.model[0].weight, DTensor)
            dist.barrier()
            losses = [losses, whole.detach().sum().item()]
    # The process has the default group that it had before: none.
    assert not dist.is_initialized()
    if rank == 0:
        time.sleep(1)
    return sizes, losses


def asks(job, store, sizes):
    """The first process, once a world has taken some steps."""
    if job.world.rank or sizes.count(sizes[-1]) < 3:
        return
    epoch = job.world.epoch
    if store.check([f"asked {epoch}"]):
        return
    store.set(f"asked {epoch}", "")
    if epoch == 1:
        store.set("may join", "")
    elif epoch == 2:
        job.request(leave=[1])
    elif epoch == 3:
        job.request(layout={"tp": 2})
    elif epoch == 4:
        job.request(layout={"tp": 1})


@pytest.mark.parametrize("beside", [True, False])
def test_fsdp2_trains_while_processes_come_and_go(tmp_path, beside):
    found = run_ranks(3, _trains, tmp_path, beside, limit=60)
    told = [losses for _, losses in found if losses]
    assert len(told) == 2 and told[0] == told[1]
    losses, whole = told[0]
    wanted = expected_losses(len(losses))
    assert max(abs(a - b) for a, b in zip(losses, wanted)) < MOST
    assert {2, 3} <= set(found[0][0])
