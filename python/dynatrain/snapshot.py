"""A copy of what one process holds at one step, in the host's memory.

It travels as two runs of bytes, without a word about what is in it: `head` says
what lies where and has what is no tensor, `data` has the tensors. What others
hold too lies behind the rest, and does not travel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from . import _C
from .capture import Piece, local_layout
from .capture.pieces import pieces_of
from .errors import Error, InvalidError
from .hollow import local_part
from .optimizer import Key
from .regions import Region
from .small_state import decode, encode
from .state import Small, State

#: Bytes of the digests of what travels: of the head, and of the data.
DIGEST_SIZE = 2 * len(_C.digest(b""))

# Tensors begin at multiples of this many bytes.
_ALIGN = 64
# Of the length of a head's text.
_WORD = 8


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


def memory_for(length: int, room: list[torch.Tensor]) -> torch.Tensor:
    """So many bytes, out of `room` where it has just as many."""
    for at, one in enumerate(room):
        if one.numel() == length:
            return room.pop(at)
    return torch.zeros(length, dtype=torch.uint8)


@dataclass(frozen=True)
class _Shard:
    """A part of a tensor, and where its bytes begin."""

    region: Region
    shape: tuple[int, ...]
    dtype: torch.dtype
    at: int = 0

    @property
    def length(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        """Where the next one may begin."""
        return self.at + -(-self.length // _ALIGN) * _ALIGN

    def plain(self) -> list[Any]:
        """As JSON takes it."""
        dtype = str(self.dtype).removeprefix("torch.")
        return [self.region.plain(), self.shape, dtype, self.at]

    @classmethod
    def of(cls, plain: list[Any]) -> _Shard:
        region, shape, dtype, at = plain
        return cls(Region.of(region), tuple(shape), getattr(torch, dtype), at)

    def view(self, data: torch.Tensor) -> torch.Tensor:
        own = data[self.at : self.at + self.length]
        return own.view(self.dtype).view(self.shape)


def _placed(shards: Sequence[_Shard]) -> list[_Shard]:
    """One behind the other."""
    placed, at = [], 0
    for one in shards:
        placed.append(replace(one, at=at))
        at = placed[-1].end
    return placed


def _end(shards: Sequence[_Shard]) -> int:
    return shards[-1].end if shards else 0


def _encoded(items: Mapping[str, Small]) -> bytes:
    """Rules and values by name, for `decode`."""
    plain = {name: (one.rule, one.value) for name, one in items.items()}
    try:
        return encode("", plain)
    except Error:
        # Of the one that cannot travel this says its name.
        for name, one in items.items():
            encode(name, one.value)
        raise


class Snapshot:
    """One process's copy: `of` makes one, `arrived` is another's."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data
        #: Bytes of it that travel.
        self.cut = data.numel()
        self.digest = b""

    @classmethod
    def of(
        cls,
        state: State,
        room: list[torch.Tensor],
        first: Container[Region] = (),
    ) -> Snapshot:
        """All that a State holds now, what is in `first` before the rest; takes
        what it can use of `room`, memory that nobody needs."""
        parts = [
            part
            for key, value in state.tensors.items()
            for part in _parts_of(key, value)
        ]
        parts.sort(key=lambda part: part[0] not in first)
        shards = _placed(
            [
                _Shard(region, tuple(tensor.shape), tensor.dtype)
                for region, tensor in parts
            ]
        )
        copy = cls(memory_for(_end(shards), room))
        copy._said = shards, _encoded(state.small())
        for shard, (_, tensor) in zip(shards, parts):
            shard.view(copy.data).copy_(tensor)
        return copy

    @classmethod
    def arrived(
        cls, head: bytes, data: torch.Tensor, digest: bytes
    ) -> Snapshot:
        copy = cls(data)
        copy.head, copy.digest = head, digest
        return copy

    def parted(self, alone: Container[Region]) -> Snapshot:
        """The same, of which these travel. It has this one's memory where they
        lie before the rest there, and its own where not."""
        shards, small = self._said
        order = sorted(shards, key=lambda one: one.region not in alone)
        count = sum(one.region in alone for one in order)
        data = self.data
        if order != shards:
            data = torch.zeros_like(self.data)
            placed = _placed(order)
            for then, now in zip(order, placed):
                now.view(data).copy_(then.view(self.data))
            order = placed
        copy = Snapshot(data)
        copy._said = order, small
        copy.cut = _end(order[:count])
        return copy

    # The next two are made of each other: of a copy that has arrived the one is
    # there, of one that is made here the other.

    @cached_property
    def head(self) -> bytes:
        """What it says of what travels, as bytes."""
        shards, small = self._said
        text = json.dumps(
            [one.plain() for one in shards if one.at < self.cut]
        ).encode()
        return len(text).to_bytes(_WORD, "little") + text + small

    @cached_property
    def _said(self) -> tuple[Sequence[_Shard], bytes]:
        """What lies where, and what is no tensor."""
        size = _WORD + int.from_bytes(self.head[:_WORD], "little")
        plain = json.loads(self.head[_WORD:size])
        return [_Shard.of(one) for one in plain], self.head[size:]

    def regions(self) -> list[Region]:
        """What it has."""
        return [one.region for one in self._said[0]]

    def pieces(self) -> Iterator[tuple[Key, Piece]]:
        """Its tensors, in its own memory, and where they lie."""
        for shard in self._said[0]:
            region = shard.region
            yield (
                region.key,
                Piece(
                    shard.view(self.data),
                    region.shape,
                    region.offset,
                    region.size,
                    region.range,
                ),
            )

    def small(self) -> dict[str, Small]:
        """What is no tensor."""
        plain = decode(self._said[1])
        return {
            name: Small(rule, value) for name, (rule, value) in plain.items()
        }

    def measure(self) -> bytes:
        """The digest of all its bytes; the first DIGEST_SIZE are of what
        travels."""
        data = self.data.numpy()
        own = _C.digest(self.head) + _C.digest(data[: self.cut])
        rest = data[self.cut :]
        return own + _C.digest(rest) if len(rest) else own

    def seal(self) -> None:
        """Notes the digest; a copy travels after that, and does not change."""
        self.digest = self.measure()

    def is_right(self) -> bool:
        """Whether it is what was sealed."""
        return self.digest == self.measure()

    @property
    def nbytes(self) -> int:
        """Of its tensors."""
        return self.data.numel()
