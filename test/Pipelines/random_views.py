"""Random views: each side has tensors of its own, made of the model's.

A case is a model, and for each side a random way to take its tensors apart
(blocks of a dim in any order, a dim as one tensor per index, zeros between,
dims in another order, dims parted and several in one, padding of some value) or
to have several tensors in one, and to lay them out (explicit shards with
ranges, or sizes with ZeRO-1). The plan is compiled, verified, held to the lower
bound and run with every byte checked. What each device stores is compared with
numpy: own tensors are gathered from arrays of element numbers, cut as the
request says, and must be, element by element, what the program of that device
says that it has.

A failing case prints its seed; `--seed S --first N --count 1` runs it again.
"""

import argparse
import itertools
import json
import random
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from plan_tools import Tools, print_closing_line

PADDING = -1
STATES = {"param": "bf16", "master": "f32", "exp_avg": "f32"}
FILLS = [0, 1, -1, 0.1, -1 / 3, 3.3e38, "inf", "-inf", -0.0, 1e-40]


@dataclass
class Own:
    """A tensor of one side: element numbers of the model's, or PADDING."""

    name: str
    base: str
    elements: np.ndarray
    parts: list  # per dim, the sizes of those of the plan's that it is made of
    fill: object = None  # of its entry


def letter(number):
    """Names without numbers, so that families form over layers alone."""
    return chr(ord("a") + number // 26) + chr(ord("a") + number % 26)


@dataclass
class Side:
    views: list = field(default_factory=list)
    owns: list = field(default_factory=list)
    layout: dict = field(default_factory=dict)


def blocks_of(rng, size):
    """Parts of [0, size), cut at random places, mostly in a random order."""
    count = rng.randint(1, min(size, 5))
    cuts = sorted(rng.sample(range(1, size), count - 1))
    blocks = list(zip([0, *cuts], [*cuts, size], strict=True))
    if rng.random() < 0.7:
        rng.shuffle(blocks)
    return blocks


def groups_of(rng, size):
    """[(take, rows)]: what is interleaved by groups, each part by itself."""
    counts = [n for n in (2, 3, 4) if size % n == 0 and size // n > 1]
    if not counts:
        return None
    count = rng.choice(counts)
    group = size // count
    cut = rng.randint(1, group - 1)
    return [
        rows_of_groups(lo, hi, group, count)
        for lo, hi in ((0, cut), (cut, group))
    ]


def rows_of_groups(lo, hi, group, count):
    """(take, rows): the same rows of each group."""
    return (
        [{"from": lo, "size": hi - lo, "step": group, "count": count}],
        [g * group + i for g in range(count) for i in range(lo, hi)],
    )


def parts_of_parted(rng, sizes):
    """The same, of a dim that the plan has as several: parts of one of them."""
    level = rng.randrange(len(sizes))
    count = int(np.prod(sizes[:level]))
    below = int(np.prod(sizes[level + 1 :]))
    group = sizes[level] * below
    return [
        rows_of_groups(lo * below, hi * below, group, count)
        for lo, hi in blocks_of(rng, sizes[level])
    ]


def parting_of(rng, shape):
    """{dim: sizes} of some dims, or {}: within the limit of 6 dims."""
    parting, rank = {}, len(shape)
    for dim, size in enumerate(shape):
        sizes = []
        while size > 1 and rng.random() < 0.7 and rank < 6:
            divisor = rng.choice([n for n in range(1, size) if size % n == 0])
            sizes, size, rank = [*sizes, size // divisor], divisor, rank + 1
        if sizes:
            parting[dim] = [*sizes, size]
    return parting


def with_one_open(rng, sizes):
    """As a request says them, one perhaps as -1."""
    at = rng.randrange(len(sizes)) if rng.random() < 0.5 else None
    return [-1 if i == at else size for i, size in enumerate(sizes)]


def flatten_of(rng, rank):
    """Some [first, last] of dims that become one."""
    out, at = [], 0
    while at + 1 < rank:
        count = rng.randint(1, rank - at)
        if count > 1:
            out.append([at, at + count - 1])
        at += count
    return out


def flattened(own, flatten):
    """The tensor with each [first, last] of its dims as one."""
    shape, parts, at = [], [], 0
    for first, last in [*flatten, [own.elements.ndim] * 2]:
        for dims in [[d] for d in range(at, first)] + [range(first, last + 1)]:
            dims = [d for d in dims if d < own.elements.ndim]
            if dims:
                shape.append(
                    int(np.prod([own.elements.shape[d] for d in dims]))
                )
                parts.append(sum((own.parts[d] for d in dims), []))
        at = last + 1
    elements = own.elements.reshape(shape)
    return Own(own.name, own.base, elements, parts, own.fill)


def is_product(parts, rows):
    """Whether rows of a dim are a product of rows of what it is made of."""
    places = np.unravel_index(rows, parts)
    return len(rows) == np.prod([len(set(p.tolist())) for p in places])


def parts_of(rng, sizes):
    """[(take, rows)] of a dim: what some tensors take of it."""
    if len(sizes) > 1:
        return parts_of_parted(rng, sizes)
    (size,) = sizes
    grouped = groups_of(rng, size) if rng.random() < 0.4 else None
    if grouped:
        if rng.random() < 0.5:  # both in one tensor, part after part
            return [
                (
                    sum((t for t, _ in grouped), []),
                    sum((r for _, r in grouped), []),
                )
            ]
        return grouped
    blocks = blocks_of(rng, size)
    parts = []
    while blocks:
        own = [blocks.pop() for _ in range(rng.randint(1, len(blocks)))]
        take, rows = [list(b) for b in own], []
        for lo, hi in own:
            rows += range(lo, hi)
        if rng.random() < 0.2:
            zeros = rng.randint(1, 3)
            at = rng.randint(0, len(take))
            before = sum(hi - lo for lo, hi in own[:at])
            take.insert(at, {"padding": zeros})
            rows[before:before] = [PADDING] * zeros
        parts.append((take, rows))
    return parts


def taken(numbers, dim, rows):
    """Rows of a dim, PADDING where a row is none."""
    out = np.take(numbers, [max(row, 0) for row in rows], axis=dim)
    holes = [i for i, row in enumerate(rows) if row == PADDING]
    index = [slice(None)] * out.ndim
    index[dim] = holes
    out[tuple(index)] = PADDING
    return out


def numbers_of(shape):
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


def sizes_of(shape, parting, says):
    """Per dim that entries count, the sizes of the plan's that it is."""
    sizes = [[size] for size in shape]
    for dim, parts in parting.items():
        sizes[dim] = parts
    if says:
        return [[size] for parts in sizes for size in parts]
    return sizes


def sizes_taken(rows, sizes):
    """The same of a dim of which these rows are taken."""
    if len(sizes) == 1:
        return [len(rows)]
    places = np.unravel_index(rows, sizes)
    return [len(set(place.tolist())) for place in places]


def add_owns(side, name, base, layers, elements, parts, flatten, fill=None):
    """One tensor for each layer."""
    for layer in layers:
        names = (each.replace("*", str(layer)) for each in (name, base))
        own = Own(*names, elements, parts, fill)
        side.owns.append(flattened(own, flatten))


def fill_of(rng, take):
    """What padding of a view holds: a word of its entry, or none."""
    if rng.random() < 0.5:
        return rng.choice(FILLS)
    if rng.random() < 0.5:
        states = rng.sample(list(STATES), rng.randint(1, len(STATES)))
        return {state: rng.choice(FILLS) for state in states}
    for part in take or []:
        if isinstance(part, dict) and "padding" in part:
            part["zeros"] = part.pop("padding")
    return None


def element_bits(state, fill):
    """The bits of an element of padding of a state, by numpy."""
    if not isinstance(fill, dict):
        fill = {} if fill is None else {"param": fill, "master": fill}
    bits = int(np.float32(fill.get(state, 0)).view(np.uint32))
    if STATES[state] == "f32":
        return bits
    rest, bits = bits & 0xFFFF, bits >> 16  # to bf16, ties to even
    return bits + (rest > 0x8000 or (rest == 0x8000 and bits & 1))


def add_views(
    rng, side, name, layers, numbers, prefix,
    base=None, parting=None, says=False,
):  # fmt: skip
    """Takes a tensor of the model apart for a side, in all layers alike; `*` in
    the name is the layer's number. Elements are numbered as those of `base`,
    which may be more. The plan has dims as those of `parting`; so have the
    entries of this side, if it says so."""
    sizes = sizes_of(numbers.shape, parting or {}, says)
    if says:
        numbers = numbers.reshape([size for (size,) in sizes])
    shape = numbers.shape

    def add(own, elements, parts, flatten=(), fill=None):
        base_name = base or name
        add_owns(side, own, base_name, layers, elements, parts, flatten, fill)

    if not says and rng.random() < 0.15:
        return add(name, numbers, sizes)
    each = rng.randrange(len(shape)) if rng.random() < 0.3 else None
    dims = [d for d in range(len(shape)) if d != each]
    dim = rng.choice(dims) if dims and rng.random() < 0.8 else None
    order = rng.sample(dims, len(dims)) if rng.random() < 0.5 else None
    places = order or dims
    flatten = flatten_of(rng, len(dims)) if rng.random() < 0.4 else []
    words = {"permute": order, "flatten": flatten, "each": each}
    words = {key: word for key, word in words.items() if word not in (None, [])}
    if says:
        words["unflatten"] = {
            str(d): with_one_open(rng, parts) for d, parts in parting.items()
        }
    for take, rows in (
        parts_of(rng, sizes[dim]) if dim is not None else [(0, 0)]
    ):
        own = f"{name}.{prefix}{letter(len(side.views))}"
        entry = {"of": name, "tensor": own} | words
        if (fill := fill_of(rng, take)) is not None:
            entry["fill"] = fill
        part, parts = numbers, list(sizes)
        if take:
            entry |= {"dim": dim, "take": take}
            part = taken(numbers, dim, rows)
            parts[dim] = sizes_taken(rows, sizes[dim])
        parts = [parts[d] for d in places]
        if each is None:
            add(own, part.transpose(places), parts, flatten, fill)
        else:
            entry["tensor"] = own + ".of{}"
            part = part.transpose([each, *places])
            for k in range(shape[each]):
                add(f"{own}.of{k}", part[k], parts, flatten, fill)
        side.views.append(entry)


def add_joined(rng, sides, name, layers, shape):
    """Tensors of the list that one side has as one, under `name`; the other
    takes them apart. Returns their shapes, by name, and that of the plan's."""
    dim = rng.choice([d for d in range(len(shape)) if shape[d] > 1])
    parting = parting_of(rng, shape) if rng.random() < 0.5 else {}
    # Both have whole rows of what is parted.
    row = int(np.prod(parting.get(dim, [])[1:]))
    if row == shape[dim]:
        parting, row = {}, 1
    cut = row * rng.randint(1, shape[dim] // row - 1)
    numbers = numbers_of(shape)
    parts = dict(
        zip((f"{name}.pa", f"{name}.pb"), np.split(numbers, [cut], dim),
            strict=True)
    )  # fmt: skip
    joins = rng.choice(["source", "destination", "both"])
    if joins == "both":
        parting = {}
    saying = rng.choice([[0], [1], [0, 1]])  # what is said of one is of both
    for prefix, side in (("s", sides["source"]), ("d", sides["destination"])):
        if joins not in ("both", "source" if prefix == "s" else "destination"):
            for number, (part, own) in enumerate(parts.items()):
                own_parting = dict(parting)
                if dim in parting:
                    first = own.shape[dim] // row
                    own_parting[dim] = [first, *parting[dim][1:]]
                add_views(
                    rng, side, part, layers, own, prefix, base=name,
                    parting=own_parting,
                    says=bool(parting) and number in saying,
                )  # fmt: skip
            continue
        side.views.append({"concat": list(parts), "tensor": name, "dim": dim})
        side.owns += [
            Own(name.replace("*", str(layer)), name.replace("*", str(layer)),
                numbers, sizes_of(shape, parting, False))
            for layer in layers
        ]  # fmt: skip
    plan = sum(sizes_of(shape, parting, False), [])
    return {part: list(own.shape) for part, own in parts.items()}, plan


def cuts_of(rng, own, dim, pieces):
    """Ends of random pieces of a dim, each of which a shard can be."""
    parts = own.parts[dim]
    size = own.elements.shape[dim]
    for unit in (1, 1, int(np.prod(parts[1:]))):
        cuts = [unit * rng.randint(0, size // unit) for _ in range(pieces - 1)]
        ends = [0, *sorted(cuts), size]
        if all(
            is_product(parts, np.arange(lo, hi))
            for lo, hi in itertools.pairwise(ends)
            if lo < hi
        ):
            return ends
    raise AssertionError("rows of the slowest part are a product")


def explicit_layout(rng, side, world):
    """Rows of shards: each tensor is cut along one dim, or by ranges."""
    rows = []
    for own in side.owns:
        shape = own.elements.shape
        pieces = rng.randint(1, world)
        replicas = rng.random() < 0.3
        ranks = [rng.randrange(world) for _ in range(pieces)]
        dim = rng.randrange(len(shape)) if shape else None
        by_range = dim is None or rng.random() < 0.3
        if by_range:
            size = int(np.prod(shape))
            cuts = sorted(rng.randint(0, size) for _ in range(pieces - 1))
            ends = [0, *cuts, size]
        else:
            ends = cuts_of(rng, own, dim, pieces)
        for rank, (lo, hi) in zip(ranks, itertools.pairwise(ends), strict=True):
            offset, extent = [0] * len(shape), list(shape)
            row = {"tensor": own.name, "rank": rank}
            if by_range:
                row["range"] = [lo, hi]
            else:
                offset[dim], extent[dim] = lo, hi - lo
            row |= {"offset": offset, "size": extent}
            rows.append(row)
            other = (rank + 1) % world
            if replicas and other not in ranks:
                rows.append(row | {"rank": other})
    side.layout = {"world": world, "shards": rows}


def tp_cuts(own, tp):
    """[(dim, blocks)] by which tensor parallelism can cut the tensor."""
    found = []
    for dim, size in enumerate(own.elements.shape):
        for count in {1, *np.cumprod(own.parts[dim][:-1]).tolist()}:
            blocks = [size // count] * count
            if blocks[0] % tp == 0 and all(
                is_product(own.parts[dim], rows_of_rank(blocks, tp, rank))
                for rank in range(tp)
            ):
                found.append((dim, blocks))
    return found


def rows_of_rank(blocks, tp, rank):
    rows = np.arange(sum(blocks))
    return np.concatenate(
        [
            np.array_split(block, tp)[rank]
            for block in np.split(rows, np.cumsum(blocks)[:-1])
        ]
    )


def sized_layout(rng, side, world):
    """Tensor parallelism where it divides, the rest replicated or ZeRO-1."""
    tp = rng.choice([n for n in range(1, world + 1) if world % n == 0])
    rules = []
    for own in side.owns:
        rule = {"match": own.name, "tp": None, "fsdp": None, "stage": "every"}
        found = tp_cuts(own, tp)
        if found and rng.random() < 0.8:
            dim, blocks = rng.choice(found)
            rule["tp"] = dim
            if len(blocks) > 1:
                rule["blocks"] = blocks
        rules.append(rule)
    side.layout = {"world": world, "tp": tp, "dp": world // tp, "rules": rules}
    if rng.random() < 0.5:
        side.layout |= {"zero": 1, "bucket_size": rng.choice([16, 64, 4096])}


def random_case(rng):
    layers = range(rng.choice([1, 2, 3]))
    patterns = {}
    for i in range(rng.randint(1, 4)):
        dims = [
            rng.choice([1, 2, 3, 4, 6, 8, 12]) for _ in range(rng.randint(1, 3))
        ]
        patterns[f"layers.*.w{letter(i)}"] = dims
    sides = {"source": Side(), "destination": Side()}
    listed = {}
    for pattern, shape in list(patterns.items()):
        if max(shape) > 1 and rng.random() < 0.3:
            parts, whole = add_joined(rng, sides, pattern, layers, shape)
            listed |= parts
            patterns[pattern] = whole
            continue
        listed[pattern] = shape
        parting = parting_of(rng, shape) if rng.random() < 0.5 else {}
        saying = rng.choice(["source", "destination", "both"])
        for name, side in sides.items():
            says = bool(parting) and saying in (name, "both")
            add_views(
                rng, side, pattern, layers, numbers_of(shape), name[0],
                parting=parting, says=says,
            )  # fmt: skip
        patterns[pattern] = sum(
            (parting.get(d, [size]) for d, size in enumerate(shape)), []
        )
    tensors = [
        {"name": name.replace("*", str(layer)), "shape": shape, "dtype": "bf16"}
        for layer in layers
        for name, shape in listed.items()
    ]
    for side in sides.values():
        world = rng.randint(1, 5)
        rng.choice([explicit_layout, sized_layout])(rng, side, world)
        side.layout["views"] = side.views
    request = {
        "model": {"tensors": tensors},
        "state": STATES,
        "source": sides["source"].layout,
        "destination": sides["destination"].layout,
        "cluster": {"devices_per_node": rng.choice([1, 2, 4])},
        "memory": {
            "staging": rng.choice(["64KiB", "1MiB"]),
            "mode": rng.choice(["rollback", "rollback", "flat"]),
        },
    }
    shapes = {
        name.replace("*", str(layer)): shape
        for layer in layers
        for name, shape in patterns.items()
    }
    return request, sides, shapes


def held_by_rows(side):
    """{(tensor, rank): [element numbers of each shard]} of explicit shards."""
    held = {}
    owns = {own.name: own for own in side.owns}
    for row in side.layout["shards"]:
        box = tuple(
            slice(o, o + s)
            for o, s in zip(row["offset"], row["size"], strict=True)
        )
        part = owns[row["tensor"]].elements[box].ravel()
        if "range" in row:
            part = part[slice(*row["range"])]
        if part.size:
            key = row["tensor"], row["rank"]
            held.setdefault(key, []).append(part)
    return held


def held_by_sizes(side):
    """The same of the states that sizes alone cut: param."""
    held = {}
    tp = side.layout["tp"]
    for own, rule in zip(side.owns, side.layout["rules"], strict=True):
        for rank in range(side.layout["world"]):
            part = own.elements
            if (dim := rule["tp"]) is not None:
                blocks = rule.get("blocks", [part.shape[dim]])
                part = part.take(rows_of_rank(blocks, tp, rank % tp), dim)
            held[own.name, rank] = [part.ravel()]
    return held


def own_name(shard):
    """Name of the tensor that a shard of one member is of."""
    own = shard.get(
        "view", {"name": shard["family"], "numbers": shard["numbers"]}
    )
    name = own["name"]
    for numbers in own["numbers"]:
        name = name.replace("{}", str(numbers[0]), 1)
    return name


def stored(shard, shapes):
    """Element numbers that a shard of a dump says that it stores, in order."""
    name = shard["family"]
    for numbers in shard["numbers"]:
        name = name.replace("{}", str(numbers[0]), 1)
    shape = shapes[name]
    leading = len(shard["numbers"])
    rows = [
        np.concatenate([np.arange(lo, hi) for lo, hi in dim] or [np.arange(0)])
        for dim in shard["dims"][leading:]
    ]
    numbers = np.zeros([len(r) for r in rows], dtype=np.int64)
    inside = np.ones(numbers.shape, dtype=bool)
    for grid, size in zip(
        np.meshgrid(*rows, indexing="ij"), shape, strict=True
    ):
        numbers = numbers * size + grid
        inside &= grid < size
    numbers = np.where(inside, numbers, PADDING)
    if order := shard.get("view", {}).get("permute"):
        left_out = [dim for dim in range(numbers.ndim) if dim not in order]
        numbers = numbers.transpose([*left_out, *order])
    numbers = numbers.ravel()
    return numbers[slice(*shard["range"])] if "range" in shard else numbers


def own_stored(shard, own):
    """The same by what it says that it has of its own tensor."""
    if "view" not in shard:
        return None
    view = shard["view"]
    assert view["shape"] == list(own.elements.shape), view
    bits = {state: element_bits(state, own.fill) for state in STATES}
    fill = {state: f"{number:#x}" for state, number in bits.items() if number}
    assert view.get("fill", {}) == fill, f"{view}, expected {fill}"
    part = own.elements
    for dim, intervals in enumerate(view["dims"]):
        rows = [np.arange(lo, hi) for lo, hi in intervals]
        part = part.take(np.concatenate([*rows, np.arange(0)]), dim)
    part = part.ravel()
    return part[slice(*shard["range"])] if "range" in shard else part


def members(shard):
    """A shard of a family as one shard per member."""
    counts = [len(numbers) for numbers in shard["numbers"]]
    for index in np.ndindex(*counts):
        one = dict(shard)
        one["numbers"] = [
            [n[i]] for n, i in zip(shard["numbers"], index, strict=True)
        ]
        if "view" in shard:
            one["view"] = dict(shard["view"])
            one["view"]["numbers"] = [
                [n[i]]
                for n, i in zip(shard["view"]["numbers"], index, strict=True)
            ]
        yield one


def compare_side(name, side, programs, shapes):
    """What each rank stores, against numpy."""
    explicit = "shards" in side.layout
    expected = held_by_rows(side) if explicit else held_by_sizes(side)
    cut_by_zero = {"master", "exp_avg"} if "zero" in side.layout else set()
    found, owned = {state: {} for state in STATES}, {}
    owns = {own.name: own for own in side.owns}
    for program in programs:
        rank = program[f"{name}_rank"]
        for shard in (m for s in program[name] for m in members(s)):
            key = own_name(shard), rank
            numbers = stored(shard, shapes)
            by_own = own_stored(shard, owns[key[0]])
            assert by_own is None or by_own.tolist() == numbers.tolist(), shard
            for state in shard["states"]:
                owned.setdefault((key[0], state), []).append(numbers)
                if numbers.size:
                    found[state].setdefault(key, []).append(numbers)
    for state in STATES.keys() - cut_by_zero:
        assert found[state].keys() == expected.keys(), (
            f"{name}: {sorted(found[state].keys() ^ expected.keys())}"
        )
        for key, parts in expected.items():
            want = sorted(p.tolist() for p in parts)
            have = sorted(p.tolist() for p in found[state][key])
            assert want == have, f"{name} {key}: {have}, expected {want}"
    # Ranges of ZeRO-1 are ranges of the own tensor.
    for own in side.owns:
        wanted = set(own.elements.ravel().tolist()) - {PADDING}
        for state in STATES:
            parts = owned.get((own.name, state), [])
            have = set(np.concatenate(parts or [np.arange(0)]).tolist())
            assert have - {PADDING} == wanted, f"{name} {own.name} {state}"


def check_deliveries(rows, sides, shapes):
    """The same elements by all three names of a delivery."""
    owns = {
        name: {own.name: own for own in side.owns}
        for name, side in sides.items()
    }

    def part(array, row):
        box = zip(row["offset"], row["size"], strict=True)
        array = array.reshape(row.get("reshape", array.shape))
        return sorted(array[tuple(slice(o, o + s) for o, s in box)].ravel())

    for row in rows:
        want = part(numbers_of(shapes[row["tensor"]]), row)
        for side in ("source", "destination"):
            if side in row:
                tensor = owns[side][row[side]["tensor"]]
                own = part(tensor.elements, row[side])
                assert own == want, f"delivery {row}"
            else:
                assert row["tensor"] in owns[side], f"delivery {row}"


def check_case(tools, request, sides, shapes, folder):
    path, plan = folder / "request.json", folder / "plan.dtplan"
    path.write_text(json.dumps(request, indent=1))
    tools.compile(path, plan)
    tools.output("dt-plan", "verify", plan)
    moved = tools.json("dt-plan", "inspect", plan, "--json")["bytes"]
    assert moved["wire"] == moved["wire_lower_bound"], moved
    run = tools.json("dt-run", plan, "--check", "--json")
    assert run["ok"] and run["mismatches"] == 0 and run["bytes_checked"], run
    devices = range(max(s.layout["world"] for s in sides.values()))
    programs = [
        tools.json("dt-plan", "dump", plan, "--rank", device, "--json")
        for device in devices
    ]
    for name, side in sides.items():
        compare_side(name, side, programs, shapes)
    check_deliveries(tools.deliveries(plan), sides, shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}")
    tools, failed = Tools(options.bin), 0
    for number in range(options.first, options.first + options.count):
        request, sides, shapes = random_case(random.Random(f"{seed}/{number}"))
        with tempfile.TemporaryDirectory() as folder:
            try:
                check_case(tools, request, sides, shapes, Path(folder))
            except Exception:
                failed += 1
                print(f"case {number} of seed {seed}:")
                traceback.print_exc(limit=-1)
                print(json.dumps(request))
    return print_closing_line(options.count - failed, failed)


if __name__ == "__main__":
    raise SystemExit(main())
