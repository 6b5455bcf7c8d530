"""Tensors that say themselves where they lie."""

import math
from dataclasses import dataclass
from typing import Any, Optional

from .layout import CaptureError, field


@dataclass(frozen=True)
class Piece:
    """A plain tensor that is a part of a full one: a box of it, or a run of the
    box's elements as ZeRO and flat parameters cut them. Megatron-Core's and
    FSDP1's shards are such; a DTensor says the same in its own way."""

    tensor: Any
    #: Shape of the full tensor.
    shape: tuple
    #: Where the box starts in it, and the box's shape.
    offset: tuple
    size: tuple
    #: [begin, end) of the box's elements, row-major; None: all of them.
    range: Optional[tuple] = None

    @property
    def dtype(self):
        return self.tensor.dtype

    def numel(self):
        """How many elements it holds."""
        if self.range is None:
            return math.prod(self.size)
        return self.range[1] - self.range[0]


def region(offset, size, flat=None):
    """One spelling per region: no range where it is all of the box."""
    if flat is not None and tuple(flat) == (0, math.prod(size)):
        flat = None
    return tuple(offset), tuple(size), flat and tuple(flat)


def pieces_of(key, value):
    """The pieces of a list of them, of one, or None of anything else."""
    several = value if isinstance(value, (list, tuple)) else [value]
    if not any(isinstance(one, Piece) for one in several):
        return None
    for one in several:
        if not isinstance(one, Piece):
            raise CaptureError(
                f"tensor {key!r} is a {type(one).__name__} beside pieces, "
                "expected pieces only"
            )
        held = field(one.tensor, "numel")
        if held is not None and held() != one.numel():
            raise CaptureError(
                f"tensor {key!r} has {held()} elements, where it says that it "
                f"is {one.numel()} of the full tensor's"
            )
    return list(several)
