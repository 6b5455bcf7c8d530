"""A copy of all that one process holds at one step, in the host's memory.

It is two runs of bytes, so that it travels without a word about what is in it:
`head` says what lies where and has what is no tensor, `data` has the tensors.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import _C
from .capture import Piece, local_layout
from .capture.pieces import pieces_of
from .errors import InvalidError
from .hollow import local_part
from .optimizer import Key
from .small_state import decode, encode
from .state import Small, State

#: Bytes of a digest: of the head, and of the data.
DIGEST_SIZE = 2 * len(_C.digest(b""))

# Tensors begin at multiples of this many bytes.
_ALIGN = 64


@dataclass(frozen=True)
class Region:
    """Where a process's part of a tensor lies: a box of the full one, or a run
    of the box's elements, row-major."""

    key: Key
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    size: tuple[int, ...]
    range: tuple[int, int] | None

    def __str__(self) -> str:
        name, state = self.key
        box = "x".join(
            f"[{lo}:{lo + n})" for lo, n in zip(self.offset, self.size)
        )
        run = "elements [{}:{}) of ".format(*self.range) if self.range else ""
        return f"tensor '{name}' state '{state}' {run}{box or '[]'}"

    def plain(self) -> list[Any]:
        """As JSON takes it."""
        return [self.key, self.shape, self.offset, self.size, self.range]

    @classmethod
    def of(cls, plain: list[Any]) -> Region:
        key, shape, offset, size, run = plain
        return cls(
            (key[0], key[1]),
            tuple(shape),
            tuple(offset),
            tuple(size),
            tuple(run) if run else None,
        )

    def lines(self) -> Iterator[tuple[int, int]]:
        """Its elements as intervals of the full tensor's, row-major."""
        # Dims from `inner` on are whole: they lie in one run.
        inner = len(self.shape)
        while inner > 0 and self.size[inner - 1] == self.shape[inner - 1]:
            inner -= 1
        inner = max(inner - 1, 0)
        length = math.prod(self.size[inner:])
        below = math.prod(self.shape[inner + 1 :])
        first, end = self.range or (0, math.prod(self.size))
        for number in range(first // max(length, 1), -(-end // max(length, 1))):
            at, rest = 0, number
            for dim in reversed(range(inner)):
                rest, place = divmod(rest, self.size[dim])
                stride = math.prod(self.shape[dim + 1 :])
                at += (self.offset[dim] + place) * stride
            if self.shape:
                at += self.offset[inner] * below
            lo = max(first - number * length, 0)
            hi = min(end - number * length, length)
            yield at + lo, at + hi


def _parts_of(key: Key, value: Any) -> Iterator[tuple[Region, torch.Tensor]]:
    """What a value of `State.tensors` has in memory of its own."""
    if not (pieces := pieces_of(key, value)):
        rows = local_layout({key: value}, 1, 0).rows
        own = local_part(value)
        if len(rows) > 1:
            raise InvalidError(
                f"tensor '{key[0]}' state '{key[1]}' has {len(rows)} shards "
                "that interleave on this process, of which no snapshot is made"
            )
        shape = tuple(value.shape)
        pieces = [
            Piece(own, shape, row["offset"], row["size"], row.get("range"))
            for row in rows
        ]
    for one in pieces:
        if one.numel():
            run = tuple(one.range) if one.range else None
            where = tuple(one.shape), tuple(one.offset), tuple(one.size)
            yield Region(key, *where, run), local_part(one.tensor).detach()


def regions_of(state: State) -> list[Region]:
    """What a State holds."""
    return [
        region
        for key, value in state.tensors.items()
        for region, _ in _parts_of(key, value)
    ]


def told(regions: list[Region]) -> bytes:
    """Regions as another process reads them: `heard`."""
    return json.dumps([one.plain() for one in regions]).encode()


def heard(data: bytes) -> list[Region]:
    return [Region.of(one) for one in json.loads(data)]


def memory_for(length: int, room: list[torch.Tensor]) -> torch.Tensor:
    """So many bytes, out of `room` where it has just as many."""
    for at, one in enumerate(room):
        if one.numel() == length:
            return room.pop(at)
    return torch.zeros(length, dtype=torch.uint8)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class Snapshot:
    """One process's copy; `of` makes one, `from_wire` another's."""

    def __init__(self, head: bytes, data: torch.Tensor, digest: bytes) -> None:
        self.head, self.data, self.digest = head, data, digest
        said = torch.load(io.BytesIO(head), weights_only=True)
        self._shards: list = said["shards"]
        self._small: dict[str, tuple[str, bytes]] = said["small"]

    @classmethod
    def of(cls, state: State, room: list[torch.Tensor]) -> Snapshot:
        """All that a State holds now; takes what it can use of `room`, memory
        that nobody needs."""
        parts = [
            part
            for key, value in state.tensors.items()
            for part in _parts_of(key, value)
        ]
        shards, end = [], 0
        for region, tensor in parts:
            shards.append(
                [region.plain(), list(tensor.shape), tensor.dtype, end]
            )
            end += -(-_bytes_of(tensor) // _ALIGN) * _ALIGN
        small = {
            name: (item.rule, encode(name, item.value))
            for name, item in state.small().items()
        }
        out = io.BytesIO()
        torch.save({"shards": shards, "small": small}, out)
        copy = cls(out.getvalue(), memory_for(end, room), b"")
        for (_, tensor), (_, own) in zip(parts, copy._views()):
            own.copy_(tensor)
        return copy

    def _views(self) -> Iterator[tuple[Region, torch.Tensor]]:
        for plain, shape, dtype, at in self._shards:
            length = math.prod(shape) * dtype.itemsize
            own = self.data[at : at + length].view(dtype).view(shape)
            yield Region.of(plain), own

    def regions(self) -> list[Region]:
        """What it has."""
        return [Region.of(plain) for plain, *_ in self._shards]

    def pieces(self) -> Iterator[tuple[Key, Piece]]:
        """Its tensors, in its own memory, and where they lie."""
        for region, own in self._views():
            yield (
                region.key,
                Piece(
                    own, region.shape, region.offset, region.size, region.range
                ),
            )

    def small(self) -> dict[str, Small]:
        """What is no tensor."""
        return {
            name: Small(rule, decode(data))
            for name, (rule, data) in self._small.items()
        }

    def measure(self) -> bytes:
        """The digest of all its bytes."""
        return _C.digest(self.head) + _C.digest(self.data.numpy())

    def seal(self) -> None:
        """Notes the digest; a copy travels after that, and does not change."""
        self.digest = self.measure()

    def is_right(self) -> bool:
        """Whether it is what was sealed."""
        return self.digest == self.measure()

    @property
    def nbytes(self) -> int:
        return len(self.head) + self.data.numel()
