"""Known frameworks: what each rank of a side holds, against their own rules.

What each framework makes of the model's elements (framework_truth.py) is cut as
that framework cuts it, and compared with what the plan's programs say that they
store. Names and shapes of Hugging Face's side are those of the model that
transformers builds on `meta`; torchtitan's are made by its own adapters, and
vLLM's models are filled by its own loaders (vllm_models.py). Where one of them
is not installed, that is said. Megatron-Core's side stores what it
stores without frameworks, ZeRO's ranges included. Every byte is run and
checked, wire bytes are at the lower bound.
"""

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path

import numpy as np
import vllm_models
from framework_truth import Tensor, Truth
from plan_tools import Tools, print_closing_line
from random_views import members, own_name, stored

STATE = {"param": "bf16", "master": "f32"}

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 130,
}
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
}
EXPERTS = {
    "n_routed_experts": 4,
    "moe_intermediate_size": 16,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
QWEN_EXPERTS = {"num_experts": 4, "moe_intermediate_size": 16}
MODELS = {
    "llama": {},
    "mistral": {},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "phi3": {},
    "gemma2": {"tie_word_embeddings": True},
    "gemma3_text": {"tie_word_embeddings": True},
    "mixtral": {"num_local_experts": 4},
    "qwen2_moe": QWEN_EXPERTS | {"shared_expert_intermediate_size": 24},
    "qwen3_moe": QWEN_EXPERTS,
    "deepseek_v2": LATENT | EXPERTS | {"q_lora_rank": None},
    "deepseek_v3": LATENT | EXPERTS | {"q_lora_rank": 20},
    "glm4_moe": EXPERTS | {"attention_bias": True, "use_qk_norm": True},
}
# Those with dims in another order.
TRANSPOSED = {
    "gpt2": {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 48,
        "n_positions": 20,
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {
        "num_local_experts": 4,
        "intermediate_size": 16,
        "attention_bias": True,
    },
    "llama4_text": {
        "num_local_experts": 4,
        "intermediate_size": 16,
        "intermediate_size_mlp": 24,
        "interleave_moe_layer_step": 2,
    },
}
# The same, with Mamba mixers.
HYBRID = {
    "nemotron_h": {
        "hybrid_override_pattern": "M*-E",
        "mamba_num_heads": 8,
        "mamba_head_dim": 6,
        "n_groups": 2,
        "ssm_state_size": 5,
        "conv_kernel": 4,
        "n_routed_experts": 4,
        "moe_intermediate_size": 16,
        "moe_shared_expert_intermediate_size": 24,
    }
}

# Layers of a kind at no one distance.
HYBRID["nemotron_h in-turns"] = HYBRID["nemotron_h"] | {
    "hybrid_override_pattern": "MEM*EMM-M*",
}
HYBRID["nemotron_h latent"] = HYBRID["nemotron_h"] | {"moe_latent_size": 12}

# Linear attention in all layers but each second, and gates behind attention.
DELTA = {
    "qwen3_next": QWEN_EXPERTS
    | {
        "shared_expert_intermediate_size": 24,
        "full_attention_interval": 2,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 3,
        "linear_value_head_dim": 5,
        "linear_conv_kernel_dim": 4,
    }
}

DELTA["qwen3_next in-turns"] = DELTA["qwen3_next"] | {
    "num_hidden_layers": 8,
    "full_attention_interval": 3,
}

DENSE = {"world": 4, "tp": 2, "dp": 2, "zero": 1, "bucket_size": 1000}
SPARSE = DENSE | {"world": 8, "pp": 2, "ep": 2, "etp": 1}


def side(framework, **sizes):
    return sizes | {"framework": framework}


# Each type to all frameworks and back; then what layouts make special.
CASES = [
    case
    for model, more in MODELS.items()
    for megatron in [SPARSE if any("experts" in key for key in more) else DENSE]
    for case in (
        (model, megatron, side("huggingface", world=2, tp=2)),
        (model, side("vllm", world=2, tp=2), megatron),
    )
]
CASES += [
    case
    for model, more in TRANSPOSED.items()
    for megatron in [DENSE if model == "gpt2" else SPARSE]
    for case in (
        (model, megatron, side("huggingface", world=2, tp=2)),
        (model, side("huggingface", world=2, fsdp=2), megatron),
        (model, side("huggingface", world=1), megatron | {"zero": 0}),
    )
]
CASES += [
    ("gpt_oss", DENSE | {"ep": 2},
     side("huggingface", world=4, tp=2, dp=2, ep=2)),
    ("gpt_oss", side("huggingface", world=4, tp=2, dp=2, ep=4, etp=1), SPARSE),
    ("gpt_oss", SPARSE, side("vllm", world=4, tp=4, ep=4, etp=1)),
    ("gpt_oss", SPARSE, side("vllm", world=2, tp=2)),
    ("gpt_oss", side("vllm", world=4, tp=2, dp=2, ep=2),
     side("huggingface", world=1)),
    ("gpt_oss", SPARSE, side("torchtitan", world=2, tp=2)),
    ("gpt_oss", side("torchtitan", world=4, dp=4, ep=2),
     side("vllm", world=4, tp=4, ep=4, etp=1)),
]  # fmt: skip
CASES += [
    ("gpt2", DENSE, side("vllm", world=2, tp=2)),
    ("gpt2", side("vllm", world=4, tp=4), side("huggingface", world=1)),
    ("llama4_text", SPARSE, side("vllm", world=2, tp=2)),
    ("llama4_text", side("vllm", world=4, tp=4, ep=4, etp=1), SPARSE),
    ("nemotron_h", SPARSE, side("vllm", world=2, tp=2)),
    ("nemotron_h", side("vllm", world=2, tp=2, ep=2, etp=1),
     side("huggingface", world=1)),
]  # fmt: skip
CASES += [
    ("nemotron_h", SPARSE, side("huggingface", world=2, tp=2)),
    ("nemotron_h", side("huggingface", world=2, fsdp=2), SPARSE),
    ("nemotron_h", DENSE, side("huggingface", world=1)),
    ("nemotron_h latent", SPARSE, side("huggingface", world=2, tp=2)),
    ("nemotron_h latent", side("huggingface", world=2, fsdp=2), SPARSE),
    ("nemotron_h latent", SPARSE, side("vllm", world=2, tp=2)),
    ("nemotron_h latent", side("vllm", world=2, tp=2, ep=2, etp=1), DENSE),
]
CASES += [
    ("qwen3_next", SPARSE, side("huggingface", world=2, tp=2)),
    ("qwen3_next", side("huggingface", world=2, fsdp=2), SPARSE),
    ("qwen3_next", DENSE, side("huggingface", world=1)),
    ("qwen3_next", SPARSE, side("vllm", world=2, tp=2)),
    ("qwen3_next", side("vllm", world=2, tp=2, ep=2, etp=1), SPARSE),
    ("qwen3_next", side("vllm", world=2, tp=2), side("huggingface", world=1)),
    ("qwen3_next in-turns", SPARSE, side("huggingface", world=2, fsdp=2)),
    ("qwen3_next in-turns", side("vllm", world=2, tp=2), SPARSE),
    ("nemotron_h in-turns", SPARSE, side("vllm", world=2, tp=2, ep=2, etp=1)),
    ("nemotron_h in-turns", side("huggingface", world=2, tp=2), SPARSE),
]
CASES += [
    (model, layout, side("torchtitan", world=2, tp=2))
    for model, layout in (
        ("llama", DENSE),
        ("qwen3", DENSE),
        ("qwen3_moe", SPARSE),
        ("deepseek_v3", SPARSE),
    )
]
CASES += [
    ("llama", side("torchtitan", world=4, tp=2, fsdp=2),
     side("huggingface", world=1)),
    ("qwen3_moe", side("torchtitan", world=4, dp=4, ep=4),
     side("vllm", world=4, tp=2, dp=2, ep=4, etp=1)),
    ("deepseek_v3", side("huggingface", world=1),
     side("vllm", world=4, tp=4, ep=4, etp=1)),
    ("llama", side("vllm", world=8, tp=8), {"world": 2, "tp": 2}),
    ("qwen3_moe", {"world": 4, "tp": 2, "pp": 2},
     side("vllm", world=8, tp=8)),
    ("llama", side("vllm", world=2, tp=2), side("huggingface", world=1)),
    ("qwen3_moe", side("megatron", world=2, dp=2, ep=2),
     side("vllm", world=4, tp=2, dp=2, ep=4, etp=1)),
]  # fmt: skip

ROWS = {
    "q_proj", "k_proj", "v_proj", "qkv_proj", "q_b_proj", "kv_b_proj",
    "gate_proj", "up_proj", "gate_up_proj", "w13_weight", "embed_tokens",
    "lm_head", "wq", "wk", "wv", "wq_b", "wkv_b", "w1", "w3", "w1_EFD",
    "w3_EFD", "tok_embeddings", "embeddings", "embedding", "in_proj_qkvz",
    "in_proj_ba",
}  # fmt: skip
COLUMNS = {
    "o_proj", "down_proj", "w2_weight", "wo", "w2", "w2_EDF", "out_proj",
}  # fmt: skip
GPT_OSS_CUTS = {
    "o_proj.bias": None, "sinks": (0, 1),
    ".experts.gate_up_proj": (2, 1), ".experts.gate_up_proj_bias": (1, 1),
    ".experts.down_proj_bias": None, "w13_weight": (1, 1),
    "w13_bias": (1, 1), "w2_weight": (2, 1), "w2_bias": (1, 1),
    "wo.bias": None, "mlp1_weight_EGD": (1, 1), "mlp1_bias_EG": (1, 1),
    "mlp2_weight_EDF": (2, 1), "mlp2_bias_ED": None,
}  # fmt: skip
MIXERS = {"in_proj", "conv1d", "norm", "dt_bias", "A_log", "D"}
# Of TRANSPOSED: the dim that is cut, and the packed parts along it; or none.
CUTS = {
    "wte.weight": (0, 1), "wpe.weight": None,
    "attn.c_attn.weight": (1, 3), "attn.c_attn.bias": (0, 3),
    "mlp.c_fc.weight": (1, 1), "mlp.c_fc.bias": (0, 1),
    ".c_proj.weight": (0, 1), ".c_proj.bias": None,
    ".experts.gate_up_proj": (2, 2), ".experts.down_proj": (1, 1),
}  # fmt: skip


VLLM_CUTS = {
    "attn.c_attn.weight": (0, 3), "mlp.c_fc.weight": (0, 1),
    ".c_proj.weight": (1, 1),
}  # fmt: skip


def blocks(truth, name, rows):
    """Sizes of packed parts along the rows that are cut one by one."""
    if name == "in_proj":
        return truth.mixer_parts()
    if name == "conv1d" and truth.type == "qwen3_next":
        return truth.linear_parts()[:3]
    if name == "conv1d":
        return truth.mixer_parts()[1:4]
    if name == "qkv_proj":
        keys = truth.groups * truth.dim
        return [rows - 2 * keys, keys, keys]
    if truth.type == "nemotron_h" and name == "w13_weight":
        return [rows]  # without a gate
    if name in ("gate_up_proj", "w13_weight"):
        return [rows // 2] * 2
    return [rows]


def local(truth, name, full, layout, rank):
    """What a rank has of a tensor: ranks count tp first, then ep, then fsdp."""
    sparse = "experts." in name and "shared_expert" not in name
    tp = layout.get("tp", 1)
    if sparse:
        tp = layout.get("etp", tp)
    part, dim = full, int(sparse)
    if sparse:
        ways = layout.get("ep", 1)
        part = np.array_split(part, ways)[rank // tp % ways]
    last = name.removesuffix(".weight").removesuffix(".bias").split(".")[-1]
    cuts = CUTS | (GPT_OSS_CUTS if truth.type == "gpt_oss" else {})
    if layout["framework"] == "vllm":
        cuts = cuts | VLLM_CUTS
    own = [cut for end, cut in cuts.items() if name.endswith(end)]
    if truth.type in TRANSPOSED and own:
        part = packed_parts(part, own[0], tp, rank)
    elif last in COLUMNS and (
        ".linear_attn." not in name or layout["framework"] == "vllm"
    ):
        part = np.array_split(part, tp, axis=dim + 1)[rank % tp]
    elif (
        last in ROWS
        or (".mixer." in name and last in MIXERS)
        or name.endswith("linear_attn.out_proj.weight")
        or (
            layout["framework"] == "vllm"
            and ".linear_attn." in name
            and last in {"conv1d", "dt_bias", "A_log"}
        )
    ):
        part = rows_of(truth, last, part, tp, dim, rank)
    shards = layout.get("fsdp", 1)
    # As torch.chunk, but for buffers.
    if shards > 1 and last != "e_score_correction_bias":
        size = -(-len(part) // shards)
        first = rank // tp % shards * size
        part = part[first : first + size]
    return part


def packed_parts(part, cut, tp, rank):
    if cut is None:
        return part
    dim, parts = cut
    return np.concatenate(
        [
            np.array_split(block, tp, axis=dim)[rank % tp]
            for block in np.split(part, parts, axis=dim)
        ],
        axis=dim,
    )


def rows_of(truth, last, part, tp, dim, rank):
    sizes = blocks(truth, last, part.shape[dim])
    own = []
    for i, block in enumerate(np.split(part, np.cumsum(sizes)[:-1], axis=dim)):
        # Key and value heads that are fewer than the ranks are shared.
        shared = max(1, tp // truth.groups) if last == "qkv_proj" and i else 1
        pieces = np.array_split(block, tp // shared, axis=dim)
        own.append(pieces[rank % tp // shared])
    return np.concatenate(own, axis=dim)


def transformers_shapes(config):
    """{name: shape} of Hugging Face's model; None without transformers."""
    if not importlib.util.find_spec("transformers"):
        return None
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    more = {"pad_token_id": 0} if config["model_type"] == "phi3" else {}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config, **more)
        )
    state = model.state_dict(keep_vars=True)
    tied = (
        model.get_output_embeddings().weight
        is model.get_input_embeddings().weight
    )
    return {
        name: tuple(value.shape)
        for name, value in state.items()
        if not (tied and name == "lm_head.weight")
    }


def held(programs, side, state):
    """{(own tensor, rank): elements of the model's, in order of storage}."""
    found = {}
    for program in programs:
        if program[f"{side}_rank"] < 0:
            continue
        for each in program[side]:
            if state in each["states"]:
                for shard in members(each):
                    key = own_name(shard), program[f"{side}_rank"]
                    found.setdefault(key, []).append(shard)
    return found


def compare(truth, framework, layout, found):
    full = truth.of(framework)
    if framework == "huggingface":
        live = transformers_shapes(truth.config)
        if live is None:
            print("transformers is not installed: names are not compared")
        else:
            shapes = {
                n.replace("_less_one", ""): tensor.elements.shape
                for n, tensor in full.items()
            }
            assert shapes == live, set(shapes.items()) ^ set(live.items())
    names = {name for name, _ in found}
    assert names == full.keys(), names ^ full.keys()
    for (name, rank), shards in found.items():
        have = np.concatenate([stored(s, truth.shapes) for s in shards])
        want = local(truth, name, full[name].elements, layout, rank).ravel()
        assert np.array_equal(have, want), (name, rank)


def compare_loaded(truth, layout, found):
    """What each rank of vLLM's side stores, against its own loaders. False
    where vLLM is not here or has no such layout."""
    if reason := vllm_models.problem():
        print(f"vLLM is not installed, {reason}: recorded facts are compared")
        return False
    if not vllm_models.is_possible(truth.config, layout):
        return False
    names = sorted({tensor.of for tensor in truth.checkpoint.values()})

    def marks(of, elements):
        """0 is padding."""
        marked = 1 + elements * len(names) + names.index(of)
        return np.where(elements < 0, 0, marked)

    checkpoint = {
        name: marks(tensor.of, tensor.elements)
        for name, tensor in truth.checkpoint.items()
    }
    loaded = vllm_models.loaded(truth.config, checkpoint, layout, nothing=-1)
    assert found.keys() == loaded.keys(), found.keys() ^ loaded.keys()
    for key, shards in found.items():
        have = np.concatenate(
            [marks(base_name(s), stored(s, truth.shapes)) for s in shards]
        )
        assert np.array_equal(have, loaded[key].ravel()), key
    return True


def base_name(shard):
    """Of the model's tensor that a shard of one member is of."""
    name = shard["family"]
    for numbers in shard["numbers"]:
        name = name.replace("{}", str(numbers[0]), 1)
    return name


def own_elements(found, full, shapes):
    """The same in element numbers of the own tensors, as sets of runs."""
    out = {}
    for key, shards in found.items():
        elements = full[key[0]].elements.ravel()
        for shard in shards:
            have = stored(shard, shapes)
            have = have[have >= 0]  # but padding
            place = np.searchsorted(elements, have)
            assert np.array_equal(elements[place], have), key
            out.setdefault(key, []).append(place.tolist())
    return {key: sorted(runs) for key, runs in out.items()}


def programs_of(tools, plan, world):
    return [
        tools.json("dt-plan", "dump", plan, "--rank", device, "--json")
        for device in range(world)
    ]


def compare_megatron(
    tools, truth, side_name, layout, programs, request, folder
):
    """That Megatron-Core's side is what it is without frameworks."""
    alone = {key: layout[key] for key in layout if key != "framework"}
    plain = request | {"source": alone, "destination": {"world": 1}}
    asked, plan = folder / "plain.json", folder / "plain.dtplan"
    asked.write_text(json.dumps(plain))
    tools.compile(asked, plan)
    others = programs_of(tools, plan, layout["world"])
    full = truth.of("megatron")
    shapes = {name: tensor.elements.shape for name, tensor in full.items()}
    own = {
        name: Tensor(name, np.arange(tensor.elements.size))
        for name, tensor in full.items()
    }
    for state in STATE:
        here = own_elements(
            held(programs, side_name, state), full, truth.shapes
        )
        there = own_elements(held(others, "source", state), own, shapes)
        assert here == there, state


def expert_ways(frameworks, layouts):
    """Tensor parallelism of experts on vLLM's side."""
    for framework, layout in zip(frameworks, layouts, strict=True):
        if framework == "vllm":
            return layout.get("etp", layout.get("tp", 1))
    return 1


def check(tools, model, source, destination, folder):
    """How many sides were compared with what vLLM's own loaders make."""
    compared = 0
    config = (
        SMALL
        | (MODELS | TRANSPOSED | HYBRID | DELTA)[model]
        | {"model_type": model.split()[0]}
    )
    asked, plan = folder / "request.json", folder / "plan.dtplan"
    (folder / "config.json").write_text(json.dumps(config))
    request = {
        "model": "config.json",
        "state": STATE,
        "vocab_multiple": 8,
        "source": source,
        "destination": destination,
    }
    asked.write_text(json.dumps(request))
    tools.compile(asked, plan)
    tools.output("dt-plan", "verify", plan)
    moved = tools.json("dt-plan", "inspect", plan, "--json")["bytes"]
    assert moved["wire"] == moved["wire_lower_bound"], moved
    run = tools.json("dt-run", plan, "--check", "--json")
    assert run["ok"] and run["mismatches"] == 0, run
    programs = programs_of(
        tools, plan, max(source["world"], destination["world"])
    )
    frameworks = [
        each.get("framework", "megatron") for each in (source, destination)
    ]
    truth = Truth(
        config,
        joined="vllm" in frameworks,
        expert_ways=expert_ways(frameworks, (source, destination)),
    )
    for name, layout, framework in zip(
        ("source", "destination"),
        (source, destination),
        frameworks,
        strict=True,
    ):
        if framework == "megatron":
            compare_megatron(
                tools, truth, name, layout, programs, request, folder
            )
            continue
        found = held(programs, name, "param")
        compare(truth, framework, layout, found)
        if framework == "vllm":
            compared += compare_loaded(truth, layout, found)
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    options = parser.parse_args()
    passed = failed = skipped = loaded = 0
    titan = importlib.util.find_spec("torchtitan")
    for model, source, destination in CASES:
        named = {source.get("framework"), destination.get("framework")}
        if "torchtitan" in named and not titan:
            skipped += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                loaded += check(
                    Tools(options.bin), model, source, destination, Path(folder)
                )
                passed += 1
            except Exception as error:
                failed += 1
                print(
                    f"{model} {source} -> {destination}: {type(error)} "
                    f"{str(error)[:2000]}"
                )
    print(f"{loaded} sides are as vLLM's own loaders make them")
    if skipped:
        print(f"torchtitan is not installed: {skipped} cases are skipped")
    return print_closing_line(passed, failed, skipped)


if __name__ == "__main__":
    raise SystemExit(main())
