"""What a State has in memory of its own, and where in the full tensors."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import torch

from .capture import Piece, local_layout
from .capture.pieces import pieces_of
from .errors import InvalidError
from .hollow import local_part
from .optimizer import Key
from .regions import Region
from .state import State

#: A region, and the elements that this process has of it.
Part = tuple[Region, torch.Tensor]


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


def _described(key: Key, value: Any) -> list[Part]:
    return [
        (_region(key, one), local_part(one.tensor).detach())
        for one in pieces_held(key, value)
        if one.numel()
    ]


def _look(value: Any) -> Hashable:
    """What a description is made of: equal ones have equal descriptions."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_look, value))
    if isinstance(value, Piece):
        run = tuple(value.range) if value.range else None
        where = tuple(value.shape), tuple(value.offset), tuple(value.size)
        return *where, run, tuple(local_part(value.tensor).shape)
    mesh = getattr(value, "device_mesh", None)
    where = tuple(value.shape), tuple(local_part(value).shape)
    return where if mesh is None else (*where, mesh, tuple(value.placements))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Those of `_described`, in its order."""
    values = value if isinstance(value, (list, tuple)) else [value]
    for one in values:
        is_piece = isinstance(one, Piece)
        local = local_part(one.tensor if is_piece else one).detach()
        if local.numel():
            yield local


class HeldParts:
    """The parts of a State, look after look. To describe one takes longer than
    to copy it where it is small; so what lies as it did is not described
    again."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Hashable, list[Region]]] = {}

    def of(self, state: State) -> list[Part]:
        """What it holds now, in its order."""
        parts: list[Part] = []
        before, self._known = self._known, {}
        for key, value in state.tensors.items():
            look = _look(value)
            seen = before.get(key)
            if seen is None or seen[0] != look:
                found = _described(key, value)
                seen = look, [region for region, _ in found]
                parts += found
            else:
                parts += zip(seen[1], _tensors(value))
            self._known[key] = seen
        return parts


def regions_of(state: State) -> list[Region]:
    """What a State holds."""
    return [region for region, _ in HeldParts().of(state)]
