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
from .held_parts import HeldParts
from .optimizer import Key
from .regions import Region, told
from .snapshot_memory import NOWHERE, Memory, memory_for
from .state import Small, State
from .value_bytes import decode, encode

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


class _Order:
    """Shards as they lie in memory; what is said of them is made once."""

    def __init__(self, shards: Sequence[_Shard]) -> None:
        self.shards = shards
        self._texts: dict[int, bytes] = {}
        self._alone: Container[Region] | None = None
        self._cut: int | None = None

    @property
    def end(self) -> int:
        return self.shards[-1].end if self.shards else 0

    @cached_property
    def regions(self) -> list[Region]:
        return [one.region for one in self.shards]

    @cached_property
    def told(self) -> bytes:
        return told(self.regions)

    def text(self, cut: int) -> bytes:
        """What lies before `cut`, for `_shards_of`."""
        if cut not in self._texts:
            plain = [one.plain() for one in self.shards if one.at < cut]
            self._texts[cut] = json.dumps(plain).encode()
        return self._texts[cut]

    def cut(self, alone: Container[Region]) -> int | None:
        """Where those of `alone` end; None where they are not the first."""
        if alone is not self._alone:
            self._alone = alone
            first = [one.region in alone for one in self.shards]
            count = sum(first)
            self._cut = None
            if all(first[:count]):
                self._cut = self.shards[count - 1].end if count else 0
        return self._cut


def _shards_of(text: bytes) -> list[_Shard]:
    return [_Shard.of(one) for one in json.loads(text)]


def _encoded(items: Mapping[str, Small]) -> bytes:
    """Rules and values by name: `_decoded`."""
    plain = {
        name: (one.rule, encode(name, one.value)) for name, one in items.items()
    }
    return encode("", plain)


def _decoded(data: bytes) -> dict[str, Small]:
    return {
        name: Small(rule, decode(value))
        for name, (rule, value) in decode(data).items()
    }


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
        order, small = self._said
        memory, cut = self.memory, order.cut(alone)
        if cut is None:
            memory = memory_for(self.nbytes, [], memory.place != NOWHERE)
            shards = sorted(
                order.shards, key=lambda one: one.region not in alone
            )
            order = _Order(_placed(shards))
            for then, now in zip(shards, order.shards):
                now.view(memory.data).copy_(then.view(self.data))
            cut = order.cut(alone)
        copy = Snapshot(memory)
        copy._said, copy.cut = (order, small), cut
        return copy

    # The next two are made of each other: of a copy that has arrived the one is
    # there, of one that is made here the other.

    @cached_property
    def head(self) -> bytes:
        """What it says of what travels, as bytes."""
        order, small = self._said
        text = order.text(self.cut)
        return len(text).to_bytes(_WORD, "little") + text + small

    @cached_property
    def _said(self) -> tuple[_Order, bytes]:
        """What lies where, and what is no tensor."""
        size = _WORD + int.from_bytes(self.head[:_WORD], "little")
        return _Order(_shards_of(self.head[_WORD:size])), self.head[size:]

    def regions(self) -> list[Region]:
        """What it has."""
        return self._said[0].regions

    def told(self) -> bytes:
        """The same, as another process reads it: `regions.heard`."""
        return self._said[0].told

    def pieces(self) -> Iterator[tuple[Key, Piece]]:
        """Its tensors, in its own memory, and where they lie."""
        for shard in self._said[0].shards:
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
        return _decoded(self._said[1])

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
        # What was held at the last copy, in which order that lies in memory,
        # and where each shard begins.
        self._regions: list[Region] | None = None
        self._first: Container[Region] = ()
        self._order = _Order([])
        self._picks: list[int] = []
        self._starts: list[int] = []

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
        regions, tensors = self._parts.of(state)
        if regions is not self._regions or first is not self._first:
            self._regions, self._first = regions, first
            self._place(regions, tensors, first)
        copy = Snapshot(memory_for(self._order.end, room, shared))
        copy._said = self._order, _encoded(state.small())
        _C.copy_into(copy.data, self._starts, [tensors[n] for n in self._picks])
        return copy

    def _place(
        self,
        regions: Sequence[Region],
        tensors: Sequence[torch.Tensor],
        first: Container[Region],
    ) -> None:
        """Where each is to lie."""
        self._picks = sorted(
            range(len(regions)), key=lambda n: regions[n] not in first
        )
        shards = [
            _Shard(regions[n], tuple(tensors[n].shape), tensors[n].dtype)
            for n in self._picks
        ]
        self._order = _Order(_placed(shards))
        self._starts = [one.at for one in self._order.shards]
