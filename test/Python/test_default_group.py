"""A job whose worlds are torch.distributed's own: trainers that ask for the
default group, and make meshes and groups of it, train while processes come and
go."""

import os
import signal
import warnings

import pytest
from processes import (
    KILLED,
    dist,
    dynatrain,
    meet,
    run_ranks,
    store_of_rank_0,
    torch,
)
from torch.distributed import distributed_c10d as c10d
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


# Processes come and go -------------------------------------------------------


def job_of(hosted, options, **more):
    return dynatrain.Job(
        hosted, build, timeout=TIMEOUT, default_group=True, **options, **more
    )


def over(rank, store, size):
    """All are, before the store of rank 0 goes."""
    meet(store, "over", rank, size)
    return dist.is_initialized()


def _comes_and_goes(rank, store, options):
    hosted = store_of_rank_0(rank, store, 3)
    joins = {"processes": 1, "launch": "later"} if rank == 2 else {}
    if rank == 2:
        store.wait(["may join"])
    first = {"processes": 2, "layout": {"tp": 1}}
    sizes, losses = [], []
    with job_of(hosted, options, **{**first, **joins}) as job:
        while job.world is not None and job.world.epoch < 5:
            train_step(job)
            sizes.append((job.world.size, job.world.layout["tp"]))
            ask(job, store, sizes)
            job.boundary()
        if job.world is not None:
            assert dist.group.WORLD is job.world.group
            assert isinstance(job.state.model, FSDPModule)
            assert isinstance(job.state.model[0].weight, DTensor)
            losses = job.state.losses
            dist.barrier()
    return sizes, losses, over(rank, store, 3)


def ask(job, store, sizes):
    """The first process, once a world has taken some steps."""
    if job.world.rank or sizes.count(sizes[-1]) < 3:
        return
    epoch = job.world.epoch
    if store.check([f"asked {epoch}"]):
        return
    store.set(f"asked {epoch}", "")
    if epoch == 1:
        store.set("may join", "")
    else:
        job.request(
            **{
                2: {"leave": [1]},
                3: {"layout": {"tp": 2}},
                4: {"layout": {"tp": 1}},
            }[epoch]
        )


def assert_right(losses):
    """They are those of one process that trains alone."""
    wanted = expected_losses(len(losses))
    assert losses and max(abs(a - b) for a, b in zip(losses, wanted)) < MOST


@pytest.mark.parametrize("beside", [True, False])
def test_fsdp2_trains_while_processes_come_and_go(tmp_path, beside):
    found = run_ranks(
        3, _comes_and_goes, tmp_path, {"beside": beside}, limit=HANGS
    )
    told = [losses for _, losses, _ in found if losses]
    assert len(told) == 2 and told[0] == told[1]
    assert_right(told[0])
    assert set(found[0][0]) == {(2, 1), (3, 1), (2, 2)}
    # Each has the default group that it had before: none.
    assert [is_left for *_, is_left in found] == [False] * 3


# A process is lost -----------------------------------------------------------


def _loses_one(rank, store, options):
    hosted = store_of_rank_0(rank, store, 3)
    more = {"processes": 3, "rank": rank, "layout": {"tp": 1}, "snapshots": 2}
    with job_of(hosted, options, **more) as job:
        while job.step < 12:
            try:
                if job.step == 7 and rank == 2 and job.world.epoch == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                train_step(job)
            except RuntimeError as error:
                assert job.recover(error)
                continue
            job.boundary()
        found = job.world.size, job.state.losses
        dist.barrier()
    return *found, over(rank, store, 2)


@pytest.mark.parametrize("beside", [True, False])
def test_fsdp2_goes_on_without_a_lost_process(tmp_path, beside):
    """From the last snapshot, in groups of the default group's name."""
    *left, killed = run_ranks(
        3, _loses_one, tmp_path, {"beside": beside}, limit=HANGS
    )
    assert killed == KILLED
    for size, losses, is_left in left:
        assert (size, len(losses), is_left) == (2, 12, False)
        assert_right(losses)


def _plans_ahead(rank, store):
    """Worlds that may come are built in groups in which nothing travels."""
    hosted = store_of_rank_0(rank, store, 2)
    more = {"processes": 2, "rank": rank, "layout": {"tp": 1}}
    with job_of(hosted, {"plans_ahead": True}, **more) as job:
        while not all_have(bool(job.status()["plans_ahead"]["made"])):
            train_step(job)
            job.boundary()
            assert dist.group.WORLD is job.world.group
            assert dist.get_world_size() == 2
        found = job.status()["plans_ahead"]
        dist.barrier()
    return found, over(rank, store, 2)


def test_worlds_that_may_come_are_default_groups_too(tmp_path):
    for found, is_left in run_ranks(2, _plans_ahead, tmp_path, limit=HANGS):
        assert found["made"] and not found["fault"], found
        assert not is_left


# What goes wrong -------------------------------------------------------------


def all_have(own):
    """Whether something is so on all processes."""
    told = torch.tensor(float(own))
    dist.all_reduce(told, dist.ReduceOp.MIN)
    return bool(told)


def _asks_for_what_cannot_be(rank, store, options):
    hosted = store_of_rank_0(rank, store, 2)
    more = {"processes": 2, "rank": rank, "layout": {"tp": 1}}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with job_of(hosted, options, **more) as job:
            if rank == 0:
                job.request(layout={"tp": 3})
            # Each is told when it comes to a boundary.
            while not all_have(job.failure is not None):
                train_step(job)
                job.boundary()
            found = job.world.epoch, str(job.failure), job.state.losses
            dist.barrier()
    told = [str(one.message) for one in warned]
    assert any("a switch of the job failed" in one for one in told), told
    return *found, over(rank, store, 2)


@pytest.mark.parametrize("beside", [True, False])
def test_a_world_that_cannot_be_built_leaves_the_old_one(tmp_path, beside):
    found = run_ranks(
        2, _asks_for_what_cannot_be, tmp_path, {"beside": beside}, limit=HANGS
    )
    for epoch, why, losses, is_left in found:
        assert (epoch, is_left) == (1, False)
        assert "has ended the attempt" in why, why
        assert_right(losses)


def _does_what_is_the_jobs(rank, store, what):
    hosted = store_of_rank_0(rank, store, 2)
    more = {"processes": 2, "rank": rank, "layout": {"tp": 1}}
    with job_of(hosted, {}, **more) as job:
        train_step(job)
        with pytest.raises(dynatrain.InvalidError) as raised:
            what()
        dist.barrier(job.world.group)
    over(rank, store, 2)
    return str(raised.value)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (dist.new_group, "made while it is built, not later"),
        (lambda: c10d._update_default_pg(None), "the job makes it and ends it"),
    ],
    ids=["new_group", "another default group"],
)
def test_what_is_the_jobs_is_not_the_trainers(tmp_path, what, why):
    for found in run_ranks(2, _does_what_is_the_jobs, tmp_path, what):
        assert why in found


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"plans_ahead": True}, "plans_ahead=True builds worlds"),
        ({"memory": {"mode": "flat"}}, "memory of mode flat"),
    ],
)
def test_what_needs_build_beside_training(more, why):
    with pytest.raises(dynatrain.InvalidError, match=why):
        dynatrain.Job(dist.HashStore(), build, beside=False, **more)


# Groups by themselves --------------------------------------------------------


def _makes_groups(rank, store):
    hosted = store_of_rank_0(rank, store, 2)
    seen = {}

    def build(world):
        seen["none"] = dist.new_group([1 - rank])
        seen["own"] = dist.new_group([rank])
        tagged = [c10d._new_group_with_tag([0, 1], pg_tag="x") for _ in "ab"]
        seen["tagged"] = tagged[0] is tagged[1]
        seen["named"] = c10d._resolve_process_group(world.group.group_name)
        return dynatrain.State(step=0)

    job = dynatrain.Job(
        hosted,
        build,
        processes=2,
        rank=rank,
        timeout=TIMEOUT,
        default_group=True,
    )
    with job:
        group = job.world.group
        assert seen["none"] == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_process_group_ranks(seen["own"]) == [rank]
        assert dist.get_process_group_ranks(None) == [0, 1]
        assert dist.get_backend() == dist.get_backend(seen["own"]) == "gloo"
        assert seen["tagged"] and seen["named"] is group
        told = [None, None]
        dist.all_gather_object(told, f"of {rank}")
        assert told == ["of 0", "of 1"]
        names = [group.group_name, seen["own"].group_name]
    with pytest.raises(RuntimeError):
        c10d._resolve_process_group(names[0])
    assert len(set(names)) == 2 and not c10d._pg_map
    return over(rank, store, 2)


def test_c10d_knows_of_groups_while_their_world_is_there(tmp_path):
    assert run_ranks(2, _makes_groups, tmp_path) == [False, False]


def _has_one_already(rank, store):
    """A default group of the process's own is back when the job is over."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    own = dist.group.WORLD
    hosted = store_of_rank_0(rank, dist.PrefixStore("job", store), 2)
    job = dynatrain.Job(
        hosted,
        lambda world: dynatrain.State(step=0),
        processes=2,
        rank=1 - rank,
        timeout=TIMEOUT,
        default_group=True,
    )
    with job:
        inside = dist.group.WORLD is job.world.group, dist.get_rank()
        dist.barrier()
    after = dist.group.WORLD is own, dist.get_rank()
    dist.barrier()
    over(rank, store, 2)
    return inside, after


def test_the_processes_own_default_group_is_back_at_the_end(tmp_path):
    for rank, found in enumerate(run_ranks(2, _has_one_already, tmp_path)):
        assert found == ((True, 1 - rank), (True, rank))
