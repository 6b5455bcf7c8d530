"""One clear error, on every rank, before a byte moves."""

import re
from pathlib import Path

import dynatrain
import pytest
from processes import make_tensors, run_ranks, torch

PLAN = "adamw-mlp-4-rows-to-columns"


def _first(source):
    return next(iter(source))


def wrong_shape(source, target):
    source["0.weight", "param"] = torch.zeros(64, 256)


def wrong_dtype(source, target):
    source["0.weight", "param"] = torch.zeros(128, 256, dtype=torch.bfloat16)


def missing(source, target):
    del target["2.weight", "exp_avg"]


def extra(source, target):
    source["3.weight", "param"] = torch.zeros(4)


def not_dense(source, target):
    source["0.weight", "param"] = torch.zeros(256, 128).t()


def not_a_tensor(source, target):
    source["0.weight", "param"] = [[1.0, 2.0]]


def on_meta(source, target):
    source["0.weight", "param"] = torch.zeros(128, 256, device="meta")


def bad_key(source, target):
    source["0.weight"] = torch.zeros(128, 256)


def moved_in_place(source, target):
    moved = source["2.weight", "param"][0]
    shape = target["2.weight", "param"][0].shape
    target["2.weight", "param"] = moved.view(shape)


def over_another(source, target):
    target["0.bias", "param"] = source["0.bias", "exp_avg"]


FAULTS = {
    wrong_shape: "source tensor '0.weight' state 'param' has shape [64, 256], "
    "the plan expects [128, 256] on this process",
    wrong_dtype: "has dtype torch.bfloat16, the plan expects torch.float32",
    missing: "destination tensor '2.weight' state 'exp_avg' is missing",
    extra: "the plan expects no source tensor '3.weight' state 'param'",
    not_dense: "has strides [1, 128], the plan expects a dense row-major",
    not_a_tensor: "is a list, expected a torch.Tensor",
    on_meta: "is on meta, the gloo backend moves tensors on cpu",
    moved_in_place: "destination tensor '2.weight' state 'param' shares memory "
    "with its source, and the plan does not leave it as it is",
    over_another: "destination tensor '0.bias' state 'param' shares memory "
    "with source tensor '0.bias' state 'exp_avg'",
    bad_key: "key '0.weight' of the tensors is neither (tensor, state)",
}


def _with_fault(rank, store, path, fault):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    if rank == 2:
        fault(source, target)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    plan.prepare(world, source, target).wait()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_wrong_tensors(fault, compile_plan, tmp_path):
    outcomes = run_ranks(4, _with_fault, tmp_path, compile_plan(PLAN), fault)
    for rank, text in enumerate(outcomes):
        assert FAULTS[fault] in text
        if rank != 2:
            assert text.startswith(
                f"error: rank {rank}, prepare: rank 2 stopped: "
            )


def _bind_fakes(path, place, odd=None, backend="gloo"):
    """Binds rank 0's tensors on a device that is not there: `odd` for the last
    of them."""
    from dynatrain import tensors
    from torch._subclasses import FakeTensorMode

    plan = dynatrain.Plan.load(path)
    expected = plan.expected(0)
    sides = {"source": {}, "destination": {}}
    with FakeTensorMode():
        for entry in expected:
            where = odd if odd and entry is expected[-1] else place
            tensor = torch.zeros(entry.shape, dtype=entry.dtype, device=where)
            sides[entry.side][entry.tensor, entry.state] = tensor
        tensors.bind(expected, sides["source"], sides["destination"], backend)


def test_wrong_devices(compile_plan, monkeypatch):
    path = compile_plan(PLAN)
    monkeypatch.setattr(dynatrain._C, "features", lambda: ["cuda", "nccl"])
    monkeypatch.setattr(dynatrain._C, "Tensor", lambda *args: args)
    _bind_fakes(path, "cuda:1")
    _bind_fakes(path, "cuda:1", backend="nccl")
    mixed = "is on cpu, tensors before it are on cuda:0: one process"
    with pytest.raises(dynatrain.TensorError, match=mixed):
        _bind_fakes(path, "cuda:0", odd="cpu")
    with pytest.raises(dynatrain.TensorError, match="tensors before it are on"):
        _bind_fakes(path, "cuda:0", odd="cuda:1")
    on_host = "is on cpu, the nccl backend moves tensors on cuda"
    with pytest.raises(dynatrain.TensorError, match=on_host):
        _bind_fakes(path, "cpu", backend="nccl")
    monkeypatch.setattr(dynatrain._C, "features", list)
    without = "is on cuda:0, this package was built without CUDA"
    with pytest.raises(dynatrain.TensorError, match=without):
        _bind_fakes(path, "cuda:0")


def _nccl_without_gpu(rank, store, path):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(store=store, rank=rank, backend="nccl", timeout=60)
    place = world.join(plan._native)
    switch = dynatrain._C.Switch(plan._native, place.native)
    source, target = make_tensors(plan, rank)
    bound = dynatrain.tensors.bind(plan.expected(rank), source, target)
    switch.compare(bound, "")
    switch.connect_nccl()


@pytest.mark.skipif(
    "nccl" not in dynatrain._C.features() or Path("/dev/nvidia0").exists(),
    reason="for a build with NCCL on a machine without a GPU",
)
def test_nccl_needs_a_gpu(compile_plan, tmp_path):
    """All ranks end with an error of one of them; none hangs."""
    path = compile_plan(PLAN)
    for rank, text in enumerate(
        run_ranks(4, _nccl_without_gpu, tmp_path, path)
    ):
        assert text.startswith(f"error: rank {rank}, prepare: "), text
        assert "CUDA" in text


def test_nccl_has_no_digests(compile_plan, tmp_path):
    if "nccl" not in dynatrain._C.features():
        pytest.skip("this build has no nccl")
    plan = dynatrain.Plan.load(compile_plan(PLAN))
    store = torch.distributed.HashStore()
    world = dynatrain.World(store=store, rank=0, backend="nccl")
    with pytest.raises(dynatrain.Error, match="digests need the gloo"):
        plan.prepare(world, {}, {}, digests=True)


def _mixed(rank, store, paths):
    plan = dynatrain.Plan.load(paths[rank == 1])
    source, target = make_tensors(plan, plan.devices[rank])
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    plan.prepare(world, source, target).wait()


def test_mixed_plans(compile_plan, tmp_path):
    """Rank 1 has another plan of the same size: all hear of it and of one that
    has not."""
    paths = (
        compile_plan("llama-tiny-8-to-4-shrink"),
        compile_plan("llama-tiny-4-to-8-grow"),
    )
    told = set()
    for rank, text in enumerate(run_ranks(8, _mixed, tmp_path, paths)):
        start = (
            f"error: rank {rank}, prepare: the ranks do not have the same "
            "source layout: "
        )
        assert text.startswith(start)
        told.add(text[len(start) :])
    layouts = [
        dynatrain.Plan.load(path)._native.info()["source_fingerprint"]
        for path in paths
    ]
    assert len(told) == 1
    assert f"rank 1 has {layouts[1]}" in told.copy().pop()
    assert re.search(f"rank [02-7] has {layouts[0]}", told.pop())


def _plan_of_other_size(rank, store, path):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(store=store, rank=rank, world_size=2, timeout=60)
    plan.prepare(world, {}, {}).wait()


def test_wrong_world_size(compile_plan, tmp_path):
    for text in run_ranks(2, _plan_of_other_size, tmp_path, compile_plan(PLAN)):
        assert text == "error: the plan has 4 devices, the world has 2 ranks"


def _too_early(rank, store, path, how):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    source = {key: shards[0] for key, shards in source.items()}
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, source, target)
    switch.wait()
    if rank == 3:
        how(source)
    switch.transfer()
    switch.commit()


def freed(source):
    del source["2.weight", "exp_avg"]


def resized(source):
    source["2.weight", "exp_avg"].untyped_storage().resize_(0)


def moved(source):
    source["2.weight", "exp_avg"].data = torch.zeros(64, 512)


@pytest.mark.parametrize(
    "how, word",
    [(freed, "freed"), (resized, "resized or moved"), (moved, "freed")],
    ids=["freed", "resized", "moved"],
)
def test_tensor_gone_before_transfer(how, word, compile_plan, tmp_path):
    outcomes = run_ranks(4, _too_early, tmp_path, compile_plan(PLAN), how)
    for rank, text in enumerate(outcomes):
        assert (
            f"source tensor '2.weight' state 'exp_avg' was {word} after prepare"
        ) in text
        if rank != 3:
            assert "transfer: rank 3 stopped: " in text


def test_plan_that_is_none(tmp_path):
    path = tmp_path / "no.dtplan"
    with pytest.raises(dynatrain.Error, match=r"no\.dtplan"):
        dynatrain.Plan.load(path)
    path.write_bytes(b"not a plan at all, and long enough to be one" * 20)
    with pytest.raises(dynatrain.Error):
        dynatrain.Plan.load(path)


def test_world_that_is_none():
    with pytest.raises(dynatrain.Error, match="needs a store and a rank"):
        dynatrain.World()
    with pytest.raises(dynatrain.Error, match="backend 'mpi' is not built"):
        dynatrain.World(
            store=torch.distributed.HashStore(), rank=0, backend="mpi"
        )


def _out_of_order(rank, store, path):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, source, target)
    with pytest.raises(dynatrain.Error, match="prepare, transfer, commit"):
        switch.commit()
    switch.transfer()
    with pytest.raises(dynatrain.Error, match="prepare, transfer, commit"):
        switch.transfer()
    switch.commit()


def test_phases_in_order(compile_plan, tmp_path):
    path = compile_plan(PLAN)
    assert run_ranks(4, _out_of_order, tmp_path, path) == [None] * 4


def test_compile(tmp_path, monkeypatch):
    with pytest.raises(dynatrain.CompileError, match="model"):
        dynatrain.compile({"source": {"world": 1}}, tmp_path / "no.dtplan")
    monkeypatch.setattr("dynatrain.compiler.find_compiler", lambda: None)
    with pytest.raises(dynatrain.CompileError, match="neither on PATH nor in"):
        dynatrain.compile("request.json", tmp_path / "no.dtplan")
