"""Where state that is no weight lies: the "extra" of a request, rank by rank.

Written from docs/Request.md: one value per coordinate of some axes of the
source, and a rule for who takes which on another mesh.
"""

import numpy as np
from layouts import Piece, Sizes


def axis_size(layout, axis):
    """How many coordinates an axis has on a side."""
    if "shards" in layout:
        return layout["world"] if axis == "rank" else 1
    sizes = Sizes(layout)
    return {"etp": sizes.etp, "rank": 1}.get(axis) or sizes.size[axis]


def coordinates(layout, rank, axes):
    """Where a rank stands on some axes of a side."""
    if "shards" in layout:
        return tuple(rank if axis == "rank" else 0 for axis in axes)
    sizes = Sizes(layout)
    dense, expert = (sizes.coordinates(rank, grid) for grid in (False, True))
    own = dense | {"etp": expert["tp"], "ep": expert["ep"], "rank": 0}
    return tuple(own[axis] for axis in axes)


def extra_shape(entry, source):
    """The full tensor: a leading dim per axis, of the source's size."""
    leading = [axis_size(source, axis) for axis in entry.get("per", [])]
    return (*leading, *entry.get("shape", [1]))


def value_of(entry, source, layout, rank):
    """The source coordinates whose value a rank has."""
    axes = entry.get("per", [])
    at = coordinates(layout, rank, axes)
    at = tuple(
        c % axis_size(source, axis) for c, axis in zip(at, axes, strict=True)
    )
    there = [coordinates(source, r, axes) for r in range(source["world"])]
    for length in range(len(axes), -1, -1):
        for other in there:  # by rank: the first that agrees
            if other[:length] == at[:length]:
                return other
    raise AssertionError("the source has no rank")


def add_extra(side, number, entry, source, layout):
    """Gives every rank of a side its value of tensor `number`."""
    shape = entry.get("shape", [1])
    devices = layout.get("devices", list(range(layout["world"])))
    for rank, device in enumerate(devices):
        at = value_of(entry, source, layout, rank)
        piece = Piece(
            [np.array([c]) for c in at] + [np.arange(n) for n in shape]
        )
        side.add(number, "param", device, piece)
