"""Block-scaled FP8, made by who sends: each byte is what a gather, the same
arithmetic on the full tensor and a slice give."""

import json
import math
import random
import subprocess

import dynatrain
import pytest
from conftest import BUILD, ROOT
from dynatrain.block_scaled import quantize
from dynatrain.capture import Piece
from processes import run_ranks, torch

QUANTIZED = torch.float8_e4m3fn
EXPONENT = torch.float8_e8m0fnu


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).tolist()


def values(*shape, dtype=torch.bfloat16, seed=0):
    """Blocks of very different sizes, some of zeros."""
    rng = torch.Generator().manual_seed(seed)
    sizes = torch.randn(*shape[:-2], 1, 1, generator=rng).exp()
    rows = torch.logspace(-30, 30, shape[-2]).reshape(-1, 1)
    out = torch.randn(*shape, generator=rng) * sizes * rows
    out[..., : shape[-2] // 2, : shape[-1] // 2] = 0
    return out.to(dtype)


# What is made -----------------------------------------------------------------


def of_transformers(given, scale_format):
    module = pytest.importorskip("transformers.integrations.finegrained_fp8")
    config = type("Config", (), {"weight_block_size": (128, 128),
                                 "scale_fmt": scale_format})()  # fmt: skip
    quantizer = type("Quantizer", (), {"quantization_config": config})()
    theirs = module.Fp8Quantize(quantizer).convert({"w.weight": given})
    return theirs["w.weight"], theirs["w.weight_scale_inv"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(256, 384), (3, 128, 256)])
def test_bits_are_those_of_transformers(shape, dtype):
    given = values(*shape, dtype=dtype)
    theirs, their_scales = of_transformers(given, "float")
    weights, scales = quantize(given)
    assert bits(weights) == bits(theirs)
    assert bits(scales) == bits(their_scales)


# Powers of two, and what lies just below and above them.
EDGES = [
    power * 448 * (1 + step * 2**-23)
    for power in (2.0**-120, 2.0**-9, 1.0, 2.0**100)
    for step in (-2, -1, 0, 1, 2, 1000, 2**22)
]


@pytest.mark.parametrize("shape", [(256, 384), (3, 128, 256)])
def test_bits_of_powers_of_two_are_those_of_transformers(shape):
    given = values(*shape, dtype=torch.float32)
    edges = torch.zeros(len(EDGES), 128, 128)
    edges[:, 5, 7] = torch.tensor(EDGES)
    edges[:, 6, 7] = -torch.tensor(EDGES) / 3
    for tensor in (given, edges):
        theirs, their_scales = of_transformers(tensor, "ue8m0")
        for dtype in (EXPONENT, torch.float32):
            weights, scales = quantize(tensor, (128, 128), "ue8m0", dtype)
            assert bits(weights) == bits(theirs)
            assert scales.dtype is dtype
            assert bits(scales) == bits(their_scales.to(dtype))
            assert scales.float().log2().frac().eq(0).all()


def test_no_weight_is_beyond_a_power_of_two():
    """By the formula of one block; none is cut off, nor a scale too large."""
    given = values(64, 64, dtype=torch.float32)
    weights, scales = quantize(given, (16, 16), "ue8m0")
    for row in range(4):
        for column in range(4):
            part = (
                slice(16 * row, 16 * row + 16),
                slice(16 * column, 16 * column + 16),
            )
            largest = float(given[part].abs().max())
            scale = float(scales[row, column])
            if largest:
                assert largest / 448 <= scale < 2 * largest / 448 * 1.000001
            expected = (given[part] / scale).to(QUANTIZED)
            assert bits(weights[part]) == bits(expected)


def of_block(block):
    """One by one, by the formula."""
    largest = block.float().abs().max()
    factor = 448 / largest if largest > 0 else torch.ones(())
    scaled = (block.float() * factor).clamp(-448, 448)
    return scaled.to(QUANTIZED), 1 / factor


def test_last_blocks_may_be_smaller():
    given = values(2, 10, 7)
    weights, scales = quantize(given, (4, 3))
    assert weights.shape == given.shape and scales.shape == (2, 3, 3)
    for index in range(2):
        for row in range(3):
            for column in range(3):
                part = (index, slice(4 * row, 4 * row + 4),
                        slice(3 * column, 3 * column + 3))  # fmt: skip
                own, scale = of_block(given[part])
                assert bits(weights[part]) == bits(own), part
                assert scales[index, row, column] == scale, part


def test_values_come_back_to_a_sixteenth():
    given = torch.randn(64, 64)
    weights, scales = quantize(given, (16, 16))
    back = weights.float() * scales.repeat_interleave(16, 0).repeat_interleave(
        16, 1
    )
    # Three bits behind the first one, or the least of e4m3 of the largest.
    most = given.abs() / 16 + scales.max() * 2**-10
    assert ((back - given).abs() <= most).all()


# Switches by a plan that was made ahead ---------------------------------------


def truth(fc1_format):
    """Full tensors of both sides of block-scaled.json, at two steps; gate and
    up have scales of this format."""
    out = []
    for step in range(2):
        fc1, fc2 = values(512, 300, seed=step), values(300, 256, seed=7 + step)
        norm = values(4, 75, seed=9 + step).reshape(300)
        before = {"layers.0.mlp.fc1": fc1, "layers.0.mlp.fc2": fc2,
                  "layers.0.norm": norm}  # fmt: skip
        after = {"layers.0.norm": norm}
        for name, own, block, scales in (
            ("layers.0.gate", fc1[:256], (128, 128), fc1_format),
            ("layers.0.up", fc1[256:], (128, 128), fc1_format),
            ("layers.0.mlp.fc2", fc2, (100, 128), ()),
        ):
            made = quantize(own, block, *scales)
            after[name], after[f"{name}_scale_inv"] = made
        out.append((before, after))
    return out


def _ahead(rank, store, path, scales):
    plan = dynatrain.Plan.load(path)
    (first, _), (second, wanted) = truth(scales)
    held, later, given, right = {}, {}, {}, {}
    for entry in plan.expected(plan.devices[rank]):
        if entry.side == "destination":
            right[entry.tensor] = entry.cut(wanted[entry.tensor])
            given[entry.tensor] = torch.ones_like(right[entry.tensor])
        elif not entry.tensor.endswith("_scale_inv"):
            one = dynatrain.ExpectedTensor(
                **{**vars(entry), "dtype": torch.bfloat16}
            )
            held[entry.tensor] = one.cut(first[entry.tensor])
            later[entry.tensor] = one.cut(second[entry.tensor])
    fc1 = {name: held[name] for name in held if not name.endswith("fc2")}
    fc2 = {name: held[name] for name in held if name.endswith("fc2")}
    old = None
    if held:
        old = dynatrain.State(
            rest=dynatrain.BlockScaled(
                fc1, "*.fc1", (128, 128), "{}_scale_inv", *scales
            ),
            fc2=dynatrain.BlockScaled(fc2, ["*.fc2"], (100, 128)),
        )
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, old, dynatrain.State(model=given))
    for name, tensor in held.items():
        tensor.copy_(later[name])  # training goes on
    switch.transfer()
    switch.commit()
    for name, tensor in right.items():
        assert bits(given[name]) == bits(tensor), name
    return sorted(right)


@pytest.mark.parametrize(
    "name, scales",
    [
        ("block-scaled", ()),
        ("block-scaled", ("ue8m0",)),
        ("block-scaled-powers", ("ue8m0", EXPONENT)),
    ],
)
def test_a_plan_made_ahead(name, scales, tmp_path):
    plan = tmp_path / "block-scaled.dtplan"
    request = ROOT / f"test/Pipelines/Inputs/{name}.json"
    subprocess.run([BUILD / "bin/dt-opt", request, "-o", plan], check=True)
    checked = run_ranks(3, _ahead, tmp_path, str(plan), scales)
    assert all(len(names) == 7 for names in checked), checked


def test_frameworks_keep_their_names(tmp_path):
    """Megatron-Core's fused tensors to vLLM's, experts stacked."""
    model = {
        "model_type": "qwen3_moe", "hidden_size": 256, "head_dim": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_experts": 4,
        "moe_intermediate_size": 128, "intermediate_size": 256,
        "vocab_size": 512, "hidden_act": "silu",
        "tie_word_embeddings": False, "num_experts_per_tok": 2,
        "decoder_sparse_step": 1, "mlp_only_layers": [],
    }  # fmt: skip
    (tmp_path / "model.json").write_text(json.dumps(model))
    request = {
        "model": "model.json",
        "state": {"param": "bf16"},
        "source": {"world": 4, "tp": 2, "dp": 2, "ep": 2, "etp": 1, "zero": 1},
        "destination": {
            "world": 2, "tp": 2, "ep": 2, "etp": 1, "framework": "vllm",
            "quantize": [{"of": "*_proj.weight"}, {"of": "*_weight"}],
        },
    }  # fmt: skip
    (tmp_path / "request.json").write_text(json.dumps(request))
    path = tmp_path / "plan.dtplan"
    subprocess.run(
        [BUILD / "bin/dt-opt", tmp_path / "request.json", "-o", path],
        check=True,
    )
    entries = dynatrain.Plan.load(str(path)).expected(0)
    own = {e.tensor: e for e in entries if e.side == "destination"}
    layer = "model.layers.1"
    for name, shape in {
        f"{layer}.self_attn.qkv_proj.weight": (4, 2),  # of 512 x 256 of 1024
        f"{layer}.mlp.experts.w13_weight": (2, 2, 2),
        f"{layer}.mlp.experts.w2_weight": (2, 2, 1),
    }.items():
        assert own[name].dtype is QUANTIZED
        assert own[f"{name}_scale_inv"].dtype is torch.float32
        assert own[f"{name}_scale_inv"].shape == shape, name
    norm = own[f"{layer}.input_layernorm.weight"]
    assert norm.dtype is torch.bfloat16


# Where scales lie: random requests, against what the tensors themselves have --


def parts_of(rng, name, shape, block):
    """Views that take rows of a tensor apart, mostly between blocks."""
    rows, step = shape[-2], block[0]
    inner = range(step, rows, step) if rng.random() < 0.8 else range(1, rows)
    count = min(rng.randint(0, 2), len(inner))
    cuts = [0, *sorted(rng.sample(inner, count)), rows]
    takes = [[lo, hi] for lo, hi in zip(cuts, cuts[1:])]
    rng.shuffle(takes)
    own = rng.randint(1, len(takes))
    dim = len(shape) - 2
    views = []
    for number, some in enumerate([takes[:own], takes[own:]]):
        if some:
            view = {"of": name, "tensor": f"{name}.own{number}", "dim": dim,
                    "take": some}  # fmt: skip
            if len(shape) == 3 and rng.random() < 0.3:
                view |= {"each": 0, "tensor": f"{view['tensor']}.{{}}"}
            elif block[0] == block[1] and rng.random() < 0.2:
                last = [1, 2] if len(shape) == 3 and "each" not in view else []
                view["permute"] = [0, *last[::-1]] if last else [1, 0]
            views.append(view)
    return views


def sides_of(rng, model, block):
    layout = rng.choice([{"tp": 2}, {"tp": 4}, {"fsdp": 3}, {}])
    world = math.prod(layout.values()) * rng.choice([1, 2])
    side = layout | {"world": world}
    side["dp"] = world // math.prod(layout.values())
    key = next(iter(layout), "replicate")
    views, rules = [], []
    for tensor in model:
        own = []
        if rng.random() < 0.6:
            own = parts_of(rng, tensor["name"], tensor["shape"], block)
        views += own
        dims = len(tensor["shape"]) - any("each" in view for view in own)
        dim = rng.randrange(dims) if key != "replicate" else True
        dim = 0 if key == "fsdp" else dim
        rules.append({"match": f"{tensor['name']}*", key: dim})
    return side | {"views": views, "rules": rules}


def random_request(rng):
    block = [rng.choice([2, 4]), rng.choice([2, 3, 4])]
    model = []
    for name in "abc"[: rng.randint(1, 3)]:
        tail = rng.choice([0, 0, 1])
        rows = block[0] * rng.choice([4, 6, 8, 12]) - tail
        columns = block[1] * rng.choice([2, 4, 5]) - rng.choice([0, 1])
        leading = [rng.choice([2, 4])] if rng.random() < 0.3 else []
        shape = [*leading, rows, columns]
        model.append({"name": name, "shape": shape, "dtype": "bf16"})
    return {
        "model": {"tensors": model},
        "source": sides_of(rng, model, block),
        "destination": sides_of(rng, model, block),
        "quantize": {"of": "*", "block": block, "scale": "{}.scales"},
    }


def planned(folder, request):
    """What each device holds by the plan, or why there is none."""
    path, plan = folder / "request.json", folder / "plan.dtplan"
    path.write_text(json.dumps(request))
    done = subprocess.run(
        [BUILD / "bin/dt-opt", path, "-o", plan], capture_output=True, text=True
    )
    if done.returncode:
        return done.stderr, None
    for command in (["dt-plan", "verify", plan], ["dt-run", plan, "--check"]):
        subprocess.run(
            [BUILD / "bin" / command[0], *command[1:]],
            check=True,
            capture_output=True,
        )
    found = dynatrain.Plan.load(str(plan))
    return None, {
        (device, entry.side, entry.tensor, entry.ordinal): entry
        for device in found.devices
        for entry in found.expected(device)
    }


def has_whole_blocks(spans, size, step):
    """Of intervals in their order; a shorter block may stand at the end."""
    joined = []
    for lo, hi in spans:
        if joined and joined[-1][1] == lo:
            joined[-1][1] = hi
        else:
            joined.append([lo, hi])
    return all(
        lo % step == 0
        and (hi % step == 0 or (hi == size and number + 1 == len(joined)))
        for number, (lo, hi) in enumerate(joined)
    )


def cuts_no_block(request, entries, block):
    shapes = {one["name"]: one["shape"] for one in request["model"]["tensors"]}
    for side in ("source", "destination"):
        for view in request[side]["views"]:
            rows = shapes[view["of"]][-2]
            if not has_whole_blocks(view["take"], rows, block[0]):
                return False
    return all(
        has_whole_blocks(spans, size, step)
        for entry in entries.values()
        for spans, size, step in zip(
            entry.intervals, entry.full_shape,
            [1, *block][-len(entry.full_shape):], strict=True
        )
    )  # fmt: skip


def coarse(entry, block):
    steps = [1, *block][-len(entry.full_shape) :]
    return tuple(
        tuple((lo // step, -(-hi // step)) for lo, hi in spans)
        for spans, step in zip(entry.intervals, steps, strict=True)
    ), tuple(
        -(-size // step)
        for size, step in zip(entry.full_shape, steps, strict=True)
    )  # fmt: skip


def check_random(rng, folder):
    """Whether the request has a plan; None: not even without scales."""
    request = random_request(rng)
    entry = request.pop("quantize")
    error, plain = planned(folder, request)
    if error is not None:
        return None
    request["destination"]["quantize"] = [entry]
    error, found = planned(folder, request)
    if not cuts_no_block(request, plain, entry["block"]):
        assert error is not None and "which cuts a block of" in error
        return False
    assert error is None, error
    assert len(found) == 2 * len(plain)
    for (device, side, name, ordinal), one in plain.items():
        assert found[device, side, name, ordinal].dtype is QUANTIZED
        scales = found[device, side, f"{name}.scales", ordinal]
        assert scales.dtype is torch.float32
        assert (scales.intervals, scales.full_shape) == coarse(
            one, entry["block"]
        ), (device, side, name)
    return True


def test_random_layouts(tmp_path):
    seed = random.randrange(2**32)
    outcomes = {True: 0, False: 0, None: 0}
    while min(outcomes[True], outcomes[False]) < 8:
        try:
            outcomes[check_random(random.Random(seed), tmp_path)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seed += 1


# Switches between live states -------------------------------------------------


def _live(rank, store, pieces, mode):
    full = values(16, 12, seed=3)
    rows = slice(8 * rank, 8 * rank + 8)
    own = full[rows].clone()
    if pieces:
        weight = Piece(own, (16, 12), (8 * rank, 0), (8, 12))
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Shard

        torch.distributed.init_process_group(
            "gloo", store=store, rank=rank, world_size=2
        )
        mesh = init_device_mesh("cpu", (2,))
        weight = DTensor.from_local(own, mesh, [Shard(0)])
    model = {"w": weight}
    if mode == "rollback":  # flat memory takes it from the trainer
        model["b"] = torch.arange(3.0)
    old = dynatrain.State(
        weights=dynatrain.BlockScaled(model, "w", (4, 5), "{}.scale")
    )
    world = dynatrain.World(store=store, rank=rank, world_size=2, timeout=60)
    for times in (-2, 4):
        new = {"b": torch.zeros(3)} if mode == "rollback" else {}
        if rank == 1:
            new["w"] = torch.zeros(16, 12, dtype=QUANTIZED)
            new["w.scale"] = torch.zeros(4, 3)
        new = dynatrain.State(model=new) if new else None
        plan = dynatrain.plan_between(old, new, world, memory={"mode": mode})
        switch = plan.prepare(world, old, new)
        own.mul_(-2)
        switch.transfer()
        switch.commit()
        weights, scales = quantize(full * times, (4, 5))
        if rank == 1:
            assert bits(new.model["w"]) == bits(weights)
            assert bits(new.model["w.scale"]) == bits(scales)
        if mode == "rollback":
            assert new.model["b"].tolist() == [0, 1, 2]
    return True


@pytest.mark.parametrize("pieces", [True, False])
@pytest.mark.parametrize("mode", ["rollback", "flat"])
def test_live_states(pieces, mode, tmp_path):
    assert run_ranks(2, _live, tmp_path, pieces, mode) == [True, True]


# Mistakes ---------------------------------------------------------------------


def problem(weights, of="w", **words):
    with pytest.raises(dynatrain.Error) as raised:
        dynatrain.BlockScaled(weights, of, **words).tensors()
    return str(raised.value)


def test_mistakes_name_the_tensor():
    half = Piece(torch.zeros(2, 8), (8, 8), (2, 0), (2, 8))
    assert problem({"w": half}, block=(4, 4)) == (
        "tensor 'w' has [2:4) of dim 0 here, which cuts a block of 4"
    )
    run = Piece(torch.zeros(8), (8, 8), (0, 0), (8, 8), (8, 16))
    assert problem({"w": run}) == (
        "tensor 'w' is here in a run of elements [8, 16], which cuts blocks"
    )
    assert "shape [8], expected rows and columns" in problem(
        {"w": torch.zeros(8)}
    )
    assert "dtype torch.int32" in problem(
        {"w": torch.zeros(8, 8, dtype=torch.int32)}
    )
    assert "block of (0, 4)" in problem({}, block=(0, 4))
    assert "for the tensor's name" in problem({}, scale="scale")
    assert problem({}, scale_format="e8m0") == (
        "a format of scales 'e8m0', expected one of ['float', 'ue8m0']"
    )
    assert problem({}, scale_dtype=EXPONENT) == (
        "scales of torch.float8_e8m0fnu and format 'float', expected "
        "torch.float32"
    )


def test_a_stage_may_have_none_of_the_tensors():
    model = {"v": torch.zeros(8, 8)}
    given = dynatrain.BlockScaled(model, "w*").tensors()
    assert given == {("v", "param"): model["v"]}


def test_what_is_no_number_stays_none():
    given = torch.ones(4, 4)
    given[0, 0], given[3, 0] = math.nan, math.inf
    weights, scales = quantize(given, (2, 2))
    assert weights.isnan().nonzero().tolist() == [[0, 0], [3, 0]]
    assert weights[2:, 2:].float().eq(448).all()
    assert scales.isfinite()[1, 1]
