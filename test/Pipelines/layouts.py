"""Which device holds which element: layouts evaluated element by element.

Written from the request format and the rules of Megatron-Core, with nothing of
the compiler in it, and as slowly as it takes to be obviously right: every
holding is a boolean mask over the whole tensor. The unit of work is a
`Tensor` with a `Cut` (how it may be sharded) and the parallel `sizes` of one
side (what a request's "source" or "destination" says).
"""

import fnmatch
import itertools
import math
import re
from dataclasses import dataclass, field

import numpy as np

DTYPE_BYTES = {
    "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "f8_e4m3": 1, "f8_e5m2": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1,
}  # fmt: skip

DEFAULT_ORDER = "tp-cp-ep-fsdp-dp-pp"
AXES = ("tp", "cp", "ep", "fsdp", "dp", "pp")
# ZeRO-1 of Megatron-Core: starts of parameters, ends of buckets (elements).
PARAM_ALIGNMENT = 64
BUCKET_ALIGNMENT = 128


@dataclass
class Cut:
    """How a tensor may be sharded, whatever the sizes are."""

    tp: int | None = None
    blocks: list | None = None  # packed parts along `tp`, cut one by one
    fsdp: int | None = 0
    layer: int | None = None
    expert: int | None = None
    num_experts: int = 0
    stages: tuple = ("first",)  # of "first", "last", "every"; unused with layer
    vocabulary: bool = False  # dim 0 is padded to a multiple that depends on tp
    shared_embedding: bool = False
    buffer: bool = False  # no parameter: one state, f32, and no optimizer


@dataclass
class Tensor:
    name: str
    shape: tuple
    states: dict  # name -> dtype
    cut: Cut = field(default_factory=Cut)


@dataclass
class Piece:
    """What one rank stores of one tensor: the product of index lists (in
    padded coordinates), or the elements [lo, hi) of it flattened."""

    indices: list
    flat: tuple | None = None

    def stored(self):
        return self.flat[1] - self.flat[0] if self.flat else self.local_size()

    def local_size(self):
        return math.prod(len(index) for index in self.indices)

    def mask(self, shape):
        """The held elements of the tensor itself, padding left out."""
        if not self.flat:
            mask = np.zeros(shape, bool)
            real = [i[i < n] for i, n in zip(self.indices, shape, strict=True)]
            mask[np.ix_(*real)] = True
            return mask
        padded = [
            max([n, *(index + 1)])
            for n, index in zip(shape, self.indices, strict=True)
        ]
        numbers = np.arange(math.prod(padded)).reshape(padded)
        held = numbers[np.ix_(*self.indices)].reshape(-1)[slice(*self.flat)]
        mask = np.zeros(math.prod(padded), bool)
        mask[held] = True
        return mask.reshape(padded)[tuple(slice(n) for n in shape)]


def round_up(value, multiple):
    return -(-value // multiple) * multiple


class Sizes:
    """The parallel sizes of one side, and where each rank stands in them."""

    def __init__(self, layout):
        self.world = layout["world"]
        self.size = {axis: layout.get(axis, 1) for axis in AXES}
        self.etp = layout.get("etp", self.size["tp"])
        self.vpp = layout.get("vpp", 1)
        self.zero = layout.get("zero", 0)
        self.pp_layers = layout.get("pp_layers")
        self.devices = layout.get("devices", list(range(self.world)))
        self.order = layout.get("order", DEFAULT_ORDER).split("-")
        dense = math.prod(self.size[a] for a in AXES if a != "ep")
        expert = self.etp * self.size["ep"] * self.size["pp"]
        assert dense == self.world and self.world % expert == 0
        self.expert_dp = self.world // expert
        self.bucket_size = layout.get(
            "bucket_size", max(40_000_000, 1_000_000 * self.size["dp"])
        )

    def coordinates(self, rank, expert):
        """Coordinate of a rank on each axis of the dense or the expert grid.
        In the expert grid tp is expert-tp and dp is expert-dp."""
        if expert:
            sizes = dict.fromkeys(AXES, 1) | {
                "tp": self.etp, "ep": self.size["ep"],
                "dp": self.expert_dp, "pp": self.size["pp"],
            }  # fmt: skip
            if self.size["fsdp"] > 1:  # shards over all that is not replicated
                sizes["fsdp"] = self.expert_dp // self.size["dp"]
                sizes["dp"] = self.size["dp"]
        else:
            sizes = self.size | {"ep": 1}
        found = dict.fromkeys(AXES, 0)
        for axis in self.order:  # the first varies fastest
            rank, found[axis] = divmod(rank, sizes[axis])
        return found

    def chunk_of_layer(self, layer, num_layers):
        """(stage, chunk within the stage) of a layer: block c * pp + s of the
        layers in order is chunk c of stage s."""
        pp, blocks = self.size["pp"], self.size["pp"] * self.vpp
        sizes = self.pp_layers or [num_layers // blocks] * blocks
        assert sum(sizes) == num_layers and len(sizes) == blocks
        block = 0
        for block, size in enumerate(sizes):  # noqa: B007
            if layer < size:
                break
            layer -= size
        return block % pp, block // pp

    def chunks(self, cut, num_layers):
        """(stage, chunk) of every model chunk that holds a tensor."""
        pp = self.size["pp"]
        if cut.layer is not None:
            return {self.chunk_of_layer(cut.layer, num_layers)}
        places = {
            "first": [(0, 0)],
            "last": [(pp - 1, self.vpp - 1)],
            "every": [(stage, 0) for stage in range(pp)],
        }
        return set(itertools.chain(*(places[stage] for stage in cut.stages)))


def even_piece(extent, parts, index):
    assert extent % parts == 0, (extent, parts)
    return range(extent // parts * index, extent // parts * (index + 1))


def local_indices(tensor, sizes, at, vocab_multiple):
    """The index list per dim of a rank with coordinates `at`."""
    cut, expert = tensor.cut, tensor.cut.expert is not None
    tp_size = sizes.etp if expert else sizes.size["tp"]
    indices = [np.arange(n) for n in tensor.shape]
    if cut.vocabulary:
        multiple = vocab_multiple * sizes.size["tp"]
        indices[0] = np.arange(round_up(tensor.shape[0], multiple))
    if cut.tp is not None:
        extent = len(indices[cut.tp])
        starts = np.cumsum([0, *(cut.blocks or [extent])])
        assert starts[-1] == extent
        indices[cut.tp] = np.concatenate([
            lo + np.array(even_piece(hi - lo, tp_size, at["tp"]), int)
            for lo, hi in itertools.pairwise(starts)
        ])  # fmt: skip
    if sizes.size["fsdp"] > 1 and cut.fsdp is not None and not expert:
        extent = len(indices[cut.fsdp])
        chunk = -(-extent // sizes.size["fsdp"])
        indices[cut.fsdp] = indices[cut.fsdp][at["fsdp"] * chunk :][:chunk]
    return indices


def pieces_of_rank(tensors, sizes, rank, num_layers, vocab_multiple):
    """{tensor number: (Piece, chunks)} before ZeRO, of one rank."""
    found = {}
    for number, tensor in enumerate(tensors):
        cut = tensor.cut
        at = sizes.coordinates(rank, cut.expert is not None)
        if cut.expert is not None:
            per_rank = cut.num_experts // sizes.size["ep"]
            assert cut.num_experts % sizes.size["ep"] == 0
            if cut.expert // per_rank != at["ep"]:
                continue
        stages = sizes.chunks(cut, num_layers)
        chunks = sorted(chunk for stage, chunk in stages if stage == at["pp"])
        if not chunks:
            continue
        piece = Piece(local_indices(tensor, sizes, at, vocab_multiple))
        if piece.local_size():
            found[number] = (piece, chunks)
    return found


def zero_group(sizes, rank, expert):
    """(index, size) of a rank in the group that shares its ZeRO buckets: all
    ranks that differ in dp (and cp, for dense tensors) only, by rank."""
    mine = sizes.coordinates(rank, expert)
    key = [axis for axis in AXES if axis not in ("dp", "cp")]
    group = [
        other
        for other in range(sizes.world)
        if all(sizes.coordinates(other, expert)[a] == mine[a] for a in key)
    ]
    return group.index(rank), len(group)


def place_in_buckets(elements, alone, bucket_size, group_size):
    """[(start, bucket start, bucket end)] of each parameter of a buffer, given
    in the order of the buffer (reverse registration)."""
    alignment = math.lcm(group_size, BUCKET_ALIGNMENT)
    starts, buckets, bucket_start, end = [], [], 0, 0

    def close():
        nonlocal bucket_start, end
        if len(buckets) < len(starts):
            end = round_up(end, alignment)
            buckets.extend([(bucket_start, end)] * (len(starts) - len(buckets)))
            bucket_start = end

    for count, single in zip(elements, alone, strict=True):
        if single:
            close()
        start = round_up(end, PARAM_ALIGNMENT)
        starts.append(start)
        end = start + count
        if end - bucket_start >= bucket_size or single:
            close()
    close()
    return [(s, *bucket) for s, bucket in zip(starts, buckets, strict=True)]


def zero_ranges(tensors, pieces, sizes, rank):
    """{tensor number: (lo, hi)}: the local elements whose optimizer state this
    rank owns under ZeRO-1, as Megatron-Core's distributed optimizer cuts."""
    buffers = {}
    for number, (piece, chunks) in pieces.items():
        cut = tensors[number].cut
        if cut.buffer:
            continue
        own_grid = sizes.size["ep"] > 1 or sizes.etp != sizes.size["tp"]
        separate = cut.expert is not None and own_grid
        dtype = tensors[number].states.get("param")
        key = (chunks[-1], dtype, separate)
        buffers.setdefault(key, []).append((number, piece))
    ranges = {}
    stage = sizes.coordinates(rank, False)["pp"]
    for (chunk, _, separate), members in buffers.items():
        index, size = zero_group(sizes, rank, separate)
        # Only the first chunk of the first stage has several buckets.
        is_first = stage == 0 and chunk == 0
        members = members[::-1]
        shared = sizes.size["pp"] > 1
        placed = place_in_buckets(
            [piece.local_size() for _, piece in members],
            [shared and tensors[n].cut.shared_embedding for n, _ in members],
            sizes.bucket_size if is_first else math.inf,
            size,
        )
        for (number, piece), (start, lo, hi) in zip(
            members, placed, strict=True
        ):
            part = (hi - lo) // size
            mine = (lo + index * part - start, lo + (index + 1) * part - start)
            own = (max(0, mine[0]), min(piece.local_size(), mine[1]))
            if own[0] < own[1]:
                ranges[number] = own
    return ranges


class Side:
    """Who holds what on one side: `pieces[tensor number, state][device]` is a
    list of `Piece`."""

    def __init__(self, devices):
        self.devices = sorted(devices)
        self.pieces = {}

    def add(self, number, state, device, piece):
        by_device = self.pieces.setdefault((number, state), {})
        by_device.setdefault(device, []).append(piece)

    def mask(self, tensors, number, state, device):
        """Elements of (tensor, state) that a device holds."""
        mask = np.zeros(tensors[number].shape, bool)
        for piece in self.pieces.get((number, state), {}).get(device, []):
            mask |= piece.mask(tensors[number].shape)
        return mask

    def stored_bytes(self, tensors, device):
        """Bytes that a device stores, padding included."""
        return sum(
            piece.stored() * DTYPE_BYTES[tensors[number].states[state]]
            for (number, state), by_device in self.pieces.items()
            for piece in by_device.get(device, [])
        )


def side_of_sizes(tensors, layout, vocab_multiple):
    sizes = Sizes(layout)
    side = Side(sizes.devices)
    layers = [t.cut.layer for t in tensors if t.cut.layer is not None]
    num_layers = max(layers, default=-1) + 1
    for rank, device in enumerate(sizes.devices):
        pieces = pieces_of_rank(
            tensors, sizes, rank, num_layers, vocab_multiple
        )
        ranges = (
            zero_ranges(tensors, pieces, sizes, rank) if sizes.zero else None
        )
        for number, (piece, _) in pieces.items():
            for state in tensors[number].states:
                if ranges is None or state in ("param", "grad"):
                    side.add(number, state, device, piece)
                elif number in ranges:
                    flat = Piece(piece.indices, ranges[number])
                    side.add(number, state, device, flat)
    return side


def side_of_shards(tensors, layout):
    devices = layout.get("devices", list(range(layout["world"])))
    side = Side(devices)
    numbers = {tensor.name: number for number, tensor in enumerate(tensors)}
    for row in layout["shards"]:
        number = numbers[row["tensor"]]
        box = zip(row["offset"], row["size"], strict=True)
        piece = Piece([np.arange(lo, lo + n) for lo, n in box])
        if "range" in row:
            piece.flat = tuple(row["range"])
        for state in tensors[number].states:
            if row.get("state", state) == state:
                side.add(number, state, devices[row["rank"]], piece)
    return side


def side_of(tensors, layout, vocab_multiple=128):
    if "shards" in layout:
        return side_of_shards(tensors, layout)
    return side_of_sizes(tensors, layout, vocab_multiple)


LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?:\.|$)")


def cut_of_name(name, rule, before_first_layer):
    """The `Cut` that a rule gives to a tensor of a flat list."""
    tp = None if rule.get("replicate") else rule.get("tp")
    cut = Cut(tp=tp, blocks=rule.get("blocks"), fsdp=rule.get("fsdp", 0))
    if rule.get("replicate"):
        cut.fsdp = None
    match = LAYER.search(name)
    if match:
        cut.layer = int(match[1])
    default = "first" if before_first_layer else "last"
    cut.stages = (rule.get("stage", default),)
    if rule.get("ep"):
        cut.expert = int(re.search(r"\d+", name[match.end() :])[0])
    return cut


def cut_by_rules(named, rules):
    """Cuts of a flat list: `named` is [(name, shape)], the first rule that
    matches a name decides, of those that say more than a storage."""
    rules = [rule for rule in rules if {*rule} != {"match", "storage"}]
    has_layer = [bool(LAYER.search(name)) for name, _ in named]
    first = has_layer.index(True) if True in has_layer else len(named)
    cuts = []
    for number, (name, _) in enumerate(named):
        rule = next(r for r in rules if fnmatch.fnmatchcase(name, r["match"]))
        cuts.append(cut_of_name(name, rule, number < first))
    count = max(
        (cut.expert for cut in cuts if cut.expert is not None), default=-1
    )
    for cut in cuts:
        cut.num_experts = count + 1
    return cuts
