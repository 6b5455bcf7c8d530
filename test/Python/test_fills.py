"""Padding of another value than zero: what processes write is, bit by bit, what
torch makes of the number that the request says."""

import json
import math
import subprocess

import dynatrain
import pytest
from conftest import BUILD
from processes import run_ranks, torch

FLOATS = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2": torch.float8_e5m2,
    "f8_e4m3fnuz": torch.float8_e4m3fnuz,
    "f8_e5m2fnuz": torch.float8_e5m2fnuz,
    "f8_e8m0": torch.float8_e8m0fnu,
}
INTEGERS = {
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u64": torch.uint64,
    "u32": torch.uint32,
    "u16": torch.uint16,
    "u8": torch.uint8,
    "bool": torch.bool,
}
# Ties, to even and from above by what f64 alone has; subnormals; the largest.
NUMBERS = [
    -1, 0.1, -0.1, 1 / 3, 208, 216, 240, 17, 18, 19, 2**-9, 2**-10, 3 * 2**-11,
    2**-16, 3 * 2**-17, 2**-24, 3 * 2**-25, 1e-7, -1e-12, -0.0, 1.0 + 2**-8,
    1.0 + 3 * 2**-8, 1.0 + 2**-8 + 2**-40, 1.0 + 2**-24, 1.0 + 2**-11, 1.0625,
    1.1875, 2**24 + 1, 2**53 + 1, 1e-40, 1e-46, 3.3e38,
    "inf", "-inf", 0.5, 2.0**-127, 2.0**-126, 2.0**127,
]  # fmt: skip
COUNTS = [1, 0, 127, -128, 255, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63), 2]


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).tolist()


def fits(number, dtype):
    if isinstance(number, str):
        return torch.tensor(float(number)).to(dtype).float().isinf().item()
    if dtype is torch.float8_e8m0fnu:
        return number > 0 and math.frexp(number)[0] == 0.5 and number > 2**-128
    if dtype.is_floating_point:
        return abs(number) <= torch.finfo(dtype).max
    if dtype is torch.bool:
        return number in (0, 1)
    return torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max


def compiled(folder, name, model, destination, **words):
    request = {
        "model": {"tensors": model},
        "source": {"world": 1, "rules": [{"match": "*", "replicate": True}]},
        "destination": destination,
    } | words
    path, plan = folder / f"{name}.json", folder / f"{name}.dtplan"
    path.write_text(json.dumps(request))
    subprocess.run([BUILD / "bin" / "dt-opt", path, "-o", plan], check=True)
    return plan


def test_elements_are_those_of_torch(tmp_path):
    cases = [
        (dtype, number)
        for dtypes, numbers in ((FLOATS, NUMBERS), (INTEGERS, COUNTS))
        for dtype in dtypes
        for number in numbers
        if fits(number, (FLOATS | INTEGERS)[dtype])
    ]
    assert len(cases) > 200
    names = [f"t.{i}" for i in range(len(cases))]
    model = [
        {"name": name, "shape": [1], "dtype": dtype}
        for name, (dtype, _) in zip(names, cases, strict=True)
    ]
    views = [
        {"of": name, "tensor": f"own.{name}",
         "take": [[0, 1], {"padding": 1}], "fill": number}
        for name, (_, number) in zip(names, cases, strict=True)
    ]  # fmt: skip
    layout = {"world": 1, "rules": [{"match": "*", "replicate": True}]}
    plan = compiled(tmp_path, "fills", model, layout | {"views": views})
    fills = {
        entry.tensor: entry.fill
        for entry in dynatrain.Plan.load(str(plan)).expected(0)
        if entry.side == "destination"
    }
    for name, (dtype, number) in zip(names, cases, strict=True):
        torch_dtype = (FLOATS | INTEGERS)[dtype]
        right = torch.full((1,), float(number) if isinstance(number, str)
                           else number, dtype=torch_dtype)  # fmt: skip
        found = list(
            fills[f"own.{name}"].to_bytes(torch_dtype.itemsize, "little")
        )
        assert found == bits(right), (dtype, number)


VOCABULARY = [{"name": "embed", "shape": [10, 4], "dtype": "f32"}]
EMBED = {"of": "embed", "tensor": "embed", "fill": -1.5}


def _rank(rank, store, path):
    plan = dynatrain.Plan.load(path)
    numbers = torch.arange(40.0).reshape(10, 4)
    sides = {"source": {}, "destination": {}}
    right = {}
    for entry in plan.expected(plan.devices[rank]):
        key = entry.tensor, entry.state
        full = numbers.to(entry.dtype)
        if entry.full_shape == (16, 4):  # padded by its own `take`
            padding = -1.5 if entry.state in ("param", "master") else 0.0
            full = torch.cat([full, full.new_full((6, 4), padding)])
        cut = entry.cut(full)
        if entry.side == "destination":
            right[key] = cut
            cut = torch.full_like(cut, 7)
        sides[entry.side][key] = [cut]
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, sides["source"], sides["destination"])
    switch.transfer()
    switch.commit()
    padded = 0
    for key, wanted in right.items():
        (found,) = sides["destination"][key]
        assert bits(found) == bits(wanted), key
        padded += (wanted == -1.5).sum().item()
    return padded


@pytest.mark.parametrize("zero", [0, 1])
def test_processes_write_it(zero, tmp_path):
    plan = compiled(
        tmp_path,
        "vocabulary",
        VOCABULARY,
        {
            "world": 3,
            "tp": 1,
            "dp": 3,
            "zero": zero,
            "views": [EMBED | {"take": [[0, 10], {"padding": 6}]}],
            "rules": [{"match": "*", "replicate": True}],
        },
        state={"param": "bf16", "master": "f32", "exp_avg": "f32"},
    )
    counts = run_ranks(3, _rank, tmp_path, str(plan))
    # Six rows of four: of param on each rank, of master once or on each.
    assert sum(counts) == 24 * (3 + (1 if zero else 3))
