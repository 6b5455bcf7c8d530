"""Dtypes that change in flight between processes: what arrives is what torch
makes of the same values."""

import json
import subprocess

import dynatrain
from conftest import BUILD
from processes import run_ranks, torch

ROWS, COLUMNS = 8, 6


def full(state):
    """Values that bf16 must round, and some that it need not."""
    generator = torch.Generator().manual_seed(len(state))
    values = torch.randn(ROWS, COLUMNS, generator=generator)
    values[0, :3] = torch.tensor([1.0, 1 + 2**-8, 1 + 3 * 2**-8])  # ties
    return values


def compiled(folder):
    """master and exp_avg, f32, by rows, to param (made of master) and exp_avg,
    bf16, by columns."""

    def side(offsets, size, **states):
        rows = [
            {"tensor": "w", "rank": rank, "offset": offset, "size": size}
            for rank, offset in enumerate(offsets)
        ]
        return {"world": 2, "shards": rows, "state": states}

    request = {
        "model": {
            "tensors": [{"name": "w", "shape": [ROWS, COLUMNS], "dtype": "f32"}]
        },
        "source": side([[0, 0], [4, 0]], [4, 6], master="f32", exp_avg="f32"),
        "destination": side(
            [[0, 0], [0, 3]], [8, 3], param="bf16", exp_avg="bf16"
        ),
        "derive": {"param": "master"},
        "drop": ["master"],
    }
    path, plan = folder / "request.json", folder / "out.dtplan"
    path.write_text(json.dumps(request))
    subprocess.run([BUILD / "bin" / "dt-opt", path, "-o", plan], check=True)
    return str(plan)


def convert(rank, store, path):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    rows = slice(4 * rank, 4 * rank + 4)
    source = {
        ("w", state): full(state)[rows].contiguous()
        for state in ("master", "exp_avg")
    }
    destination = {
        ("w", state): torch.zeros(8, 3, dtype=torch.bfloat16)
        for state in ("param", "exp_avg")
    }
    switch = plan.prepare(world, source, destination)
    switch.transfer()
    switch.commit()
    columns = slice(3 * rank, 3 * rank + 3)
    return {
        state: torch.equal(
            destination["w", state], full(origin)[:, columns].bfloat16()
        )
        for state, origin in (("param", "master"), ("exp_avg", "exp_avg"))
    }


def test_what_arrives_is_what_torch_rounds(tmp_path):
    results = run_ranks(2, convert, tmp_path, compiled(tmp_path))
    assert results == [{"param": True, "exp_avg": True}] * 2


def test_a_state_that_is_made_asks_for_no_source_tensor(tmp_path):
    plan = dynatrain.Plan.load(compiled(tmp_path))
    found = {(entry.side, entry.state) for entry in plan.expected(0)}
    assert found == {
        ("source", "master"), ("source", "exp_avg"),
        ("destination", "param"), ("destination", "exp_avg"),
    }  # fmt: skip
