"""Configurations for the comparison with Megatron-Core, and their requests.

A case is plain data: "megatron" (what builds Megatron-Core's model), "sizes"
(the parallel sizes, named as in a request) and "registration": "local" (the
tensors, in the order of Megatron-Core's local layer spec, are a flat list with
rules) or "config" (a config.json: Transformer Engine's names and order).
"""

import math
import random
import re

from layouts import round_up
from megatron_tensors import tensors_of_config

MAX_WORLD = 32
ORDERS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")


def divisors(number):
    return [n for n in range(1, number + 1) if number % n == 0]


def random_sizes(rng, moe):
    """Parallel sizes of a world of at most MAX_WORLD ranks."""
    tp, cp = rng.choice([1, 1, 2, 2, 4]), rng.choice([1, 1, 1, 2])
    pp = rng.choice([1, 2, 2, 3, 4])
    dp = rng.choice([d for d in (1, 2, 3, 4, 5, 8) if tp * cp * pp * d <= 32])
    sizes = {"world": tp * cp * pp * dp, "tp": tp, "cp": cp, "pp": pp, "dp": dp}
    sizes["vpp"] = rng.choice([1, 1, 2, 3]) if pp > 1 else 1
    stage = tp * cp * dp
    sizes["etp"] = rng.choice([d for d in (1, 2, tp) if stage % d == 0])
    experts = [d for d in divisors(stage // sizes["etp"]) if d <= 8]
    sizes["ep"] = rng.choice(experts) if moe else 1
    if not moe:
        sizes["etp"] = tp
    # Both grids must have the same pipeline groups.
    free = sizes["etp"] * sizes["ep"] == tp * cp
    sizes["order"] = rng.choice(ORDERS if free else ORDERS[:1])
    return sizes


def add_stages(rng, sizes):
    """The number of layers, and `pp_layers` (per block) where uneven."""
    blocks = sizes["pp"] * sizes["vpp"]
    if blocks == 1 or rng.random() < 0.5:
        return blocks * rng.choice([1, 1, 2])
    sizes["pp_layers"] = [rng.choice([0, 1, 1, 2]) for _ in range(blocks)]
    if sum(sizes["pp_layers"]) == 0:
        sizes["pp_layers"][0] = 1
    return sum(sizes["pp_layers"])


KINDS = (
    "llama", "qwen2", "qwen3", "gpt2", "mixtral", "qwen2_moe", "qwen3_moe",
    "deepseek_v2", "deepseek_v3", "glm4_moe",
)  # fmt: skip
LATENT_KINDS = ("deepseek_v2", "deepseek_v3")
SHARED_KINDS = (*LATENT_KINDS, "glm4_moe")
EXPERT_KINDS = ("mixtral", "qwen2_moe", "qwen3_moe", *SHARED_KINDS)
# Others have the same tensors in both specs.
CONFIG_KINDS = (*SHARED_KINDS, "qwen2_moe")


def add_experts(rng, model, sizes, local):
    qwen = model["kind"] in ("qwen2_moe", "qwen3_moe")
    step = rng.choice([1, 1, 2]) if qwen else 1
    model["experts"] = sizes["ep"] * rng.choice([1, 2, 3])
    unit = math.lcm(sizes["etp"], sizes["tp"])  # shared experts are dense
    model["expert_ffn"] = unit * rng.choice([3, 4, 8])
    model["moe_layers"] = [
        (layer + 1) % step == 0 for layer in range(model["layers"])
    ]
    gated = model["kind"] == "qwen2_moe"
    if gated or local and rng.random() < 0.4:
        model["shared_ffn"] = sizes["tp"] * rng.choice([3, 5])
        model["shared_gate"] = gated


def add_latent_attention(rng, model):
    model["latent"] = {
        "q_rank": rng.choice([0, 6, 9]), "kv_rank": rng.choice([5, 8]),
        "nope": rng.choice([4, 6]), "rope": 4, "value": rng.choice([4, 5]),
    }  # fmt: skip


def add_shared_experts(rng, model):
    """What DeepSeek and GLM have more: shared experts, dense layers first;
    but for DeepSeek-V2 a router bias and prediction layers."""
    model["shared_ffn"] = model["expert_ffn"] * rng.choice([1, 2])
    dense = rng.randint(0, min(2, model["layers"] - 1))
    model["moe_layers"] = [n >= dense for n in range(model["layers"])]
    if model["kind"] == "deepseek_v2":
        return
    model["expert_bias"] = True
    model["mtp"] = rng.choice([0, 1, 2])
    if model["mtp"]:  # megatron-core 0.16.1 cannot tie both
        model["tied"] = False


def random_model(rng, kind, sizes, local):
    """What both Megatron-Core and a config.json can say."""
    heads = sizes["tp"] * rng.choice([1, 2, 3])
    gpt2, moe = kind == "gpt2", kind in EXPERT_KINDS
    groups = [g for g in divisors(heads) if g % sizes["tp"] == 0]
    head_dim = rng.choice([4, 6, 8])
    hidden = heads * head_dim if gpt2 else rng.choice([8, 20, 24, 32])
    vocab = rng.randint(20, 150)
    model = {
        "kind": kind, "layers": add_stages(rng, sizes), "hidden": hidden,
        "ffn": sizes["tp"] * rng.choice([3, 5, 8, 16]), "heads": heads,
        "groups": heads if gpt2 else rng.choice(groups), "head_dim": head_dim,
        "gated": not gpt2, "bias": gpt2,
        "qkv_bias": kind in ("gpt2", "qwen2", "qwen2_moe", "glm4_moe"),
        "qk_norm": kind in ("qwen3", "qwen3_moe", "glm4_moe"),
        "positions": rng.choice([10, 33]) if gpt2 else 0,
        "tied": rng.random() < 0.5, "vocab": vocab, "experts": 0,
        "shared_ffn": 0, "vocab_multiple": rng.choice([1, 4, 32]),
        "latent": None, "expert_bias": False, "mtp": 0,
    }  # fmt: skip
    if not gpt2 and rng.random() < 0.3:  # tp may cut within a group
        few = divisors(math.gcd(heads, sizes["tp"]))[:-1]
        model["groups"] = rng.choice(few or groups)
    if moe:
        add_experts(rng, model, sizes, local)
    if kind in LATENT_KINDS:
        add_latent_attention(rng, model)
    if kind in SHARED_KINDS:
        add_shared_experts(rng, model)
    if local and sizes["pp"] > 1:
        model["tied"] = False  # a flat list has no tensor on two stages
    multiple = model["vocab_multiple"] * sizes["tp"]
    model["padded_vocab"] = round_up(vocab, multiple)
    return model


def random_case(seed):
    rng = random.Random(seed)
    kind = rng.choice(KINDS)
    local = kind not in CONFIG_KINDS and rng.random() < 0.5
    sizes = random_sizes(rng, moe=kind in EXPERT_KINDS)
    model = random_model(rng, kind, sizes, local)
    if rng.random() < 0.85:
        sizes["bucket_size"] = rng.choice([200, 1000, 3000, 10000, 40000])
    registration = "local" if local else "config"
    return {"registration": registration, "megatron": model, "sizes": sizes}


# Requests.


def config_of(model):
    """The config.json that says what `model` says."""
    if model["kind"] == "gpt2":
        return {
            "model_type": "gpt2", "n_layer": model["layers"],
            "n_embd": model["hidden"], "n_head": model["heads"],
            "n_inner": model["ffn"], "n_positions": model["positions"],
            "vocab_size": model["vocab"], "tie_word_embeddings": model["tied"],
        }  # fmt: skip
    config = {
        "model_type": model["kind"], "num_hidden_layers": model["layers"],
        "hidden_size": model["hidden"], "intermediate_size": model["ffn"],
        "num_attention_heads": model["heads"], "head_dim": model["head_dim"],
        "num_key_value_heads": model["groups"], "vocab_size": model["vocab"],
        "tie_word_embeddings": model["tied"],
    }  # fmt: skip
    if model["kind"] == "mixtral":
        config["intermediate_size"] = model["expert_ffn"]
        config["num_local_experts"] = model["experts"]
    if model["kind"] in ("qwen2_moe", "qwen3_moe"):
        config["num_experts"] = model["experts"]
        config["moe_intermediate_size"] = model["expert_ffn"]
        config["mlp_only_layers"] = [
            layer for layer, moe in enumerate(model["moe_layers"]) if not moe
        ]
    if model["kind"] == "qwen2_moe":
        config["shared_expert_intermediate_size"] = model["shared_ffn"]
    if model["kind"] in SHARED_KINDS:
        config |= shared_config_of(model)
    return config | (latent_config_of(model) if model["latent"] else {})


def shared_config_of(model):
    more = {
        "n_routed_experts": model["experts"],
        "moe_intermediate_size": model["expert_ffn"],
        "n_shared_experts": model["shared_ffn"] // model["expert_ffn"],
        "num_nextn_predict_layers": model["mtp"],
        "first_k_dense_replace": model["moe_layers"].count(False),
    }
    if model["kind"] == "glm4_moe":
        more |= {"attention_bias": True, "use_qk_norm": True}
    return more


def latent_config_of(model):
    latent = model["latent"]
    return {
        "q_lora_rank": latent["q_rank"] or None,
        "kv_lora_rank": latent["kv_rank"],
        "qk_nope_head_dim": latent["nope"],
        "qk_rope_head_dim": latent["rope"], "v_head_dim": latent["value"],
    }  # fmt: skip


def rules_of(model):
    """How Megatron-Core cuts the tensors of its local spec."""

    def fc1(match, width, **more):
        blocks = {"blocks": [width, width]} if model["gated"] else {}
        return {"match": match, "tp": 0, **blocks, **more}

    rules = [
        {"match": "*word_embeddings.weight", "tp": 0},
        {"match": "output_layer.weight", "tp": 0},
        {"match": "*.linear_qkv.*", "tp": 0},
        {"match": "*.linear_proj.weight", "tp": 1},
    ]
    if model["experts"]:
        width = model["expert_ffn"]
        local = "*.local_experts.*."
        rules += [
            fc1(local + "linear_fc1.weight", width, ep=True),
            {"match": local + "linear_fc2.weight", "tp": 1, "ep": True},
        ]
    if model["shared_ffn"]:
        rules.append(fc1("*.shared_experts.linear_fc1.*", model["shared_ffn"]))
    return [
        *rules,
        fc1("*.linear_fc1.*", model["ffn"]),
        {"match": "*.linear_fc2.weight", "tp": 1},
        {"match": "*", "replicate": True},
    ]


def request_of(case, tensors):
    """A request whose source is the case's layout. `tensors` is [(name,
    shape)] of Megatron-Core's model, in registration order."""
    model = case["megatron"]
    request = {"state": {"param": "bf16", "master": "f32"}}
    if case["registration"] == "config":
        request["model"] = config_of(model)
        request["vocab_multiple"] = model["vocab_multiple"]
    else:
        rows = [
            {"name": name, "shape": shape, "dtype": "bf16"}
            for name, shape in tensors
        ]
        request["model"] = {"tensors": rows}
        request["rules"] = rules_of(model)
    request["source"] = case["sizes"] | {"zero": 1}
    request["destination"] = {"world": 1}
    return request


# Names.

EXPERT = re.compile(r"experts\.local_experts\.(\d+)\.(linear_fc[12]\.weight)")


def engine_name(name, has_router, latent):
    """Transformer Engine's name of a tensor of the local spec. `has_router`
    says whether its layer is a mixture of experts."""
    name = EXPERT.sub(r"experts.\g<2>\g<1>", name)
    name = name.replace(".transformer_layer.", ".mtp_model_layer.")
    if latent:
        name = name.replace(".q_layernorm.", ".linear_q_up_proj.layer_norm_")
        name = name.replace(".kv_layernorm.", ".linear_kv_up_proj.layer_norm_")
    else:
        norm = "self_attention.linear_qkv.layer_norm_"
        name = name.replace("input_layernorm.", norm)
    if not has_router:
        norm = "mlp.linear_fc1.layer_norm_"
        name = name.replace("pre_mlp_layernorm.", norm)
    return name


def engine_names(case, tensors):
    """{name in the local spec: name in Transformer Engine's}."""
    router = "mlp.router.weight"
    moe = {name.removesuffix(router) for name, _ in tensors if router in name}
    latent = bool(case["megatron"]["latent"])
    names = {}
    for name, _ in tensors:
        layer = re.match(r".*layers\.\d+\.(transformer_layer\.)?", name)
        has_router = bool(layer) and layer[0] in moe
        names[name] = engine_name(name, has_router, latent)
    return names


def engine_order(case, tensors):
    """Names of the local spec in Transformer Engine's registration order."""
    config = config_of(case["megatron"])
    wanted = [name for name, _, _ in tensors_of_config(config)]
    position = {name: number for number, name in enumerate(wanted)}
    names = engine_names(case, tensors)
    assert sorted(names.values()) == sorted(wanted), (names, wanted)
    return sorted(names, key=lambda name: position[names[name]])
