"""Readers of torch's state: checkpoint metadata and DTensors."""

import itertools
import re

from .layout import CaptureError, Layout, field

# torch.distributed.checkpoint -----------------------------------------------


def storage_ranks(metadata):
    """{(name, offsets): rank} by the files that the ranks wrote; a rank's
    files are called __RANK_NUMBER.distcp."""
    stored = field(metadata, "storage_data") or {}
    pairs = (
        stored.items()
        if isinstance(stored, dict)
        else [(row["index"], row["info"]) for row in stored]
    )
    ranks = {}
    for index, info in pairs:
        path = field(info, "relative_path")
        found = re.fullmatch(r"__(\d+)_\d+\.distcp", path.rsplit("/", 1)[-1])
        if not found:
            raise CaptureError(f"file {path!r} does not name its rank")
        offset = tuple(field(index, "offset") or ())
        ranks[field(index, "fqn"), offset] = int(found.group(1))
    return ranks


def from_checkpoint_metadata(metadata, world, ranks=None):
    """Who wrote what. A region that several ranks held stands for the one that
    wrote it. `ranks` is {(name, offsets): rank} where the files do not tell;
    entries that are no tensors are left out."""
    layout = Layout(world)
    ranks = ranks or storage_ranks(metadata)
    for name, entry in field(metadata, "state_dict_metadata").items():
        chunks = field(entry, "chunks")
        if chunks is None:
            continue
        layout.declare(
            name,
            field(entry, "size"),
            field(field(entry, "properties"), "dtype"),
        )
        for chunk in chunks:
            offset = tuple(field(chunk, "offsets"))
            if (name, offset) not in ranks:
                raise CaptureError(
                    f"no rank is known for {name!r} at {list(offset)}"
                )
            layout.hold(
                name, ranks[name, offset], offset, field(chunk, "sizes")
            )
    return layout


# DTensor --------------------------------------------------------------------


def chunk(intervals, parts, part):
    """torch.chunk's part of a list of intervals laid end to end."""
    total = sum(hi - lo for lo, hi in intervals)
    each = -(-total // parts)
    begin, end = min(part * each, total), min((part + 1) * each, total)
    out, at = [], 0
    for lo, hi in intervals:
        first, last = max(begin - at, 0), min(end - at, hi - lo)
        if first < last:
            out.append((lo + first, lo + last))
        at += hi - lo
    return out


def strided(intervals, factor, parts, part):
    """That part of each of `factor` chunks."""
    pieces = []
    for number in range(factor):
        pieces += chunk(chunk(intervals, factor, number), parts, part)
    return pieces


def placement_of(placement):
    """(kind, dim, split factor): "shard", "strided" or "replicate"."""
    if isinstance(placement, dict):
        kind = placement["type"]
    else:
        kind = type(placement).__name__
    kinds = {"Shard": "shard", "_StridedShard": "strided"}
    if kind == "Replicate":
        return "replicate", None, 1
    if kind not in kinds:
        raise CaptureError(f"placement {kind} is no layout of stored tensors")
    return (
        kinds[kind],
        field(placement, "dim"),
        field(placement, "split_factor", 1),
    )


def cutting_order(placements, sizes):
    """Mesh dims in the order in which they cut. A _StridedShard comes after
    the shards of the same dim on its right that its split factor counts; where
    there are no such shards, it cuts interleaved."""
    order = []
    waiting = []  # (mesh dim, dim, factor that is still to come)
    for mesh_dim, (kind, dim, factor) in enumerate(placements):
        if kind == "strided":
            waiting.append([mesh_dim, dim, factor])
            continue
        if kind == "shard":
            order.append((mesh_dim, 1))
            for entry in waiting:
                if entry[1] == dim:
                    entry[2] /= sizes[mesh_dim]
        for entry in [e for e in waiting if e[2] == 1]:
            order.append((entry[0], 1))
            waiting.remove(entry)
    for mesh_dim, _, _ in waiting:
        order.insert(0, (mesh_dim, placements[mesh_dim][2]))
    return order


def mesh_grid(mesh):
    """{coordinates: rank} and sizes of a device mesh or nested lists."""
    grid = field(mesh, "mesh", mesh)
    grid = grid.tolist() if hasattr(grid, "tolist") else grid
    sizes, inner = [], grid
    while isinstance(inner, list):
        sizes.append(len(inner))
        inner = inner[0]
    ranks = {}
    for at in itertools.product(*map(range, sizes)):
        rank = grid
        for index in at:
            rank = rank[index]
        ranks[at] = rank
    return ranks, sizes


def hold_dtensor(layout, name, tensor):
    mesh = field(tensor, "device_mesh")
    ranks, sizes = mesh_grid(field(tensor, "mesh") if mesh is None else mesh)
    placements = [placement_of(p) for p in field(tensor, "placements")]
    shape = list(field(tensor, "shape"))
    layout.declare(name, shape, field(tensor, "dtype"))
    order = cutting_order(placements, sizes)
    for at, rank in ranks.items():
        dims = [[(0, size)] for size in shape]
        for mesh_dim, factor in order:
            dim = placements[mesh_dim][1]
            parts, part = sizes[mesh_dim], at[mesh_dim]
            dims[dim] = strided(dims[dim], factor, parts, part)
        for box in itertools.product(*dims):
            layout.hold(
                name, rank, [lo for lo, _ in box], [hi - lo for lo, hi in box]
            )


def flat_items(tree, prefix=""):
    """(key, tensor) of nested dicts, keys joined by dots."""
    for name, value in tree.items():
        if field(value, "shape") is not None:
            yield f"{prefix}{name}", value
        elif isinstance(value, dict):
            yield from flat_items(value, f"{prefix}{name}.")


def from_dtensors(state_dict, world):
    """The layout of every rank: a DTensor says it for all. Tensors that are no
    DTensor are on every rank; what is no tensor is left out. Nested dicts are
    read as torch flattens them: {"optim": {"state": {FQN: {STATE: tensor}}}}.
    """
    layout = Layout(world)
    for name, tensor in flat_items(state_dict):
        if field(tensor, "placements") is not None:
            hold_dtensor(layout, name, tensor)
            continue
        shape = list(field(tensor, "shape"))
        layout.declare(name, shape, field(tensor, "dtype"))
        for rank in range(world):
            layout.hold(name, rank, [0] * len(shape), shape)
    return layout
