"""State that dt-advise counts, beside what Megatron-Core has on every rank.

dt-advise is asked for layouts of scaled models; megatron-core builds the model
of each rank of each, and its parameters and the ranges of its distributed
optimizer are added up. The fullest rank must hold exactly what was said.
"""

import importlib.util
import json
import math
import os
import subprocess
from pathlib import Path

import pytest
from megatron_cases import config_of

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "build" / "bin" / "dt-advise"
PARAM_BYTES, OPTIMIZER_BYTES = 2, 12
MAX_LAYOUTS = 4


def has_megatron():
    try:
        return importlib.util.find_spec("megatron.core") is not None
    except ModuleNotFoundError:
        return False


pytestmark = [
    pytest.mark.skipif(not has_megatron(), reason="no megatron-core"),
    pytest.mark.skipif(not os.access(TOOL, os.X_OK), reason="no dt-advise"),
]

DENSE = {
    "kind": "llama", "layers": 7, "hidden": 32, "ffn": 24, "heads": 4,
    "groups": 4, "head_dim": 8, "gated": True, "bias": False,
    "qkv_bias": False, "qk_norm": False, "positions": 0, "tied": False,
    "vocab": 60, "vocab_multiple": 4, "experts": 0, "shared_ffn": 0,
    "latent": None, "expert_bias": False, "mtp": 0,
}  # fmt: skip
EXPERTS = DENSE | {
    "kind": "qwen3_moe", "experts": 4, "expert_ffn": 16, "qk_norm": True,
    "moe_layers": [True] * 7,
}  # fmt: skip


def job_of(model, constraints):
    config = config_of(model)
    if model["experts"]:
        config["num_experts_per_tok"] = 2
    return {
        "model": config,
        "state": {"param": "bf16", "master": "f32", "exp_avg": "f32",
                  "exp_avg_sq": "f32"},
        "vocab_multiple": model["vocab_multiple"],
        "cluster": {"devices": 8, "devices_per_node": 4, "memory": "1GiB",
                    "TFLOPs": 0.001, "intra_node_GBps": 1,
                    "inter_node_GBps": 0.1},
        "layout": {"world": 8, "dp": 8, "zero": 1, "bucket_size": 3000},
        "batch": {"global": 32, "sequence": 64},
        "constraints": constraints,
        "lost": [7],
    }  # fmt: skip


def advised(job):
    done = subprocess.run(
        [TOOL, "-", "--json"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def measured(model, layout):
    """Bytes of state on the fullest rank, by Megatron-Core's own objects."""
    from megatron_layouts import ask_megatron

    sizes = {
        key: layout[key]
        for key in ("world", "tp", "cp", "pp", "dp", "vpp", "ep", "etp")
    }
    sizes |= {"order": "tp-cp-ep-dp-pp", "bucket_size": 3000,
              "pp_layers": layout["pp_layers"]}  # fmt: skip
    multiple = model["vocab_multiple"] * sizes["tp"]
    padded = math.ceil(model["vocab"] / multiple) * multiple
    case = {
        "megatron": model | {"padded_vocab": padded},
        "sizes": sizes,
        "registration": "config",
    }
    most = 0
    for rows in ask_megatron(case)["ranks"]:
        total = 0
        for _, region, held in rows:
            elements = math.prod(sum(hi - lo for lo, hi in d) for d in region)
            owned = held[1] - held[0] if held else 0
            total += elements * PARAM_BYTES + owned * OPTIMIZER_BYTES
        most = max(most, total)
    return most


@pytest.mark.parametrize(
    "model,constraints",
    [
        (DENSE, {"pp": [1, 2, 3], "tp": [1, 2]}),
        (EXPERTS, {"pp": [1, 2], "ep": [1, 2, 4], "tp": [1, 2], "etp": [1]}),
    ],
    ids=["dense", "experts"],
)
def test_state_is_megatrons_own(model, constraints):
    rows = [
        row
        for row in advised(job_of(model, constraints))
        # megatron-core 0.16.1 has other buffers there: docs/Megatron.md
        if row["layout"]["ep"] > 1
        or row["layout"]["etp"] == row["layout"]["tp"]
    ]
    assert len(rows) >= 2
    for row in rows[:MAX_LAYOUTS]:
        layout = row["layout"]
        assert row["memory"]["state_most"] == measured(model, layout), layout
        assert row["memory_bytes"] >= row["memory"]["state_most"]
