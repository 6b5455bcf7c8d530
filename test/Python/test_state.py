"""States of trainers, registered once and switched: tensors by plan, the rest
as data, on processes that stay, join and leave."""

import os
import signal
import time
from datetime import timedelta

import dynatrain
import pytest
from dynatrain import capture
from dynatrain.state import PER_RANK, SHARED, Arrived, Small
from dynatrain.state_switch import Coming
from processes import dist, run_ranks, torch

decoder = pytest.importorskip("decoder")

from test_trainer import join, local, whole  # noqa: E402
from torch.distributed.device_mesh import (  # noqa: E402
    DeviceMesh,
    init_device_mesh,
)
from torch.distributed.fsdp import (  # noqa: E402
    FullyShardedDataParallel,
    fully_shard,
)
from torch.distributed.tensor import (  # noqa: E402
    DTensor,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def error_of(call):
    try:
        call()
    except (dynatrain.Error, capture.CaptureError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def world_of(timeout=60):
    return dynatrain.World(timeout=timeout)


def switch_now(old, new, world=None, **options):
    """Plan, prepare, move."""
    world = world or world_of()
    plan = dynatrain.plan_between(old, new, world, **options)
    with plan.prepare(world, old, new) as switch:
        switch.transfer()
        switch.commit()
    return plan


# A trainer from layout to layout ---------------------------------------------


LAYOUTS = [{"dp": 4}, {"dp": 2, "tp": 2}, {"dp": 4}, {"dp": 1, "tp": 4}]


class Loader:
    """Counts what it has given, on all processes alike."""

    def __init__(self):
        self.given = 0

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state):
        self.given = state["given"]


def registered(sizes, seed=0):
    """A trainer's objects, made without touching the generators, and its
    State."""
    with torch.random.fork_rng():
        mesh, model, adamw, schedule = decoder.build(sizes, seed, norms=False)
    return mesh, dynatrain.State(
        model=model, optimizer=adamw, schedule=schedule, loader=Loader(),
        step=0, tokens=0, rng=True,
    )  # fmt: skip


def train(mesh, state, count):
    losses = []
    for _ in range(count):
        losses += decoder.train(
            mesh, state.model, state.optimizer, state.schedule,
            state.loader.given, 1,
        )  # fmt: skip
        state.loader.given += 1
        state.step += 1
        state.tokens += 8 * 12
        torch.rand(3)
    return losses


def check_all(plan, new, full):
    """Every shard of the destination is its part of what was gathered."""
    found = new.tensors
    for entry in plan.expected(dist.get_rank()):
        if entry.side == "destination":
            key = entry.tensor, entry.state
            assert torch.equal(local(found[key]), entry.cut(full[key])), key


def _layouts(rank, store, folder):
    join(rank, folder)
    with torch.random.fork_rng():
        wanted = decoder.train(*decoder.build({"dp": 4}), 0, 8)
    torch.manual_seed(100 + rank)
    mesh, state = registered(LAYOUTS[0])
    losses = train(mesh, state, 2)
    for number, sizes in enumerate(LAYOUTS[1:]):
        new_mesh, new = registered(sizes, seed=1 + number)
        full = whole(state.tensors)
        groups = [
            {k: v for k, v in group.items() if k != "params"}
            for group in state.optimizer.param_groups
        ]
        generator = torch.get_rng_state()
        plan = switch_now(state, new)
        check_all(plan, new, full)
        assert torch.equal(torch.get_rng_state(), generator)
        assert new.step == state.step and new.tokens == state.tokens
        assert new.schedule.state_dict() == state.schedule.state_dict()
        for group, was in zip(new.optimizer.param_groups, groups):
            assert {k: v for k, v in group.items() if k != "params"} == was
        steps = {s["step"].item() for s in new.optimizer.state.values()}
        assert steps == {float(state.step)}
        mesh, state = new_mesh, new
        losses += train(mesh, state, 2)
    assert torch.allclose(torch.tensor(losses), torch.tensor(wanted), atol=2e-6)
    return state.step


def test_four_layouts(tmp_path):
    """FSDP2, with TP, back, and TP alone: all state, bit for bit."""
    assert run_ranks(4, _layouts, tmp_path, str(tmp_path)) == [8] * 4


# Processes that join and leave -----------------------------------------------


def _join(rank, store, folder):
    """Two train; four go on; the first one leaves, three go on."""
    join(rank, folder)
    world = dynatrain.World(store=store, rank=rank, world_size=4, timeout=60)
    full = torch.arange(96.0).view(12, 8)

    def built(ranks, seed):
        mesh = DeviceMesh("cpu", ranks)
        if rank not in ranks:
            return None
        torch.manual_seed(seed + rank)
        weight = torch.nn.Parameter(
            distribute_tensor(torch.zeros_like(full), mesh, [Shard(0)])
        )
        sgd = torch.optim.SGD([weight], lr=0.5, momentum=0.5)
        return dynatrain.State(
            model={"w": weight}, optimizer=sgd, step=0, rng=True
        )

    def step(state):
        weight = state.model["w"]
        weight.grad = DTensor.from_local(
            torch.ones_like(local(weight)), weight.device_mesh, [Shard(0)]
        )
        state.optimizer.step()
        state.step += 1

    two = built([0, 1], 10)
    if two is not None:
        with torch.no_grad():
            local(two.model["w"]).copy_(full.chunk(2)[rank])
        step(two)
    four = built([0, 1, 2, 3], 20)
    generator = torch.get_rng_state()
    switch_now(two, four, world)
    assert torch.equal(local(four.model["w"]), full.chunk(4)[rank] - 0.5)
    assert torch.equal(torch.get_rng_state(), generator) == (rank < 2)
    assert four.step == 1
    numbers = torch.rand(4).tolist()
    step(four)
    three = built([1, 2, 3], 30)
    switch_now(four, three, world)
    if three is not None:
        part = full.chunk(3)[rank - 1]
        assert torch.equal(local(three.model["w"]), part - 0.5 - 0.75)
        (state,) = three.optimizer.state.values()
        assert torch.equal(
            local(state["momentum_buffer"]), torch.full_like(part, 1.5)
        )
        assert three.step == 2
    return numbers


def test_joining_and_leaving(tmp_path):
    numbers = run_ranks(4, _join, tmp_path, str(tmp_path))
    assert len({tuple(own) for own in numbers}) == 4, numbers


# What is shared, per rank, merged --------------------------------------------


def _rules(rank, store, folder):
    join(rank, folder)
    world = world_of(20)

    def state(step, loader=None, weight=0.0):
        return dynatrain.State(
            model={"w": torch.full((4,), weight)},
            step=step,
            loader=dynatrain.PerRank(loader or Loader()),
        )

    said = []
    own, got = Loader(), Loader()
    own.given = rank
    switch_now(state(3, own, 1.0), state(0, got), world)
    assert got.given == rank
    # A step that differs is an error on all, and the destination's stays.
    new = state(0)
    said.append(error_of(lambda: switch_now(state(rank // 3), new, world)))
    assert new.step == 0
    # What cannot travel, on one process.
    strange = state(print if rank == 2 else 0) if rank != 2 else None
    if rank == 2:
        own.state_dict = lambda: {"given": print}
        strange = state(0, own)
    said.append(error_of(lambda: switch_now(strange, state(0), world)))
    # And after that all is well.
    new = state(0)
    switch_now(state(7, weight=2.0), new, world)
    assert new.step == 7 and new.model["w"].tolist() == [2.0] * 4
    return said


def test_rules(tmp_path):
    outcomes = run_ranks(4, _rules, tmp_path, str(tmp_path))
    for differs, strange in outcomes:
        assert (
            "'step' of the State is not the same on ranks 0-2 and rank 3"
            in (differs)
        )
        assert "'loader' of a State cannot travel" in strange, strange
        assert "rank 2" in strange or outcomes.index([differs, strange]) == 2


def _pipeline(rank, store, folder):
    """Two stages of two processes each; the counters of both are merged."""
    join(rank, folder)

    def built(mesh, stage, fill):
        weights = {
            f"layers.{n}": torch.nn.Parameter(
                DTensor.from_local(
                    torch.full((8 // mesh.size(), 4), fill + n),
                    mesh,
                    [Shard(0)],
                )
            )
            for n in stage
        }
        return dynatrain.State(
            model=weights, optimizer=torch.optim.AdamW(weights.values())
        )

    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    stage = rank // 2
    old = built(grid["dp"], range(2 * stage, 2 * stage + 2), 1.0)
    for name, weight in old.model.items():
        # Layer 3 has never had a step.
        if name != "layers.3":
            weight.grad = torch.ones_like(weight)
    for _ in range(1 + stage):
        old.optimizer.step()
    full = {name: t.full_tensor() for name, t in old.model.items()}
    everyones = [None] * 4
    dist.all_gather_object(everyones, full)
    full = {k: v.detach() for own in everyones for k, v in own.items()}
    layout = capture.gather(old, world_of())
    assert layout.tensors.keys() == {
        *(f"layers.{n}" for n in range(4)),
        *(f"optim.state.layers.{n}.{s}" for n in range(3)
          for s in ("exp_avg", "exp_avg_sq")),
    }  # fmt: skip
    assert not layout.unknown and len(layout.rows) == 2 * (4 + 6)
    new = built(init_device_mesh("cpu", (4,)), range(4), 0.0)
    switch_now(old, new)
    for name, weight in new.model.items():
        assert torch.equal(weight.full_tensor(), full[name])
    own = new.optimizer.state
    steps = [int(own[w]["step"]) if w in own else 0 for w in new.model.values()]
    assert steps == [1, 1, 2, 0]
    new.optimizer.step()


def test_what_a_state_is_about_to_hold():
    """A snapshot of it has what `install` gives it, but for what it takes from
    another process only to make something of its own of it."""
    state = dynatrain.State(
        model={"w": torch.ones(2)},
        step=0,
        own=dynatrain.PerRank(Loader()),
        joined=dynatrain.PerRank(Loader()),
        new=3,
    )
    value = {"name": "another"}
    arrived = {
        "step/": Arrived(5, False, SHARED),
        "own/": Arrived(value, False, PER_RANK),
        "joined/": Arrived(value, True, PER_RANK),
        "gone/": Arrived(7, False, SHARED),
    }
    coming = Coming(state, arrived)
    small = {k: v for k, v in coming.small().items() if not k.startswith(".")}
    assert small == {
        "step/": Small(SHARED, 5),
        "own/": Small(PER_RANK, value),
        "new/": Small(SHARED, 3),
    }
    assert coming.tensors.keys() == {("w", "param")}
    assert state.step == 0


def test_pipeline_stages(tmp_path):
    run_ranks(4, _pipeline, tmp_path, str(tmp_path))


# Wrappers of torch -----------------------------------------------------------


def _net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3)
    )


def _wrapped(kind, seed):
    net = _net(seed)
    if kind == "ddp":
        return DistributedDataParallel(net)
    if kind == "fsdp1":
        return FullyShardedDataParallel(
            net, use_orig_params=True, device_id=torch.device("cpu")
        )
    if kind == "hsdp":
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("r", "s"))
        return fully_shard(net, mesh=mesh)
    return fully_shard(net, mesh=init_device_mesh("cpu", (4,)))


def _wrappers(rank, store, folder):
    join(rank, folder)
    inputs = torch.arange(24.0).view(4, 6) / 24

    def state(kind, seed):
        model = _wrapped(kind, seed)
        optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
        return dynatrain.State(model=model, optimizer=optimizer)

    def step(now):
        now.model.train()
        now.model(inputs).square().mean().backward()
        now.optimizer.step()
        now.optimizer.zero_grad()

    reference = state("ddp", 0)
    old = state("ddp", 0)
    for number, kind in enumerate(["fsdp1", "fsdp2", "hsdp", "fsdp1", "ddp"]):
        step(old), step(reference)
        new = state(kind, 1 + number)
        switch_now(old, new)
        old = new
    step(old), step(reference)
    found = old.tensors
    for key, wanted in reference.tensors.items():
        assert torch.allclose(found[key], wanted, atol=1e-6), key
    return len(found)


@pytest.mark.filterwarnings("ignore")
def test_wrappers(tmp_path):
    """DDP, FSDP1 with its flat parameters, FSDP2, HSDP, and back."""
    counts = run_ranks(4, _wrappers, tmp_path, str(tmp_path))
    assert counts == [6 * 4 + 3] * 4, counts


def _gathered(rank, store, folder):
    """Switches to and from models that have made a forward pass only."""
    join(rank, folder)
    inputs = torch.arange(24.0).view(4, 6) / 24

    def state(kind, seed):
        model = _wrapped(kind, seed)
        optimizer = torch.optim.AdamW(model.parameters())
        return dynatrain.State(model=model, optimizer=optimizer)

    def outputs(now):
        with torch.no_grad():
            return now.model.eval()(inputs)

    old = state("ddp", 0)
    old.model(inputs).square().mean().backward()
    old.optimizer.step()
    wanted = outputs(old)
    for number, kind in enumerate(["fsdp2", "hsdp", "fsdp1", "ddp"]):
        new = state(kind, 1 + number)
        assert not torch.allclose(outputs(new), wanted, atol=1e-3)
        switch_now(old, new)
        assert torch.allclose(outputs(new), wanted, atol=1e-6), kind
        old = new


def test_gathered_weights(tmp_path):
    """FSDP2 leaves the root's weights gathered after a forward pass."""
    run_ranks(4, _gathered, tmp_path, str(tmp_path))


def _flat_refused(rank, store, folder):
    join(rank, folder, 2)
    model = FullyShardedDataParallel(_net(), device_id=torch.device("cpu"))
    return error_of(lambda: dynatrain.State(model=model).tensors)


def test_flat_parameters_of_the_optimizer_are_refused(tmp_path):
    for said in run_ranks(2, _flat_refused, tmp_path, str(tmp_path)):
        assert "use_orig_params=False, expected True" in said


# Captures without memory -----------------------------------------------------


def _meta(rank, store, folder):
    join(rank, folder)
    mesh = init_device_mesh("cpu", (4,))
    with torch.device("meta"):
        model = _net()
    fully_shard(model, mesh=mesh)
    adamw = torch.optim.AdamW(model.parameters())
    ahead = dynatrain.State(model=model, optimizer=adamw)
    old = dynatrain.State(
        model=DistributedDataParallel(_net()),
    )
    assert all(
        local(t).device.type == "meta"
        for t in ahead.destination_tensors().values()
    )
    cache = f"{folder}/plans{rank}"
    plan = dynatrain.plan_between(old, ahead, world_of(), cache=cache)
    assert os.listdir(cache)
    # The real one has the same layout, so it has its plan already.
    real = _wrapped("fsdp2", 1)
    os.environ["PATH"] = ""
    state = dynatrain.State(
        model=real, optimizer=torch.optim.AdamW(real.parameters())
    )
    again = dynatrain.plan_between(old, state, world_of(), cache=cache)
    assert again.digest == plan.digest
    with again.prepare(world_of(), old, state) as switch:
        switch.transfer()
        switch.commit()
    full = dynatrain.training_state(_net())
    for name, tensor in state.tensors.items():
        if isinstance(tensor, DTensor):
            assert torch.equal(tensor.full_tensor(), full[name])


def test_meta(tmp_path):
    """A plan made ahead with a model that has no memory serves the real one."""
    run_ranks(4, _meta, tmp_path, str(tmp_path))


# Plans handed out ------------------------------------------------------------


def _plans(rank, store, folder):
    """Folders of their own, a shared one, none; damaged files; errors."""
    join(rank, folder)
    world = world_of(20)

    def sides(width):
        mesh = init_device_mesh("cpu", (4,))
        full = torch.zeros(8, width)
        before = {("w", "param"): distribute_tensor(full, mesh, [Shard(0)])}
        after = {("w", "param"): distribute_tensor(full, mesh, [Shard(1)])}
        return before, after

    own = f"{folder}/own{rank}"
    first = dynatrain.plan_between(*sides(8), world, cache=own)
    second = dynatrain.plan_between(*sides(8), world)
    assert second is first
    (name,) = os.listdir(own)
    from dynatrain import planning

    planning._known.clear()
    if rank in (0, 2):
        with open(f"{own}/{name}", "wb") as file:
            file.write(b"damaged")
    again = dynatrain.plan_between(*sides(8), world, cache=own)
    assert again.digest == first.digest
    with open(f"{own}/{name}", "rb") as file:
        assert file.read() != b"damaged"
    shared = f"{folder}/shared"
    dynatrain.plan_between(*sides(12), world, cache=shared)
    dist.barrier()
    assert len(os.listdir(shared)) == 1
    # What one process has wrong is an error on all.
    before, after = sides(8)
    if rank == 3:
        before["w", "param"] = torch.zeros(8, 9)
    wrong = error_of(lambda: dynatrain.plan_between(before, after, world))
    before, after = sides(8)
    lost = error_of(lambda: dynatrain.plan_between(None, after, world))
    assert dynatrain.plan_between(*sides(8), world).digest == first.digest
    return wrong, lost


def test_plans_are_handed_out(tmp_path):
    for wrong, lost in run_ranks(4, _plans, tmp_path, str(tmp_path)):
        assert "rank 0, plan_between: tensor 'w' is [8, " in wrong, wrong
        assert "[8, 9]" in wrong, wrong
        assert "the source does not have tensor 'w'" in lost, lost


def _staged(rank, store, folder):
    join(rank, folder, 2)
    mesh, world = init_device_mesh("cpu", (2,)), world_of()

    def staging(rows, **more):
        sides = (
            {
                ("w", "param"): distribute_tensor(
                    torch.empty(rows, 1 << 20, device="meta"), mesh, [cut]
                )
            }
            for cut in (Shard(0), Shard(1))
        )
        plan = dynatrain.plan_between(*sides, world, **more)
        return plan.inspect()["memory"]["staging_limit"]

    return [
        staging(4),
        staging(512),
        staging(1 << 13),
        staging(512, memory={"staging": "100MiB"}),
        staging(512, memory={"mode": "flat"}),
    ]


def test_staging_is_a_part_of_the_state(tmp_path):
    """Of 8 MiB, 1 GiB and 16 GiB in each process."""
    for found in run_ranks(2, _staged, tmp_path, str(tmp_path)):
        assert [one >> 20 for one in found] == [64, 128, 1024, 100, 128]


# When to switch --------------------------------------------------------------


def _due(rank, store, folder):
    """Processes that get ready at different steps stop after the same one."""
    join(rank, folder)
    group = torch.ones(1)
    stopped = []
    for round in range(5):
        mesh = init_device_mesh("cpu", (4,))
        full = torch.full((8, 4), float(round))
        old = {("w", "param"): distribute_tensor(full, mesh, [Shard(0)])}
        new = {("w", "param"): distribute_tensor(0 * full, mesh, [Shard(1)])}
        world = world_of()
        plan = dynatrain.plan_between(old, new, world)
        switch = plan.prepare(world, old, new)
        step, first = 0, (3 * rank + round) % 5
        while True:
            step += 1
            dist.all_reduce(group)
            if step > first and switch.due(step):
                break
        switch.transfer()
        switch.commit()
        assert torch.equal(new["w", "param"].full_tensor(), full)
        stopped.append(step)
    return stopped


def test_all_stop_after_the_same_step(tmp_path):
    stopped = run_ranks(4, _due, tmp_path, str(tmp_path))
    assert all(own == stopped[0] for own in stopped), stopped


# DTensors across meshes -------------------------------------------------------


def _redistribute(rank, store, folder):
    join(rank, folder)
    full = {
        "a": torch.arange(35.0).view(7, 5),
        "b": {"c": torch.arange(24).view(2, 3, 4)},
    }
    left, right = DeviceMesh("cpu", [0, 1]), DeviceMesh("cpu", [2, 3])
    middle, grid = (
        DeviceMesh("cpu", [1, 2]),
        DeviceMesh("cpu", [[0, 1], [2, 3]]),
    )
    tree = {
        "a": distribute_tensor(full["a"], left, [Shard(0)]),
        "b": {"c": distribute_tensor(full["b"]["c"], left, [Shard(2)])},
    }
    for target in [
        (right, [Shard(1)]),
        (middle, [Shard(0)]),
        (grid, [Shard(0), Shard(1)]),
        (left, [Replicate()]),
        {"a": (right, [Replicate()]), "b": (grid, [Replicate(), Shard(1)])},
    ]:
        tree = dynatrain.redistribute(tree, target)
        pairs = (tree["a"], full["a"]), (tree["b"]["c"], full["b"]["c"])
        for tensor, wanted in pairs:
            assert tensor.shape == wanted.shape and tensor.dtype == wanted.dtype
            if tensor.device_mesh.get_coordinate() is not None:
                fresh = distribute_tensor(
                    wanted, tensor.device_mesh, tensor.placements,
                    src_data_rank=None,
                )  # fmt: skip
                assert torch.equal(tensor.to_local(), fresh.to_local())
    # One tensor, into one that exists.
    single = dynatrain.redistribute(tree["a"], distribute_tensor(
        torch.zeros(7, 5), left, [Shard(0)]
    ))  # fmt: skip
    if rank < 2:
        assert torch.equal(single.to_local(), full["a"].chunk(2)[rank])
    return error_of(
        lambda: dynatrain.redistribute({"a": None}, (left, [Shard(0)]))
    )


def test_redistribute(tmp_path):
    for said in run_ranks(4, _redistribute, tmp_path, str(tmp_path)):
        assert "'a' is None, expected a DTensor" in said


# What stays ------------------------------------------------------------------


def tcp_store(rank, store):
    """One whose keys can be counted."""
    if rank == 0:
        server = dist.TCPStore("127.0.0.1", 0, 4, True, wait_for_workers=False)
        store.set("port", str(server.port))
        return server
    return dist.TCPStore("127.0.0.1", int(store.get("port")), 4, False)


# How many switches one job takes; 200 in the long form.
SWITCHES = int(os.environ.get("DT_SWITCHES", "20"))
SIDE = 512
# What may stay of a switch: less than a process has of the state (256 KiB), or
# of staging for it.
MOST_LEFT = 64 << 10


def _threads():
    return len(os.listdir("/proc/self/task"))


def _resources(keys):
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    with open("/proc/self/maps") as file:
        staging = file.read().count("dynatrain-staging")
    files = len(os.listdir("/proc/self/fd"))
    return {"files": files, "staging": staging, "keys": keys}, resident


def _many(rank, store, folder):
    join(rank, folder)
    server = tcp_store(rank, store)
    mesh = init_device_mesh("cpu", (4,))

    def state(placement, fill):
        full = torch.full((SIDE, SIDE), fill)
        weight = torch.nn.Parameter(distribute_tensor(full, mesh, [placement]))
        return dynatrain.State(model={"w": weight}, step=int(fill), rng=True)

    rows, columns = state(Shard(0), 1.0), state(Shard(1), 0.0)
    world = dynatrain.World(store=server, rank=rank, world_size=4)
    found, threads = [], _threads()
    for _ in range(SWITCHES):
        plan = dynatrain.plan_between(rows, columns, world)
        capture.gather(rows, world)
        switch = plan.prepare(world, rows, columns)
        step = 0
        while not switch.due(step):
            step += 1
        switch.transfer()
        switch.commit()
        assert columns.step == 1
        columns.step = 0
        # The last one to leave deletes the words of all.
        del switch
        dist.barrier()
        found.append(_resources(server.num_keys()))
        # They end by themselves, in a moment.
        until = time.monotonic() + 60
        while _threads() > threads and time.monotonic() < until:
            time.sleep(0.01)
        assert _threads() == threads
        dist.barrier()
    return found


def test_switches_leave_nothing(tmp_path):
    """Descriptors, threads, mappings, the store's keys and memory stay as they
    were."""
    half = SWITCHES // 2
    for found in run_ranks(4, _many, tmp_path, str(tmp_path), limit=900):
        counts, resident = zip(*found)
        # The first one leaves a connection to the store.
        assert all(one == counts[1] for one in counts[1:]), counts
        grown = max(resident[half:]) - max(resident[:half])
        assert grown < MOST_LEFT * (SWITCHES - half), resident


# Ends -----------------------------------------------------------------------


def _ends_early(rank, store, folder, how):
    """Rank 1 waits in commit for what rank 0 makes of all values, and rank 0
    waits for the end of that."""
    join(rank, folder, 2)
    mesh = init_device_mesh("cpu", (2,))

    def state(placement, step):
        full = torch.zeros(8, 4)
        weight = torch.nn.Parameter(distribute_tensor(full, mesh, [placement]))
        return dynatrain.State(model={"w": weight}, step=step)

    old, new = state(Shard(0), 5), state(Shard(1), 0)
    world = dynatrain.World(store=store, rank=rank, world_size=2, timeout=3600)
    plan = dynatrain.plan_between(old, new, world)
    switch = plan.prepare(world, old, new)
    switch.transfer()
    if rank == (1 if how == "aborted" else 0):
        time.sleep(0.5)  # the other one is in commit, or comes to it later
        if how == "aborted":
            switch.abort("no time")
            return switch.outcome
        store.wait(["ended"], timedelta(seconds=60))
        return error_of(switch.commit)
    if how == "aborted":
        return error_of(switch.commit)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        switch.commit()
    store.set("ended", "")
    return switch.outcome


@pytest.mark.parametrize(
    "how, why",
    [("interrupted", "interrupted by Keyboard"), ("aborted", "no time")],
)
def test_an_end_reaches_who_waits_for_values(how, why, tmp_path):
    said, outcome = run_ranks(2, _ends_early, tmp_path, str(tmp_path), how)
    assert outcome == "aborted"
    assert "rank 1 stopped" in said and why in said
