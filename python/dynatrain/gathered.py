"""Weights that FSDP keeps gathered after a forward pass without a backward one.

What a model computes with then is a copy, which a switch would not reach. What
is read of FSDP1, where torch has no public way, is listed in docs/Trainers.md.
"""

from __future__ import annotations

import sys
from typing import Any

import torch


def _free(handle: Any) -> None:
    """The gathered copy of a flat parameter; none before the first pass."""
    if handle is None or not handle.uses_sharded_strategy:
        return
    if hasattr(handle.flat_param, "_full_param_padded"):
        handle.reshard(True)
        handle.post_reshard()


def shard_again(model: torch.nn.Module) -> None:
    """Lets go of gathered weights, as `state_dict()` of FSDP2 does: the next
    forward pass gathers anew, so all processes of a group have to do it."""
    # Where nobody has imported it, no module is one.
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None:
        return
    for module in model.modules():
        if isinstance(module, fsdp.FullyShardedDataParallel):
            _free(module._handle)
        elif isinstance(module, getattr(fsdp, "FSDPModule", ())):
            module.reshard()
