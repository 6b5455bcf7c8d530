"""Views that are legal and wrong: what should come first comes second.

Megatron-Core's fused tensors, taken apart by `views` as Hugging Face has them.
Every element has one place, so the request is taken, the plan verifies and the
run moves each byte to where the plan says. That these are not the elements that
the framework's own conversion puts there is what the comparison with it sees.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from framework_truth import Truth
from frameworks import SMALL, held
from plan_tools import Tools
from random_views import stored

BIN = Path(__file__).parents[2] / "build" / "bin"
# As many keys as queries: they could change places.
CONFIG = SMALL | {"model_type": "llama", "num_key_value_heads": 4}
GROUPS, ROWS, HALF = 4, 8, CONFIG["intermediate_size"]
QKV = "decoder.layers.*.self_attention.linear_qkv.weight"
FC1 = "decoder.layers.*.mlp.linear_fc1.weight"
OWN = "model.layers.*."


def rows_of(part, groups=range(GROUPS)):
    """Of linear_qkv the rows of q, k or v, group by group."""
    starts = [(3 * group + part) * ROWS for group in groups]
    return [[start, start + ROWS] for start in starts]


def views(q=0, k=1, k_groups=range(GROUPS), gate=0):
    up = HALF - gate
    return [
        {"of": QKV, "tensor": OWN + "self_attn.q_proj.weight",
         "take": rows_of(q)},
        {"of": QKV, "tensor": OWN + "self_attn.k_proj.weight",
         "take": rows_of(k, k_groups)},
        {"of": QKV, "tensor": OWN + "self_attn.v_proj.weight",
         "take": rows_of(2)},
        {"of": FC1, "tensor": OWN + "mlp.gate_proj.weight",
         "take": [[gate, gate + HALF]]},
        {"of": FC1, "tensor": OWN + "mlp.up_proj.weight",
         "take": [[up, up + HALF]]},
    ]  # fmt: skip


def wrong_tensors(views, folder):
    """Names of tensors of which a rank does not store what it should."""
    truth, tools = Truth(CONFIG), Tools(BIN)
    fused = ("linear_qkv.weight", "linear_fc1.weight")
    request = {
        "model": {
            "tensors": [
                {"name": name, "shape": list(shape), "dtype": "bf16"}
                for name, shape in truth.shapes.items()
                if name.endswith(fused)
            ]
        },
        "source": {
            "world": 2,
            "tp": 2,
            "rules": [
                {"match": QKV, "tp": 0},
                {"match": FC1, "tp": 0, "blocks": [HALF, HALF]},
            ],
        },
        "destination": {
            "world": 2,
            "tp": 2,
            "views": views,
            "rules": [{"match": "*", "tp": 0}],
        },
    }
    asked, plan = folder / "request.json", folder / "plan.dtplan"
    asked.write_text(json.dumps(request))
    tools.compile(asked, plan)
    tools.output("dt-plan", "verify", plan)
    assert tools.json("dt-run", plan, "--check", "--json")["ok"]
    programs = [
        tools.json("dt-plan", "dump", plan, "--rank", rank, "--json")
        for rank in range(2)
    ]
    found = held(programs, "destination", "param")
    assert len(found) == 2 * 5 * CONFIG["num_hidden_layers"]
    wrong = set()
    for (name, rank), shards in found.items():
        have = np.concatenate([stored(s, truth.shapes) for s in shards])
        want = np.array_split(truth.checkpoint[name].elements, 2)[rank]
        if not np.array_equal(have, want.ravel()):
            wrong.add(name.split(".")[-2])
    return wrong


def test_right_views_store_what_the_conversion_gives(tmp_path):
    assert wrong_tensors(views(), tmp_path) == set()


@pytest.mark.parametrize(
    "swapped, wrong",
    [
        ({"gate": HALF}, {"gate_proj", "up_proj"}),
        ({"q": 1, "k": 0}, {"q_proj", "k_proj"}),
        ({"k_groups": [0, 2, 1, 3]}, {"k_proj"}),
        ({"k_groups": [1, 0, 2, 3]}, {"k_proj"}),
    ],
    ids=["gate and up", "q and k", "groups of two ranks", "groups of one"],
)
def test_swapped_views_are_seen(swapped, wrong, tmp_path):
    assert wrong_tensors(views(**swapped), tmp_path) == wrong
