"""Random rows of explicit shards: which rank holds which region."""

import math

import numpy as np


def uneven_cuts(rng, extent):
    count = rng.randint(0, min(3, extent - 1))
    return [0, *sorted(rng.sample(range(1, extent), count)), extent]


def random_grid(rng, shape):
    """Boxes (offset, size) that tile a tensor, cut unevenly in some dims."""
    boxes = [([], [])]
    for extent in shape:
        cuts = uneven_cuts(rng, extent) if rng.random() < 0.6 else [0, extent]
        boxes = [
            ([*offset, lo], [*size, hi - lo])
            for offset, size in boxes
            for lo, hi in zip(cuts, cuts[1:], strict=False)
        ]
    return boxes


def random_box(rng, shape):
    offset = [rng.randrange(extent) for extent in shape]
    size = [rng.randint(1, n - lo) for n, lo in zip(shape, offset, strict=True)]
    return offset, size


def cover_box(rng, box, world):
    """Rows that hold a whole box on random ranks, some as flat ranges."""
    offset, size = box
    if rng.random() < 0.3:
        cuts = uneven_cuts(rng, math.prod(size))
        parts = [[lo, hi] for lo, hi in zip(cuts, cuts[1:], strict=False)]
    else:
        parts = [None]
    rows = []
    for part in parts:
        for rank in rng.sample(
            range(world), min(world, rng.choice([1, 1, 2, 3]))
        ):
            row = {"rank": rank, "offset": offset, "size": size}
            rows.append(row | ({"range": part} if part else {}))
    return rows


def row_mask(row, shape):
    lows, highs = row["offset"], np.add(row["offset"], row["size"])
    box = tuple(slice(lo, hi) for lo, hi in zip(lows, highs, strict=True))
    numbers = np.arange(math.prod(shape)).reshape(shape)[box].reshape(-1)
    mask = np.zeros(math.prod(shape), bool)
    mask[numbers[slice(*row["range"])] if "range" in row else numbers] = True
    return mask


def random_rows(rng, shape, world):
    """Rows of one tensor that cover it; replicas may overlap in part, but no
    rank is given an element twice."""
    rows = [
        row
        for box in random_grid(rng, shape)
        for row in cover_box(rng, box, world)
    ]
    for _ in range(rng.choice([0, 0, 1, 2])):
        rows += cover_box(rng, random_box(rng, shape), world)
    kept, held = [], {}
    for row in rows:
        mask = row_mask(row, shape)
        mine = held.setdefault(row["rank"], np.zeros(math.prod(shape), bool))
        if not (mine & mask).any():
            mine |= mask
            kept.append(row)
    return kept


def spread_rows(rng, shape, world):
    """Rows of one tensor: each of a few boxes, or all of it, on several
    ranks."""
    whole = [([0] * len(shape), shape)]
    boxes = random_grid(rng, shape) if rng.random() < 0.3 else whole
    return [
        {"rank": rank, "offset": offset, "size": size}
        for offset, size in boxes
        for rank in rng.sample(range(world), rng.randint(2, world))
    ]
