"""What one process holds, and what all do together."""

import itertools
import json
import zlib

from .layout import CaptureError, Layout, field, merge
from .pieces import pieces_of
from .states import state_key
from .tensors import choose_reading, cut_at, mesh_sizes, placement_of


def _items(tree, prefix=""):
    """(key, value) of nested dicts; a list of tensors is one value."""
    for name, value in tree.items():
        key = state_key(*name) if isinstance(name, tuple) else name
        if isinstance(value, dict):
            yield from _items(value, f"{prefix}{key}.")
        elif field(value, "shape") is not None or pieces_of(key, value):
            yield f"{prefix}{key}", value


def _hold_dtensor(layout, key, tensor, rank):
    """The shard of this process, by its place in the tensor's mesh."""
    mesh, shape = tensor.device_mesh, list(tensor.shape)
    layout.declare(key, shape, tensor.dtype)
    at = mesh.get_coordinate()
    if at is None:
        return
    sizes = mesh_sizes(mesh)
    try:
        placements = [placement_of(p, len(shape)) for p in tensor.placements]
        cuts = choose_reading(tensor, mesh, placements, sizes)
    except CaptureError as error:
        raise CaptureError(f"tensor {key!r}: {error}") from None
    for box in itertools.product(*cut_at(shape, cuts, sizes, tuple(at))):
        layout.hold(
            key, rank, [lo for lo, _ in box], [hi - lo for lo, hi in box]
        )


def local_layout(tensors, world, rank):
    """What the process `rank` of a world of `world` processes holds.

    tensors: a state dict, as `from_dtensors` takes it; its values may be
        `Piece`s too, or a list of them. Of a DTensor the place in its mesh
        counts, not the mesh's numbers of ranks. Any other tensor is whole here.
        Nothing is read but shapes: tensors on `meta` will do.
    """
    layout = Layout(world)
    why = f"this is the layout of rank {rank}"
    layout.unknown = dict.fromkeys(set(range(world)) - {rank}, why)
    for key, value in _items(tensors):
        pieces = pieces_of(key, value)
        for one in pieces or ():
            layout.declare(key, one.shape, one.dtype)
            layout.hold(key, rank, one.offset, one.size, one.range)
        if pieces:
            continue
        if field(value, "placements") is not None:
            _hold_dtensor(layout, key, value, rank)
            continue
        shape = list(value.shape)
        layout.declare(key, shape, value.dtype)
        layout.hold(key, rank, [0] * len(shape), shape)
    return layout


def pack(plain):
    """JSON, compressed: what travels between processes."""
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(), 1)


def unpack(data):
    return json.loads(zlib.decompress(data))


def plain_layout(layout):
    """As JSON takes it."""
    return {
        "world": layout.world,
        "tensors": layout.tensors,
        "rows": layout.rows,
        "unknown": list(layout.unknown.items()),
    }


def layout_of(plain):
    """The layout that `plain_layout` wrote."""
    layout = Layout(plain["world"])
    layout.unknown = dict(map(tuple, plain["unknown"]))
    for key, (shape, dtype) in plain["tensors"].items():
        layout.declare(key, shape, dtype)
    for row in plain["rows"]:
        layout.hold(
            row["tensor"], row["rank"], row["offset"], row["size"],
            row.get("range"),
        )  # fmt: skip
    return layout


def gather(tensors, world):
    """The layout of all processes of a `dynatrain.World`, on each of them.

    Collective: all call it, those without tensors with None. Whatever a
    process cannot describe is an error on all of them.

    tensors: this process's, as `local_layout` takes them, or a
        `dynatrain.State`.
    """
    tensors = getattr(tensors, "tensors", tensors) or {}
    with world.exchange("gather") as board:

        def describe():
            own = local_layout(tensors, board.size, board.rank)
            return pack(plain_layout(own))

        board.post_result("own", describe)
        if board.rank == 0:
            board.post_result(
                "all",
                lambda: pack(
                    plain_layout(
                        merge(
                            layout_of(unpack(data))
                            for data in board.read_results("own")
                        )
                    )
                ),
            )
        return layout_of(unpack(board.read_verdict("all")))
