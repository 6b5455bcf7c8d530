"""One small transition per layout feature: compiled, verified, held to both
lower bounds and run with every byte compared.

`layout_cases.py NAME` runs one and then prints what its rank holds of its
tensor, for FileCheck; without a name it runs all.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from peer_cases import LATENT_RULES, check, dense_model, latent_model
from plan_tools import Tools, print_closing_line

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
ZERO = {"zero": 1, "bucket_size": 3000}
STATES = {"param": "bf16", "master": "f32", "exp_avg": "f32"}
QKV = "self_attention.linear_qkv.weight"
FC1 = "mlp.linear_fc1.weight"
EXPERT = "mlp.experts.linear_fc1.weight"


def of(model, source, destination, tensor, rank=1, **more):
    """A case: what `rank` holds of tensors whose name contains `tensor`."""
    request = {
        "model": model,
        "state": STATES,
        "source": source,
        "destination": destination,
        "cluster": {"devices_per_node": 4},
        "memory": {"staging": "1MiB"},
    } | more
    return request, tensor, rank


def model(name):
    return str(MODELS / f"{name}.json")


def flat(shapes, *rules):
    """A model of a few tensors, with the keys that go with it."""
    tensors = [
        {"name": name, "shape": shape, "dtype": dtype}
        for name, shape, dtype in shapes
    ]
    return {"tensors": tensors}, {"rules": list(rules)}


def shards(*rows):
    """Explicit shards of tensor w: (rank, offset, size[, range])."""
    listed = [
        {"tensor": "w", "rank": row[0], "offset": row[1], "size": row[2]}
        | ({"range": row[3]} if len(row) > 3 else {})
        for row in rows
    ]
    return {"world": max(row[0] for row in rows) + 1, "shards": listed}


def s(**sizes):
    world = 1
    for axis in ("tp", "cp", "fsdp", "dp", "pp"):
        world *= sizes.get(axis, 1)
    return {"world": world} | sizes


LLAMA, MOE = model("llama-tiny"), model("qwen3-moe-tiny")
DEEPSEEK, GPT = model("deepseek-tiny"), model("gpt2-tiny")
W, W_RULES = flat(
    [("w", [10, 6], "bf16")], {"match": "*", "tp": None, "stage": "every"}
)
MAMBA, MAMBA_RULES = flat(
    [("in_proj", [44, 8], "bf16")],
    {"match": "*", "tp": 0, "blocks": [16, 16, 4, 4, 4], "stage": "every"},
)
BF16, BF16_RULES = flat([["w", [512, 256], "bf16"]], {"match": "*", "tp": 0})
FP8, FP8_RULES = flat(
    [("w", [512, 256], "f8_e4m3"), ("w_scale_inv", [4, 2], "f32")],
    {"match": "*", "tp": 0, "stage": "every"},
)
DTYPES, DTYPES_RULES = flat(
    [("a", [8, 4], "f8_e5m2"), ("b", [8], "f32"), ("c", [8], "i64")],
    {"match": "*", "tp": 0, "stage": "every"},
)
# 6 layers: the chunks of 3 stages of 2 chunks, some of them without layers.
CHUNKS = {"pp": 3, "vpp": 2, "pp_layers": [0, 2, 1, 1, 2, 0]}
# FSDP2 over TP on one dim: rank (f, t) holds the f-th part of the t-th.
STRIDED = shards(
    (0, [0, 0], [3, 6]), (1, [5, 0], [3, 6]),
    (2, [3, 0], [2, 6]), (3, [8, 0], [2, 6]),
)  # fmt: skip
ROWS = shards((0, [0, 0], [5, 6]), (1, [5, 0], [5, 6]))
RNG = [
    {
        "name": "rng",
        "dtype": "u8",
        "shape": [40],
        "per": ["dp", "tp", "pp", "cp", "ep"],
    }
]
CURSOR = [{"name": "cursor", "dtype": "i64", "shape": [2], "per": ["dp"]}]
STEP = [{"name": "step", "dtype": "i64"}]
NO_STATES = {"state": {"param": "bf16"}}
FLAT = {"staging": "1MiB", "mode": "flat"}
OWN = {"state": None}  # param in each tensor's own dtype

FEATURES = {
    "zero1": of(LLAMA, s(tp=2, dp=4, **ZERO), s(tp=4, dp=2, **ZERO), QKV),
    "flat-shards": of(
        W,
        shards((0, [0, 0], [10, 6], [0, 30]), (1, [0, 0], [10, 6], [30, 60])),
        shards(
            *[(i, [0, 0], [10, 6], [20 * i, 20 * i + 20]) for i in range(3)]
        ),
        "w",
    ),
    "fsdp1": of(
        W,
        shards((0, [0, 0], [10, 6], [0, 31]), (1, [0, 0], [10, 6], [31, 60])),
        s(fsdp=4),
        "w",
        **W_RULES,
    ),
    "fsdp2": of(W, s(fsdp=4), s(fsdp=3), "w", rank=2, **W_RULES),
    "hsdp": of(LLAMA, s(fsdp=2, dp=2), s(fsdp=4), QKV),
    "strided-shard": of(W, STRIDED, s(fsdp=2), "w", rank=2, **W_RULES),
    "qkv": of(LLAMA, s(tp=4), s(tp=2), QKV),
    "tp-above-groups": of(MOE, s(tp=2), s(tp=4), QKV),
    "gate-up": of(LLAMA, s(tp=4), s(tp=2), FC1),
    "expert-glu-etp": of(
        MOE, s(tp=2, dp=2, ep=4, etp=1), s(tp=2, dp=2, ep=2, etp=2), EXPERT
    ),
    "mamba-blocks": of(MAMBA, s(tp=4), s(tp=2), "in_proj", **MAMBA_RULES),
    "uneven-pp": of(
        dense_model(6),
        s(pp=3, pp_layers=[1, 3, 2]),
        s(pp=2, pp_layers=[4, 2]),
        "linear_fc2",
    ),
    "vpp": of(dense_model(8), s(pp=2, vpp=2), s(pp=4), "linear_fc2"),
    "chunk-list": of(dense_model(6), s(**CHUNKS), s(pp=2), "linear_fc2"),
    "mtp": of(DEEPSEEK, s(pp=2, dp=2, pp_layers=[4, 3]), s(tp=2), "eh_proj"),
    "mtp-flat-list": of(
        latent_model(4, True), s(pp=2), s(tp=2), "eh_proj", rules=LATENT_RULES
    ),
    "ep": of(MOE, s(dp=4, ep=4), s(dp=2, ep=2), EXPERT),
    "etp": of(MOE, s(tp=2, etp=1), s(tp=2, etp=2), EXPERT),
    "ep-etp": of(
        MOE,
        s(tp=4, dp=2, ep=4, etp=2, **ZERO),
        s(tp=2, dp=4, ep=2, etp=4, **ZERO),
        EXPERT,
    ),
    "order": of(
        LLAMA,
        s(tp=2, dp=2, pp=2, order="tp-pp-dp"),
        s(tp=2, dp=2, pp=2),
        QKV,
        rank=2,
    ),
    "cp": of(LLAMA, s(cp=2, dp=2, **ZERO), s(dp=2, **ZERO), QKV),
    "dp": of(LLAMA, s(dp=4), s(tp=2, dp=2), QKV),
    "tied": of(GPT, s(pp=2, **ZERO), s(tp=2), "word_embeddings"),
    "tied-pp1": of(GPT, s(tp=2), s(pp=2), "word_embeddings"),
    "padded-vocab": of(
        LLAMA, s(tp=2), s(tp=4), "word_embeddings", rank=3, vocab_multiple=150
    ),
    "fp8-scales": of(FP8, s(tp=4), s(tp=2), "w", **(FP8_RULES | OWN)),
    "block-scaled": of(
        BF16,
        s(tp=4),
        s(tp=2, quantize=[{"of": "w"}]),
        "w",
        **(BF16_RULES | OWN),
    ),
    "dtypes": of(DTYPES, s(tp=4), s(tp=2), "", **(DTYPES_RULES | OWN)),
    "grads": of(
        LLAMA,
        s(tp=2, dp=2, **ZERO),
        s(tp=4),
        QKV,
        state=STATES | {"grad": "f32"},
    ),
    "steps": of(LLAMA, s(tp=2), s(tp=4), "step", rank=3, extra=STEP),
    "rng": of(MOE, s(tp=2, dp=2, ep=2), s(tp=2, dp=3), "rng", extra=RNG),
    "router-bias": of(
        DEEPSEEK,
        s(dp=2, pp=2, pp_layers=[4, 3]),
        s(tp=2),
        "expert_bias",
        **NO_STATES,
    ),
    "cursor": of(LLAMA, s(dp=2), s(dp=3), "cursor", rank=2, extra=CURSOR),
    "dtype-change": of(
        LLAMA,
        s(tp=2, dp=2, **ZERO) | {"state": STATES},
        s(tp=4)
        | {"state": {"param": "f16", "master": "f64", "exp_avg": "bf16"}},
        QKV,
    ),
    # As captured jobs have it: "w" with a master, "b" with neither.
    "own-states": of(
        {
            "tensors": [
                {
                    "name": "w",
                    "shape": [10, 6],
                    "state": {"param": "bf16", "master": ["f32", "bf16"]},
                },
                {"name": "b", "shape": [6], "state": {"param": "f32"}},
            ]
        },
        s(fsdp=4),
        s(tp=2, fsdp=3),
        "",
        **(W_RULES | OWN),
    ),
    "param-from-master": of(
        LLAMA,
        s(tp=2, dp=2, **ZERO) | {"state": {"master": "f32"}},
        s(tp=4) | {"state": {"param": "bf16"}},
        QKV,
        derive={"param": "master"},
        drop=["master"],
    ),
    "param-from-master-flat": of(
        LLAMA,
        s(tp=2, dp=2, **ZERO) | {"state": {"master": "f32", "exp_avg": "f32"}},
        s(tp=4) | {"state": {"param": "bf16", "exp_avg": "bf16"}},
        QKV,
        derive={"param": "master"},
        drop=["master"],
        memory=FLAT,
    ),
    # Ranks that get the master anyway make the param; dtypes change in flight.
    "param-beside-master": of(
        LLAMA,
        s(tp=2) | {"state": {"param": "f32", "master": "f32"}},
        s(dp=4) | {"state": {"param": "bf16", "master": "f64"}},
        QKV,
        derive={"param": "master"},
    ),
    "param-beside-master-flat": of(
        LLAMA,
        s(tp=2) | {"state": {"param": "bf16", "master": "f32"}},
        s(dp=4) | {"state": {"param": "bf16", "master": "f64"}},
        QKV,
        derive={"param": "master"},
        memory=FLAT,
    ),
}


def run(tools, name, folder):
    """(problems, path of the plan) of a feature's case."""
    request, _, _ = FEATURES[name]
    request = {key: value for key, value in request.items() if value}
    if "state" in request["source"]:
        request.pop("state")
    path, plan = folder / f"{name}.json", folder / f"{name}.dtplan"
    path.write_text(json.dumps(request))
    return check(tools, path, plan, run=True), plan


def show(tools, name, plan):
    """What the case's rank holds: one line per shard of its tensors."""
    _, tensor, rank = FEATURES[name]
    text = tools.output("dt-plan", "dump", plan, "--rank", rank)
    for line in text.partition("program:")[0].splitlines():
        if line.endswith("shards:") or tensor in line:
            print(line.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=FEATURES)
    parser.add_argument("--bin", default="build/bin")
    options = parser.parse_args()
    tools, failed = Tools(options.bin), 0
    names = [options.name] if options.name else list(FEATURES)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            problems, plan = run(tools, name, Path(folder))
            failed += bool(problems)
            for problem in problems:
                print(f"{name}: {problem}")
            if options.name and not problems:
                show(tools, name, plan)
    if options.name:
        return 1 if failed else 0
    return print_closing_line(len(names) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
