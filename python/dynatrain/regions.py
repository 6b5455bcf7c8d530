"""Which elements of the tensors of a job a process holds, and what is missing
where some are gone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .optimizer import Key


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


def told(regions: list[Region]) -> bytes:
    """Regions as another process reads them: `heard`."""
    return json.dumps([one.plain() for one in regions]).encode()


def heard(data: bytes) -> list[Region]:
    return [Region.of(one) for one in json.loads(data)]


def _joined(lines: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for lo, hi in sorted(lines):
        if found and lo <= found[-1][1]:
            found[-1] = found[-1][0], max(hi, found[-1][1])
        else:
            found.append((lo, hi))
    return found


def _is_within(region: Region, lines: Sequence[tuple[int, int]]) -> bool:
    return all(
        any(lo <= first and end <= hi for lo, hi in lines)
        for first, end in region.lines()
    )


def not_held(wanted: Iterable[Region], held: Iterable[Region]) -> list[Region]:
    """Those of `wanted` that are not wholly within what is held."""
    same, of_key = set(), {}
    for one in held:
        same.add(one)
        of_key.setdefault(one.key, []).append(one)
    missing: list[Region] = []
    for one in dict.fromkeys(wanted):
        if one in same:
            continue
        others = of_key.get(one.key, [])
        if not _is_within(one, _joined(x for y in others for x in y.lines())):
            missing.append(one)
    return missing


def holes(held: Iterable[Region]) -> list[Region]:
    """Elements of known tensors that nobody holds."""
    of_key: dict[tuple, list[Region]] = {}
    for one in held:
        of_key.setdefault((one.key, one.shape), []).append(one)
    found = []
    for (key, shape), regions in of_key.items():
        at, whole = 0, math.prod(shape)
        lines = _joined(line for one in regions for line in one.lines())
        for lo, hi in [*lines, (whole, whole)]:
            if at < lo:
                where = (0,) * len(shape), shape
                found.append(Region(key, shape, *where, (at, lo)))
            at = hi
    return found
