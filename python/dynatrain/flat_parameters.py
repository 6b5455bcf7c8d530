"""FSDP1's flat parameters: which part of each parameter a process has.

torch tells it nowhere in public; what is read of it is listed in
docs/Trainers.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .capture import Piece
from .errors import TensorError


@dataclass(frozen=True)
class FlatPart:
    """A run of a parameter's elements."""

    shape: tuple[int, ...]
    range: tuple[int, int]

    def piece(self, tensor: torch.Tensor) -> Piece:
        """The tensor (the shard of a parameter or of its state) as what it is
        of the full one."""
        start = (0,) * len(self.shape)
        return Piece(tensor, self.shape, start, self.shape, self.range)


def _parts(flat: torch.nn.Parameter) -> Iterator[tuple[int, FlatPart]]:
    for parameter, shape, shard in zip(
        flat._params, flat._shapes, flat._shard_param_infos
    ):
        run = (0, 0)
        if shard.in_shard:
            run = shard.intra_param_start_idx, shard.intra_param_end_idx + 1
        yield id(parameter), FlatPart(tuple(shape), run)


def flat_parts(model: torch.nn.Module) -> dict[int, FlatPart]:
    """{id(parameter): its part here} of all flat parameters of a model."""
    found: dict[int, FlatPart] = {}
    # Where nobody has imported it, no module is one.
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None:
        return found
    for module in fsdp.FullyShardedDataParallel.fsdp_modules(model):
        handle = module._handle
        if handle is None or not handle.uses_sharded_strategy:
            continue
        if not handle._use_orig_params:
            raise TensorError(
                "FullyShardedDataParallel has use_orig_params=False, expected "
                "True: an optimizer of flat parameters does not know whose "
                "elements it has"
            )
        found.update(_parts(handle.flat_param))
    return found
