"""A trainer's tensors, held against what the plan expects of a process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import _C
from .capture import CaptureError, Piece, tensor_and_state
from .capture.pieces import pieces_of, region
from .errors import TensorError

OneOrMore = Union[torch.Tensor, Piece, Sequence[torch.Tensor], Sequence[Piece]]
#: ``{(tensor, state): tensor}`` or ``{state: {tensor: tensor}}``. A process
#: that holds several shards of one tensor gives them as a list, in the plan's
#: order or as pieces that say where they lie.
TensorMap = Union[
    Mapping[tuple[str, str], OneOrMore], Mapping[str, Mapping[str, OneOrMore]]
]
Key = tuple[str, str]

_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2": torch.float8_e5m2,
    "f8_e8m0": getattr(torch, "float8_e8m0fnu", None),
    "f8_e4m3fnuz": torch.float8_e4m3fnuz,
    "f8_e5m2fnuz": torch.float8_e5m2fnuz,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u64": torch.uint64,
    "u32": torch.uint32,
    "u16": torch.uint16,
    "u8": torch.uint8,
    "bool": torch.bool,
}


#: Half-open [lo, hi), in elements.
Interval = tuple[int, int]


@dataclass(frozen=True)
class ExpectedTensor:
    """One local tensor that a plan expects a device to hold.

    Its box spans `intervals` of the full tensor; where `range` says so, only a
    run of the box's elements is stored (ZeRO). `cut` takes its part of a full
    tensor."""

    tensor: str
    state: str
    #: "source" or "destination".
    side: str
    #: Counts the shards of this tensor and state; 0 nearly always.
    ordinal: int
    #: Of the local shard; one number where it is a flat (ZeRO) range.
    shape: tuple[int, ...]
    dtype: torch.dtype
    #: The change leaves it as it is: one tensor may be given for both sides.
    in_place: bool = False
    #: Shape of the full, unsharded tensor.
    full_shape: tuple[int, ...] = ()
    #: Per dim of the full tensor the intervals that the box spans, in the order
    #: in which they lie in it; nearly always one. Those beyond `full_shape` are
    #: padding.
    intervals: tuple[tuple[Interval, ...], ...] = ()
    #: The elements of the box, row-major, that are stored; None: all.
    range: Interval | None = None
    #: The bits of an element of padding.
    fill: int = 0

    def __str__(self) -> str:
        which = f" (shard {self.ordinal})" if self.ordinal else ""
        return f"{self.side} tensor '{self.tensor}' state '{self.state}'{which}"

    @property
    def offset(self) -> tuple[int, ...]:
        """Where the box starts in the full tensor."""
        return tuple(spans[0][0] if spans else 0 for spans in self.intervals)

    @property
    def box(self) -> tuple[int, ...]:
        """Shape of the box; that of the shard where there is no range."""
        return tuple(
            sum(hi - lo for lo, hi in spans) for spans in self.intervals
        )

    @property
    def _padding(self) -> torch.Tensor:
        """One element."""
        bits = bytearray(self.fill.to_bytes(self.dtype.itemsize, "little"))
        return torch.frombuffer(bits, dtype=self.dtype)

    def cut(self, full: torch.Tensor) -> torch.Tensor:
        """What this shard has of a full tensor, in memory of its own; padding
        is what `fill` says."""
        if tuple(full.shape) != self.full_shape:
            raise TensorError(
                f"the full tensor '{self.tensor}' has shape "
                f"{list(full.shape)}, the plan expects {list(self.full_shape)}"
            )
        for dim, spans in enumerate(self.intervals):
            parts = [full.narrow(dim, 0, 0)]
            for lo, hi in spans:
                end = min(hi, self.full_shape[dim])
                if lo < end:
                    parts.append(full.narrow(dim, lo, end - lo))
                padding = list(full.shape)
                padding[dim] = hi - max(lo, end)
                parts.append(self._padding.to(full).expand(padding))
            parts = [part for part in parts if part.size(dim)] or parts[:1]
            full = parts[0] if len(parts) == 1 else torch.cat(parts, dim)
        if self.range is not None:
            full = full.reshape(-1)[slice(*self.range)]
        return full.clone(memory_format=torch.contiguous_format)


def expected_tensors(native: _C.Plan, device: int) -> list[ExpectedTensor]:
    """All that the plan expects of a device, in the plan's order."""
    return [
        ExpectedTensor(
            entry.tensor,
            entry.state,
            "source" if entry.source else "destination",
            entry.ordinal,
            tuple(entry.shape),
            _DTYPES[entry.dtype],
            entry.in_place,
            tuple(entry.full_shape),
            tuple(map(tuple, entry.intervals)),
            entry.range,
            entry.fill,
        )
        for entry in native.inventory(device)
    ]


def _entries(tensors: TensorMap) -> Iterator[tuple[Key, OneOrMore]]:
    for key, value in tensors.items():
        if isinstance(value, Mapping):
            for name, tensor in value.items():
                yield (name, str(key)), tensor
        elif isinstance(key, tuple) and len(key) == 2:
            yield key, value
        else:
            raise TensorError(
                f"key {key!r} of the tensors is neither (tensor, state) nor a "
                "state with a dict of tensors"
            )


def _flatten(tensors: TensorMap | None, side: str) -> dict[Key, list]:
    found: dict[Key, list] = {}
    for key, value in _entries(tensors or {}):
        if key in found:
            raise TensorError(
                f"{side} tensor '{key[0]}' state '{key[1]}' is given twice"
            )
        found[key] = (
            list(value) if isinstance(value, (list, tuple)) else [value]
        )
    return found


def given_tensors(tensors: TensorMap | None) -> list[torch.Tensor]:
    """All of them, without their names and places."""
    return [
        own
        for shards in _flatten(tensors, "given").values()
        for shard in shards
        if isinstance(own := getattr(shard, "tensor", shard), torch.Tensor)
    ]


def _meaning(key: Key) -> Key:
    """A state that is shaped unlike its parameter has a tensor of its own in
    captured requests."""
    name, state = key
    return tensor_and_state(name) if state == "param" else key


def _local(tensor: object) -> object:
    """The local shard of a DTensor, anything else as it is."""
    if isinstance(tensor, torch.Tensor) and hasattr(tensor, "to_local"):
        with torch.no_grad():
            return tensor.to_local()
    return tensor


#: Kinds of device whose tensors a backend moves; gloo takes those of a GPU
#: through the host's memory.
_DEVICES = {"gloo": ("cpu", "cuda"), "nccl": ("cuda",)}


def _check_device(
    expected: ExpectedTensor, device: torch.device, backend: str
) -> None:
    kinds = _DEVICES[backend]
    if device.type not in kinds:
        raise TensorError(
            f"{expected} is on {device}, the {backend} backend moves tensors "
            f"on {' and '.join(kinds)}"
        )
    if device.type == "cuda" and "cuda" not in _C.features():
        raise TensorError(
            f"{expected} is on {device}, this package was built without CUDA"
        )


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _fits(expected: ExpectedTensor, shape: Sequence[int]) -> bool:
    """Whether a dense tensor of this shape has the shard's elements in their
    order: as it is, as one run, or as whole rows of the box where the shard is
    a range of them."""
    if math.prod(shape) != math.prod(expected.shape):
        return False
    if len(shape) == 1 or _without_ones(shape) == _without_ones(expected.shape):
        return True
    box = expected.box
    if expected.range is None or len(shape) != len(box):
        return False
    if list(shape) == list(box):
        return True
    row = math.prod(box[1:])
    return tuple(shape[1:]) == box[1:] and expected.range[0] % row == 0


def _dense_words(expected: ExpectedTensor) -> str:
    """A copy would not do: the bytes are the trainer's own tensor."""
    if expected.side == "source":
        return "keep it dense in the trainer, a copy would miss later steps"
    return (
        "the bytes are written into this very tensor: allocate it dense, and "
        "copy from it after commit where another order is needed"
    )


def _check(
    expected: ExpectedTensor, tensor: object, backend: str
) -> torch.Tensor:
    """The tensor, when it is just what the plan expects."""
    if not isinstance(tensor, torch.Tensor):
        raise TensorError(
            f"{expected} is a {type(tensor).__name__}, expected a torch.Tensor"
        )
    if is_traceable_wrapper_subclass(tensor):
        raise TensorError(
            f"{expected} is a {type(tensor).__name__}, which has its values in "
            "other tensors, expected a plain torch.Tensor or a DTensor"
        )
    _check_device(expected, tensor.device, backend)
    if tensor.layout != torch.strided:
        raise TensorError(f"{expected} is {tensor.layout}, expected strided")
    if tensor.dtype != expected.dtype:
        raise TensorError(
            f"{expected} has dtype {tensor.dtype}, the plan expects "
            f"{expected.dtype}"
        )
    if not _fits(expected, tensor.shape):
        raise TensorError(
            f"{expected} has shape {list(tensor.shape)}, the plan expects "
            f"{list(expected.shape)} on this process"
        )
    if not tensor.is_contiguous():
        raise TensorError(
            f"{expected} has strides {list(tensor.stride())}, the plan expects "
            f"a dense row-major tensor ({_dense_words(expected)})"
        )
    return tensor


def _grid(shards: Sequence[ExpectedTensor]) -> list[set[Interval]]:
    """Per dim the intervals that the boxes of several shards have; the boxes
    are all combinations of them, or else there are no intervals."""
    boxes = {tuple(spans[0] for spans in entry.intervals) for entry in shards}
    if any(
        entry.range or len(s) > 1 for entry in shards for s in entry.intervals
    ):
        return []
    grid = [set(spans) for spans in zip(*boxes)]
    return grid if len(boxes) == math.prod(map(len, grid)) else []


def _part_of(
    tensor: torch.Tensor,
    grid: Sequence[set[Interval]],
    box: Sequence[Sequence[Interval]],
) -> torch.Tensor:
    """The box of a tensor that holds a whole grid."""
    for dim, (spans, (own,)) in enumerate(zip(grid, box)):
        before = sum(hi - lo for lo, hi in spans if lo < own[0])
        tensor = tensor.narrow(dim, before, own[1] - own[0])
    return tensor


def _spread(
    expected: Sequence[ExpectedTensor], given: Sequence[object]
) -> list[object]:
    """One tensor per shard. A tensor whose cut interleaves (_StridedShard)
    holds several shards of the plan, intervals in ascending order."""
    if len(given) != 1 or len(expected) < 2:
        return list(given)
    tensor, grid = given[0], _grid(expected)
    extents = [sum(hi - lo for lo, hi in spans) for spans in grid]
    if not isinstance(tensor, torch.Tensor) or list(tensor.shape) != extents:
        return list(given)
    return [_part_of(tensor, grid, entry.intervals) for entry in expected]


def _region_of(expected: ExpectedTensor) -> tuple | None:
    """The shard's place as pieces tell it; None where it interleaves."""
    if any(len(spans) != 1 for spans in expected.intervals):
        return None
    return region(expected.offset, expected.box, expected.range)


def _placed(
    expected: Sequence[ExpectedTensor], given: Sequence[object]
) -> list[object]:
    """Pieces in the plan's order, as tensors."""
    try:
        pieces = pieces_of(expected[0].tensor, list(given))
    except CaptureError as error:
        raise TensorError(str(error)) from None
    if pieces is None:
        return list(given)
    by_region = {region(p.offset, p.size, p.range): p for p in pieces}
    found = []
    for entry in expected:
        piece = by_region.get(_region_of(entry))
        if piece is None:
            there = ", ".join(map(str, by_region)) or "none"
            raise TensorError(
                f"{entry} is at {_region_of(entry)} (offset, size, range), "
                f"the pieces given at {there}"
            )
        found.append(_local(piece.tensor))
    return found


def _is_empty(tensor: object) -> bool:
    if isinstance(tensor, (torch.Tensor, Piece)):
        return tensor.numel() == 0
    return False


class _Given:
    """The tensors of one side. What holds no element has nothing to move: such
    shards (the tails of FSDP2) may be given or left out."""

    def __init__(self, tensors: TensorMap | None, side: str) -> None:
        self.side = side
        self.left: dict[Key, list[object]] = {}
        for key, shards in _flatten(tensors, side).items():
            local = [_local(shard) for shard in shards]
            self.left[key] = [one for one in local if not _is_empty(one)]
        self.meanings = {_meaning(key): key for key in self.left}

    def take(self, key: Key) -> list[object]:
        """Those of a tensor and state, by the plan's key: the pair itself, or
        one that means the same (`capture.tensor_and_state`)."""
        if key not in self.left:
            key = self.meanings.get(_meaning(key), key)
        return self.left.pop(key, [])

    def check_all_taken(self) -> None:
        for (name, state), shards in self.left.items():
            if shards:
                raise TensorError(
                    f"the plan expects no {self.side} tensor '{name}' state "
                    f"'{state}' on this process"
                )


def _pairs(
    expected: Sequence[ExpectedTensor], given: Mapping[str, _Given]
) -> Iterator[tuple[ExpectedTensor, object]]:
    shards: dict[tuple[str, Key], list[ExpectedTensor]] = {}
    for entry in expected:
        if 0 not in entry.shape:
            key = entry.side, (entry.tensor, entry.state)
            shards.setdefault(key, []).append(entry)
    for (side, key), entries in shards.items():
        tensors = _spread(entries, _placed(entries, given[side].take(key)))
        if len(tensors) > len(entries):
            raise TensorError(
                f"{len(tensors)} tensors are given for {entries[0]}, the plan "
                f"expects {len(entries)} on this process"
            )
        for number, entry in enumerate(entries):
            if number == len(tensors):
                raise TensorError(f"{entry} is missing")
            yield entry, tensors[number]


def bind(
    expected: Sequence[ExpectedTensor],
    source: TensorMap | None,
    destination: TensorMap | None,
    backend: str = "gloo",
) -> list[_C.Tensor]:
    """Pairs the trainer's tensors with the plan's; every one must fit, and all
    must be on one device."""
    given = {
        "source": _Given(source, "source"),
        "destination": _Given(destination, "destination"),
    }
    bound = []
    device = None
    for entry, shard in _pairs(expected, given):
        tensor = _check(entry, shard, backend)
        device = device or tensor.device
        if tensor.device != device:
            raise TensorError(
                f"{entry} is on {tensor.device}, tensors before it are on "
                f"{device}: one process moves tensors of one device"
            )
        bound.append(
            _C.Tensor(
                entry.tensor,
                entry.state,
                entry.side == "source",
                entry.ordinal,
                tensor,
            )
        )
    for side in given.values():
        side.check_all_taken()
    return bound
