"""Trainers that change their layout as docs/LiveJobs.md says: their shards are
right bit for bit, and training goes on as if nothing had happened."""

import dynatrain
import pytest
from dynatrain import capture
from processes import dist, run_ranks, torch

decoder = pytest.importorskip("decoder")

from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import (  # noqa: E402
    DTensor,
    Shard,
    distribute_tensor,
)


def join(rank, folder, size=4):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/pg", rank=rank, world_size=size
    )


def gathered(state):
    """The layout of all ranks: each tells what it sees."""
    layouts = [None] * dist.get_world_size()
    dist.all_gather_object(
        layouts, capture.from_dtensors(state, dist.get_world_size())
    )
    return capture.merge(layouts)


def compiled(old, new, path):
    """The plan between two states, compiled by rank 0."""
    before, after = gathered(old), gathered(new)
    if dist.get_rank() == 0:
        dynatrain.compile(capture.request(before, after), path)
    dist.barrier()
    return dynatrain.Plan.load(path)


def switched(old, new, path, note=None):
    """Moves old to new; what `note` was on the lowest rank."""
    plan = compiled(old, new, path)
    switch = plan.prepare(dynatrain.World(timeout=60), old, new, user_data=note)
    switch.transfer()
    switch.commit()
    return plan, switch.user_data


def whole(state):
    """Full tensors, gathered by torch."""
    return {
        key: (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone()
        for key, t in state.items()
    }


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def check_shards(plan, new, full):
    """Every shard has what the plan says of the full tensors that were."""
    count = 0
    for entry in plan.expected(dist.get_rank()):
        key = entry.tensor, entry.state
        if entry.side == "destination":
            assert torch.equal(local(new[key]), entry.cut(full[key])), key
            count += 1
    return count


def _decoder(rank, store, folder, norms):
    join(rank, folder)
    reference = decoder.build({"dp": 4})
    wanted = decoder.train(*reference, 0, 8)

    mesh, model, adamw, schedule = decoder.build({"dp": 4})
    losses = decoder.train(mesh, model, adamw, schedule, 0, 4)
    old = dynatrain.training_state(model, adamw)
    full = whole(old)
    new_mesh, new_model, new_adamw, new_schedule = decoder.build(
        {"dp": 2, "tp": 2}, seed=1, norms=norms
    )
    fresh = dynatrain.fresh_state(new_model, new_adamw)
    assert not new_adamw.state
    note = {
        "counters": dynatrain.counters(model, adamw),
        "groups": [
            {k: v for k, v in group.items() if k != "params"}
            for group in adamw.param_groups
        ],
        "schedule": schedule.state_dict(),
    }
    plan, note = switched(old, fresh.tensors, f"{folder}/plan", note)
    count = check_shards(plan, fresh.tensors, full)
    fresh.install(note["counters"])
    for group, saved in zip(new_adamw.param_groups, note["groups"]):
        group.update(saved)
    new_schedule.load_state_dict(note["schedule"])
    losses += decoder.train(new_mesh, new_model, new_adamw, new_schedule, 4, 4)
    assert torch.allclose(torch.tensor(losses), torch.tensor(wanted), atol=2e-6)
    assert new_adamw.state_dict()["state"].keys() == set(range(26))
    return count


@pytest.mark.parametrize("norms", [True, False], ids=["dtensors", "sub-meshes"])
def test_fsdp_to_tensor_parallelism(norms, tmp_path):
    """Two groups of AdamW with a schedule; norms of tensor parallelism's mesh,
    or left to FSDP2 on sub-meshes."""
    counts = run_ranks(4, _decoder, tmp_path, str(tmp_path), norms)
    assert counts == [3 * 26] * 4, counts


def _few_rows(rank, store, folder):
    """Three rows over four ranks, then over two of them in two replicas."""
    join(rank, folder)

    def build(sizes):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)
        )
        names = ("replicas", "shards")[-len(sizes) :]
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        fully_shard(model, mesh=mesh)
        return model, torch.optim.AdamW(model.parameters())

    model, adamw = build((4,))
    model(torch.ones(2, 8)).sum().backward()
    adamw.step()
    old = dynatrain.training_state(model, adamw)
    empty = {name for (name, _), t in old.items() if local(t).numel() == 0}
    assert empty == ({"1.weight", "1.bias"} if rank == 3 else set())
    full = whole(old)
    new_model, new_adamw = build((2, 2))
    fresh = dynatrain.fresh_state(new_model, new_adamw)
    plan, _ = switched(old, fresh.tensors, f"{folder}/plan")
    there = check_shards(plan, fresh.tensors, full)
    # And back, over what the old ones still hold.
    for tensor in old.values():
        with torch.no_grad():
            local(tensor).zero_()
    switched(fresh.tensors, old, f"{folder}/back")
    for key, tensor in whole(old).items():
        assert torch.equal(tensor, full[key]), key
    return there


def test_fewer_rows_than_ranks(tmp_path):
    assert run_ranks(4, _few_rows, tmp_path, str(tmp_path)) == [12] * 4


def _stages(rank, store, folder):
    """Rows of all ranks become two pipeline stages of two ranks each."""
    join(rank, folder)
    mesh = init_device_mesh("cpu", (4,))
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    stage = rank // 2
    full = {
        f"layers.{i}": torch.arange(64.0).view(8, 8) + 100 * i for i in range(4)
    }
    old = {
        (name, "param"): DTensor.from_local(
            t.chunk(4)[rank].clone(), mesh, [Shard(0)]
        )
        for name, t in full.items()
    }
    new = {
        (f"layers.{i}", "param"): DTensor.from_local(
            torch.zeros(4, 8), grid["dp"], [Shard(0)], run_check=False
        )
        for i in (2 * stage, 2 * stage + 1)
    }
    alone = capture.from_dtensors(new, 4)
    others = "ranks 2-3" if stage == 0 else "ranks 0-1"
    with pytest.raises(capture.CaptureError, match=f"not known on {others}: "):
        capture.request(capture.from_dtensors(old, 4), alone)
    switched(old, new, f"{folder}/plan")
    for (name, _), tensor in new.items():
        assert torch.equal(local(tensor), full[name].chunk(2)[rank % 2])
    return len(new)


def test_pipeline_stages_are_merged(tmp_path):
    assert run_ranks(4, _stages, tmp_path, str(tmp_path)) == [2] * 4


def _with_optimizer(rank, store, folder, make):
    """FSDP2 over two ranks to one rank's tensors whole on both, with weights
    that are frozen and a buffer."""
    join(rank, folder, 2)

    def build(placement_mesh):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
        )
        model[1].requires_grad_(False)
        model.register_buffer("scale", torch.ones(3))
        if placement_mesh is not None:
            fully_shard(model, mesh=placement_mesh)
        trained = [p for p in model.parameters() if p.requires_grad]
        return model, make(trained)

    model, optimizer = build(init_device_mesh("cpu", (2,)))
    for step in range(3):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(4, 6, generator=generator)
        model(x).square().sum().backward()
        optimizer.step()
    model.scale.fill_(rank + 2.0)
    old = dynatrain.training_state(model, optimizer)
    full = whole(old)
    new_model, new_optimizer = build(None)
    fresh = dynatrain.fresh_state(new_model, new_optimizer)
    numbers = dynatrain.counters(model, optimizer)
    plan, _ = switched(old, fresh.tensors, f"{folder}/plan")
    frozen = {s for n, s in fresh.tensors if n.startswith("1.")}
    assert frozen == {"param"}
    # Both have the buffer before and after: each keeps its own.
    assert new_model.scale.tolist() == [rank + 2.0] * 3
    full["scale", "param"] = new_model.scale
    count = check_shards(plan, fresh.tensors, full)
    fresh.install(numbers)
    assert dynatrain.counters(new_model, new_optimizer) == numbers
    assert (
        dynatrain.training_state(new_model, new_optimizer).keys() == old.keys()
    )
    new_optimizer.state_dict()
    return count


OPTIMIZERS = {
    "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, momentum=0.9),
    "nadam": torch.optim.NAdam,
    "adagrad": torch.optim.Adagrad,
    # Matrices only, by a step that gathers them; no one trains the biases.
    "muon": lambda p: torch.optim.Muon([one for one in p if one.dim() == 2]),
}
#: Four weights with their states, beside two frozen ones and a buffer.
COUNTS = {"amsgrad": 4 * 4, "sgd": 4 * 2, "nadam": 4 * 3, "adagrad": 4 * 2,
          "muon": 2 * 2 + 2}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_with_frozen_weights(kind, tmp_path):
    counts = run_ranks(
        2, _with_optimizer, tmp_path, str(tmp_path), OPTIMIZERS[kind]
    )
    assert counts == [COUNTS[kind] + 3] * 2


def _interleaved(rank, store, folder):
    """A placement by which a rank's local tensor is several boxes of the plan,
    to columns and back."""
    join(rank, folder)
    strided = pytest.importorskip(
        "torch.distributed.tensor.placement_types"
    )._StridedShard
    mesh = init_device_mesh("cpu", (2, 2))
    full = torch.arange(13.0 * 8).view(13, 8)
    placements = [Shard(0), strided(0, split_factor=2)]

    def placed(tensor, placements):
        return distribute_tensor(tensor, mesh, placements, src_data_rank=None)

    old = placed(full, placements)
    new = placed(torch.zeros(13, 8), [Shard(1), Shard(1)])
    key = "w", "param"
    switched({key: old}, {key: new}, f"{folder}/plan")
    assert torch.equal(new.full_tensor(), full)
    back = placed(torch.zeros(13, 8), placements)
    switched({key: new}, {key: back}, f"{folder}/back")
    return torch.equal(back.to_local(), old.to_local())


def test_interleaved_shards_are_one_tensor(tmp_path):
    assert run_ranks(4, _interleaved, tmp_path, str(tmp_path)) == [True] * 4
