"""vLLM's own models, built and filled by its own loaders, without a GPU.

`loaded` gives what each rank of a layout then holds of a checkpoint: its
weights are element numbers. What a layout is made of, the groups of ranks, is
told to vLLM in place of processes, and attention, which has no weights, and
what its platforms find out about a machine, are left out. vLLM need only be
importable: its Python files and what they import, not its kernels.
"""

import functools
import importlib
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

# Nobody runs what is built here.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_USE_PRECOMPILED", "0")


# Where scripts/setup puts vLLM's Python files and what they import: apart from
# the packages of the trainers, which look whether it is there.
FOLDER = Path(sys.prefix) / "vllm"


@functools.cache
def problem():
    """Why vLLM cannot be imported; None: it can."""
    if FOLDER.is_dir():
        sys.path.append(str(FOLDER))
    try:
        import vllm.model_executor.layers.fused_moe  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


class _Group(SimpleNamespace):
    """A group of ranks, as seen by one of them."""

    def __init__(self, size, rank):
        super().__init__(
            world_size=size,
            rank_in_group=rank,
            ranks=list(range(size)),
            device_group=SimpleNamespace(size=lambda: size),
            cpu_group=None,
            is_first_rank=rank == 0,
            is_last_rank=rank == size - 1,
        )


class _Anything(SimpleNamespace):
    """Settings of which the models ask for many; those not given are none."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


@functools.cache
def _prepare():
    """Takes the place of what looks at the machine or needs a kernel."""
    import torch
    from vllm import platforms
    from vllm.model_executor.layers import activation, attention
    from vllm.platforms.cpu import CpuPlatform

    class AnyPlatform(CpuPlatform):
        def is_cuda_alike(self):
            return True

    class Nothing(torch.nn.Module):
        def __init__(self, *args, **options):
            super().__init__()

    platforms._current_platform = CpuPlatform()
    for name in ("Attention", "MLAAttention", "ChunkedLocalAttention"):
        setattr(attention, name, Nothing)
    activation.get_act_fn = Nothing  # asks for its kernel
    from vllm.model_executor.layers.fused_moe import config
    from vllm.model_executor.layers.fused_moe import (
        unquantized_fused_moe_method as method,
    )
    from vllm.model_executor.layers.fused_moe.oracle import unquantized

    config.current_platform = AnyPlatform()  # for experts without a gate
    cpu = unquantized.UnquantizedMoeBackend.CPU
    kernel = unquantized.backend_to_kernel_cls(cpu)[0]
    method.select_unquantized_moe_backend = lambda moe_config: (cpu, kernel)


def _set_groups(layout, rank):
    from vllm.distributed import parallel_state as state

    tp, world = layout.get("tp", 1), layout["world"]
    state._TP = _Group(tp, rank % tp)
    state._DP = _Group(world // tp, rank // tp)
    state._EP = _Group(world, rank)
    for name in ("_PP", "_PCP", "_DCP"):
        setattr(state, name, _Group(1, 0))


def is_possible(config, layout):
    """Whether vLLM has such a layout: experts are cut by all ranks, or each has
    whole ones; and each rank has heads."""
    world, tp = layout["world"], layout.get("tp", 1)
    ep, etp = layout.get("ep", 1), layout.get("etp", tp)
    has_experts = (ep, etp) == (world, 1) or (ep == 1 and etp == tp == world)
    heads = config.get("n_head", config["num_attention_heads"])
    return has_experts and heads % tp == 0


# What checkpoints say besides, and their names of what transformers' models
# have under others.
_WORDS = {
    "deepseek_v2": {"n_group": 1, "topk_group": 1},
    "deepseek_v3": {"topk_method": "noaux_tc"},
}
_NAMES = {
    "mixtral": (
        (r"\.mlp\.", ".block_sparse_moe."),
        (r"(\.experts\.\d+)\.gate_proj\.", r"\1.w1."),
        (r"(\.experts\.\d+)\.down_proj\.", r"\1.w2."),
        (r"(\.experts\.\d+)\.up_proj\.", r"\1.w3."),
    ),
    "qwen3_next": ((r"_less_one$", ""),),
}


def _name_in_checkpoint(kind, name):
    for pattern, own in _NAMES.get(kind, ()):
        name = re.sub(pattern, own, name)
    return name


def _settings(config, layout):
    import torch
    from transformers import AutoConfig
    from vllm.config import VllmConfig

    wanted = AutoConfig.for_model(
        **config, **_WORDS.get(config["model_type"], {})
    )
    settings = VllmConfig()
    settings.model_config = _Anything(
        hf_config=wanted,
        hf_text_config=wanted,
        dtype=torch.get_default_dtype(),
        max_model_len=128,
        use_mla="kv_lora_rank" in config,
        try_get_generation_config=dict,
        override_generation_config={},
    )
    parallel = settings.parallel_config
    parallel.tensor_parallel_size = layout.get("tp", 1)
    parallel.data_parallel_size = layout["world"] // layout.get("tp", 1)
    parallel.enable_expert_parallel = layout.get("ep", 1) > 1
    return wanted, settings


def _model(config, layout, rank):
    """One rank's, with weights of nothing."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names,
    )
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.models import registry

    _set_groups(layout, rank)
    _, settings = _settings(config, layout)
    module, kind = registry._TEXT_GENERATION_MODELS[names[config["model_type"]]]
    module = importlib.import_module(f"vllm.model_executor.models.{module}")
    with set_current_vllm_config(settings, check_compile=False):
        return getattr(module, kind)(vllm_config=settings)


def loaded(config, checkpoint, layout, nothing):
    """{(name, rank): numbers} of a checkpoint of arrays of numbers above 0; 0
    is padding, and `nothing` what stands where a loader has put none."""
    import torch

    _prepare()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # for numbers up to 2^53
    out = {}
    try:
        for rank in range(layout["world"]):
            model = _model(config, layout, rank)
            for _, parameter in model.named_parameters():
                parameter.data = parameter.data.double().fill_(nothing)
            model.load_weights(_weights(config, checkpoint))
            for name, parameter in model.named_parameters():
                out[_own_name(config, name), rank] = _numbers(name, parameter)
    finally:
        torch.set_default_dtype(before)
    return out


def _weights(config, checkpoint):
    import torch

    for name, array in checkpoint.items():
        weight = torch.from_numpy(np.ascontiguousarray(array)).double()
        if name.endswith(".mixer.A_log"):
            weight = weight.log()  # the loader takes the exponential
        yield _name_in_checkpoint(config["model_type"], name), weight


def _numbers(name, parameter):
    array = parameter.detach().numpy()
    if name.endswith(".mixer.A"):
        array = -array
    return np.rint(array).astype(np.int64)


def _own_name(config, name):
    """The name that plans have; docs/Views.md says why some are other ones."""
    # Since experts are a module of their own inside FusedMoE.
    name = name.replace(".experts.routed_experts.", ".experts.")
    if name.endswith(".mixer.A"):
        name += "_log"
    if name.endswith(".linear_attn.norm.weight"):
        name += "_less_one"
    return name
