"""Captured Megatron-Core jobs, parameters and optimizer state: recorded ones
always, live objects where megatron-core is; each compiles and runs with every
byte compared. What is recorded is "zero" of `megatron_capture.py dense`."""

import importlib.util
import json
import subprocess
import sys

import pytest
from test_capture import ROOT, capture, run_checked

PIPELINES = ROOT / "test" / "Pipelines"
ZERO = {"master": "f32", "exp_avg": "f32", "exp_avg_sq": "f32"}
STATES = {"param", *ZERO}


def check(sides, zero, folder):
    layouts = [
        capture.from_sharded_tensors(sides[side], zero)
        for side in ("source", "destination")
    ]
    request = capture.request(*layouts)
    for entry in request["model"]["tensors"]:
        assert entry["state"].keys() == STATES, entry["name"]
    report = run_checked(request, folder)
    assert report["bytes_checked"] > 0
    return request


def test_recorded_ranges_of_a_distributed_optimizer(tmp_path):
    recorded = PIPELINES / "Inputs" / "megatron-captured.json"
    request = check(json.loads(recorded.read_text()), ZERO, tmp_path)
    # Gate and up are two boxes, of which a rank may optimize one and a half.
    gate_and_up = [
        row
        for row in request["source"]["shards"]
        if row["tensor"].endswith("linear_fc1.weight") and row["rank"] == 0
    ]
    assert {row["offset"][1] for row in gate_and_up} == {0, 24}
    assert any("range" in row for row in gate_and_up)


@pytest.mark.parametrize("model", ["dense", "experts"])
def test_live_objects(model, tmp_path):
    if not importlib.util.find_spec("megatron"):
        pytest.skip("megatron-core is not installed")
    script = PIPELINES / "megatron_capture.py"
    found = subprocess.run(
        [sys.executable, "-W", "ignore", script, model],
        check=True,
        stdout=subprocess.PIPE,
    )
    sides = json.loads(found.stdout)
    check(sides["zero"], ZERO, tmp_path)
    check(sides["whole"], None, tmp_path)


def test_names_the_objects_that_it_leaves_out():
    tensor = {
        "key": "w", "dtype": "torch.float32", "local_shape": [2],
        "global_shape": [2], "global_offset": [0], "prepend_axis_num": 0,
        "axis_fragmentations": [1],
    }  # fmt: skip
    rng = {"key": "rng_state", "data": None, "global_shape": [1, 2]}
    for read in (
        lambda tree: capture.from_sharded_tensors([tree]),
        capture.describe_sharded,
    ):
        with pytest.warns(UserWarning, match="not captured: rng_state; "):
            read({"model": tensor, "rng": [rng]})
