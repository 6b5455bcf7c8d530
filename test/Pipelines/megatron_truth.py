"""The layout that Megatron-Core itself gives a configuration.

Builds Megatron-Core's GPTModel (local spec) and its DistributedDataParallel on
the CPU, under torch's fake process group, as every rank of a world in turn. The
regions come from `sharded_state_dict`, the optimizer's ranges from
`DistributedOptimizer._build_gbuf_range_map`. Needs megatron-core, and nothing
of DynaTrain.
"""

import itertools
import logging
import re
import warnings
from contextlib import contextmanager

warnings.filterwarnings("ignore")
logging.getLogger().setLevel(logging.ERROR)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
)
from megatron.core.models.gpt.gpt_layer_specs import (  # noqa: E402
    get_gpt_decoder_block_spec,
    get_gpt_decoder_layer_specs,
    get_gpt_mtp_block_spec,
)
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.optimizer.distrib_optimizer import (  # noqa: E402
    DistributedOptimizer,
)
from megatron.core.transformer import (  # noqa: E402
    MLATransformerConfig,
    TransformerConfig,
    multi_latent_attention,
)
from megatron.core.transformer.identity_op import IdentityOp  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

# Megatron-Core asks for the current GPU, and copies tied embeddings to it.
torch.cuda.current_device = lambda: torch.device("cpu")
torch.Tensor.cuda = lambda tensor, *_, **__: tensor


class DuplicatedLinear(torch.nn.Linear):
    """Stands in for Transformer Engine's linear of the same weights on every
    rank, which MLA's projections down are; the local spec would cut them."""

    def __init__(self, inputs, outputs, *, parallel_mode, **_):
        assert parallel_mode == "duplicated"
        super().__init__(inputs, outputs, bias=False)


multi_latent_attention.TELinear = DuplicatedLinear


@contextmanager
def world_of(rank, case):
    """This process as one rank of the case's world."""
    sizes = case["sizes"]
    world = sizes["world"]
    dist.init_process_group(
        "fake", rank=rank, world_size=world, store=FakeStore()
    )
    parallel_state.initialize_model_parallel(
        sizes["tp"],
        sizes["pp"],
        sizes["vpp"] if sizes["vpp"] > 1 else None,
        context_parallel_size=sizes["cp"],
        expert_model_parallel_size=sizes["ep"],
        expert_tensor_parallel_size=sizes["etp"],
        order=sizes["order"],
        create_gloo_process_groups=False,
    )
    try:
        yield
    finally:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


def pipeline_options(sizes, model):
    """How the configuration says `pp_layers` (one entry per block)."""
    layers = sizes.get("pp_layers")
    if not layers:
        return {}
    blocks = [["decoder"] * count for count in layers]
    blocks[0].insert(0, "embedding")
    blocks[-1] += ["mtp"] * model["mtp"] + ["loss"]
    assert sum(layers) == model["layers"]
    return {"pipeline_model_parallel_layout": blocks}


def moe_options(model):
    if not model["experts"]:
        return {}
    return {
        "num_moe_experts": model["experts"],
        "moe_ffn_hidden_size": model["expert_ffn"],
        "moe_layer_freq": [int(moe) for moe in model["moe_layers"]],
        "moe_shared_expert_intermediate_size": model["shared_ffn"] or None,
        "moe_shared_expert_gate": model.get("shared_gate", False),
        "moe_router_load_balancing_type": "none",
        "moe_router_score_function": "sigmoid",
        "moe_router_enable_expert_bias": model["expert_bias"],
    }


def latent_options(model):
    """Multi-latent attention."""
    if not model["latent"]:
        return {}
    latent = model["latent"]
    return {
        "q_lora_rank": latent["q_rank"] or None,
        "kv_lora_rank": latent["kv_rank"],
        "qk_head_dim": latent["nope"],
        "qk_pos_emb_head_dim": latent["rope"],
        "v_head_dim": latent["value"],
        "rope_type": "rope",
    }


def transformer_config(case):
    model, sizes = case["megatron"], case["sizes"]
    gated, bias = model["gated"], model["bias"]
    kind = MLATransformerConfig if model["latent"] else TransformerConfig
    return kind(
        num_layers=model["layers"],
        hidden_size=model["hidden"],
        ffn_hidden_size=model["ffn"],
        num_attention_heads=model["heads"],
        num_query_groups=model["groups"],
        kv_channels=model["head_dim"],
        gated_linear_unit=gated,
        activation_func=torch.nn.functional.silu
        if gated
        else torch.nn.functional.gelu,
        add_bias_linear=bias,
        add_qkv_bias=bias or model["qkv_bias"],
        normalization="LayerNorm" if bias else "RMSNorm",
        qk_layernorm=model["qk_norm"] or bool(model["latent"]),
        mtp_num_layers=model["mtp"] or None,
        use_cpu_initialization=True,
        perform_initialization=False,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=sizes["tp"],
        pipeline_model_parallel_size=sizes["pp"],
        virtual_pipeline_model_parallel_size=(
            sizes["vpp"] if sizes["vpp"] > 1 else None
        ),
        context_parallel_size=sizes["cp"],
        expert_model_parallel_size=sizes["ep"],
        expert_tensor_parallel_size=sizes["etp"],
        **moe_options(model),
        **latent_options(model),
        **pipeline_options(sizes, model),
    )


def adapt_attention(layers):
    """The local core attention has no parameters and refuses cp and MLA."""
    for layer in layers:
        attention = layer.submodules.self_attention.submodules
        attention.core_attention = IdentityOp
        if hasattr(attention, "linear_kv_down_proj"):
            attention.linear_q_down_proj = DuplicatedLinear
            attention.linear_kv_down_proj = DuplicatedLinear


def layer_specs(config, stage):
    """Specs of a chunk's layers and of its prediction layers (or None)."""
    local = {
        "use_transformer_engine": False,
        "normalization": config.normalization,
    }
    block = get_gpt_decoder_block_spec(config, vp_stage=stage, **local)
    adapt_attention(block.layer_specs)
    if not config.mtp_num_layers:
        return block, None
    last = get_gpt_decoder_layer_specs(config, **local)[-1]
    adapt_attention([last])
    return block, get_gpt_mtp_block_spec(
        config, last, use_transformer_engine=False, vp_stage=stage
    )


def build_chunk(case, config, chunk):
    model = case["megatron"]
    stage = chunk if case["sizes"]["vpp"] > 1 else None
    where = {"ignore_virtual": False, "vp_stage": stage}
    spec, prediction_spec = layer_specs(config, stage)
    built = GPTModel(
        config,
        spec,
        vocab_size=model["padded_vocab"],
        max_sequence_length=model["positions"] or 64,
        pre_process=parallel_state.is_pipeline_first_stage(**where),
        post_process=parallel_state.is_pipeline_last_stage(**where),
        share_embeddings_and_output_weights=model["tied"],
        position_embedding_type=(
            "learned_absolute" if model["positions"] else "rope"
        ),
        mtp_block_spec=prediction_spec,
        vp_stage=stage,
    )
    return built.bfloat16()  # as Float16Module does before DDP


LAYER = re.compile(r"(layers\.)\d+")
EXPERT = re.compile(r"(local_experts\.)\d+")


def global_name(local, part):
    """A parameter's name with the numbers of the whole model: its layer is in
    the checkpoint key, its expert the first offset."""
    if part.key == "embedding.word_embeddings.weight":
        return part.key  # the tied copy of the last stage too
    layer = LAYER.search(part.key)
    name = LAYER.sub(layer[0], local, count=1) if layer else local
    if EXPERT.search(name):
        assert part.prepend_axis_num == 1
        name = EXPERT.sub(rf"\g<1>{part.global_offset[0]}", name)
    return name


def merged(intervals):
    """Intervals in local order, neighbours joined."""
    out = []
    for lo, hi in intervals:
        if out and out[-1][1] == lo:
            out[-1][1] = hi
        else:
            out.append([lo, hi])
    return out


def region_of(parts):
    """Intervals per dim: gate and up (two parts) lie one after the other along
    dim 0 of the local tensor."""
    skip = parts[0].prepend_axis_num
    dims = []
    for dim, _ in enumerate(parts[0].local_shape):
        found = [
            [offset, offset + part.local_shape[dim]]
            for part in parts
            for offset in [part.global_offset[skip + dim]]
        ]
        if dim > 0:
            assert all(interval == found[0] for interval in found)
            found = found[:1]
        dims.append(merged(found))
    return dims


def parts_of(entry):
    """The ShardedTensors of a parameter; a factory gives gate and up."""
    return entry.build() if hasattr(entry, "build") else [entry]


def described(module):
    """{parameter or buffer: (global name, region, global shape)}."""
    # Layers by number in the keys, not by an offset.
    metadata = {"non_homogeneous_layers": True}
    state = module.sharded_state_dict(metadata=metadata)
    out = {}
    for local, parameter in module.state_dict(keep_vars=True).items():
        if not isinstance(parameter, torch.Tensor):
            continue
        parts = parts_of(state[local])
        shape = list(parts[0].global_shape[parts[0].prepend_axis_num :])
        region = region_of(parts)
        sizes = [sum(hi - lo for lo, hi in dim) for dim in region]
        assert sizes == list(parameter.shape)
        out[parameter] = (global_name(local, parts[0]), region, shape)
    return out


def set_expert_groups(case, module):
    """Expert tensors whose TP differs from the dense ones get buffers of the
    expert grid also where ep is 1. megatron-core 0.16.1 puts them into dense
    buffers, whose ranks then hold different shards; later versions do not."""
    sizes = case["sizes"]
    if sizes["ep"] > 1 or sizes["etp"] == sizes["tp"]:
        return
    for name, parameter in module.named_parameters():
        if EXPERT.search(name):
            parameter.allreduce = False


def reorder(module, names, order):
    """Lets `named_parameters` give `order` (global names), which is how another
    layer spec would register the same tensors."""
    position = {name: number for number, name in enumerate(order)}
    pairs = list(module.named_parameters())
    pairs.sort(key=lambda pair: position[names[pair[1]]])
    module.named_parameters = lambda *_, **__: iter(pairs)


def wrap(case, config, module, chunk):
    """The module's buffers, bucketed as Megatron's training loop does: chunks
    after the first are not."""
    return DistributedDataParallel(
        config,
        DistributedDataParallelConfig(
            use_distributed_optimizer=True,
            overlap_grad_reduce=True,
            bucket_size=case["sizes"].get("bucket_size"),
        ),
        module,
        disable_bucketing=chunk > 0,
    )


def ranges_of(wrapped):
    """{parameter: (lo, hi)}: the local elements that this rank optimizes."""
    ranges = {}
    for buffer in wrapped.buffers + wrapped.expert_parallel_buffers:
        maps = DistributedOptimizer._build_gbuf_range_map(buffer)
        for bucket in itertools.chain(*maps.values()):
            for parameter, found in bucket["param_map"].items():
                ranges[parameter] = (found["param"].start, found["param"].end)
    return ranges


def rank_layout(case, rank, order=None):
    """[(name, region, (lo, hi) or None)] of one rank, in registration order;
    `order` is that of another spec."""
    rows = []
    with world_of(rank, case):
        config = transformer_config(case)
        for chunk in range(case["sizes"]["vpp"]):
            module = build_chunk(case, config, chunk)
            found = described(module)
            set_expert_groups(case, module)
            if order:
                names = {p: name for p, (name, _, _) in found.items()}
                reorder(module, names, order)
            ranges = ranges_of(wrap(case, config, module, chunk))
            rows += [
                (name, region, ranges.get(parameter))
                for parameter, (name, region, _) in found.items()
            ]
    return rows


def whole_model(case):
    """[(name, shape)] of the whole model in registration order, as the only
    rank of a world registers it."""
    ones = dict.fromkeys(("world", "tp", "pp", "vpp", "cp", "ep", "etp"), 1)
    alone = case | {"sizes": ones | {"order": case["sizes"]["order"]}}
    with world_of(0, alone):
        module = build_chunk(alone, transformer_config(alone), 0)
        return [(name, shape) for name, _, shape in described(module).values()]
