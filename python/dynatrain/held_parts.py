"""What a State has in memory of its own, and where in the full tensors."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import torch

from . import _C
from .capture import Piece, local_layout
from .capture.pieces import pieces_of
from .errors import InvalidError
from .hollow import local_part
from .optimizer import Key
from .regions import Region
from .state import State


def pieces_held(key: Key, value: Any) -> list[Piece]:
    """A value of `State.tensors` as pieces."""
    if found := pieces_of(key, value):
        return found
    rows = local_layout({key: value}, 1, 0).rows
    if len(rows) > 1:
        raise InvalidError(
            f"tensor '{key[0]}' state '{key[1]}' has {len(rows)} shards "
            "that interleave on this process, of which no snapshot is made"
        )
    shape = tuple(value.shape)
    return [
        Piece(value, shape, row["offset"], row["size"], row.get("range"))
        for row in rows
    ]


def _region(key: Key, piece: Piece) -> Region:
    where = tuple(piece.shape), tuple(piece.offset), tuple(piece.size)
    return Region(key, *where, tuple(piece.range) if piece.range else None)


def _look(value: Any) -> Hashable:
    """What a description is made of, but for what `_C.looks` sees."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_look, value))
    if isinstance(value, Piece):
        run = tuple(value.range) if value.range else None
        return tuple(value.shape), tuple(value.offset), tuple(value.size), run
    mesh = getattr(value, "device_mesh", None)
    if mesh is None:
        return None
    return value.shape, mesh, tuple(value.placements)


def _plain(value: Any) -> torch.Tensor | None:
    """The tensor of a value that says the same for as long as it lives; None of
    a list, and of a DTensor, whose placements may change."""
    tensor = value.tensor if isinstance(value, Piece) else value
    is_plain = isinstance(tensor, torch.Tensor)
    return tensor if is_plain and local_part(tensor) is tensor else None


def _locals(value: Any) -> Iterator[torch.Tensor]:
    """The elements that this process has, or none, of each part of a value."""
    for one in value if isinstance(value, (list, tuple)) else (value,):
        yield local_part(one.tensor if isinstance(one, Piece) else one)


def _described(tensors: Mapping[Key, Any]) -> list[Region]:
    return [
        _region(key, one)
        for key, value in tensors.items()
        for one in pieces_held(key, value)
        if one.numel()
    ]


class _Objects:
    """Keys and values of a State, to see whether others are the same. It keeps
    none of them alive."""

    def __init__(self, values: Mapping[Key, Any]) -> None:
        self._keys = list(values)
        self._values = [weakref.ref(one) for one in values.values()]
        self._locals = [weakref.ref(_plain(one)) for one in values.values()]

    @classmethod
    def of(cls, values: Mapping[Key, Any]) -> _Objects | None:
        """None where the objects may be the same and say something else, but
        for what `_C.looks` sees."""
        for one in values.values():
            if not isinstance(_plain(one), torch.Tensor):
                return None
        return cls(values)

    def locals(self, values: Mapping[Key, Any]) -> list[torch.Tensor] | None:
        """The elements of each value; None where they are not the same."""
        known = [one() for one in self._values]
        if len(known) != len(values) or list(values) != self._keys:
            return None
        if not all(map(operator.is_, known, values.values())):
            return None
        return [one() for one in self._locals]


class HeldParts:
    """The parts of a State, look after look. To describe them takes longer than
    to copy small ones; so this is done when something is not as it was."""

    def __init__(self) -> None:
        self._objects: _Objects | None = None
        self._seen: tuple[list[Hashable], bytes] | None = None
        self._regions: list[Region] = []
        # Which tensors have elements.
        self._there: list[int] = []

    def of(self, state: State) -> tuple[list[Region], list[torch.Tensor]]:
        """What it holds now, in its order: regions, and the elements of each.
        It is the same list of regions for as long as nothing changes in them,
        in the tensors' shapes or dtypes."""
        values = state.tensors
        found = self._objects and self._objects.locals(values)
        if not found or _C.looks(found) != self._seen[1]:
            found = self._look_at(values)
        return self._regions, [found[n] for n in self._there]

    def _look_at(self, values: Mapping[Key, Any]) -> list[torch.Tensor]:
        """All of it again."""
        looks = [(key, _look(value)) for key, value in values.items()]
        found = [one for value in values.values() for one in _locals(value)]
        seen = looks, _C.looks(found)
        if seen != self._seen:
            self._regions = _described(values)
            self._there = [n for n, one in enumerate(found) if one.numel()]
            self._seen = seen
        self._objects = _Objects.of(values)
        return found


def regions_of(state: State) -> list[Region]:
    """What a State holds."""
    return HeldParts().of(state)[0]
