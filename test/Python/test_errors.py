"""One clear error, on every rank, before a byte moves."""

import os
import re
import sys
import threading
import warnings
from datetime import timedelta
from pathlib import Path

import dynatrain
import pytest
from processes import make_tensors, meet, run_ranks, torch

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


def _nccl_without_gpu(rank, store, path, digests):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(store=store, rank=rank, backend="nccl", timeout=60)
    place = world.join(plan._native)
    switch = dynatrain._C.Switch(plan._native, place.native)
    source, target = make_tensors(plan, rank)
    bound = dynatrain.tensors.bind(plan.expected(rank), source, target)
    switch.compare(bound, "")
    switch.connect_nccl(digests, not digests)


def test_one_sided_waves_are_nccls():
    with pytest.raises(dynatrain.InvalidError, match="needs backend 'nccl'"):
        dynatrain.World(
            store=torch.distributed.HashStore(), rank=0, one_sided=True
        )


@pytest.mark.skipif(
    "nccl" not in dynatrain._C.features() or Path("/dev/nvidia0").exists(),
    reason="for a build with NCCL on a machine without a GPU",
)
@pytest.mark.parametrize("digests", [False, True])
def test_nccl_needs_a_gpu(digests, compile_plan, tmp_path):
    """All ranks end with an error of one of them; none hangs."""
    path = compile_plan(PLAN)
    for rank, text in enumerate(
        run_ranks(4, _nccl_without_gpu, tmp_path, path, digests)
    ):
        assert text.startswith(f"error: rank {rank}, prepare: "), text
        assert "CUDA" in text


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
    meet(store, "ready", rank, 4)
    if rank == 3:
        how(source)
    switch.transfer()
    switch.commit()


def freed(source):
    del source["2.weight", "exp_avg"]


def resized(source):
    source["2.weight", "exp_avg"].untyped_storage().resize_(0)


def moved(source):
    tensor = source["2.weight", "exp_avg"]
    tensor.data = torch.zeros(tensor.shape)


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


def _start_meanwhile(act):
    """Runs `act` in another thread as soon as this one lets go of Python: when
    `transfer` has looked at the tensors and begins to move bytes."""
    gate = threading.Lock()

    def wait_and_act():
        with gate:
            act()

    with gate:
        threading.Thread(target=wait_and_act, daemon=True).start()
        sys.setswitchinterval(1000)


def _changed_meanwhile(rank, store, path, how, side, keep):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    tensors = source if side == "source" else target
    tensors.update({key: shards[0] for key, shards in tensors.items()})
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, source, target)
    switch.wait()
    # Of the same memory.
    views = [tensor.view(-1) for tensor in tensors.values() if keep]
    if rank == 3:
        _start_meanwhile(lambda: (how(tensors), store.set("changed", "yes")))
    else:
        # Before these come rank 3 cannot be done.
        store.wait(["changed"], timedelta(seconds=60))
    switch.transfer()
    switch.commit()
    return len(views)


@pytest.mark.parametrize("side", ["source", "destination"])
@pytest.mark.parametrize(
    "how, keep, word",
    [
        (freed, False, "freed"),
        (moved, False, "freed"),
        (moved, True, "resized or moved"),
    ],
    ids=["freed", "moved", "moved-from-a-view"],
)
def test_tensor_gone_during_transfer(
    how, keep, word, side, compile_plan, tmp_path
):
    outcomes = run_ranks(
        4, _changed_meanwhile, tmp_path, compile_plan(PLAN), how, side, keep
    )
    for rank, text in enumerate(outcomes):
        assert (
            f"{side} tensor '2.weight' state 'exp_avg' was {word} during "
            "transfer"
        ) in text
        if rank == 3:
            assert text.startswith("error: rank 3, transfer: ")


def _gone_before_commit(rank, store, path, side):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, source, target)
    switch.transfer()
    meet(store, "transferred", rank, 4)
    if rank == 3:
        del (source if side == "source" else target)["2.weight", "exp_avg"]
    switch.commit()


def test_destination_gone_before_commit(compile_plan, tmp_path):
    """A source that is gone is no reason to lose the new state too."""
    path = compile_plan(PLAN)
    outcomes = run_ranks(4, _gone_before_commit, tmp_path, path, "destination")
    for rank, text in enumerate(outcomes):
        assert (
            "destination tensor '2.weight' state 'exp_avg' was freed after "
            "transfer"
        ) in text
        assert text.startswith(f"error: rank {rank}, commit: ")
    outcomes = run_ranks(4, _gone_before_commit, tmp_path, path, "source")
    assert outcomes == [None] * 4


def test_plan_that_is_none(tmp_path):
    path = tmp_path / "no.dtplan"
    with pytest.raises(dynatrain.Error, match=r"no\.dtplan"):
        dynatrain.Plan.load(path)
    path.write_bytes(b"not a plan at all, and long enough to be one" * 20)
    with pytest.raises(dynatrain.Error):
        dynatrain.Plan.load(path)


def _cut_short(rank, store, path, length):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    meet(store, "loaded", rank, 4 if rank == 0 else 0)
    if rank == 0:
        os.truncate(path, length)
        store.set("cut", "yes")
    store.wait(["cut"], timedelta(seconds=60))
    world = dynatrain.World(store=store, rank=rank, timeout=20)
    switch = plan.prepare(world, source, target)
    switch.transfer()
    switch.commit()


@pytest.mark.parametrize("part", [0, 0.02, 0.5, 0.99])
def test_plan_cut_short_after_loading(part, compile_plan, tmp_path):
    """Somebody writes the file anew while it is in use: the plan as it was
    loaded is carried out, or every rank gets an error; none dies."""
    path = tmp_path / "cut.dtplan"
    path.write_bytes(Path(compile_plan(PLAN)).read_bytes())
    length = int(part * path.stat().st_size)
    outcomes = run_ranks(4, _cut_short, tmp_path, str(path), length)
    failed = [str(outcome).startswith("error: ") for outcome in outcomes]
    assert all(failed) or outcomes == [None] * 4, outcomes


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
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("dynatrain.compiler.find_compiler", lambda: None)
    with pytest.raises(dynatrain.CompileError, match="neither on PATH nor in"):
        dynatrain.compile("request.json", tmp_path / "no.dtplan")


def _of_rows(source, destination):
    """A request that keeps other numbers of rows on one rank."""

    def side(rows):
        row = {"tensor": "w", "rank": 0, "offset": [0, 0], "size": [rows, 8]}
        return {"world": 1, "shards": [row]}

    return {
        "model": {"tensors": [{"name": "w", "shape": [8, 8], "dtype": "f32"}]},
        "source": side(source),
        "destination": side(destination),
    }


def test_warnings_of_the_compiler(tmp_path):
    """Values that are lost are told, once, where compile() was called."""
    words = r'^dt-opt: destination\.shards leave \[4:8\)x\[0:8\) of tensor "w"'
    with pytest.warns(dynatrain.CompileWarning, match=words) as told:
        request = _of_rows(8, 4)
        request["destination"]["partial"] = True
        dynatrain.compile(request, tmp_path / "lost.dtplan")
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dynatrain.compile(_of_rows(8, 8), tmp_path / "kept.dtplan")


def test_warnings_with_notes_and_places():
    from dynatrain.compiler import _warnings_of

    words = (
        'f.mlir:3:1: warning: "w" is lost\nnote: here\nwarning: b: warning: c'
    )
    assert _warnings_of(words) == ['"w" is lost; note: here', "b: warning: c"]
    assert _warnings_of("") == []
    assert _warnings_of("some words") == ["some words"]
