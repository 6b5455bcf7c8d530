"""What a State has in memory of its own, and where in the full tensors."""

from __future__ import annotations

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


class HeldParts:
    """The parts of a State, look after look. To describe them takes longer than
    to copy small ones; so this is done when something is not as it was."""

    def __init__(self) -> None:
        self._seen: tuple[list[Hashable], bytes] | None = None
        self._regions: list[Region] = []
        # Which tensors have elements.
        self._there: list[int] = []

    def of(self, state: State) -> tuple[list[Region], list[torch.Tensor]]:
        """What it holds now, in its order: regions, and the elements of each.
        It is the same list of regions for as long as nothing changes in them,
        in the tensors' shapes or dtypes."""
        values = state.tensors
        looks = [(key, _look(value)) for key, value in values.items()]
        found = [one for value in values.values() for one in _locals(value)]
        seen = looks, _C.looks(found)
        if seen != self._seen:
            self._regions = _described(values)
            self._there = [n for n, one in enumerate(found) if one.numel()]
            self._seen = seen
        return self._regions, [found[n] for n in self._there]


def regions_of(state: State) -> list[Region]:
    """What a State holds."""
    return HeldParts().of(state)[0]
