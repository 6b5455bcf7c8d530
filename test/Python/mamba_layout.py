"""A Mamba mixer and a gated delta net as Megatron-Core builds and saves them.

    python test/Python/mamba_layout.py

Two processes build each with tensor parallelism, on CPUs. The parameters, in
their order, and the parts into which Megatron-Core's own checkpoint code takes
them apart, have to be what a plan for `nemotron_h` or `qwen3_next` expects of
each rank. Nothing is computed. Megatron-Core's CPU mode changes torch, so this
is no module of the suite's own process.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import cpu  # noqa: E402

BACKEND = cpu.for_megatron()

import dynatrain  # noqa: E402
import mamba_kernels  # noqa: E402
import torch.distributed as dist  # noqa: E402

mamba_kernels.put_in_place()

import delta_models  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.dist_checkpointing.mapping import (  # noqa: E402
    ShardedTensorFactory,
)
from megatron.core.process_groups_config import (  # noqa: E402
    ProcessGroupCollection,
)
from megatron.core.ssm.gated_delta_net import (  # noqa: E402
    GatedDeltaNet,
    GatedDeltaNetSubmodules,
)
from megatron.core.ssm.mamba_mixer import (  # noqa: E402
    MambaMixer,
    MambaMixerSubmodules,
)
from megatron.core.tensor_parallel import (  # noqa: E402
    ColumnParallelLinear,
    RowParallelLinear,
    model_parallel_cuda_manual_seed,
)
from megatron.core.transformer import TransformerConfig  # noqa: E402
from processes import run_ranks  # noqa: E402

RANKS = 2
COMMON = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 16,
    "torch_dtype": "float32",
}
MAMBA = COMMON | {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M",
    "mamba_num_heads": 8,
    "mamba_head_dim": 6,
    "n_groups": 2,
    "ssm_state_size": 5,
    "conv_kernel": 4,
}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 3,
    "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 4,
}
DELTA = (
    COMMON
    | LINEAR
    | {
        "model_type": "qwen3_next",
        "num_hidden_layers": 1,
        "num_experts": 2,
        "moe_intermediate_size": 4,
        "shared_expert_intermediate_size": 4,
    }
)
#: Transformer Engine's linear has the norm before it; this one has none.
NORM = "in_proj.layer_norm_weight"
LINEARS = {"in_proj": ColumnParallelLinear, "out_proj": RowParallelLinear}


def options_with(**more):
    return TransformerConfig(
        num_layers=1,
        hidden_size=COMMON["hidden_size"],
        num_attention_heads=COMMON["num_attention_heads"],
        tensor_model_parallel_size=RANKS,
        use_cpu_initialization=True,
        gradient_accumulation_fusion=False,
        **more,
    )


def mixer():
    return MambaMixer(
        options_with(
            mamba_num_heads=MAMBA["mamba_num_heads"],
            mamba_head_dim=MAMBA["mamba_head_dim"],
            mamba_num_groups=MAMBA["n_groups"],
            mamba_state_dim=MAMBA["ssm_state_size"],
        ),
        MambaMixerSubmodules(**LINEARS),
        d_model=COMMON["hidden_size"],
        pg_collection=ProcessGroupCollection.use_mpu_process_groups(),
    )


def delta_net():
    return GatedDeltaNet(
        options_with(**LINEAR),
        GatedDeltaNetSubmodules(out_norm=delta_models.Norm, **LINEARS),
        pg_collection=ProcessGroupCollection.use_mpu_process_groups(),
    )


# What the plan's names begin with, the model, what builds it.
MODULES = {
    "mixer": ("decoder.layers.0.mixer.", MAMBA, mixer),
    "delta net": ("decoder.layers.0.self_attention.", DELTA, delta_net),
}


def parts_of(saved):
    """[(rows of the full part, first row, rows)] of what a rank saves."""
    pieces = (
        saved.build() if isinstance(saved, ShardedTensorFactory) else [saved]
    )
    # A tensor that is stacked by layer has that dim first.
    return [
        (
            one.global_shape[one.prepend_axis_num],
            one.global_offset[one.prepend_axis_num],
            one.local_shape[0],
        )
        for one in pieces
    ]


def body(rank, store, kind):
    dist.init_process_group(
        BACKEND, store=dist.PrefixStore("groups", store), rank=rank,
        world_size=RANKS,
    )  # fmt: skip
    parallel_state.initialize_model_parallel(RANKS)
    model_parallel_cuda_manual_seed(7)
    module = MODULES[kind][2]()
    saved = module.sharded_state_dict()
    return [
        (name, tuple(tensor.shape), parts_of(saved[name]))
        for name, tensor in module.named_parameters()
    ]


def rows_of(parts):
    """Intervals of rows of the full tensor, in which its parts follow each
    other; neighbours in one."""
    rows, base = [], 0
    for size, first, count in parts:
        lo, hi = base + first, base + first + count
        if rows and rows[-1][1] == lo:
            rows[-1][1] = hi
        else:
            rows.append([lo, hi])
        base += size
    return [tuple(one) for one in rows]


def compare(plan, prefix, rank, built):
    """The names, in order, of what is built."""
    expected = {
        entry.tensor.removeprefix(prefix): entry
        for entry in plan.expected(rank)
        if entry.side == "source" and entry.tensor.startswith(prefix)
    }
    assert NORM in expected, expected.keys()
    assert set(expected) - {NORM} == {name for name, _, _ in built}
    for name, shape, parts in built:
        entry = expected[name]
        assert entry.shape == shape, (name, entry.shape, shape)
        # Of the output projection columns are cut, and all rows are there.
        if not name.startswith("out_proj"):
            rows = [tuple(one) for one in entry.intervals[0]]
            assert rows == rows_of(parts), (name, rows, parts)
    return [name for name in expected if name != NORM]


def check(kind, folder):
    prefix, config, _ = MODULES[kind]
    path = folder / "plan.dtplan"
    dynatrain.compile(
        {
            "model": config,
            "state": {"param": "f32"},
            "source": {"world": RANKS, "tp": RANKS},
            "destination": {"world": 1, "framework": "huggingface"},
        },
        str(path),
    )
    built = run_ranks(RANKS, body, folder, kind)
    plan = dynatrain.Plan.load(str(path))
    for rank, one in enumerate(built):
        order = compare(plan, prefix, rank, one)
        assert order == [name for name, _, _ in one], order
    print(
        f"{kind}: {len(built[0])} parameters of {RANKS} ranks are as expected"
    )


def main():
    for kind in MODULES:
        with tempfile.TemporaryDirectory() as folder:
            check(kind, Path(folder))


if __name__ == "__main__":
    main()
