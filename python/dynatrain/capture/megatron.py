"""Reader of Megatron-Core's sharded_state_dict, rank by rank."""

import itertools
import math
import warnings

from .layout import CaptureError, Layout, dtype_name, field, region_text


def sharded_entries(tree):
    """All ShardedTensors of a nested state dict, and the factories of what is
    cut in parts (gate and up); not the ShardedObjects."""
    if field(tree, "local_shape") is not None or hasattr(tree, "build"):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from sharded_entries(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from sharded_entries(value)


def object_keys(tree):
    """The keys of all ShardedObjects of a nested state dict."""
    if field(tree, "local_shape") is not None or hasattr(tree, "build"):
        return
    if field(tree, "key") is not None and field(tree, "global_shape"):
        yield field(tree, "key")
    elif isinstance(tree, (dict, list, tuple)):
        below = tree.values() if isinstance(tree, dict) else tree
        yield from itertools.chain(*map(object_keys, below))


def warn_of_objects(trees):
    """Says which ShardedObjects a capture leaves out, each key once."""
    keys = sorted(set(itertools.chain(*map(object_keys, trees))))
    if keys:
        warnings.warn(
            "objects that are no tensors are not captured: " + ", ".join(keys)
            + "; counters and RNG states belong into the request's 'extra'",
            stacklevel=3,
        )  # fmt: skip


def parts_of(entry):
    """The ShardedTensors of an entry, in local order along dim 0."""
    if hasattr(entry, "build"):
        return list(sharded_entries(entry.build()))
    return [entry]


SHARDED_FIELDS = (
    "key", "local_shape", "global_shape", "global_offset", "prepend_axis_num",
    "axis_fragmentations", "allow_shape_mismatch",
)  # fmt: skip


def describe_sharded(state_dict, gbuf_ranges=()):
    """A rank's sharded_state_dict(keep_vars) as plain data, to be gathered from
    all ranks. `gbuf_ranges` are those of its DistributedOptimizers: which
    elements of each parameter this rank optimizes. A warning names the
    ShardedObjects, which are left out."""
    owned = {}
    for buckets in itertools.chain(*(maps.values() for maps in gbuf_ranges)):
        for bucket in buckets:
            for parameter, found in bucket["param_map"].items():
                owned[id(parameter)] = found["param"].start, found["param"].end
    warn_of_objects([state_dict])
    out = []
    for entry in sharded_entries(state_dict):
        begin, end = owned.get(id(field(entry, "data")), (0, 0))
        for part in parts_of(entry):
            plain = {name: field(part, name) for name in SHARDED_FIELDS}
            plain["dtype"] = dtype_name(field(part, "dtype"))
            count = math.prod(plain["local_shape"])
            if max(begin, 0) < min(end, count):
                plain["optimizer_range"] = max(begin, 0), min(end, count)
            begin, end = begin - count, end - count
            out.append(plain)
    return out


def flat_of(entry):
    """(begin, end) of a ShardedTensor's flattened_range, or None."""
    flat = field(entry, "flattened_range")
    if flat is None:
        return None
    if isinstance(flat, slice):
        return flat.start, flat.stop
    return tuple(flat)


def check_regular(entry, where, offset, size, shape):
    """Offsets of a regular grid are multiples of the local shape."""
    for dim, count in enumerate(field(entry, "axis_fragmentations") or ()):
        regular = offset[dim] % max(size[dim], 1) == 0
        if count * size[dim] == shape[dim] and not regular:
            raise CaptureError(
                f"{where} starts at {offset[dim]} of dim {dim}, which is no "
                f"multiple of {size[dim]}"
            )


def box_of(rank, entry):
    """(offset, size) of a ShardedTensor in its global shape."""
    shape = list(field(entry, "global_shape"))
    offset = list(field(entry, "global_offset"))
    prepended = field(entry, "prepend_axis_num", 0) or 0
    size = [1] * prepended + list(field(entry, "local_shape"))
    where = f"tensor {field(entry, 'key')!r} on rank {rank}"
    if len(size) != len(shape) or len(offset) != len(shape):
        raise CaptureError(
            f"{where} has {len(shape)} global dims, but an offset of "
            f"{len(offset)} and a local shape of {len(size)}"
        )
    check_regular(entry, where, offset, size, shape)
    ends = [at + n for at, n in zip(offset, size, strict=True)]
    if any(end > n for end, n in zip(ends, shape, strict=True)):
        raise CaptureError(
            f"{where} holds {region_text(offset, size)}, which is beyond "
            f"its global shape {shape}"
        )
    return offset, size


def from_sharded_tensors(state_dicts, zero=None):
    """`state_dicts[rank]` is a rank's sharded_state_dict, nested as it is, or
    what `describe_sharded` made of it. Every replica (replica_id) holds its
    region; a warning names the ShardedObjects, which are left out. `zero` names
    the states, and their dtypes, that lie as the optimizer's ranges do:
    {"master": "f32"}."""
    warn_of_objects(state_dicts)
    layout = Layout(len(state_dicts))
    for rank, tree in enumerate(state_dicts):
        where = f"on rank {rank}"
        for entry in itertools.chain(*map(parts_of, sharded_entries(tree))):
            key, shape = field(entry, "key"), field(entry, "global_shape")
            offset, size = box_of(rank, entry)
            layout.declare(key, shape, field(entry, "dtype"), where)
            layout.hold(key, rank, offset, size, flat_of(entry))
            owned = field(entry, "optimizer_range")
            for state, dtype in (zero or {}).items() if owned else ():
                name = f"optimizer.state.{state}.{key}"
                layout.declare(name, shape, dtype, where)
                layout.hold(name, rank, offset, size, owned)
    return layout
