"""Which part of a full tensor a shard is, and the forms in which a trainer may
give it."""

import dataclasses

import dynatrain
import pytest
from dynatrain import tensors
from processes import run_ranks, torch

PLANS = [
    "adamw-mlp-4-rows-to-columns",
    "explicit-shards-rows-to-flat-ranges",
    "gpt2-tiny-4-tied-embeddings",
    "llama-tiny-6-to-4-overlap-uneven",
    "llama-tiny-8-vpp-to-fsdp",
    "llama-tiny-8-zero1-dp4-to-dp2",
    "qwen3-moe-tiny-8-ep4-to-4-ep2",
    "qwen3-moe-tiny-8-zero1-experts",
]


def full_tensor(entry):
    """Values of the whole tensor, the same on every process."""
    seed = sum(f"{entry.tensor}/{entry.state}".encode())
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 100, entry.full_shape, generator=generator)
    return values.to(entry.dtype)


def cut_tensors(plan, device, make):
    """Shards of a device as `cut` gives them: {side: {key: [tensor, ...]}}."""
    sides = {"source": {}, "destination": {}}
    for entry in plan.expected(device):
        shards = sides[entry.side].setdefault((entry.tensor, entry.state), [])
        shards.append(make(entry))
    return sides


def _rank(rank, store, path):
    plan = dynatrain.Plan.load(path)
    device = plan.devices[rank]

    def make(entry):
        right = entry.cut(full_tensor(entry))
        assert right.shape == entry.shape and right.is_contiguous()
        return right if entry.side == "source" else torch.ones_like(right)

    sides = cut_tensors(plan, device, make)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, sides["source"], sides["destination"])
    switch.transfer()
    switch.commit()
    checked = 0
    for entry in plan.expected(device):
        if entry.side == "destination":
            key = entry.tensor, entry.state
            found = sides["destination"][key][entry.ordinal]
            assert torch.equal(found, entry.cut(full_tensor(entry))), entry
            checked += found.numel()
    return checked


@pytest.mark.parametrize("name", PLANS)
def test_cut_takes_what_the_plan_moves(name, compile_plan, tmp_path):
    """Sources that are cut so arrive as destinations that are cut so."""
    path = compile_plan(name)
    size = len(dynatrain.Plan.load(path).devices)
    checked = run_ranks(size, _rank, tmp_path, path)
    assert sum(checked) > 0, checked


def row(rank, offset, size, **more):
    return {"tensor": "w", "rank": rank, "offset": offset, "size": size} | more


def compiled(folder, source, destination, shape=(8, 4)):
    """A plan of one tensor between explicit shards."""
    request = {
        "model": {"tensors": [{"name": "w", "shape": shape, "dtype": "f32"}]},
        "source": {"world": 2, "shards": source},
        "destination": {"world": 2, "shards": destination},
    }
    return dynatrain.compile(request, folder / "w.dtplan")


HALVES = [row(0, [0, 0], [4, 4]), row(1, [4, 0], [4, 4])]


def test_where_shards_lie(tmp_path):
    """Also of those that a rank has several of."""
    rows = [
        row(0, [4, 0], [2, 4]), row(0, [0, 0], [2, 4]),
        row(1, [2, 0], [2, 4], range=[0, 3]), row(1, [6, 0], [2, 4]),
        row(1, [2, 0], [6, 4], range=[3, 8]),
    ]  # fmt: skip
    plan = compiled(tmp_path, rows, HALVES)
    held = [entry for entry in plan.expected(0) if entry.side == "source"]
    assert sorted(entry.offset for entry in held) == [(0, 0), (4, 0)]
    assert [entry.ordinal for entry in held] == [0, 1]
    for entry in held:
        assert entry.box == entry.shape == (2, 4) and entry.range is None
        assert entry.full_shape == (8, 4)
        start = entry.offset[0]
        assert entry.intervals == (((start, start + 2),), ((0, 4),))
    full = torch.arange(32.0).view(8, 4)
    ranges = [e for e in plan.expected(1) if e.side == "source" and e.range]
    assert {(e.offset, e.range) for e in ranges} == {
        ((2, 0), (0, 3)), ((2, 0), (3, 8)),
    }  # fmt: skip
    for entry in ranges:
        begin = 8.0 + entry.range[0]
        assert entry.cut(full).tolist() == [
            begin + i for i in range(*entry.shape)
        ]
    with pytest.raises(
        dynatrain.TensorError, match=r"shape \[4\], the plan exp"
    ):
        ranges[0].cut(torch.zeros(4))


def test_gate_and_up_are_two_intervals(compile_plan):
    """Gate and up of a fused weight: two intervals of one local tensor."""
    plan = dynatrain.Plan.load(compile_plan("llama-tiny-8-to-4-shrink"))
    fused = [
        entry for entry in plan.expected(1)
        if entry.tensor.endswith("linear_fc1.weight")
    ]  # fmt: skip
    assert fused and all(len(entry.intervals[0]) == 2 for entry in fused)
    for entry in fused:
        rows = torch.arange(entry.full_shape[0]).view(-1, 1)
        (a, b), (c, d) = entry.intervals[0]
        cut = entry.cut(rows.expand(entry.full_shape))
        assert cut[:, 0].tolist() == [*range(a, b), *range(c, d)]


# Forms ----------------------------------------------------------------------


def bound(plan, device, source, destination=None):
    """How many tensors `prepare` pairs with the plan's."""
    return len(tensors.bind(plan.expected(device), source, destination))


def test_empty_shards_are_given_or_left_out(tmp_path):
    """FSDP2 over more ranks than rows: the last one has nothing."""
    whole = [row(0, [0, 0], [8, 4])]
    plan = compiled(tmp_path, whole, whole)
    full = {("w", "param"): torch.zeros(8, 4)}
    new = {("w", "param"): torch.zeros(8, 4)}
    assert bound(plan, 0, full, new) == 2
    for empty in (
        {},
        {("w", "param"): torch.zeros(0, 4)},
        {("w", "param"): torch.zeros(0)},
        {("w", "param"): [torch.zeros(0, 4), torch.zeros(0, 4)]},
        {"param": {"w": torch.zeros(8, 0)}},
    ):
        assert bound(plan, 1, empty, empty) == 0
        assert bound(plan, 0, full | {("v", "param"): torch.zeros(0)}, new) == 2
    with pytest.raises(dynatrain.TensorError, match="expects no source tensor"):
        bound(plan, 1, {("w", "param"): torch.zeros(1, 4)})
    with pytest.raises(
        dynatrain.TensorError, match="'w' state 'param' is miss"
    ):
        bound(plan, 0, {("w", "param"): torch.zeros(0, 4)}, new)


def test_empty_shards_that_a_layout_by_sizes_knows(tmp_path):
    """Three rows over four ranks: the plan itself has an empty shard."""
    request = {
        "model": {"tensors": [{"name": "w", "shape": [3, 8], "dtype": "f32"}]},
        "rules": [{"match": "w", "tp": 1, "stage": "first"}],
        "source": {"world": 4, "fsdp": 4},
        "destination": {"world": 4, "tp": 4},
    }
    plan = dynatrain.compile(request, tmp_path / "w.dtplan")
    new = {("w", "param"): torch.zeros(3, 2)}
    for source in ({}, {("w", "param"): torch.zeros(0, 8)}):
        assert bound(plan, 3, source, new) == 1
    assert bound(plan, 2, {("w", "param"): torch.zeros(1, 8)}, new) == 2


def test_one_run_of_a_box(tmp_path):
    """A flat buffer's part for a matrix, and the other way round."""
    plan = compiled(
        tmp_path, [row(0, [0, 0], [8, 4], range=[0, 32])],
        [row(0, [0, 0], [8, 4], range=[0, 24]),
         row(1, [0, 0], [8, 4], range=[24, 32])],
    )  # fmt: skip
    # A range over all of a box is that box, as the plan has it.
    assert plan.expected(0)[0].shape == (8, 4)
    buffer = torch.zeros(40)
    for source in (torch.zeros(8, 4), torch.zeros(32), buffer[8:],
                   torch.zeros(1, 8, 4), buffer[:32].view(8, 4)):  # fmt: skip
        for new in (torch.zeros(24), torch.zeros(6, 4), torch.zeros(1, 24)):
            old = {("w", "param"): source}
            assert bound(plan, 0, old, {("w", "param"): new}) == 2
    for wrong in (torch.zeros(4, 8), torch.zeros(31), torch.zeros(2, 4, 4)):
        with pytest.raises(dynatrain.TensorError, match=r"expects \[8, 4\] on"):
            bound(plan, 0, {("w", "param"): wrong})
    old = {("w", "param"): torch.zeros(8, 4)}
    for wrong in (torch.zeros(4, 6), torch.zeros(3, 8), torch.zeros(25)):
        with pytest.raises(dynatrain.TensorError, match=r"expects \[24\] on"):
            bound(plan, 0, old, {("w", "param"): wrong})


def test_rows_of_a_range_that_does_not_start_with_one(tmp_path):
    plan = compiled(
        tmp_path, [row(0, [0, 0], [8, 4], range=[2, 10]),
                   row(1, [0, 0], [8, 4], range=[10, 32]),
                   row(1, [0, 0], [8, 4], range=[0, 2])], HALVES,
    )  # fmt: skip
    new = {("w", "param"): torch.zeros(4, 4)}
    assert bound(plan, 0, {("w", "param"): torch.zeros(8)}, new) == 2
    with pytest.raises(dynatrain.TensorError, match=r"expects \[8\] on"):
        bound(plan, 0, {("w", "param"): torch.zeros(2, 4)}, new)


def test_one_tensor_for_interleaved_shards(tmp_path):
    """What _StridedShard leaves on a rank is one tensor of several boxes."""
    interleaved = [
        row(0, [0, 0], [2, 4]), row(0, [4, 0], [2, 4]),
        row(1, [2, 0], [2, 4]), row(1, [6, 0], [2, 4]),
    ]  # fmt: skip
    plan = compiled(tmp_path, interleaved, HALVES)
    new = {("w", "param"): torch.zeros(4, 4)}
    local = torch.arange(16.0).view(4, 4)
    assert bound(plan, 0, {("w", "param"): local}, new) == 3
    assert bound(plan, 0, {("w", "param"): [local[:2], local[2:]]}, new) == 3
    with pytest.raises(dynatrain.TensorError, match=r"shape \[2, 4, 2\]"):
        bound(plan, 0, {("w", "param"): local.view(2, 4, 2)}, new)
    three = [torch.zeros(2, 4) for _ in range(3)]
    with pytest.raises(dynatrain.TensorError, match="3 tensors are given for"):
        bound(plan, 0, {("w", "param"): three}, new)


def test_parts_of_an_interleaved_tensor(tmp_path):
    """Each shard is where its interval stands among the others."""
    rows = [
        row(0, [6, 0], [1, 4]), row(0, [0, 0], [3, 4]), row(0, [4, 0], [1, 4]),
        row(1, [3, 0], [1, 4]), row(1, [5, 0], [1, 4]), row(1, [7, 0], [1, 4]),
    ]  # fmt: skip
    plan = compiled(tmp_path, rows, HALVES)
    full = torch.arange(32.0).view(8, 4)
    for device, held in enumerate([[0, 1, 2, 4, 6], [3, 5, 7]]):
        shards = [e for e in plan.expected(device) if e.side == "source"]
        parts = tensors._spread(shards, [full[held]])
        assert len(parts) == len(shards) == 3
        for entry, part in zip(shards, parts):
            assert torch.equal(part, entry.cut(full))


def test_a_range_of_all_of_a_box():
    """dt-opt writes a box instead; other plans need not."""
    entry = dynatrain.ExpectedTensor(
        "w", "param", "source", 0, (32,), torch.float32,
        full_shape=(8, 4), intervals=(((0, 8),), ((0, 4),)), range=(0, 32),
    )  # fmt: skip
    assert tensors._fits(entry, (8, 4)) and tensors._fits(entry, (32,))
    assert not tensors._fits(entry, (4, 8))
    assert not tensors._fits(entry, (2, 4, 4))


def test_interleaved_columns_are_not_dense(tmp_path):
    columns = [
        row(rank, [0, at + rank], [8, 1]) for rank in range(2) for at in (0, 2)
    ]
    plan = compiled(tmp_path, columns, HALVES)
    new = {("w", "param"): torch.zeros(4, 4)}
    with pytest.raises(dynatrain.TensorError, match=r"has strides \[2, 1\]"):
        bound(plan, 0, {("w", "param"): torch.zeros(8, 2)}, new)


def test_words_about_strides(tmp_path):
    """No copy is advised: bytes would go into it, or be those of a step ago."""
    plan = compiled(tmp_path, HALVES, [row(0, [0, 0], [8, 4])])
    strided = {("w", "param"): torch.zeros(4, 4).t()}
    new = {("w", "param"): torch.zeros(8, 4)}
    with pytest.raises(dynatrain.TensorError, match="keep it dense") as found:
        bound(plan, 0, strided, new)
    assert "contiguous()" not in str(found.value)
    old = {("w", "param"): torch.zeros(4, 4)}
    strided = {("w", "param"): torch.zeros(4, 8).t()}
    with pytest.raises(dynatrain.TensorError, match="allocate it d") as found:
        bound(plan, 0, old, strided)
    assert "contiguous()" not in str(found.value)


def test_a_tensor_made_of_others_is_refused(tmp_path):
    from torch.testing._internal.two_tensor import TwoTensor

    plan = compiled(tmp_path, HALVES, HALVES)
    pair = TwoTensor(torch.zeros(4, 4), torch.zeros(4, 4))
    words = "is a TwoTensor, which has its values in other tensors"
    with pytest.raises(dynatrain.TensorError, match=words):
        bound(plan, 0, {("w", "param"): pair})


def test_a_state_of_another_shape_by_either_key(tmp_path):
    """Adafactor's row_var: a tensor of its own in captured requests."""
    from dynatrain import capture

    state = {
        ("w", "param"): torch.zeros(8, 4),
        ("w", "row_var"): torch.zeros(8, 1),
        ("w", "exp_avg"): torch.zeros(8, 4),
    }
    layout = capture.from_dtensors(state, 1)
    request = capture.request(layout, layout)
    plan = dynatrain.compile(request, tmp_path / "w.dtplan")
    assert {(e.tensor, e.state) for e in plan.expected(0)} == {
        ("w", "param"), ("w", "exp_avg"), ("optim.state.w.row_var", "param"),
    }  # fmt: skip
    assert bound(plan, 0, state, state) == 6
    flat = {capture.state_key(*key): tensor for key, tensor in state.items()}
    assert bound(plan, 0, {"param": flat}, {"param": flat}) == 6


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.uint16, torch.bool, torch.bfloat16]
)
def test_cut_with_padding_and_several_intervals(dtype):
    entry = dynatrain.ExpectedTensor(
        "w", "param", "source", 0, (5, 2), dtype,
        full_shape=(6, 3), intervals=(((1, 3), (5, 8)), ((1, 3),)),
    )  # fmt: skip
    full = torch.arange(18).view(6, 3).to(dtype)
    cut = entry.cut(full)
    assert cut.dtype == dtype and cut.shape == entry.box == (5, 2)
    right = torch.tensor([[4, 5], [7, 8], [16, 17], [0, 0], [0, 0]]).to(dtype)
    assert torch.equal(cut.view(torch.uint8), right.view(torch.uint8))
    beyond = dataclasses.replace(entry, intervals=(((6, 8),), ((0, 0),)))
    assert beyond.cut(full).shape == (2, 0)
    assert entry.cut(full).data_ptr() != full.data_ptr()


def test_cut_with_padding_of_another_value():
    entry = dynatrain.ExpectedTensor(
        "w", "param", "destination", 0, (4, 2), torch.bfloat16,
        full_shape=(2, 2), intervals=(((0, 4),), ((0, 2),)), fill=0xBF80,
    )  # fmt: skip
    full = torch.arange(4.0).view(2, 2)
    for dtype in (torch.bfloat16, torch.float32):
        right = torch.cat([full, torch.full((2, 2), -1.0)]).to(dtype)
        assert torch.equal(entry.cut(full.to(dtype)), right)
