"""A Mamba mixer as Megatron-Core builds and saves it, on CPUs.

    python test/Python/mamba_layout.py

Two processes build the mixer with tensor parallelism. Its parameters, in their
order, and the parts into which Megatron-Core's own checkpoint code takes them
apart, have to be what a plan for `nemotron_h` expects of each rank. Nothing is
computed. Megatron-Core's CPU mode changes torch, so this is no module of the
suite's own process.
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

from megatron.core import parallel_state  # noqa: E402
from megatron.core.dist_checkpointing.mapping import (  # noqa: E402
    ShardedTensorFactory,
)
from megatron.core.process_groups_config import (  # noqa: E402
    ProcessGroupCollection,
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
CONFIG = {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 6,
    "n_groups": 2,
    "ssm_state_size": 5,
    "conv_kernel": 4,
    "torch_dtype": "float32",
}
MIXER = "decoder.layers.0.mixer."
#: Transformer Engine's linear has the norm before it; this one has none.
NORM = MIXER + "in_proj.layer_norm_weight"


def mixer():
    options = TransformerConfig(
        num_layers=1,
        hidden_size=CONFIG["hidden_size"],
        num_attention_heads=CONFIG["num_attention_heads"],
        mamba_num_heads=CONFIG["mamba_num_heads"],
        mamba_head_dim=CONFIG["mamba_head_dim"],
        mamba_num_groups=CONFIG["n_groups"],
        mamba_state_dim=CONFIG["ssm_state_size"],
        tensor_model_parallel_size=RANKS,
        use_cpu_initialization=True,
        gradient_accumulation_fusion=False,
    )
    return MambaMixer(
        options,
        MambaMixerSubmodules(
            in_proj=ColumnParallelLinear, out_proj=RowParallelLinear
        ),
        d_model=CONFIG["hidden_size"],
        pg_collection=ProcessGroupCollection.use_mpu_process_groups(),
    )


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


def body(rank, store):
    dist.init_process_group(
        BACKEND, store=dist.PrefixStore("groups", store), rank=rank,
        world_size=RANKS,
    )  # fmt: skip
    parallel_state.initialize_model_parallel(RANKS)
    model_parallel_cuda_manual_seed(7)
    module = mixer()
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


def compare(plan, rank, built):
    expected = [
        entry
        for entry in plan.expected(rank)
        if entry.side == "source" and entry.tensor.startswith(MIXER)
    ]
    names = [entry.tensor for entry in expected]
    assert NORM in names, names
    by_name = {entry.tensor: entry for entry in expected}
    assert set(names) - {NORM} == {MIXER + name for name, _, _ in built}, names
    for name, shape, parts in built:
        entry = by_name[MIXER + name]
        assert entry.shape == shape, (name, entry.shape, shape)
        # Of the output projection columns are cut, and all rows are there.
        if not name.startswith("out_proj"):
            rows = [tuple(one) for one in entry.intervals[0]]
            assert rows == rows_of(parts), (name, rows, parts)
    return [name for name in names if name != NORM]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.dtplan"
        dynatrain.compile(
            {
                "model": CONFIG,
                "state": {"param": "f32"},
                "source": {"world": RANKS, "tp": RANKS},
                "destination": {"world": 1, "framework": "huggingface"},
            },
            str(path),
        )
        built = run_ranks(RANKS, body, Path(folder))
        plan = dynatrain.Plan.load(str(path))
        for rank, one in enumerate(built):
            order = compare(plan, rank, one)
            assert order == [MIXER + name for name, _, _ in one], order
    print(f"{len(built[0])} parameters of {RANKS} ranks are as expected")


if __name__ == "__main__":
    main()
