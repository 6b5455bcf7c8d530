"""The tensors of known model types, as Megatron-Core registers them.

Names, global shapes, tensor-parallel dims and registration order of the
Transformer-Engine spec, from a Hugging Face config. Kept apart from the
compiler's own table on purpose: the two are compared by the random tests.
"""

from layouts import Cut


def dense_mlp(config, gated, hidden, width, prefix, norm=True, bias=False):
    """linear_fc1 (its norm first, gate and up packed) and linear_fc2."""
    rows = 2 * width if gated else width
    blocks = [width, width] if gated else None
    if norm:
        yield prefix + "linear_fc1.layer_norm_weight", (hidden,), {}
    if norm and bias:
        yield prefix + "linear_fc1.layer_norm_bias", (hidden,), {}
    fc1 = {"tp": 0, "blocks": blocks}
    yield prefix + "linear_fc1.weight", (rows, hidden), fc1
    if bias:
        yield prefix + "linear_fc1.bias", (rows,), fc1
    yield prefix + "linear_fc2.weight", (hidden, width), {"tp": 1}
    if bias:
        yield prefix + "linear_fc2.bias", (hidden,), {}


def grouped_attention(
    hidden, heads, groups, head_dim, bias=False, qkv_bias=False, qk_norm=False
):
    """`bias`: norms and the projection have one; `qkv_bias`: qkv has."""
    prefix = "self_attention."
    rows = (heads + 2 * groups) * head_dim
    yield prefix + "linear_proj.weight", (hidden, heads * head_dim), {"tp": 1}
    if bias:
        yield prefix + "linear_proj.bias", (hidden,), {}
    yield prefix + "linear_qkv.layer_norm_weight", (hidden,), {}
    if bias:
        yield prefix + "linear_qkv.layer_norm_bias", (hidden,), {}
    yield prefix + "linear_qkv.weight", (rows, hidden), {"tp": 0}
    if qkv_bias:
        yield prefix + "linear_qkv.bias", (rows,), {"tp": 0}
    if qk_norm:
        yield prefix + "q_layernorm.weight", (head_dim,), {}
        yield prefix + "k_layernorm.weight", (head_dim,), {}


def experts(hidden, width, count):
    yield "pre_mlp_layernorm.weight", (hidden,), {}
    yield "mlp.router.weight", (count, hidden), {}
    for e in range(count):
        cut = {
            "tp": 0,
            "blocks": [width, width],
            "expert": e,
            "num_experts": count,
        }
        yield f"mlp.experts.linear_fc1.weight{e}", (2 * width, hidden), cut
    for e in range(count):
        cut = {"tp": 1, "expert": e, "num_experts": count}
        yield f"mlp.experts.linear_fc2.weight{e}", (hidden, width), cut


def head_dim_of(config):
    default = config["hidden_size"] // config["num_attention_heads"]
    return config.get("head_dim", default)


def llama_layer(config):
    """Llama, and Qwen 2 and 3, which add a bias or norms to attention."""
    hidden, kind = config["hidden_size"], config["model_type"]
    yield from grouped_attention(
        hidden, config["num_attention_heads"], config["num_key_value_heads"],
        head_dim_of(config), qkv_bias=kind == "qwen2", qk_norm=kind == "qwen3",
    )  # fmt: skip
    yield from dense_mlp(
        config, True, hidden, config["intermediate_size"], "mlp."
    )


def moe_layer(config, layer):
    """Mixtral, and Qwen 2 and 3 with experts, some of whose layers have
    none."""
    hidden, kind = config["hidden_size"], config["model_type"]
    mixtral = kind == "mixtral"
    yield from grouped_attention(
        hidden, config["num_attention_heads"], config["num_key_value_heads"],
        head_dim_of(config), qkv_bias=kind == "qwen2_moe",
        qk_norm=kind == "qwen3_moe",
    )  # fmt: skip
    width = config.get("intermediate_size")
    if layer in config.get("mlp_only_layers", []):
        yield from dense_mlp(config, True, hidden, width, "mlp.")
    elif mixtral:
        yield from experts(hidden, width, config["num_local_experts"])
    else:
        yield from experts(
            hidden, config["moe_intermediate_size"], config["num_experts"]
        )
        shared = config.get("shared_expert_intermediate_size")
        if shared:
            prefix = "mlp.shared_experts."
            yield prefix + "gate_weight", (1, hidden), {}
            yield from dense_mlp(
                config, True, hidden, shared, prefix, norm=False
            )


def latent_attention(config):
    """Multi-latent attention: low-rank projections down are replicated."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    nope, rope = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    q_rank, kv_rank = config["q_lora_rank"], config["kv_lora_rank"]
    value, rows = config["v_head_dim"], {"tp": 0}
    yield "input_layernorm.weight", (hidden,), {}
    prefix = "self_attention.linear_"
    yield prefix + "proj.weight", (hidden, heads * value), {"tp": 1}
    if q_rank:
        yield prefix + "q_down_proj.weight", (q_rank, hidden), {}
        yield prefix + "q_up_proj.layer_norm_weight", (q_rank,), {}
        yield prefix + "q_up_proj.weight", (heads * (nope + rope), q_rank), rows
    else:
        yield prefix + "q_proj.weight", (heads * (nope + rope), hidden), rows
    yield prefix + "kv_down_proj.weight", (kv_rank + rope, hidden), {}
    yield prefix + "kv_up_proj.layer_norm_weight", (kv_rank,), {}
    yield prefix + "kv_up_proj.weight", (heads * (nope + value), kv_rank), rows


def deepseek_moe(config):
    hidden, width = config["hidden_size"], config["moe_intermediate_size"]
    count = config["n_routed_experts"]
    for name, shape, cut in experts(hidden, width, count):
        yield name, shape, cut
        balanced = config["model_type"] != "deepseek_v2"
        if name == "mlp.router.weight" and balanced:
            bias = {"buffer": True, "fsdp": None}
            yield "mlp.router.expert_bias", (count,), bias
    shared = config["n_shared_experts"] * width
    prefix = "mlp.shared_experts."
    yield from dense_mlp(config, True, hidden, shared, prefix, norm=False)


def deepseek_layer(config, layer):
    """DeepSeek V2 and V3, and GLM 4, whose attention is grouped."""
    if config["model_type"] == "glm4_moe":
        yield from grouped_attention(
            config["hidden_size"], config["num_attention_heads"],
            config["num_key_value_heads"], head_dim_of(config),
            qkv_bias=config["attention_bias"], qk_norm=config["use_qk_norm"],
        )  # fmt: skip
    else:
        yield from latent_attention(config)
    if layer >= config["first_k_dense_replace"]:
        yield from deepseek_moe(config)
    else:
        hidden, width = config["hidden_size"], config["intermediate_size"]
        yield from dense_mlp(config, True, hidden, width, "mlp.")


def prediction_layers(config):
    """Multi-token prediction, on the last stage."""
    hidden = config.get("hidden_size")
    for number in range(config.get("num_nextn_predict_layers", 0)):
        prefix = f"mtp.layers.{number}."
        for name in ("enorm", "hnorm"):
            yield prefix + name + ".weight", (hidden,), {}
        yield prefix + "eh_proj.weight", (hidden, 2 * hidden), {"tp": 0}
        last = config["num_hidden_layers"] - 1
        for name, shape, cut in deepseek_layer(config, last):
            yield prefix + "mtp_model_layer." + name, shape, cut
        yield prefix + "final_layernorm.weight", (hidden,), {}


def gpt2_layer(config):
    hidden, heads = config["n_embd"], config["n_head"]
    width = config.get("n_inner") or 4 * hidden
    yield from grouped_attention(
        hidden, heads, heads, hidden // heads, bias=True, qkv_bias=True
    )
    yield from dense_mlp(config, False, hidden, width, "mlp.", bias=True)


def layer_tensors(config, layer):
    """(name, shape, keywords of Cut) of one layer."""
    kind = config["model_type"]
    if kind in ("deepseek_v2", "deepseek_v3", "glm4_moe"):
        return deepseek_layer(config, layer)
    if kind in ("mixtral", "qwen2_moe", "qwen3_moe"):
        return moe_layer(config, layer)
    return gpt2_layer(config) if kind == "gpt2" else llama_layer(config)


def tensors_of_config(config):
    """[(name, shape, Cut)] of the whole model, in registration order."""
    gpt2 = config["model_type"] == "gpt2"
    hidden = config["n_embd" if gpt2 else "hidden_size"]
    vocabulary = (config["vocab_size"], hidden)
    tied = config.get("tie_word_embeddings", gpt2)
    word = Cut(tp=0, vocabulary=True)
    predicts = config.get("num_nextn_predict_layers", 0) > 0
    if tied or predicts:  # the last stage has a second copy
        word.stages = ("first", "last")
        word.shared_embedding = True
    found = [("embedding.word_embeddings.weight", vocabulary, word)]
    if gpt2:
        positions = (config["n_positions"], hidden)
        found.append(("embedding.position_embeddings.weight", positions, Cut()))
    for layer in range(config["n_layer" if gpt2 else "num_hidden_layers"]):
        for name, shape, cut in layer_tensors(config, layer):
            full = f"decoder.layers.{layer}.{name}"
            found.append((full, shape, Cut(layer=layer, **cut)))
    last = ("last",)
    norm = Cut(layer=layer) if predicts else Cut(stages=last)
    found.append(("decoder.final_layernorm.weight", (hidden,), norm))
    if gpt2:
        found.append(("decoder.final_layernorm.bias", (hidden,), norm))
    for name, shape, cut in prediction_layers(config):
        found.append((name, shape, Cut(stages=last, **cut)))
    if not tied:
        output = Cut(tp=0, vocabulary=True, stages=last)
        found.append(("output_layer.weight", vocabulary, output))
    return found
