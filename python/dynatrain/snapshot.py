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
from .capture import Piece
from .errors import Error
from .held_parts import HeldParts, Part
from .optimizer import Key
from .regions import Region
from .small_state import decode, encode
from .snapshot_memory import NOWHERE, Memory, memory_for
from .state import Small, State

#: Bytes of the digests of what travels: of the head, and of the data.
DIGEST_SIZE = 2 * len(_C.digest(b""))

# Tensors begin at multiples of this many bytes.
_ALIGN = 64
# Of the length of a head's text.
_WORD = 8


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

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        #: Bytes of it that travel.
        self.cut = memory.data.numel()
        self.digest = b""

    @property
    def data(self) -> torch.Tensor:
        """The bytes of its tensors."""
        return self.memory.data

    @classmethod
    def of(
        cls,
        state: State,
        room: list[Memory],
        first: Container[Region] = (),
        shared: bool = False,
    ) -> Snapshot:
        """All that a State holds now: `Copier`."""
        return Copier().copy(state, room, first, shared)

    @classmethod
    def arrived(cls, head: bytes, memory: Memory, digest: bytes) -> Snapshot:
        copy = cls(memory)
        copy.head, copy.digest = head, digest
        return copy

    def parted(self, alone: Container[Region]) -> Snapshot:
        """The same, of which these travel. It has this one's memory where they
        lie before the rest there, and its own where not."""
        shards, small = self._said
        order = sorted(shards, key=lambda one: one.region not in alone)
        count = sum(one.region in alone for one in order)
        memory = self.memory
        if order != shards:
            is_shared = memory.place != NOWHERE
            memory = memory_for(self.nbytes, [], is_shared)
            placed = _placed(order)
            for then, now in zip(order, placed):
                now.view(memory.data).copy_(then.view(self.data))
            order = placed
        copy = Snapshot(memory)
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

    def has_come(self) -> bool:
        """Whether what has travelled is what was sealed. Bytes that are read
        where they lie have not: it is these that were measured."""
        if not self.memory.is_read:
            return self.is_right()
        return self.digest.startswith(_C.digest(self.head))

    @property
    def nbytes(self) -> int:
        """Of its tensors."""
        return self.data.numel()


class Copier:
    """Makes copies of one State, one after the other."""

    def __init__(self) -> None:
        self._parts = HeldParts()
        # What lay where in the last copy, and in which order it was held.
        self._said: list[tuple[Region, torch.Size, torch.dtype]] = []
        self._first: Container[Region] = ()
        self._shards: list[_Shard] = []
        self._order: list[int] = []

    def copy(
        self,
        state: State,
        room: list[Memory],
        first: Container[Region] = (),
        shared: bool = False,
    ) -> Snapshot:
        """All that it holds now, what is in `first` before the rest; takes what
        it can use of `room`, memory that nobody needs. shared: other processes
        of the host may read it."""
        parts = self._parts.of(state)
        self._place(parts, first)
        copy = Snapshot(memory_for(_end(self._shards), room, shared))
        copy._said = self._shards, _encoded(state.small())
        _C.copy_into(
            copy.data,
            [one.at for one in self._shards],
            [parts[at][1] for at in self._order],
        )
        return copy

    def _place(self, parts: Sequence[Part], first: Container[Region]) -> None:
        """Where each part is to lie; as before where all is as before."""
        said = [(region, own.shape, own.dtype) for region, own in parts]
        if said == self._said and first is self._first:
            return
        self._said, self._first = said, first
        self._order = sorted(
            range(len(parts)), key=lambda at: parts[at][0] not in first
        )
        ordered = [parts[at] for at in self._order]
        self._shards = _placed(
            [
                _Shard(region, tuple(tensor.shape), tensor.dtype)
                for region, tensor in ordered
            ]
        )
