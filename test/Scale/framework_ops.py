"""Routing ops of every known model type between any two frameworks.

Usage: framework_ops.py DT_OPT AT_MOST [TYPE ...]

Models are of the size of real ones: dozens of layers, of the kinds and in the
order that they have, and experts by the dozen. Weights alone, and, where
Megatron-Core is one side, all states under ZeRO-1. Prints a row for each
request; exit code 1 when one has more ops, or none, or as many as pieces.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from itertools import permutations
from pathlib import Path

import count_ops

SIZES = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
LATENT = {
    "num_key_value_heads": 32,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
EXPERTS = {
    "n_routed_experts": 64,
    "moe_intermediate_size": 512,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
}
QWEN_EXPERTS = {"num_experts": 64, "moe_intermediate_size": 512}
LLAMA4 = {
    "num_local_experts": 16,
    "intermediate_size": 2048,
    "intermediate_size_mlp": 4096,
}
MAMBA = {
    "num_hidden_layers": 52,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
}
TIED = {"tie_word_embeddings": True}
# A word behind the type tells two of one type apart.
MODELS = {
    "llama": {},
    "llama tied": TIED,
    "mistral": {},
    "qwen2": TIED,
    "qwen3": {},
    "phi3": {},
    "gemma2": TIED,
    "gemma3_text": TIED,
    "mixtral": {"num_local_experts": 8},
    "qwen2_moe": QWEN_EXPERTS | {"shared_expert_intermediate_size": 2048},
    "qwen3_moe": QWEN_EXPERTS,
    "deepseek_v2": LATENT
    | EXPERTS
    | {"q_lora_rank": None, "first_k_dense_replace": 1},
    "deepseek_v3": LATENT | EXPERTS | {"q_lora_rank": 1536},
    "glm4_moe": EXPERTS | {"attention_bias": True, "use_qk_norm": True},
    "gpt2": TIED
    | {
        "n_embd": 2048,
        "n_layer": 48,
        "n_head": 32,
        "n_inner": 8192,
        "n_positions": 1024,
        "num_key_value_heads": 32,
    },
    "gpt_oss": {
        "num_local_experts": 64,
        "intermediate_size": 2048,
        "attention_bias": True,
    },
    "llama4_text": LLAMA4 | {"interleave_moe_layer_step": 1},
    "llama4_text in-turns": LLAMA4 | {"interleave_moe_layer_step": 2},
    # The pattern of Nemotron-3-Nano-30B-A3B.
    "nemotron_h": MAMBA
    | {
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM"
        "*EMEMEMEME",
        "n_routed_experts": 64,
        "moe_intermediate_size": 512,
        "moe_shared_expert_intermediate_size": 1024,
    },
    # The pattern of Nemotron-H-8B-Base-8K.
    "nemotron_h dense": MAMBA
    | {
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*"
        "-M-M-M-M-M-",
    },
    "qwen3_next": QWEN_EXPERTS
    | {
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "shared_expert_intermediate_size": 512,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
    },
}
FRAMEWORKS = ["megatron", "huggingface", "vllm", "torchtitan"]
TORCHTITAN = {"llama", "qwen3", "qwen3_moe", "deepseek_v3", "gpt_oss"}

WEIGHTS = {"param": "bf16"}
ALL_STATES = {
    "param": "bf16",
    "master": "f32",
    "exp_avg": "f32",
    "exp_avg_sq": "f32",
}


def side(framework, has_experts, zero):
    experts = {"ep": 8, "etp": 1} if has_experts else {}
    if framework == "megatron":
        sizes = {"world": 32, "tp": 2, "dp": 4, "pp": 4}
        experts |= {"zero": 1} if zero else {}
    elif framework == "vllm":
        sizes = {"world": 16, "tp": 2, "dp": 8}
    else:
        sizes = {"world": 32, "tp": 2, "fsdp": 4, "dp": 4}
    return sizes | experts | {"framework": framework}


def requests_of(name):
    """(source, destination, whether with all states) of a model."""
    kind = name.split()[0]
    known = [f for f in FRAMEWORKS if f != "torchtitan" or kind in TORCHTITAN]
    for pair in permutations(known, 2):
        for zero in (False, True):
            if not zero or "megatron" in pair:
                yield *pair, zero


def count(dt_opt, name, source, destination, zero, folder):
    """Of one request: families, pieces and ops; None of what is refused."""
    config = SIZES | {"model_type": name.split()[0]} | MODELS[name]
    has_experts = any("experts" in key for key in config)
    (folder / "config.json").write_text(json.dumps(config))
    request = {
        "model": "config.json",
        "state": ALL_STATES if zero else WEIGHTS,
        "source": side(source, has_experts, zero),
        "destination": side(destination, has_experts, zero),
    }
    asked = folder / "request.json"
    asked.write_text(json.dumps(request))
    routing = ["--dt-group-families", "--dt-route", "--emit=mlir"]
    done = subprocess.run(
        [dt_opt, asked, *routing], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{name}, {source} to {destination}: {done.stderr}")
    return count_ops.count(done.stdout.splitlines())


def main(dt_opt, at_most, *names):
    failed = most = 0
    for name in names or MODELS:
        for source, destination, zero in requests_of(name):
            with tempfile.TemporaryDirectory() as folder:
                families, pieces, counts = count(
                    dt_opt, name, source, destination, zero, Path(folder)
                )
            total = sum(counts.values())
            is_few = 0 < total <= at_most and pieces > total
            failed += not is_few
            most = max(most, total)
            print(
                f"{name:20} {source:11} {destination:11} "
                f"{'ZeRO-1' if zero else 'weights':7} {families:3} families "
                f"{total:4} ops {dict(counts)}{'' if is_few else ' too many'}",
                flush=True,
            )
    print(f"at most {most} ops; {failed} requests have too many")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
