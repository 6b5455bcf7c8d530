"""Live switches in flat memory of a state of which a part does not change.

Two ranks change between rows and columns of half of the tensors, and keep the
others as they are: by rows, and whole. Or they change how many layers each has.
"""

import json
import math
import re
import subprocess

import dynatrain
import pytest
from conftest import BUILD
from processes import run_ranks, torch

RANKS = 2
SIDE = 256  # of a square tensor of 256 KiB
MOVED = ["moved.0", "moved.1"]
KEPT = ["rows", "whole", "small"]
PAGED = ["rows", "whole"]  # smaller ones have no pages of their own
SHAPES = dict.fromkeys(MOVED, [SIDE, SIDE]) | {
    "rows": [SIDE, SIDE],
    "whole": [SIDE, SIDE],
    "small": [8, 8],
}


def shard(tensor, rank, offset, size):
    return {"tensor": tensor, "rank": rank, "offset": offset, "size": size}


def shards(by_rows):
    part = SIDE // RANKS
    out = []
    for rank in range(RANKS):
        rows = [part * rank, 0], [part, SIDE]
        columns = [0, part * rank], [SIDE, part]
        for name in MOVED:
            out.append(shard(name, rank, *(rows if by_rows else columns)))
        out.append(shard("rows", rank, *rows))
        for name in ("whole", "small"):
            out.append(shard(name, rank, [0, 0], SHAPES[name]))
    return out


def request(memory):
    return {
        "model": {
            "tensors": [
                {"name": name, "shape": shape, "dtype": "f32"}
                for name, shape in SHAPES.items()
            ]
        },
        "source": {"world": RANKS, "shards": shards(by_rows=True)},
        "destination": {"world": RANKS, "shards": shards(by_rows=False)},
        "memory": {"mode": "flat", "staging": "1MiB", **memory},
    }


#: Of each rank, before and after; ranks 0 and 1 keep 0, 1 and 4, 5.
LAYERS = [4, 2], [2, 4]


def request_of_stages(memory):
    before, after = (
        {"world": RANKS, "pp": RANKS, "pp_layers": layers} for layers in LAYERS
    )
    return {
        "model": {
            "model_type": "llama",
            "torch_dtype": "float32",
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "vocab_size": 512,
        },
        "source": before,
        "destination": after,
        "memory": {"mode": "flat", "staging": "2MiB", **memory},
    }


@pytest.fixture
def compiled(tmp_path):
    """compiled(**memory) is the path of a plan."""

    def compile_request(request=request, **memory):
        path = str(tmp_path / "in-place.dtplan")
        subprocess.run(
            [BUILD / "bin" / "dt-opt", "-", "-o", path],
            input=json.dumps(request(memory)),
            text=True,
            check=True,
        )
        return path

    return compile_request


def content(entry):
    """Of the whole tensor; what is not in SHAPES is whole on its rank."""
    shape = SHAPES.get(entry.tensor, entry.shape)
    values = torch.arange(math.prod(shape), dtype=torch.float32)
    return (values + sum(entry.tensor.encode())).view(shape)


def sides(plan, rank, paged):
    source, destination = {}, {}
    for entry in plan.expected(rank):
        key = entry.tensor, entry.state
        if entry.side == "source":
            tensor = entry.cut(content(entry)).clone()
            source[key] = dynatrain.paged(tensor) if paged else tensor
        else:
            destination[key] = dynatrain.hollow(
                torch.empty(entry.shape, dtype=entry.dtype, device="meta")
            )
    return source, destination


def wrong(plan, rank, state):
    return [
        entry.tensor
        for entry in plan.expected(rank)
        if entry.side == "destination"
        and not torch.equal(
            state[entry.tensor, entry.state], entry.cut(content(entry))
        )
    ]


def places_of(state):
    return {key: tensor.data_ptr() for key, tensor in state.items()}


def places(state):
    return {name: state[name, "param"].data_ptr() for name in SHAPES}


def _switch(rank, store, path, shared_memory, paged):
    """The tensors whose memory is that of the source, and the bytes copied."""
    plan = dynatrain.Plan.load(path)
    source, destination = sides(plan, rank, paged)
    before = places(source)
    world = dynatrain.World(
        store=store, rank=rank, timeout=60, shared_memory=shared_memory
    )
    switch = plan.prepare(world, source, destination)
    switch.transfer()
    switch.commit()
    assert wrong(plan, rank, destination) == []
    after = places(destination)
    same = [name for name in SHAPES if before[name] == after[name]]
    empty = [
        name
        for name in SHAPES
        if source[name, "param"].untyped_storage().nbytes() == 0
    ]
    for name in same:
        # The memory is the destination's now, like any other of a switch.
        destination[name, "param"].add_(1)
    return same, empty


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("granularity", ["tensor", "page"])
def test_what_does_not_change_stays(
    compiled, granularity, shared_memory, tmp_path
):
    path = compiled(granularity=granularity)
    facts = dynatrain.Plan.load(path).inspect()
    kept = 4 * (SIDE * SIDE + RANKS * SIDE * SIDE + RANKS * 64)
    assert facts["bytes"]["in_place"] == kept
    assert facts["bytes"]["local"] == 4 * 2 * SIDE * SIDE // RANKS
    paged = granularity == "page"
    told = run_ranks(RANKS, _switch, tmp_path, path, shared_memory, paged)
    stays = PAGED if paged else KEPT
    assert told == [(stays, [*MOVED, *stays])] * RANKS, told


def layers_of(keys):
    found = {re.search(r"\.layers\.(\d+)\.", name) for name, _ in keys}
    return sorted({int(match[1]) for match in found if match})


def _move_stages(rank, store, path, shared_memory, paged):
    """Layers of the source, and those whose memory the destination has now."""
    plan = dynatrain.Plan.load(path)
    source, destination = sides(plan, rank, paged)
    before = places_of(source)
    world = dynatrain.World(
        store=store, rank=rank, timeout=60, shared_memory=shared_memory
    )
    switch = plan.prepare(world, source, destination)
    switch.transfer()
    switch.commit()
    assert wrong(plan, rank, destination) == []
    after = places_of(destination)
    least = 64 << 10 if paged else 1  # smaller ones have no pages of their own
    for key, tensor in destination.items():
        stays = key in before and tensor.nbytes >= least
        assert (before.get(key) == after[key]) == stays, key
    return layers_of(source), layers_of(
        key for key in destination if before.get(key) == after[key]
    )


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("granularity", ["tensor", "page"])
def test_layers_that_a_rank_keeps_stay_where_stages_move(
    compiled, granularity, shared_memory, tmp_path
):
    """The plan copies them, since their shards are not the same: a live switch
    hands them over, and what they take is there once."""
    path = compiled(request_of_stages, granularity=granularity)
    told = run_ranks(
        RANKS,
        _move_stages,
        tmp_path,
        path,
        shared_memory,
        granularity == "page",
    )
    kept = [([0, 1, 2, 3], [0, 1]), ([4, 5], [4, 5])]
    assert told == kept, told


def test_what_cannot_go_is_copied(compiled, tmp_path):
    """By page, memory without pages stays the source's, and is copied."""
    path = compiled(granularity="page")
    told = run_ranks(RANKS, _switch, tmp_path, path, True, False)
    assert told == [([], [])] * RANKS, told


def _twins(rank, store, path):
    """A trainer may also give one tensor for both sides."""
    plan = dynatrain.Plan.load(path)
    source, destination = sides(plan, rank, paged=False)
    for name in KEPT:
        destination[name, "param"] = source[name, "param"]
    before = places(source)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, source, destination)
    switch.transfer()
    switch.commit()
    assert wrong(plan, rank, destination) == []
    after = places(destination)
    return [name for name in SHAPES if before[name] == after[name]]


def test_one_tensor_for_both_sides(compiled, tmp_path):
    path = compiled(granularity="tensor")
    told = run_ranks(RANKS, _twins, tmp_path, path)
    assert told == [KEPT] * RANKS, told


def _fails(rank, store, path):
    """Before all have begun nothing has been handed over."""
    plan = dynatrain.Plan.load(path)
    source, destination = sides(plan, rank, paged=False)
    world = dynatrain.World(store=store, rank=rank, timeout=10)
    switch = plan.prepare(world, source, destination)
    with pytest.raises(dynatrain.Error):
        switch.wait()
        switch.abort("no")
        switch.transfer()
    return [
        entry.tensor
        for entry in plan.expected(rank)
        if entry.side == "source"
        and not torch.equal(
            source[entry.tensor, entry.state], entry.cut(content(entry))
        )
    ]


def test_an_abort_before_the_transfer_leaves_the_source(compiled, tmp_path):
    path = compiled(granularity="tensor")
    told = run_ranks(RANKS, _fails, tmp_path, path)
    assert told == [[]] * RANKS, told
