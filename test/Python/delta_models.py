"""Megatron-Core's model of gated delta nets and gated attention, on CPUs.

Its own spec is of Transformer Engine's modules, and the delta net asks for
`fla`. Here the layers are of Megatron-Core's local linears and of a norm that
keeps its weight less one, as Transformer Engine's does; the delta rule is that
of Megatron-Core's deterministic mode, which is plain torch.
"""

import copy

import torch
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
)
from megatron.core.ssm import gated_delta_net
from megatron.core.tensor_parallel import (
    ColumnParallelLinear,
    RowParallelLinear,
)
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_layer import (
    get_transformer_layer_offset,
)


class Norm(torch.nn.Module):
    """RMS norm whose weight is kept less one."""

    def __init__(self, config, hidden_size, eps=1e-6, **_):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(
            torch.zeros(hidden_size, dtype=config.params_dtype)
        )

    def forward(self, x):
        scale = (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return x * scale * (1 + self.weight)


def _unit(x):
    """`fla`'s l2norm."""
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


gated_delta_net.HAVE_FLA = True
gated_delta_net.l2norm = _unit


def options(config):
    """What TransformerConfig has of this type."""
    return {
        "qk_layernorm": True,
        "attention_output_gate": True,
        "layernorm_zero_centered_gamma": True,
        "deterministic_mode": True,
        "moe_shared_expert_intermediate_size": config[
            "shared_expert_intermediate_size"
        ],
        "moe_shared_expert_gate": True,
        **{
            key: config[key]
            for key in (
                "linear_conv_kernel_dim",
                "linear_key_head_dim",
                "linear_value_head_dim",
                "linear_num_key_heads",
                "linear_num_value_heads",
            )
        },
    }


def _delta_net():
    return ModuleSpec(
        module=gated_delta_net.GatedDeltaNet,
        submodules=gated_delta_net.GatedDeltaNetSubmodules(
            in_proj=ColumnParallelLinear,
            out_norm=Norm,
            out_proj=RowParallelLinear,
        ),
    )


def spec(config, transformer_config):
    """Linear attention in all layers but each `full_attention_interval`th."""
    block = get_gpt_decoder_block_spec(
        transformer_config,
        use_transformer_engine=False,
        normalization="RMSNorm",
    )
    first = get_transformer_layer_offset(transformer_config)
    layers = [copy.deepcopy(layer) for layer in block.layer_specs]
    for number, layer in enumerate(layers, first + 1):
        parts = layer.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = Norm
        if number % config["full_attention_interval"]:
            parts.self_attention = _delta_net()
        else:
            attention = parts.self_attention.submodules
            attention.q_layernorm = attention.k_layernorm = Norm
    block.layer_specs, block.layer_norm = layers, Norm
    return block
