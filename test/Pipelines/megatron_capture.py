"""Captures live Megatron-Core objects: what the ranks of two worlds have.

Usage: megatron_capture.py dense|experts. Optimizer state is captured twice:
"zero" has the ranges of the distributed optimizer, "whole" the sharded tensors
of one that is not distributed. Models and optimizers are built on the CPU,
under torch's fake process group, as every rank of both worlds in turn. Needs
megatron-core.
"""

import json
import sys
from pathlib import Path

import megatron_truth as truth
import torch
from megatron.core.dist_checkpointing.optimizer import (
    get_param_id_to_sharded_param_map,
    make_sharded_optimizer_tensor,
    optim_state_to_sharding_state,
)
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "dynatrain"
sys.path.insert(0, str(PACKAGE))  # the package itself needs its extension
import capture  # noqa: E402

DENSE = {
    "kind": "llama", "layers": 4, "hidden": 32, "ffn": 24, "heads": 4,
    "groups": 2, "head_dim": 8, "gated": True, "bias": False,
    "qkv_bias": False, "qk_norm": False, "positions": 0, "tied": False,
    "vocab": 60, "padded_vocab": 64, "vocab_multiple": 32, "experts": 0,
    "shared_ffn": 0, "latent": None, "expert_bias": False, "mtp": 0,
}  # fmt: skip
EXPERTS = DENSE | {
    "kind": "qwen3_moe", "experts": 4, "expert_ffn": 16, "qk_norm": True,
    "moe_layers": [True] * 4,
}  # fmt: skip
MODELS = {"dense": DENSE, "experts": EXPERTS}
ORDER = {"order": "tp-cp-ep-dp-pp"}
SOURCE = {
    "world": 4, "tp": 2, "cp": 1, "pp": 1, "dp": 2, "vpp": 1, "ep": 2,
    "etp": 2, "bucket_size": 3000,
} | ORDER  # fmt: skip
DESTINATION = {
    "world": 6, "tp": 1, "cp": 1, "pp": 2, "dp": 3, "vpp": 2, "ep": 1,
    "etp": 1, "bucket_size": 5000,
} | ORDER  # fmt: skip


def whole_optimizer(module, model):
    """What Megatron-Core's mixed precision optimizer makes of Adam's state and
    the master weights after a step; it cannot itself be made without a GPU."""
    parameters = list(module.parameters())
    adam = torch.optim.Adam(parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    adam.step()
    state = adam.state_dict()
    sharded = get_param_id_to_sharded_param_map(model, parameters)
    optim_state_to_sharding_state(state, sharded, exclude_keys="step")
    masters = [
        make_sharded_optimizer_tensor(
            sharded[number], parameter.float(), "optimizer.state.fp32_param"
        )
        for number, parameter in enumerate(parameters)
    ]
    return [state, masters]


def rank_state(case, rank, distributed):
    """One rank's state, as plain data that ranks would gather."""
    state, ranges = {}, []
    with truth.world_of(rank, case):
        config = truth.transformer_config(case)
        for chunk in range(case["sizes"]["vpp"]):
            module = truth.build_chunk(case, config, chunk)
            model = module.sharded_state_dict()
            state[chunk] = {"model": model}
            if not distributed:
                state[chunk]["optimizer"] = whole_optimizer(module, model)
                continue
            wrapped = truth.wrap(case, config, module, chunk)
            for buffer in wrapped.buffers + wrapped.expert_parallel_buffers:
                ranges.append(
                    DistributedOptimizer._build_gbuf_range_map(buffer)
                )
        return capture.describe_sharded(state, ranges)


def captured(model, sizes, distributed):
    if not model["experts"]:
        sizes = sizes | {"ep": 1, "etp": sizes["tp"]}
    case = {"megatron": model, "sizes": sizes, "registration": "local"}
    return [
        rank_state(case, rank, distributed) for rank in range(sizes["world"])
    ]


def main(name):
    sides = {"source": SOURCE, "destination": DESTINATION}
    found = {
        optimizer: {
            side: captured(MODELS[name], sizes, optimizer == "zero")
            for side, sizes in sides.items()
        }
        for optimizer in ("zero", "whole")
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
