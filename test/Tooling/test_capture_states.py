"""Captured optimizer state: several states of a tensor, from each reader; each
captured request compiles and runs with every byte compared."""

import pytest
from test_capture import (
    REPLICATE,
    capture,
    dtensor,
    run_checked,
    shard,
    sharded,
)


def states_of(request):
    return {
        entry["name"]: entry.get("state") or {"param": entry["dtype"]}
        for entry in request["model"]["tensors"]
    }


def rows_with(request, side, tensor, state):
    return [
        (row["rank"], row["offset"], row["size"], row.get("range"))
        for row in request[side]["shards"]
        if row["tensor"] == tensor and row.get("state", state) == state
    ]


def adam_tree(mesh, placement):
    """model and AdamW's state of one tensor, as torch nests them."""

    def part(dtype):
        return dtensor([8, 6], mesh, placement, dtype=dtype)

    state = {
        "exp_avg": part("torch.float32"),
        "exp_avg_sq": part("torch.float32"),
        "step": {"shape": [], "dtype": "torch.float32"},
    }
    return {
        "model": {"a.weight": part("torch.bfloat16")},
        "optim": {"state": {"a.weight": state}, "param_groups": [{"lr": 1}]},
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.weight", ("a.weight", "param")),
        ("optim.state.a.weight.exp_avg", ("a.weight", "exp_avg")),
        ("app.optimizer.state.a.weight.step", ("a.weight", "step")),
        ("optimizer.state.exp_avg_sq.a.weight", ("a.weight", "exp_avg_sq")),
        ("chained_1.optimizer.state.fp32_param.a.b", ("a.b", "master")),
        ("ssm.state.weight", ("ssm.state.weight", "param")),
    ],
)
def test_keys_name_tensors_and_states(key, expected):
    assert capture.tensor_and_state(key) == expected


@pytest.mark.parametrize(
    ("tensor", "state"),
    [("a.weight", "param"), ("a.weight", "exp_avg"), ("w", "row_var")],
)
def test_keys_of_pairs_are_read_back(tensor, state):
    key = capture.state_key(tensor, state)
    assert capture.tensor_and_state(key) == (tensor, state)


@pytest.mark.parametrize(
    "pair",
    [("optim.state.a.exp_avg", "param"), ("a", "b.c")],
)
def test_names_that_read_as_something_else_are_refused(pair):
    assert f"{pair[0]!r} with state {pair[1]!r}" in refusal(
        capture.state_key, *pair
    )


def test_pairs_are_keys_of_state_dicts(tmp_path):
    """As dynatrain.training_state gives them."""

    def pairs(mesh, placement):
        return {
            ("a.weight", state): dtensor([8, 6], mesh, placement)
            for state in ("param", "exp_avg")
        } | {("a.bias", "param"): dtensor([8], mesh, REPLICATE)}

    before = capture.from_dtensors(pairs([0, 1, 2], shard(0)), 3)
    after = capture.from_dtensors(pairs([0, 1], shard(1)), 2)
    request = capture.request(before, after)
    assert states_of(request) == {
        "a.weight": {"param": "float32", "exp_avg": "float32"},
        "a.bias": {"param": "float32"},
    }
    run_checked(request, tmp_path)


def test_dtensor_optimizer_state(tmp_path):
    before = capture.from_dtensors(adam_tree([0, 1, 2], shard(0)), 3)
    after = capture.from_dtensors(adam_tree([0, 1], shard(1)), 2)
    request = capture.request(before, after)
    assert states_of(request) == {
        "model.a.weight": {
            "param": "bfloat16", "exp_avg": "float32", "exp_avg_sq": "float32",
        },
        "optim.state.a.weight.step": {"param": "float32"},
    }  # fmt: skip
    report = run_checked(request, tmp_path)
    assert report["bytes_checked"] == 48 * (2 + 4 + 4) + 2 * 4


def test_a_state_that_changes_its_dtype_and_one_that_is_dropped(tmp_path):
    before = capture.from_dtensors(adam_tree([0, 1, 2], shard(0)), 3)
    tree = adam_tree([0], REPLICATE)
    del tree["optim"]["state"]["a.weight"]["exp_avg"]
    tree["model"]["a.weight"]["dtype"] = "torch.float32"
    after = capture.from_dtensors(tree, 1)
    with pytest.raises(capture.CaptureError, match="exp_avg.*model.a.weight"):
        capture.request(before, after)
    request = capture.request(before, after, drop=["exp_avg"])
    states = states_of(request)["model.a.weight"]
    assert states["param"] == ["bfloat16", "float32"]
    assert states["exp_avg"] == ["float32", None]
    run_checked(request, tmp_path)


def test_checkpoint_metadata_of_optimizer_state(tmp_path):
    def stored(fqn, offset, rank):
        return {
            "index": {"fqn": fqn, "offset": offset},
            "info": {"relative_path": f"__{rank}_0.distcp"},
        }

    def entry(dtype, size, *chunks):
        return {
            "properties": {"dtype": dtype},
            "size": size,
            "chunks": [{"offsets": at, "sizes": n} for at, n in chunks],
        }

    halves = ([0, 0], [4, 6]), ([4, 0], [4, 6])
    exp_avg = "optim.state.a.weight.exp_avg"
    metadata = {
        "state_dict_metadata": {
            "model.a.weight": entry("torch.bfloat16", [8, 6], *halves),
            exp_avg: entry("torch.float32", [8, 6], *reversed(halves)),
            "optim.state.a.weight.step": entry("torch.float32", [], ([], [])),
            "optim.param_groups.a.weight.lr": {},
        },
        "storage_data": [
            stored("model.a.weight", [0, 0], 0),
            stored("model.a.weight", [4, 0], 1),
            stored(exp_avg, [0, 0], 1),
            stored(exp_avg, [4, 0], 0),
            stored("optim.state.a.weight.step", [], 1),
        ],
    }
    before = capture.from_checkpoint_metadata(metadata, 2)
    tree = adam_tree([0, 1], shard(1))
    del tree["optim"]["state"]["a.weight"]["exp_avg_sq"]
    request = capture.request(before, capture.from_dtensors(tree, 2))
    held = rows_with(request, "source", "model.a.weight", "exp_avg")
    assert sorted(held) == [
        (0, [4, 0], [4, 6], None),
        (1, [0, 0], [4, 6], None),
    ]
    run_checked(request, tmp_path)


def megatron_rank(tp, dp):
    """Gate and up of a tensor; dp rank 0 optimizes gate, the other one up."""
    gate_and_up = [
        sharded(
            "w", [part * 8 + tp * 4, 0], [4, 4], [16, 4],
            axis_fragmentations=[4, 1],
            optimizer_range=[0, 16] if part == dp else None,
        )
        for part in range(2)
    ]  # fmt: skip
    norm = [
        sharded("norm", [0], [6], [6]),
        sharded(
            "optimizer.state.fp32_param.norm", [0], [6], [6],
            dtype="torch.float32",
        ),
    ]  # fmt: skip
    return {"model": gate_and_up, "norm": norm}


def test_megatron_optimizer_state_and_ranges(tmp_path):
    ranks = [megatron_rank(tp, dp) for dp in range(2) for tp in range(2)]
    zero = {"master": "f32", "exp_avg": "f32"}
    before = capture.from_sharded_tensors(ranks, zero)
    whole = sharded("w", [0, 0], [16, 4], [16, 4], optimizer_range=(0, 64))
    norm = ranks[0]["norm"]
    after = capture.from_sharded_tensors([[whole, *norm]], zero)
    request = capture.request(before, after)
    assert states_of(request) == {
        "w": {"param": "bfloat16", "master": "f32", "exp_avg": "f32"},
        "norm": {"param": "bfloat16", "master": "float32"},
    }
    assert rows_with(request, "source", "w", "exp_avg") == [
        (0, [0, 0], [4, 4], [0, 16]), (1, [4, 0], [4, 4], [0, 16]),
        (2, [8, 0], [4, 4], [0, 16]), (3, [12, 0], [4, 4], [0, 16]),
    ]  # fmt: skip
    report = run_checked(request, tmp_path)
    assert report["bytes_checked"] == 64 * (2 + 4 + 4) + 6 * (2 + 4)


class Range:
    def __init__(self, start, end):
        self.start, self.end = start, end


class Factory:
    """Gate and up of one local tensor, as Megatron-Core's factories give."""

    data = object()

    def build(self):
        return [sharded("w", [at, 0], [4, 4], [16, 4]) for at in (0, 8)]


def test_an_optimizer_range_is_cut_over_gate_and_up():
    ranges = [
        {"f32": [{"param_map": {Factory.data: {"param": Range(10, 20)}}}]}
    ]
    parts = capture.describe_sharded({"m": [Factory()]}, ranges)
    assert [part["optimizer_range"] for part in parts] == [(10, 16), (0, 4)]
    elsewhere = capture.describe_sharded({"m": [Factory()]})
    assert not any("optimizer_range" in part for part in elsewhere)


def refusal(reader, *arguments, **more):
    with pytest.raises(capture.CaptureError) as caught:
        reader(*arguments, **more)
    return str(caught.value)


def test_ranks_that_pad_unequally_are_refused():
    ranks = [
        [sharded("emb", [0, 0], [4, 2], [8, 2])],
        [sharded("emb", [4, 0], [6, 2], [10, 2])],
    ]
    text = refusal(capture.from_sharded_tensors, ranks)
    assert "'emb'" in text and "[10, 2]" in text and "on rank 1" in text


def test_sides_that_pad_unequally_are_refused():
    before = capture.from_sharded_tensors(
        [[sharded("emb", [0, 0], [8, 2], [8, 2])]]
    )
    after = capture.from_sharded_tensors(
        [[sharded("emb", [at, 0], [5, 2], [10, 2])] for at in (0, 5)]
    )
    text = refusal(capture.request, before, after)
    assert "'emb'" in text and "rank 0 holds [0:5)x[0:2)" in text


def test_a_shard_beyond_its_tensor_is_refused():
    ranks = [[sharded("emb", [4, 0], [6, 2], [8, 2])]]
    text = refusal(capture.from_sharded_tensors, ranks)
    assert "'emb' on rank 0 holds [4:10)x[0:2)" in text


def test_one_state_under_two_keys_is_refused():
    tree = {
        "optim.state.a.step": {"shape": [2], "dtype": "torch.float32"},
        "optimizer.state.a.step": {"shape": [2], "dtype": "torch.float32"},
        "a": {"shape": [2], "dtype": "torch.float32"},
    }
    layout = capture.from_dtensors(tree, 1)
    assert "'step' twice" in refusal(capture.request, layout, layout)


def test_real_checkpoint_of_a_model_and_its_optimizer(tmp_path):
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    model = torch.nn.Linear(6, 4, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 6)).sum().backward()
    optimizer.step()
    state = optimizer.state[model.weight]
    tree = {"model": model.state_dict(), "optim": {"state": {"weight": state}}}
    dcp.save(tree, checkpoint_id=tmp_path / "saved", no_dist=True)
    metadata = dcp.FileSystemReader(tmp_path / "saved").read_metadata()
    before = capture.from_checkpoint_metadata(metadata, 1)
    after = capture.from_dtensors(
        {
            "model": {"weight": dtensor([4, 6], [0, 1], shard(0))},
            "optim": {
                "state": {
                    "weight": {
                        name: dtensor([4, 6], [0, 1], shard(0))
                        for name in ("exp_avg", "exp_avg_sq")
                    }
                    | {"step": state["step"]}
                }
            },
        },
        2,
    )
    request = capture.request(before, after)
    assert states_of(request)["model.weight"].keys() == {
        "param", "exp_avg", "exp_avg_sq",
    }  # fmt: skip
    run_checked(request, tmp_path)


def adam_of_dtensors(torch, placements):
    """A model of one DTensor and its AdamW, after a step; mesh 2 x 2."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    mesh = init_device_mesh("cpu", (2, 2))
    weight = torch.nn.Parameter(
        distribute_tensor(torch.ones(6, 4), mesh, placements)
    )
    weight.grad = distribute_tensor(torch.ones(6, 4), mesh, placements)
    optimizer = torch.optim.AdamW([weight])
    optimizer.step()
    return {
        "model": {"a": weight},
        "optim": {"state": {"a": optimizer.state[weight]}},
    }


def test_dtensors_of_a_real_optimizer(tmp_path):
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    tensors = pytest.importorskip("torch.distributed.tensor")
    torch.distributed.init_process_group(
        "fake", store=fake.FakeStore(), rank=0, world_size=4
    )
    try:
        rows, columns = tensors.Shard(0), tensors.Shard(1)
        before, after = (
            capture.from_dtensors(adam_of_dtensors(torch, placements), 4)
            for placements in [(rows, columns), (tensors.Replicate(), rows)]
        )
    finally:
        torch.distributed.destroy_process_group()
    request = capture.request(before, after)
    assert states_of(request)["model.a"].keys() == {
        "param", "exp_avg", "exp_avg_sq",
    }  # fmt: skip
    assert len(rows_with(request, "source", "model.a", "exp_avg")) == 4
    run_checked(request, tmp_path)
