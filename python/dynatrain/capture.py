"""Layouts of live objects, as the explicit shards of a request.

Three readers fill a `Layout` with one row per region that a rank holds:

- `from_checkpoint_metadata`: the Metadata of torch.distributed.checkpoint,
- `from_dtensors`: a state dict of DTensors (FSDP2, TP, HSDP, _StridedShard),
- `from_sharded_tensors`: Megatron-Core's sharded_state_dict, rank by rank.

Each takes the objects or their JSON form (the same field names), and needs
neither torch nor Megatron itself. `request(source, destination)` makes the
request for `dt-opt`; every key of a state dict is one tensor there, with the
one state `param`.
"""

import itertools
import re


class CaptureError(Exception):
    """What was given describes no layout."""


def field(thing, name, default=None):
    """A field of an object or of its JSON form."""
    if isinstance(thing, dict):
        return thing.get(name, default)
    return getattr(thing, name, default)


def dtype_name(dtype):
    """ "torch.bfloat16" or "BF16" as a request may spell it."""
    return str(dtype).removeprefix("torch.")


class Layout:
    """Who holds what on one side."""

    def __init__(self, world):
        self.world = world
        self.tensors = {}  # name -> (shape, dtype)
        self.rows = []

    def declare(self, name, shape, dtype):
        entry = ([int(n) for n in shape], dtype_name(dtype))
        known = self.tensors.setdefault(name, entry)
        if known != entry:
            raise CaptureError(
                f"tensor {name!r} is {entry[0]} {entry[1]} on one rank and "
                f"{known[0]} {known[1]} on another"
            )

    def hold(self, name, rank, offset, size, flat=None):
        """Adds a box of a declared tensor; `flat` is a range of its elements,
        row-major. A box without elements is no row."""
        if not 0 <= rank < self.world:
            raise CaptureError(
                f"tensor {name!r} lies on rank {rank}, but the world has "
                f"{self.world}"
            )
        if 0 in size or (flat and flat[0] == flat[1]):
            return
        row = {
            "tensor": name,
            "rank": rank,
            "offset": [int(n) for n in offset],
            "size": [int(n) for n in size],
        }
        if flat:
            row["range"] = [int(n) for n in flat]
        if row not in self.rows:
            self.rows.append(row)

    def side(self, devices=None):
        """The value of "source" or "destination"."""
        side = {"world": self.world, "shards": self.rows}
        return side | ({"devices": list(devices)} if devices else {})


def request(source, destination, **more):
    """The request from one captured layout to another, with more of its keys
    (cluster, memory, ...)."""
    for name in sorted(source.tensors.keys() ^ destination.tensors.keys()):
        side = "destination" if name in source.tensors else "source"
        raise CaptureError(f"the {side} does not have tensor {name!r}")
    for name, entry in source.tensors.items():
        if destination.tensors[name] != entry:
            raise CaptureError(
                f"tensor {name!r} is {entry} in the source and "
                f"{destination.tensors[name]} in the destination"
            )
    tensors = [
        {"name": name, "shape": shape, "dtype": dtype}
        for name, (shape, dtype) in source.tensors.items()
    ]
    return {
        "model": {"tensors": tensors},
        "source": source.side(),
        "destination": destination.side(),
    } | more


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


def from_dtensors(state_dict, world):
    """The layout of every rank: a DTensor says it for all. Tensors that are no
    DTensor are on every rank; what is no tensor is left out."""
    layout = Layout(world)
    for name, tensor in state_dict.items():
        if field(tensor, "placements") is not None:
            hold_dtensor(layout, name, tensor)
        elif field(tensor, "shape") is not None:
            shape = list(field(tensor, "shape"))
            layout.declare(name, shape, field(tensor, "dtype"))
            for rank in range(world):
                layout.hold(name, rank, [0] * len(shape), shape)
    return layout


# Megatron-Core --------------------------------------------------------------


def sharded_tensors(tree):
    """All ShardedTensors of a nested state dict."""
    if field(tree, "global_offset") is not None:
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from sharded_tensors(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from sharded_tensors(value)


def flat_of(entry):
    """(begin, end) of a ShardedTensor's flattened_range, or None."""
    flat = field(entry, "flattened_range")
    if flat is None:
        return None
    if isinstance(flat, slice):
        return flat.start, flat.stop
    return tuple(flat)


def hold_sharded(layout, rank, entry):
    name = field(entry, "key")
    shape = list(field(entry, "global_shape"))
    offset = list(field(entry, "global_offset"))
    prepended = field(entry, "prepend_axis_num", 0) or 0
    size = [1] * prepended + list(field(entry, "local_shape"))
    parts = field(entry, "axis_fragmentations")
    if len(size) != len(shape) or len(offset) != len(shape):
        raise CaptureError(
            f"{name!r} on rank {rank} has {len(shape)} global dims, but an "
            f"offset of {len(offset)} and a local shape of {len(size)}"
        )
    for dim, count in enumerate(parts or ()):
        regular = offset[dim] % max(size[dim], 1) == 0
        if count * size[dim] == shape[dim] and not regular:
            raise CaptureError(
                f"{name!r} on rank {rank} starts at {offset[dim]} of dim "
                f"{dim}, which is no multiple of {size[dim]}"
            )
    # Allowed to lie beyond the global shape: padding, which does not move.
    size = [
        max(0, min(n, whole - at))
        for n, whole, at in zip(size, shape, offset, strict=True)
    ]
    layout.declare(name, shape, field(entry, "dtype"))
    layout.hold(name, rank, offset, size, flat_of(entry))


def from_sharded_tensors(state_dicts):
    """`state_dicts[rank]` is a rank's sharded_state_dict, nested as it is.
    Every replica (replica_id) holds its region; what is no ShardedTensor is
    left out."""
    layout = Layout(len(state_dicts))
    for rank, tree in enumerate(state_dicts):
        for entry in sharded_tensors(tree):
            hold_sharded(layout, rank, entry)
    return layout
