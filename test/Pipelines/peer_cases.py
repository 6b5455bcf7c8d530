"""Runs the reshard cases that other systems test, and compares every byte.

The parameters are those of Megatron-Core's refit tests (test_model_swap.py),
of its GPT and GLU checkpoint tests and of PyTorch's DTensor resharding tests;
here each is a request with full optimizer state that is compiled, verified and
run with `dt-run --check`, and whose wire bytes must be the lower bounds.
`--full-size` compiles and verifies published cases of real models instead.
"""

import argparse
import json
import math
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from plan_tools import ToolError, Tools, print_closing_line

STATES = {
    "param": "f32", "grad": "f32", "master": "f32",
    "exp_avg": "f32", "exp_avg_sq": "f32",
}  # fmt: skip
EXTRA = [
    {"name": "optimizer.step", "dtype": "i64"},
    {
        "name": "rng_state",
        "dtype": "u8",
        "shape": [24],
        "per": ["dp", "tp", "pp", "cp", "ep"],
    },
]

# (tp, pp, ep) -> (tp, pp, ep)
DENSE_SWAPS = [
    ((2, 1, 1), (1, 1, 1)), ((1, 1, 1), (2, 1, 1)), ((2, 1, 1), (4, 1, 1)),
    ((1, 2, 1), (1, 1, 1)), ((1, 1, 1), (1, 2, 1)), ((2, 2, 1), (1, 1, 1)),
    ((1, 1, 1), (2, 2, 1)), ((2, 1, 1), (1, 2, 1)), ((1, 2, 1), (2, 1, 1)),
    ((1, 2, 1), (2, 4, 1)),
]  # fmt: skip
EXPERT_SWAPS = [
    ((1, 1, 2), (1, 1, 4)), ((1, 1, 2), (1, 1, 1)), ((1, 1, 1), (1, 1, 2)),
    ((1, 1, 2), (1, 2, 2)), ((2, 1, 2), (1, 1, 1)), ((1, 1, 1), (2, 1, 2)),
    ((4, 1, 1), (2, 1, 2)), ((2, 1, 2), (4, 1, 1)), ((4, 1, 1), (1, 1, 4)),
    ((1, 1, 4), (4, 1, 1)),
]  # fmt: skip
LATENT_SWAPS = [
    ((1, 1, 2), (1, 1, 1)), ((2, 1, 2), (1, 1, 1)), ((1, 1, 1), (2, 1, 2)),
]  # fmt: skip
MTP_SWAPS = [
    ((1, 1, 1), (1, 1, 2)), ((2, 1, 2), (1, 1, 1)), ((1, 1, 1), (2, 1, 2)),
]  # fmt: skip
# (tp, pp) -> (tp, pp)
GPT_CASES = [
    ((2, 4), (4, 2)), ((1, 8), (8, 1)), ((2, 1), (1, 8)),
    ((1, 1), (2, 2)), ((1, 1), (2, 4)),
]  # fmt: skip
GLU_CASES = [
    ((2, 2), (4, 2)), ((1, 1), (8, 1)), ((1, 8), (1, 8)), ((1, 1), (2, 1)),
]  # fmt: skip

CONFIG = {
    "hidden_size": 32, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 4, "intermediate_size": 64, "vocab_size": 128,
    "tie_word_embeddings": False,
}  # fmt: skip


def dense_model(layers):
    return CONFIG | {"model_type": "llama", "num_hidden_layers": layers}


def expert_model(layers):
    return CONFIG | {
        "model_type": "qwen3_moe", "num_hidden_layers": layers,
        "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
    }  # fmt: skip


# Latent experts work on a projection of the hidden state to 16, beside a
# shared expert of 64: no known model type, so a list of tensors with rules.
LATENT, HIDDEN, SHARED, HEADS = 16, 32, 64, 64
LATENT_LAYER = {
    "self_attention.linear_qkv.weight": [HEADS, HIDDEN],
    "self_attention.linear_proj.weight": [HIDDEN, HIDDEN],
    "pre_mlp_layernorm.weight": [HIDDEN],
    "mlp.router.weight": [4, HIDDEN],
    "mlp.fc1_latent_proj.weight": [LATENT, HIDDEN],
    "mlp.fc2_latent_proj.weight": [HIDDEN, LATENT],
    "mlp.shared_experts.linear_fc1.weight": [2 * SHARED, HIDDEN],
    "mlp.shared_experts.linear_fc2.weight": [HIDDEN, SHARED],
}
LATENT_EXPERT = {"linear_fc1.weight": [2 * 64, LATENT],
                 "linear_fc2.weight": [LATENT, 64]}  # fmt: skip
LAYER_RULES = [
    {"match": "*.experts.*.linear_fc1.weight", "tp": 0, "ep": True,
     "blocks": [64, 64]},
    {"match": "*.experts.*.linear_fc2.weight", "tp": 1, "ep": True},
    {"match": "*shared_experts.linear_fc1.weight", "tp": 0,
     "blocks": [SHARED, SHARED]},
    {"match": "*shared_experts.linear_fc2.weight", "tp": 1},
    {"match": "*linear_qkv.weight", "tp": 0},
    {"match": "*linear_proj.weight", "tp": 1},
]  # fmt: skip
LATENT_RULES = [
    *({**rule, "match": "mtp." + rule["match"], "stage": "last"}
      for rule in LAYER_RULES),
    *LAYER_RULES,
    {"match": "*word_embeddings.weight", "tp": 0, "stage": "first"},
    {"match": "mtp.*eh_proj.weight", "tp": 0, "stage": "last"},
    {"match": "mtp.*", "replicate": True, "stage": "last"},
    {"match": "output_layer.weight", "tp": 0, "stage": "last"},
    {"match": "*", "replicate": True},
]  # fmt: skip


def latent_layer(prefix):
    rows = {prefix + name: shape for name, shape in LATENT_LAYER.items()}
    for expert in range(4):
        for name, shape in LATENT_EXPERT.items():
            rows[f"{prefix}mlp.experts.{expert}.{name}"] = shape
    return rows


def latent_model(layers, mtp):
    rows = {"embedding.word_embeddings.weight": [128, HIDDEN]}
    for layer in range(layers):
        rows |= latent_layer(f"decoder.layers.{layer}.")
    rows["decoder.final_layernorm.weight"] = [HIDDEN]
    if mtp:
        rows["mtp.layers.0.enorm.weight"] = [HIDDEN]
        rows["mtp.layers.0.hnorm.weight"] = [HIDDEN]
        rows["mtp.layers.0.eh_proj.weight"] = [HIDDEN, 2 * HIDDEN]
        rows |= latent_layer("mtp.layers.0.mtp_model_layer.")
        rows["mtp.layers.0.final_layernorm.weight"] = [HIDDEN]
    rows["output_layer.weight"] = [128, HIDDEN]
    return {
        name: {"shape": shape, "dtype": "F32"} for name, shape in rows.items()
    }


def side(tp, pp, ep=1, world=None, **more):
    """A layout; what tp and pp leave of the world is data-parallel, and the
    optimizer state is cut over it."""
    least = tp * pp * ep
    world = world or least
    layout = {"world": world, "tp": tp, "pp": pp, "dp": world // (tp * pp)}
    layout |= {"ep": ep, "zero": 1, "bucket_size": 3000}
    return layout | more


def request(model, source, destination, **more):
    return {
        "model": model,
        "state": STATES,
        "source": source,
        "destination": destination,
        "extra": EXTRA,
        "cluster": {"devices_per_node": 4},
        "memory": {"staging": "1MiB"},
    } | more


def text(sizes):
    return ",".join(map(str, sizes))


def swap_cases():
    groups = [
        ("dense", dense_model(4), DENSE_SWAPS, {}),
        ("experts", expert_model(4), EXPERT_SWAPS, {}),
        ("latent", latent_model(4, False), LATENT_SWAPS,
         {"rules": LATENT_RULES}),
        ("latent-mtp", latent_model(4, True), MTP_SWAPS,
         {"rules": LATENT_RULES}),
    ]  # fmt: skip
    for group, model, swaps, more in groups:
        for before, after in swaps:
            name = f"{group} {text(before)} -> {text(after)}"
            yield name, request(model, side(*before), side(*after), **more)


def gpt_cases():
    model = dense_model(8)
    orders = ["tp-cp-ep-fsdp-dp-pp", "tp-pp-dp"]
    for group, cases in [("gpt", GPT_CASES), ("glu", GLU_CASES)]:
        for before, after in cases:
            for first, second in [(0, 0), (0, 1), (1, 0)]:
                name = f"{group} {text(before)} -> {text(after)}"
                yield (
                    f"{name} order {orders[first]} -> {orders[second]}",
                    request(
                        model,
                        side(*before, world=16, order=orders[first]),
                        side(*after, world=16, order=orders[second]),
                    ),
                )


# How a [4, 4] tensor lies on 4 ranks, as (offset, size) of each.
WHOLE = [((0, 0), (4, 4))]
ROWS = [((i, 0), (1, 4)) for i in range(4)]
HALVES = [((0, 0), (2, 4)), ((2, 0), (2, 4))]
DTENSOR = {
    "R": WHOLE * 4,
    "S0": ROWS,
    "RR": WHOLE * 4,
    "RS0": HALVES * 2,  # ranks (0, 0), (0, 1), (1, 0), (1, 1)
    "S0R": [HALVES[0]] * 2 + [HALVES[1]] * 2,
    "S0S0": ROWS,
}


def shards_of(placement, ranks=None):
    rows = DTENSOR[placement][:ranks]
    return {
        "world": len(rows),
        "shards": [
            {"tensor": "w", "rank": rank, "offset": [*offset], "size": [*size]}
            for rank, (offset, size) in enumerate(rows)
        ],
    }


def dtensor_cases():
    model = {"tensors": [{"name": "w", "shape": [4, 4], "dtype": "f32"}]}
    for before in DTENSOR:
        for after in DTENSOR:
            sides = shards_of(before), shards_of(after)
            extra = [{"name": "rng_state", "dtype": "u8", "per": ["rank"]}]
            yield (
                f"dtensor {before} -> {after}",
                request(model, *sides, extra=extra),
            )
    for before in DTENSOR:  # upstream has no change of the world's size
        two = {"world": 2, "shards": shards_of("RS0", 2)["shards"]}
        yield (
            f"dtensor {before} -> 2 ranks",
            request(model, shards_of(before), two, extra=[]),
        )
        yield (
            f"dtensor 2 ranks -> {before}",
            request(model, two, shards_of(before), extra=[]),
        )


def full(model, source, destination, *, disjoint=False, **more):
    """A case of a model in examples/models, weights and optimizer state."""
    sides = [{"zero": 1} | source, {"zero": 1} | destination]
    for layout in sides:
        sizes = [layout.get(axis, 1) for axis in ("tp", "cp", "dp", "pp")]
        layout["world"] = math.prod(sizes)
    if disjoint:
        first = sides[0]["world"]
        sides[1]["devices"] = [first + i for i in range(sides[1]["world"])]
    states = {"param": "bf16"} | dict.fromkeys(
        ("master", "exp_avg", "exp_avg_sq"), "f32"
    )
    path = str((MODELS / f"{model}.json").resolve())
    return {
        "model": path,
        "state": states,
        "source": sides[0],
        "destination": sides[1],
    } | more


def s(tp=1, pp=1, dp=1, **more):
    return {"tp": tp, "pp": pp, "dp": dp} | more


MODELS = Path(__file__).parents[2] / "examples" / "models"
UNEVEN = {"pp_layers": [24, 23, 23, 24]}
DS_16 = {"pp_layers": [4] * 13 + [3] * 3}
FULL_SIZE = {
    "L70-a": ("llama3-70b", s(8, 4, 4), s(8, 2, 8)),
    "L70-b": ("llama3-70b", s(8, 4, 4), s(8, 4, 3)),
    "L70-c": ("llama3-70b", s(8, 4, 1), s(4, 4, 2)),
    "Q235-a": (
        "qwen3-235b-a22b",
        s(2, 4, 4, cp=2, ep=16, etp=1, **UNEVEN),
        s(8, 1, 8),
    ),
    "Q235-b": (
        "qwen3-235b-a22b",
        s(4, 2, 8, ep=8, etp=1),
        s(2, 4, 8, ep=16, etp=1, **UNEVEN),
    ),
    "Q235-c": (
        "qwen3-235b-a22b",
        s(2, 1, 4, ep=8, etp=1),
        s(2, 1, 4, ep=4, etp=2),
    ),
    "DS-a": (
        "deepseek-v3",
        s(1, 4, 16, ep=16, pp_layers=[16, 15, 15, 15]),
        s(8, 1, 8),
    ),
    "DS-b": (
        "deepseek-v3",
        s(1, 8, 16, ep=16, pp_layers=[8] * 5 + [7] * 3),
        s(8, 1, 16),
    ),
    "DS-c": ("deepseek-v3", s(1, 16, 16, ep=16, **DS_16), s(32, 1, 8)),
    **{
        f"GPT-a {size} {number}": (f"gpt3-{size}", s(4, 2, 1), after)
        for size in ("1.3b", "2.7b", "6.7b")
        for number, after in enumerate([s(4, 2, 2), s(8, 2, 1), s(4, 4, 1)])
    },
    "PR7189": (
        "qwen3-30b-a3b",
        s(8, 1, 4, ep=16, etp=1),
        s(4, 1, 8, ep=4, etp=1),
    ),
}
DISJOINT = {"Q235-a", "DS-a", "DS-b", "DS-c", "PR7189"}


def full_size_cases():
    for name, (model, source, destination) in FULL_SIZE.items():
        disjoint = name in DISJOINT
        yield name, full(model, source, destination, disjoint=disjoint)


def bound_problems(inspect):
    found = inspect["bytes"]
    return [
        f"{key} is {found[key]}, its lower bound {found[key + '_lower_bound']}"
        for key in ("wire", "inter_node")
        if found[key] != found[key + "_lower_bound"]
    ]


def check(tools, path, plan, run):
    """What is wrong with the plan of a request, and with a checked run."""
    try:
        tools.compile(path, plan)
        tools.output("dt-plan", "verify", plan)
        problems = bound_problems(
            tools.json("dt-plan", "inspect", plan, "--json")
        )
        if run:
            report = tools.json("dt-run", plan, "--check", "--json")
            if not report["ok"] or report["mismatches"]:
                problems.append(f"dt-run says {report}")
        return problems
    except ToolError as error:
        return [str(error)]


def cases_of(options):
    """(name, request) of every case of the run."""
    small = (swap_cases, gpt_cases, dtensor_cases)
    for make in (full_size_cases,) if options.full_size else small:
        yield from make()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--full-size", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tools = Tools(options.bin)

    def problems_of(case):
        with tempfile.TemporaryDirectory(prefix="peer-cases-") as name:
            path, plan = Path(name, "request.json"), Path(name, "out.dtplan")
            path.write_text(json.dumps(case[1]))
            return check(tools, path, plan, run=not options.full_size)

    cases = list(cases_of(options))
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(problems_of, cases)
        for (title, _), problems in zip(cases, found, strict=True):
            for problem in problems:
                print(f"{title}: {problem}")
            failed += bool(problems)
    return print_closing_line(len(cases) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
