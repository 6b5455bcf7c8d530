"""Megatron-Core's model of Mamba mixers, attention, MLPs and experts, on CPUs.

Its own specs are of Transformer Engine's modules. Here the same layers are of
Megatron-Core's local linears, and of a norm before each. Mixers take the path
of plain convolutions, with the kernels of `mamba_kernels`.
"""

import mamba_kernels

mamba_kernels.put_in_place()

from megatron.core import parallel_state  # noqa: E402
from megatron.core.activations import squared_relu  # noqa: E402
from megatron.core.fusions.fused_bias_dropout import (  # noqa: E402
    get_bias_dropout_add,
)
from megatron.core.models.gpt.moe_module_specs import (  # noqa: E402
    get_moe_module_spec,
)
from megatron.core.models.mamba import mamba_model  # noqa: E402
from megatron.core.ssm import mamba_block  # noqa: E402
from megatron.core.ssm.mamba_layer import (  # noqa: E402
    MambaLayer,
    MambaLayerSubmodules,
)
from megatron.core.ssm.mamba_mixer import (  # noqa: E402
    MambaMixer,
    MambaMixerSubmodules,
)
from megatron.core.ssm.mlp_layer import MLPLayer  # noqa: E402
from megatron.core.tensor_parallel import (  # noqa: E402
    ColumnParallelLinear,
    RowParallelLinear,
)
from megatron.core.transformer.attention import (  # noqa: E402
    SelfAttention,
    SelfAttentionSubmodules,
)
from megatron.core.transformer.enums import AttnMaskType  # noqa: E402
from megatron.core.transformer.mlp import MLP, MLPSubmodules  # noqa: E402
from megatron.core.transformer.spec_utils import ModuleSpec  # noqa: E402
from megatron.core.transformer.torch_norm import WrappedTorchNorm  # noqa: E402
from megatron.core.transformer.transformer_layer import (  # noqa: E402
    TransformerLayer,
    TransformerLayerSubmodules,
)

# The last norm is Transformer Engine's, whatever the spec.
mamba_block.TENorm = WrappedTorchNorm


def options(config):
    """What TransformerConfig has of this type."""
    return {
        "gated_linear_unit": False,
        "activation_func": squared_relu,
        "mamba_num_heads": config["mamba_num_heads"],
        "mamba_head_dim": config["mamba_head_dim"],
        "mamba_num_groups": config["n_groups"],
        "mamba_state_dim": config["ssm_state_size"],
        "use_mamba_mem_eff_path": False,
        "layernorm_epsilon": config["layer_norm_epsilon"],
    }


def _attention(core):
    return ModuleSpec(
        module=SelfAttention,
        params={"attn_mask_type": AttnMaskType.causal},
        submodules=SelfAttentionSubmodules(
            linear_qkv=ColumnParallelLinear,
            core_attention=core,
            linear_proj=RowParallelLinear,
        ),
    )


def _mixer():
    return ModuleSpec(
        module=MambaMixer,
        submodules=MambaMixerSubmodules(
            in_proj=ColumnParallelLinear, out_proj=RowParallelLinear
        ),
    )


def _behind_norm(module, mlp):
    return ModuleSpec(
        module=module,
        submodules=TransformerLayerSubmodules(
            pre_mlp_layernorm=WrappedTorchNorm,
            mlp=mlp,
            mlp_bda=get_bias_dropout_add,
        ),
    )


def _spec(core, experts):
    mlp = ModuleSpec(
        module=MLP,
        submodules=MLPSubmodules(
            linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear
        ),
    )
    moe = get_moe_module_spec(
        use_te=False, num_experts=experts, moe_grouped_gemm=False
    )
    return ModuleSpec(
        module=mamba_block.MambaStack,
        submodules=mamba_block.MambaStackSubmodules(
            mamba_layer=ModuleSpec(
                module=MambaLayer,
                submodules=MambaLayerSubmodules(
                    norm=WrappedTorchNorm,
                    mixer=_mixer(),
                    mamba_bda=get_bias_dropout_add,
                ),
            ),
            attention_layer=ModuleSpec(
                module=TransformerLayer,
                submodules=TransformerLayerSubmodules(
                    input_layernorm=WrappedTorchNorm,
                    self_attention=_attention(core),
                    self_attn_bda=get_bias_dropout_add,
                ),
            ),
            mlp_layer=_behind_norm(MLPLayer, mlp),
            moe_layer=_behind_norm(TransformerLayer, moe),
        ),
    )


def model(config, transformer_config, core, vocabulary):
    """`core`: the core attention."""
    return mamba_model.MambaModel(
        transformer_config,
        _spec(core, config["n_routed_experts"]),
        vocab_size=vocabulary,
        max_sequence_length=config["max_position_embeddings"],
        hybrid_override_pattern=config["hybrid_override_pattern"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        parallel_output=False,
    )
