"""Tensors of a side's own, bound by their own names: a trainer with fused and
stacked tensors hands over to one that has them apart, and takes them back."""

import dynatrain
import pytest
from processes import run_ranks, torch

HIDDEN, GROUPS, EXPERTS = 4, 4, 4
QKV = [
    {"from": 0, "size": 2, "step": 4, "count": GROUPS},
    {"from": 2, "size": 1, "step": 4, "count": GROUPS},
    {"from": 3, "size": 1, "step": 4, "count": GROUPS},
]
MODEL = {
    "tensors": [
        row
        for layer in range(2)
        for row in (
            {
                "name": f"layers.{layer}.qkv",
                "shape": [4 * GROUPS, HIDDEN],
                "dtype": "f32",
            },
            {
                "name": f"layers.{layer}.experts",
                "shape": [EXPERTS, 6, HIDDEN],
                "dtype": "f32",
            },
        )
    ]
}
STATE = {"param": "bf16", "master": "f32"}
FUSED = {
    "world": 4,
    "tp": 2,
    "dp": 2,
    "zero": 1,
    "bucket_size": 64,
    "rules": [
        {"match": "*.qkv", "tp": 0},
        {"match": "*.experts", "tp": 1, "blocks": [2, 4]},
    ],
}
APART = {
    "world": 3,
    "fsdp": 3,
    "views": [
        *(
            {"of": "layers.*.qkv", "tensor": f"h.*.{name}", "take": [take]}
            for name, take in zip("qkv", QKV, strict=True)
        ),
        {"of": "layers.*.experts", "tensor": "h.*.e.{}.up", "each": 0,
         "dim": 1, "take": [[0, 2]]},
        {"of": "layers.*.experts", "tensor": "h.*.e.{}.down", "each": 0,
         "dim": 1, "take": [[2, 6]]},
    ],
    "rules": [{"match": "*", "fsdp": 0}],
}  # fmt: skip

TRANSPOSED = {
    "world": 2,
    "tp": 2,
    "views": [
        {"of": "layers.*.qkv", "tensor": "t.*.qkv", "permute": [1, 0]},
        {"of": "layers.*.experts", "tensor": "t.*.{}", "each": 0,
         "permute": [2, 1]},
    ],
    "rules": [{"match": "*", "tp": 0}],
}  # fmt: skip

IN_TURNS = {
    "world": 2,
    "tp": 2,
    "views": [
        {"of": "layers.*.qkv", "tensor": "i.*.qkv",
         "unflatten": {"0": [GROUPS, -1]}, "permute": [2, 1, 0],
         "flatten": [[1, 2]]},
        {"of": "layers.*.experts", "tensor": "i.*.experts",
         "flatten": [[0, 1]]},
    ],
    "rules": [{"match": "*.qkv", "tp": 1}, {"match": "*", "tp": 0}],
}  # fmt: skip

ONE = {
    "world": 2,
    "tp": 2,
    "zero": 0,
    "views": [
        {"concat": ["layers.*.qkv", "layers.*.more"], "tensor": "one.*"},
    ],
    "rules": [{"match": "one.*", "tp": 0, "blocks": [16, 8]},
              {"match": "*", "replicate": True}],
}  # fmt: skip


def values_of(state):
    """{name: full tensor} of all that either side has, from the model's."""
    dtype = torch.bfloat16 if state == "param" else torch.float32
    values = {}
    for layer in range(2):
        numbers = torch.arange(4 * GROUPS * HIDDEN).reshape(-1, HIDDEN)
        qkv = (numbers % 251 + layer).to(dtype)
        values[f"layers.{layer}.qkv"] = qkv
        more = (torch.arange(8 * HIDDEN).reshape(8, -1) % 97).to(dtype)
        values[f"layers.{layer}.more"] = more
        values[f"one.{layer}"] = torch.cat([qkv, more])
        for name, rows in zip("qkv", ([0, 1], [2], [3]), strict=True):
            own = [g * 4 + row for g in range(GROUPS) for row in rows]
            values[f"h.{layer}.{name}"] = qkv[own]
        numbers = torch.arange(EXPERTS * 6 * HIDDEN).reshape(EXPERTS, 6, -1)
        experts = (numbers % 127 + 3 * layer).to(dtype)
        values[f"layers.{layer}.experts"] = experts
        values[f"t.{layer}.qkv"] = qkv.T
        parted = qkv.unflatten(0, (GROUPS, -1))
        values[f"i.{layer}.qkv"] = parted.permute(2, 1, 0).flatten(1, 2)
        values[f"i.{layer}.experts"] = experts.flatten(0, 1)
        for e in range(EXPERTS):
            values[f"t.{layer}.{e}"] = experts[e].T
        for e in range(EXPERTS):
            values[f"h.{layer}.e.{e}.up"] = experts[e, :2]
            values[f"h.{layer}.e.{e}.down"] = experts[e, 2:]
    return values


def _rank(rank, store, path):
    plan = dynatrain.Plan.load(path)
    values = {state: values_of(state) for state in STATE}
    sides = {"source": {}, "destination": {}}
    for entry in plan.expected(plan.devices[rank]):
        full = values[entry.state][entry.tensor]
        assert list(full.shape) == list(entry.full_shape), entry
        right = entry.cut(full)
        key = entry.tensor, entry.state
        given = right if entry.side == "source" else torch.zeros_like(right)
        sides[entry.side].setdefault(key, []).append(given)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, sides["source"], sides["destination"])
    switch.transfer()
    switch.commit()
    checked = 0
    for entry in plan.expected(plan.devices[rank]):
        if entry.side == "destination":
            key = entry.tensor, entry.state
            found = sides["destination"][key][entry.ordinal]
            right = entry.cut(values[entry.state][entry.tensor])
            assert torch.equal(found, right), entry
            checked += found.numel()
    return checked


@pytest.mark.parametrize(
    "sides",
    [
        (FUSED, APART),
        (APART, FUSED),
        (FUSED, TRANSPOSED),
        (TRANSPOSED, APART),
        (FUSED, IN_TURNS),
        (IN_TURNS, TRANSPOSED),
    ],
    ids=[
        "apart",
        "fused",
        "transposed",
        "transposed-apart",
        "in-turns",
        "in-turns-transposed",
    ],
)
def test_each_side_has_its_own_tensors(sides, tmp_path):
    path = tmp_path / "views.dtplan"
    request = {"model": MODEL, "state": STATE}
    request |= dict(zip(("source", "destination"), sides, strict=True))
    dynatrain.compile(request, path)
    plan = dynatrain.Plan.load(str(path))
    checked = run_ranks(len(plan.devices), _rank, tmp_path, str(path))
    assert sum(checked) > 0


def test_one_side_has_several_tensors_as_one(tmp_path):
    model = {"tensors": list(MODEL["tensors"])}
    more = (
        {"name": f"layers.{layer}.more", "shape": [8, HIDDEN], "dtype": "f32"}
        for layer in range(2)
    )
    model["tensors"] += more
    apart = {"world": 3, "fsdp": 3, "rules": [{"match": "*", "fsdp": 0}]}
    path = tmp_path / "views.dtplan"
    for source, destination in ((apart, ONE), (ONE, apart)):
        sides = {"source": source, "destination": destination}
        dynatrain.compile({"model": model, "state": STATE, **sides}, path)
        plan = dynatrain.Plan.load(str(path))
        checked = run_ranks(len(plan.devices), _rank, tmp_path, str(path))
        assert sum(checked) > 0


def _tied(rank, store, path, is_tied):
    """A side that has one tensor for two gives it under both names, or as a
    destination is without the second."""
    plan = dynatrain.Plan.load(path)
    full = torch.arange(64.0).reshape(16, 4)
    sides = {"source": {}, "destination": {}}
    for entry in plan.expected(plan.devices[rank]):
        own = sides[entry.side]
        cut = entry.cut(full)
        if is_tied == "source" and entry.side == "source":
            cut = next(iter(own.values()), cut)
        given = cut if entry.side == "source" else torch.zeros_like(cut)
        own[entry.tensor, entry.state] = given
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, sides["source"], sides["destination"])
    switch.transfer()
    switch.commit()
    for entry in plan.expected(plan.devices[rank]):
        if entry.side == "destination":
            found = sides["destination"][entry.tensor, entry.state]
            assert torch.equal(found, entry.cut(full)), entry
    return sorted(name for name, _ in sides["destination"])


@pytest.mark.parametrize("mode", ["rollback", "flat"])
def test_one_side_has_a_tensor_for_two(mode, tmp_path):
    path = tmp_path / "tied.dtplan"
    model = {
        "tensors": [
            {"name": name, "shape": [16, 4], "dtype": "f32"}
            for name in ("embed", "head")
        ]
    }
    request = {
        "model": model,
        "memory": {"mode": mode},
        "source": {"world": 2, "tp": 2, "rules": [{"match": "*", "tp": 0}]},
        "destination": {"world": 3, "fsdp": 3},
        "rules": [{"match": "*", "fsdp": 0}],
    }
    dynatrain.compile(request, path)
    names = run_ranks(3, _tied, tmp_path, str(path), "source")
    assert names == [["embed", "head"]] * 3
    request["destination"]["without"] = ["head"]
    dynatrain.compile(request, path)
    names = run_ranks(3, _tied, tmp_path, str(path), "destination")
    assert names == [["embed"]] * 3


def test_names_of_the_model_are_unknown_where_there_are_own(tmp_path):
    path = tmp_path / "views.dtplan"
    dynatrain.compile(
        {"model": MODEL, "state": STATE, "source": FUSED, "destination": APART},
        path,
    )
    names = {
        entry.tensor
        for entry in dynatrain.Plan.load(str(path)).expected(0)
        if entry.side == "destination"
    }
    assert "h.0.q" in names and "h.1.e.3.down" in names
    assert not any(name.startswith("layers.") for name in names)
