"""One model in Hugging Face's framework and in Megatron-Core, on CPUs.

    python test/Python/framework_models.py CASE...

Four processes: the first of them hold a model that transformers builds, all
hold one that Megatron-Core builds, in parallel. A switch takes the weights
over, both models compute logits of the same tokens, and another switch takes
them back. Logits agree to the noise of their arithmetic, and weights are what
they were, bit for bit. All is imported once, before processes are forked.
Megatron-Core's CPU mode changes torch, so this is no module of the suite's own
process.
"""

import argparse
import functools
import json
import re
import sys
import tempfile
from pathlib import Path

# Before CUDA's names are replaced: it reads them as types.
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.deepseek_v3 import modeling_deepseek_v3  # noqa: F401
from transformers.models.gpt2 import modeling_gpt2  # noqa: F401
from transformers.models.gpt_oss import modeling_gpt_oss  # noqa: F401
from transformers.models.llama import modeling_llama  # noqa: F401
from transformers.models.llama4 import modeling_llama4  # noqa: F401
from transformers.models.nemotron_h import modeling_nemotron_h  # noqa: F401
from transformers.models.qwen3_moe import modeling_qwen3_moe  # noqa: F401
from transformers.models.qwen3_next import modeling_qwen3_next  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import cpu  # noqa: E402

BACKEND = cpu.for_megatron()

import delta_models  # noqa: E402
import dynatrain  # noqa: E402
import hybrid_models  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.fusions.fused_bias_geglu import quick_gelu  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import (  # noqa: E402
    get_gpt_decoder_block_spec,
)
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.tensor_parallel import (  # noqa: E402
    model_parallel_cuda_manual_seed,
)
from megatron.core.transformer import (  # noqa: E402
    MLATransformerConfig,
    TransformerConfig,
    multi_latent_attention,
)
from megatron.core.transformer.dot_product_attention import (  # noqa: E402
    DotProductAttention,
)
from processes import run_ranks  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402

WORLD, LENGTH, PADDED_TO = 4, 24, 8
EPSILON = 1e-6
ROPE = {"rope_type": "default", "rope_theta": 10000.0}

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 130,
    "rms_norm_eps": EPSILON,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
MODELS = {
    "llama": {"model_type": "llama"},
    "llama-tied": {"model_type": "llama", "tie_word_embeddings": True},
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "norm_topk_prob": True,
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "num_key_value_heads": 4,
        "head_dim": 4,  # of what is turned
        "q_lora_rank": 20,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "n_shared_experts": 2,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 48,
        "n_positions": 64,
        "num_key_value_heads": 4,
        "layer_norm_epsilon": EPSILON,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": 16,
        "attention_bias": True,
        "swiglu_limit": 1.5,  # some of the test's values are beyond
        "layer_types": ["full_attention"] * 2,
        "rope_parameters": ROPE,
    },
    "llama4_text": {
        "model_type": "llama4_text",
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "intermediate_size": 16,
        "intermediate_size_mlp": 48,
        "interleave_moe_layer_step": 2,
        "no_rope_layers": [1, 1],  # both turn
        "attn_temperature_tuning": False,
        "rope_parameters": ROPE,
    },
    "qwen3_next": {
        "model_type": "qwen3_next",
        "full_attention_interval": 2,
        "rope_parameters": ROPE | {"partial_rotary_factor": 0.5},
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 6,
        "linear_value_head_dim": 5,
        "linear_conv_kernel_dim": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24,
        "norm_topk_prob": True,
    },
    "nemotron_h": {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M*-E",
        "num_hidden_layers": 4,
        "layer_norm_epsilon": 1e-5,  # that of Megatron-Core's gated norm
        "mamba_num_heads": 8,
        "mamba_head_dim": 6,
        "n_groups": 2,
        "ssm_state_size": 5,
        "conv_kernel": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "moe_shared_expert_intermediate_size": 24,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
    },
}

# The model, Hugging Face's layout, Megatron-Core's.
CASES = {
    "llama": ("llama", {"world": 1}, {"tp": 2, "pp": 2}),
    "llama-fsdp": (
        "llama",
        {"world": 2, "fsdp": 2},
        {"tp": 2, "pp": 2, "pp_layers": [1, 1]},
    ),
    "llama-tied": ("llama-tied", {"world": 1}, {"tp": 2, "pp": 2}),
    "qwen3_moe": (
        "qwen3_moe",
        {"world": 1},
        {"tp": 2, "dp": 2, "ep": 2, "etp": 2},
    ),
    "qwen3_moe-fsdp": (
        "qwen3_moe",
        {"world": 2, "fsdp": 2},
        {"tp": 2, "pp": 2, "ep": 2, "etp": 1},
    ),
    "deepseek_v3": (
        "deepseek_v3",
        {"world": 1},
        {"dp": 2, "pp": 2, "ep": 2, "etp": 1},
    ),
    "gpt2": ("gpt2", {"world": 1}, {"tp": 2, "pp": 2}),
    "gpt2-fsdp": ("gpt2", {"world": 2, "fsdp": 2}, {"tp": 4}),
    "gpt_oss": (
        "gpt_oss",
        {"world": 1},
        {"tp": 2, "pp": 2, "ep": 2, "etp": 1},
    ),
    "gpt_oss-fsdp": (
        "gpt_oss",
        {"world": 2, "fsdp": 2},
        {"tp": 2, "dp": 2, "ep": 4, "etp": 1},
    ),
    "llama4_text": (
        "llama4_text",
        {"world": 1},
        {"dp": 2, "pp": 2, "ep": 2, "etp": 1},
    ),
    "qwen3_next": (
        "qwen3_next",
        {"world": 1},
        {"tp": 2, "pp": 2, "ep": 2, "etp": 1},
    ),
    "qwen3_next-fsdp": (
        "qwen3_next",
        {"world": 2, "fsdp": 2},
        {"tp": 2, "dp": 2, "ep": 2, "etp": 2},
    ),
    "nemotron_h": ("nemotron_h", {"world": 1}, {"tp": 2, "pp": 2, "etp": 2}),
    "nemotron_h-fsdp": (
        "nemotron_h",
        {"world": 2, "fsdp": 2},
        {"tp": 2, "dp": 2, "ep": 4, "etp": 1},
    ),
}


class Attention(DotProductAttention):
    """The local core attention, where queries and values differ in size."""

    def __init__(self, *args, k_channels=None, v_channels=None, **more):
        super().__init__(*args, **more)


# Without Transformer Engine this is no type, and yet asked for.
if not isinstance(multi_latent_attention.TELinear, type):
    multi_latent_attention.TELinear = Attention

# Megatron-Core's model.


def expert_count(config):
    keys = ("num_experts", "n_routed_experts", "num_local_experts")
    return next((config[key] for key in keys if key in config), 0)


def moe_options(config):
    experts = expert_count(config)
    if not experts:
        return {}
    dense = config.get("first_k_dense_replace", 0)
    step = config.get("interleave_moe_layer_step", 1)
    width = config.get("moe_intermediate_size", config["intermediate_size"])
    options = {
        "num_moe_experts": experts,
        "moe_ffn_hidden_size": width,
        "moe_router_topk": config["num_experts_per_tok"],
        "moe_layer_freq": [
            int(n >= dense and n % step == step - 1)
            for n in range(config["num_hidden_layers"])
        ],
        "moe_token_dispatcher_type": "alltoall",
        "moe_router_load_balancing_type": "none",
        "moe_router_dtype": "fp32",
    }
    if config["model_type"] == "deepseek_v3":
        options |= {
            "moe_shared_expert_intermediate_size": config["n_shared_experts"]
            * width,
            "moe_router_score_function": "sigmoid",
            "moe_router_enable_expert_bias": True,
            "moe_router_topk_scaling_factor": config["routed_scaling_factor"],
        }
    if config["model_type"] == "nemotron_h":
        options |= {
            "moe_layer_freq": 1,  # the pattern says which
            "moe_shared_expert_intermediate_size": config[
                "moe_shared_expert_intermediate_size"
            ],
            "moe_router_score_function": "sigmoid",
            "moe_router_enable_expert_bias": True,
            "moe_router_topk_scaling_factor": config["routed_scaling_factor"],
        }
    if config["model_type"] == "llama4_text":
        options |= {
            "moe_shared_expert_intermediate_size": width,
            "moe_router_score_function": "sigmoid",
            "moe_apply_probs_on_input": True,
        }
    return options


def type_options(config):
    """What a model type has otherwise than llama."""
    if config["model_type"] == "gpt2":
        return {
            "gated_linear_unit": False,
            "activation_func": functools.partial(
                torch.nn.functional.gelu, approximate="tanh"
            ),
            "add_bias_linear": True,
            "normalization": "LayerNorm",
        }
    if config["model_type"] == "gpt_oss":
        return {
            "activation_func": quick_gelu,
            "glu_linear_offset": 1.0,
            "activation_func_clamp_value": config["swiglu_limit"],
            "bias_activation_fusion": False,
            "add_bias_linear": True,
            "softmax_type": "learnable",
        }
    if config["model_type"] == "llama4_text":
        return {"rotary_interleaved": True, "apply_rope_fusion": False}
    if config["model_type"] == "nemotron_h":
        return hybrid_models.options(config)
    if config["model_type"] == "qwen3_next":
        return delta_models.options(config)
    return {}


def latent_options(config):
    if "kv_lora_rank" not in config:
        return {"kv_channels": config["head_dim"]}
    return {
        "q_lora_rank": config["q_lora_rank"],
        "kv_lora_rank": config["kv_lora_rank"],
        "qk_head_dim": config["qk_nope_head_dim"],
        "qk_pos_emb_head_dim": config["qk_rope_head_dim"],
        "v_head_dim": config["v_head_dim"],
        "kv_channels": config["v_head_dim"],
        "rope_type": "rope",
        "rotary_scaling_factor": 1.0,
    }


def transformer_config(config, sizes, dtype=torch.float32):
    latent = "kv_lora_rank" in config
    kind = MLATransformerConfig if latent else TransformerConfig
    llama = {
        "gated_linear_unit": True,
        "activation_func": torch.nn.functional.silu,
        "add_bias_linear": False,
        "normalization": "RMSNorm",
        "layernorm_epsilon": EPSILON,
        "qk_layernorm": latent or config["model_type"] == "qwen3_moe",
    }
    width = config["intermediate_size"]
    return kind(
        num_layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        ffn_hidden_size=config.get("intermediate_size_mlp", width),
        num_attention_heads=config["num_attention_heads"],
        num_query_groups=config["num_key_value_heads"],
        use_cpu_initialization=True,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bf16=dtype == torch.bfloat16,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        tensor_model_parallel_size=sizes.get("tp", 1),
        pipeline_model_parallel_size=sizes.get("pp", 1),
        expert_model_parallel_size=sizes.get("ep", 1),
        expert_tensor_parallel_size=sizes.get("etp", sizes.get("tp", 1)),
        **(llama | type_options(config)),
        **moe_options(config),
        **latent_options(config),
    )


def megatron_model(config, sizes, dtype=torch.float32, trains=False):
    """One that trains has logits cut by tensor parallelism."""
    parallel_state.initialize_model_parallel(
        sizes.get("tp", 1),
        sizes.get("pp", 1),
        expert_model_parallel_size=sizes.get("ep", 1),
        expert_tensor_parallel_size=sizes.get("etp", sizes.get("tp", 1)),
    )
    model_parallel_cuda_manual_seed(7)
    options = transformer_config(config, sizes, dtype)
    multiple = PADDED_TO * sizes.get("tp", 1)
    vocabulary = -(-config["vocab_size"] // multiple) * multiple
    if config["model_type"] == "nemotron_h":
        model = hybrid_models.model(config, options, Attention, vocabulary)
        return model.eval()
    return gpt_model(config, options, vocabulary, trains).train(trains)


def gpt_spec(config, options):
    if config["model_type"] == "qwen3_next":
        return delta_models.spec(config, options)
    return get_gpt_decoder_block_spec(
        options,
        use_transformer_engine=False,
        normalization=options.normalization,
        qk_l2_norm=config["model_type"] == "llama4_text",
    )


def gpt_model(config, options, vocabulary, trains):
    spec = gpt_spec(config, options)
    for layer in spec.layer_specs:
        attention = layer.submodules.self_attention.submodules
        if hasattr(attention, "core_attention"):
            attention.core_attention = Attention
    return GPTModel(
        options,
        spec,
        vocab_size=vocabulary,
        max_sequence_length=config["max_position_embeddings"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        parallel_output=trains,
        share_embeddings_and_output_weights=config["tie_word_embeddings"],
        position_embedding_type="learned_absolute"
        if config["model_type"] == "gpt2"
        else "rope",
        rotary_base=10000,
        rotary_percent=config.get("rope_parameters", {}).get(
            "partial_rotary_factor", 1.0
        ),
    )


EXPERT = re.compile(
    r"experts\.local_experts\.(\d+)\.(linear_fc[12]\.(?:weight|bias))"
)


def engine_name(rest, latent, dense, experts, projection):
    """Transformer Engine's name of a layer's tensor of the local spec.
    `projection`: the linear into attention, which has the norm before it."""
    first = parallel_state.get_expert_model_parallel_rank() * experts
    rest = EXPERT.sub(lambda m: f"experts.{m[2]}{first + int(m[1])}", rest)
    if latent:
        rest = rest.replace("q_layernorm.", "linear_q_up_proj.layer_norm_")
        rest = rest.replace("kv_layernorm.", "linear_kv_up_proj.layer_norm_")
    else:
        rest = rest.replace(
            "input_layernorm.", f"self_attention.{projection}.layer_norm_"
        )
    if rest == "norm.weight":
        rest = "mixer.in_proj.layer_norm_weight"
    if dense:
        rest = rest.replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_")
    return rest


def megatron_tensors(model, config, sizes):
    """{name of the plan's tensor: this rank's}."""
    latent = "kv_lora_rank" in config
    count = expert_count(config)
    tensors = {}
    found = dict(model.named_parameters())
    found |= {n: b for n, b in model.named_buffers() if "expert_bias" in n}
    for name, tensor in found.items():
        if match := re.match(r"decoder\.layers\.(\d+)\.(.*)", name):
            layer = model.decoder.layers[int(match[1])]
            number = layer.layer_number - 1
            dense = not hasattr(getattr(layer, "mlp", None), "router")
            attention = getattr(layer, "self_attention", None)
            linear = (
                "in_proj" if hasattr(attention, "in_proj") else "linear_qkv"
            )
            rest = engine_name(
                match[2], latent, dense, count // sizes.get("ep", 1), linear
            )
            name = f"decoder.layers.{number}.{rest}"
        if name == "output_layer.weight" and config["tie_word_embeddings"]:
            name = "embedding.word_embeddings.weight"
        tensors[name] = tensor
    return tensors


def megatron_logits(model, tokens, vocabulary):
    """On the last stage; None elsewhere."""
    positions = torch.arange(LENGTH).unsqueeze(0)
    mask = torch.ones(1, 1, LENGTH, LENGTH).triu(1).bool()
    if not parallel_state.is_pipeline_first_stage():
        hidden = torch.empty(LENGTH, 1, model.config.hidden_size)
        dist.recv(
            hidden, parallel_state.get_pipeline_model_parallel_prev_rank()
        )
        model.set_input_tensor(hidden)
    output = model(tokens, positions, mask)
    if parallel_state.is_pipeline_last_stage():
        return output[..., :vocabulary]
    dist.send(
        output.contiguous(),
        parallel_state.get_pipeline_model_parallel_next_rank(),
    )
    return None


# Hugging Face's.


def huggingface_model(config, seed, mesh):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**config), attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        for tensor in model.parameters():  # norms too are no ones
            tensor.normal_(0.0, 0.2)
            if tensor.dim() == 1:
                tensor.add_(1.0)
        for name, tensor in model.named_buffers():
            if "correction_bias" in name:
                tensor.normal_(0.0, 0.1)
    if mesh is not None:
        base = model.base_model
        for layer in base.h if hasattr(base, "h") else base.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor.data


def huggingface_tensors(model):
    found = dict(model.named_parameters())
    found |= {n: b for n, b in model.named_buffers() if "correction_bias" in n}
    found = {name: local(tensor) for name, tensor in found.items()}
    # Megatron-Core has this norm's weight less one, and so has the plan.
    for name in [n for n in found if n.endswith("linear_attn.norm.weight")]:
        found[name + "_less_one"] = found.pop(name) - 1
    return found


# Between them.


def switch(rank, store, tag, path, source, destination):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(
        store=dist.PrefixStore(tag, store), rank=rank, timeout=120
    )
    sides = {"source": source, "destination": destination}
    given = {side: {} for side in sides}
    for entry in plan.expected(rank):
        tensor = sides[entry.side][entry.tensor].data
        given[entry.side][entry.tensor, entry.state] = tensor
    running = plan.prepare(world, given["source"], given["destination"])
    running.transfer()
    running.commit()


def body(rank, store, case, there, back):
    kind, layout, sizes = CASES[case]
    config = SMALL | MODELS[kind]
    dist.init_process_group(
        BACKEND, store=dist.PrefixStore("groups", store), rank=rank,
        world_size=WORLD,
    )  # fmt: skip
    mesh = None
    if "fsdp" in layout:
        mesh = dist.device_mesh.DeviceMesh("cpu", range(layout["world"]))
    holds = rank < layout["world"]
    with torch.no_grad():
        megatron = megatron_model(config, sizes)
        for tensor in megatron.parameters():
            tensor.fill_(torch.nan)
        ours = megatron_tensors(megatron, config, sizes)
        old = huggingface_model(config, 1, mesh) if holds else None
        theirs = huggingface_tensors(old) if holds else {}
        switch(rank, store, "there", there, theirs, ours)
        tokens = torch.randint(
            0, config["vocab_size"], (1, LENGTH),
            generator=torch.Generator().manual_seed(3),
        )  # fmt: skip
        logits = megatron_logits(megatron, tokens, config["vocab_size"])
        right = old(tokens).logits if holds else None
        new = huggingface_model(config, 2, mesh) if holds else None
        again = huggingface_tensors(new) if holds else {}
        switch(rank, store, "back", back, ours, again)
        for name, tensor in again.items():
            assert torch.equal(tensor, theirs[name]), name
    return (
        None if logits is None else logits.tolist(),
        None if right is None else right.tolist(),
    )


def run(case, folder):
    kind, layout, sizes = CASES[case]
    sides = [layout | {"framework": "huggingface"}, sizes | {"world": WORLD}]
    paths = []
    for name, (source, destination) in (
        ("there", sides),
        ("back", reversed(sides)),
    ):
        paths.append(str(folder / f"{case}-{name}.dtplan"))
        dynatrain.compile(
            {
                "model": str(folder / "config.json"),
                "state": {"param": "f32"},
                "vocab_multiple": PADDED_TO,
                "source": source,
                "destination": destination,
            },
            paths[-1],
        )
    results = run_ranks(WORLD, body, folder, case, *paths, limit=300)
    right = torch.tensor(next(r for _, r in results if r is not None))
    worst = 0.0
    for logits, _ in results:
        if logits is not None:
            off = (torch.tensor(logits) - right).abs().max() / right.abs().max()
            worst = max(worst, off.item())
    assert worst < 1e-5, f"{case}: logits differ by {worst:.1e} of the largest"
    print(
        f"{case}: logits agree to {worst:.1e} of the largest, weights come back"
    )


def run_cases(run, cases, sizes, about):
    """run(case, folder) of the cases that the command line names, or of all; in
    the folder is the case's `config.json`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("cases", nargs="*", default=list(cases))
    for case in parser.parse_args().cases:
        with tempfile.TemporaryDirectory() as folder:
            config = sizes | MODELS[cases[case][0]]
            (Path(folder) / "config.json").write_text(json.dumps(config))
            run(case, Path(folder))


if __name__ == "__main__":
    run_cases(run, CASES, SMALL, __doc__)
