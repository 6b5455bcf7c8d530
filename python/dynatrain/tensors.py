"""A trainer's tensors, held against what the plan expects of a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import torch

from . import _C
from .errors import TensorError

OneOrMore = Union[torch.Tensor, Sequence[torch.Tensor]]
#: ``{(tensor, state): tensor}`` or ``{state: {tensor: tensor}}``. A process
#: that holds several shards of one tensor gives them as a list.
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


@dataclass(frozen=True)
class ExpectedTensor:
    """One local tensor that a plan expects a device to hold."""

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

    def __str__(self) -> str:
        which = f" (shard {self.ordinal})" if self.ordinal else ""
        return f"{self.side} tensor '{self.tensor}' state '{self.state}'{which}"


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


def _check(
    expected: ExpectedTensor, tensor: object, backend: str
) -> torch.Tensor:
    """The tensor, when it is just what the plan expects."""
    tensor = _local(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise TensorError(
            f"{expected} is a {type(tensor).__name__}, expected a torch.Tensor"
        )
    _check_device(expected, tensor.device, backend)
    if tensor.layout != torch.strided:
        raise TensorError(f"{expected} is {tensor.layout}, expected strided")
    if tensor.dtype != expected.dtype:
        raise TensorError(
            f"{expected} has dtype {tensor.dtype}, the plan expects "
            f"{expected.dtype}"
        )
    if tuple(tensor.shape) != expected.shape:
        raise TensorError(
            f"{expected} has shape {list(tensor.shape)}, the plan expects "
            f"{list(expected.shape)} on this process"
        )
    if not tensor.is_contiguous():
        raise TensorError(
            f"{expected} has strides {list(tensor.stride())}, the plan expects "
            "a dense row-major tensor (call contiguous())"
        )
    return tensor.detach()


def bind(
    expected: Sequence[ExpectedTensor],
    source: TensorMap | None,
    destination: TensorMap | None,
    backend: str = "gloo",
) -> list[_C.Tensor]:
    """Pairs the trainer's tensors with the plan's; every one must fit, and all
    must be on one device."""
    given = {
        "source": _flatten(source, "source"),
        "destination": _flatten(destination, "destination"),
    }
    bound = []
    device = None
    for entry in expected:
        shards = given[entry.side].get((entry.tensor, entry.state), [])
        if entry.ordinal >= len(shards):
            if 0 in entry.shape:
                continue
            raise TensorError(f"{entry} is missing")
        tensor = _check(entry, shards[entry.ordinal], backend)
        device = device or tensor.device
        if tensor.device != device:
            raise TensorError(
                f"{entry} is on {tensor.device}, tensors before it are on "
                f"{device}: one process moves tensors of one device"
            )
        shards[entry.ordinal] = None
        bound.append(
            _C.Tensor(
                entry.tensor,
                entry.state,
                entry.side == "source",
                entry.ordinal,
                tensor,
            )
        )
    for side, tensors in given.items():
        for (name, state), shards in tensors.items():
            if any(shard is not None for shard in shards):
                raise TensorError(
                    f"the plan expects no {side} tensor '{name}' state "
                    f"'{state}' on this process"
                )
    return bound
