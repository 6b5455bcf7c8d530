"""Readers of torch's state: checkpoint metadata and DTensors."""

import itertools
import re

from .layout import CaptureError, Layout, field, ranks_text
from .states import state_key

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


def joined(intervals):
    """The same elements with neighbouring intervals made one."""
    out = []
    for lo, hi in intervals:
        if out and out[-1][1] == lo:
            out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return out


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
    return joined(pieces)


def placement_of(placement, ndim):
    """(kind, dim, split factor) with kind "shard", "strided" or "replicate",
    of a placement of a tensor of `ndim` dims."""
    if isinstance(placement, dict):
        kind = placement["type"]
    else:
        kind = type(placement).__name__
    kinds = {"Shard": "shard", "_StridedShard": "strided"}
    if kind == "Replicate":
        return "replicate", None, 1
    if kind.lstrip("_").endswith("Partial"):
        raise CaptureError(
            f"placement {kind}: the ranks hold parts of a reduction and no "
            "stored values, expected Shard or Replicate (call redistribute)"
        )
    if kind not in kinds:
        raise CaptureError(
            f"placement {kind} is not known, expected Shard, _StridedShard or "
            "Replicate"
        )
    dim = field(placement, "dim")
    if not -ndim <= dim < ndim:
        raise CaptureError(f"placement {kind} cuts dim {dim} of {ndim}")
    return kinds[kind], dim % ndim, field(placement, "split_factor", 1)


def cuts_in_order(placements, sizes):
    """Cuts (mesh dim, dim, 1) in the order that the split factors tell: a mesh
    dim comes after as many others that cut the same dim, on its right, as have
    its factor for their product. None where no order does."""
    orders = {}  # dim -> mesh dims
    for mesh_dim in reversed(range(len(placements))):
        kind, dim, factor = placements[mesh_dim]
        if kind == "replicate":
            continue
        order = orders.setdefault(dim, [])
        product, place = 1, 0
        while product != factor and place < len(order):
            product *= sizes[order[place]]
            place += 1
        if product != factor:
            return None
        order.insert(place, mesh_dim)
    return [
        (mesh_dim, dim, 1)
        for dim, order in orders.items()
        for mesh_dim in order
    ]


def readings(placements, sizes):
    """What the placements may mean, the usual meaning first, as cuts
    (mesh dim, dim, split factor). Cuts are made from left to right, as
    distribute_tensor does. FSDP2 cuts what tensor parallelism has cut before
    and writes _StridedShard for that; where chunks are uneven, that gives other
    shards than cutting from left to right."""
    left_to_right = [
        (mesh_dim, dim, factor)
        for mesh_dim, (kind, dim, factor) in enumerate(placements)
        if kind != "replicate"
    ]
    if not any(kind == "strided" for kind, _, _ in placements):
        return [left_to_right]
    in_order = cuts_in_order(placements, sizes)
    return [in_order, left_to_right] if in_order else [left_to_right]


def cut_at(shape, cuts, sizes, at):
    """Intervals per dim that the rank at these mesh coordinates holds."""
    dims = [[(0, size)] for size in shape]
    for mesh_dim, dim, factor in cuts:
        dims[dim] = strided(dims[dim], factor, sizes[mesh_dim], at[mesh_dim])
    return dims


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


def mesh_sizes(mesh):
    """Extents of a device mesh."""
    return list(field(mesh, "mesh").shape)


def sibling_ranks(tensor, mesh):
    """Ranks of the mesh that the tensor's mesh was cut out of, but for its own:
    there are meshes like it there, with tensors of their own."""
    if hasattr(mesh, "_get_root_mesh"):
        root = mesh._get_root_mesh()
    else:
        root = field(tensor, "root_mesh")
    if root is None:
        return set()
    return set(mesh_grid(root)[0].values()) - set(mesh_grid(mesh)[0].values())


def local_extents(tensor, mesh):
    """(coordinates, shape) of the local tensor here, or None where the object
    does not tell."""
    local = field(tensor, "_local_tensor")
    at = mesh.get_coordinate() if hasattr(mesh, "get_coordinate") else None
    if local is None or at is None:
        return None
    return tuple(at), list(local.shape)


def choose_reading(tensor, mesh, placements, sizes):
    """The cuts that give the local tensor its shape, where that is known."""
    shape, choices = list(field(tensor, "shape")), readings(placements, sizes)
    known = local_extents(tensor, mesh)
    if known is None:
        return choices[0]
    at, local = known
    for cuts in choices:
        dims = cut_at(shape, cuts, sizes, at)
        extents = [sum(hi - lo for lo, hi in dim) for dim in dims]
        if extents == local or (0 in extents and 0 in local):
            return cuts
    raise CaptureError(
        f"its local shape at {list(at)} of the mesh {sizes} is {local}, where "
        f"{tuple(field(tensor, 'placements'))} of {shape} leaves {extents}"
    )


def hold_dtensor(layout, name, tensor, mesh):
    ranks, sizes = mesh_grid(mesh)
    shape = list(field(tensor, "shape"))
    layout.declare(name, shape, field(tensor, "dtype"))
    try:
        placements = [
            placement_of(p, len(shape)) for p in field(tensor, "placements")
        ]
        cuts = choose_reading(tensor, mesh, placements, sizes)
    except CaptureError as error:
        raise CaptureError(f"tensor {name!r}: {error}") from None
    for at, rank in ranks.items():
        for box in itertools.product(*cut_at(shape, cuts, sizes, at)):
            layout.hold(
                name, rank, [lo for lo, _ in box], [hi - lo for lo, hi in box]
            )


def flat_items(tree, prefix=""):
    """(key, tensor) of nested dicts, keys joined by dots; the keys
    (tensor, state) of `dynatrain.training_state` as `state_key` spells them."""
    for name, value in tree.items():
        key = state_key(*name) if isinstance(name, tuple) else name
        if field(value, "shape") is not None:
            yield f"{prefix}{key}", value
        elif isinstance(value, dict):
            yield from flat_items(value, f"{prefix}{key}.")


def unknown_ranks(meshes, world, ranks):
    """{rank: why its state is not known} of a state dict that is that of
    `ranks`, or else of all ranks that share its meshes."""
    if ranks is not None:
        why = f"the state dict is that of {ranks_text(ranks)}"
        return dict.fromkeys(set(range(world)) - set(ranks), why)
    unknown = {}
    for name, (tensor, mesh) in meshes.items():
        held = ranks_text(mesh_grid(mesh)[0].values())
        why = f"tensor {name!r} is on a sub-mesh of {held}"
        for rank in sibling_ranks(tensor, mesh) & set(range(world)):
            unknown.setdefault(rank, why)
    return unknown


def from_dtensors(state_dict, world, ranks=None):
    """What a state dict tells of every rank. A DTensor says it for all ranks of
    its mesh. Where that is a part of a larger mesh (pipeline stages; parameters
    that only some mesh dims cut), the other ranks have tensors of their own:
    they stay unknown until `merge` joins what they read. Tensors that are no
    DTensor are on every rank that is known; what is no tensor is left out.

    `ranks` names the ranks whose state dict this is where the tensors do not
    tell, as in pipelines of plain tensors.

    Nested dicts are read as torch flattens them: {"optim": {"state": {FQN:
    {STATE: tensor}}}}; keys may be pairs (tensor, state) too, as
    `dynatrain.training_state` gives them.
    """
    layout = Layout(world)
    tensors = dict(flat_items(state_dict))
    meshes = {}
    for name, tensor in tensors.items():
        if field(tensor, "placements") is not None:
            mesh = field(tensor, "device_mesh")
            mesh = field(tensor, "mesh") if mesh is None else mesh
            meshes[name] = tensor, mesh
    layout.unknown = unknown_ranks(meshes, world, ranks)
    for name, tensor in tensors.items():
        if name in meshes:
            hold_dtensor(layout, name, *meshes[name])
            continue
        shape = list(field(tensor, "shape"))
        layout.declare(name, shape, field(tensor, "dtype"))
        for rank in range(world):
            if rank not in layout.unknown:
                layout.hold(name, rank, [0] * len(shape), shape)
    return layout
