"""Random views: each side has tensors of its own, made of the model's.

A case is a model, and for each side a random way to take its tensors apart
(blocks of a dim in any order, a dim as one tensor per index, zeros between,
dims in another order) or to have several in one, and to lay them out (explicit
shards with ranges, or sizes with ZeRO-1). The plan is compiled, verified, held
to the lower bound and run with every byte checked. What each device stores is
compared with numpy: own tensors are gathered from arrays of element numbers,
cut as the request says, and must be, element by element, what the program of
that device says that it has.

A failing case prints its seed; `--seed S --first N --count 1` runs it again.
"""

import argparse
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


@dataclass
class Own:
    """A tensor of one side: element numbers of the model's, or PADDING."""

    name: str
    base: str
    elements: np.ndarray
    dims: list  # of the model's tensor, as its own


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
        (
            [{"from": lo, "size": hi - lo, "step": group, "count": count}],
            [g * group + i for g in range(count) for i in range(lo, hi)],
        )
        for lo, hi in ((0, cut), (cut, group))
    ]


def parts_of(rng, size):
    """[(take, rows)] of a dim: what some tensors take of it."""
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
            take.insert(at, {"zeros": zeros})
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


def add_views(rng, side, name, layers, numbers, prefix, base=None):
    """Takes a tensor of the model apart for a side, in all layers alike; `*` in
    the name is the layer's number. Elements are numbered as those of `base`,
    which may be more."""
    shape = numbers.shape

    def add(own, elements, places):
        for layer in layers:
            number = str(layer)
            side.owns.append(
                Own(
                    own.replace("*", number),
                    (base or name).replace("*", number),
                    elements,
                    places,
                )
            )

    if rng.random() < 0.15:
        return add(name, numbers, list(range(len(shape))))
    each = rng.randrange(len(shape)) if rng.random() < 0.3 else None
    dims = [d for d in range(len(shape)) if d != each]
    dim = rng.choice(dims) if dims and rng.random() < 0.8 else None
    order = rng.sample(dims, len(dims)) if rng.random() < 0.5 else None
    parts = parts_of(rng, shape[dim]) if dim is not None else [(None, None)]
    for take, rows in parts:
        own = f"{name}.{prefix}{letter(len(side.views))}"
        entry = {"of": name, "tensor": own}
        if take:
            entry |= {"dim": dim, "take": take}
        part = taken(numbers, dim, rows) if take else numbers
        if order:
            entry["permute"] = order
        places = order or dims
        if each is None:
            add(own, part.transpose(places), places)
        else:
            entry |= {"each": each, "tensor": own + ".of{}"}
            part = part.transpose([each, *places])
            for k in range(shape[each]):
                add(f"{own}.of{k}", part[k], places)
        side.views.append(entry)


def add_joined(rng, sides, name, layers, shape):
    """Tensors of the list that one side has as one, under `name`; the other
    takes them apart. Returns their shapes, by name."""
    dim = rng.choice([d for d in range(len(shape)) if shape[d] > 1])
    cut = rng.randint(1, shape[dim] - 1)
    numbers = numbers_of(shape)
    parts = dict(
        zip((f"{name}.pa", f"{name}.pb"), np.split(numbers, [cut], dim),
            strict=True)
    )  # fmt: skip
    joins = rng.choice(["source", "destination", "both"])
    for prefix, side in (("s", sides["source"]), ("d", sides["destination"])):
        if joins not in ("both", "source" if prefix == "s" else "destination"):
            for part, own in parts.items():
                add_views(rng, side, part, layers, own, prefix, base=name)
            continue
        side.views.append({"concat": list(parts), "tensor": name, "dim": dim})
        side.owns += [
            Own(name.replace("*", str(layer)), name.replace("*", str(layer)),
                numbers, list(range(len(shape))))
            for layer in layers
        ]  # fmt: skip
    return {part: list(own.shape) for part, own in parts.items()}


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
        size = int(np.prod(shape)) if by_range else shape[dim]
        cuts = sorted(rng.randint(0, size) for _ in range(pieces - 1))
        for rank, lo, hi in zip(ranks, [0, *cuts], [*cuts, size], strict=True):
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


def sized_layout(rng, side, world):
    """Tensor parallelism where it divides, the rest replicated or ZeRO-1."""
    tp = rng.choice([n for n in range(1, world + 1) if world % n == 0])
    rules = []
    for own in side.owns:
        dims = [d for d, n in enumerate(own.elements.shape) if n % tp == 0]
        cut = rng.choice(dims) if dims and rng.random() < 0.8 else None
        rules.append(
            {"match": own.name, "tp": cut, "fsdp": None, "stage": "every"}
        )
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
    for pattern, shape in patterns.items():
        if max(shape) > 1 and rng.random() < 0.3:
            listed |= add_joined(rng, sides, pattern, layers, shape)
            continue
        listed[pattern] = shape
        for name, side in sides.items():
            add_views(rng, side, pattern, layers, numbers_of(shape), name[0])
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
            if rule["tp"] is not None:
                part = np.array_split(part, tp, axis=rule["tp"])[rank % tp]
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
    for program in programs:
        rank = program[f"{name}_rank"]
        for shard in (m for s in program[name] for m in members(s)):
            key = own_name(shard), rank
            numbers = stored(shard, shapes)
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

    def part(array, row, dims):
        box = zip(row["offset"], row["size"], strict=True)
        own = array[tuple(slice(o, o + s) for o, s in box)]
        return own.transpose(np.argsort(dims)).ravel().tolist()

    for row in rows:
        shape = shapes[row["tensor"]]
        numbers = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
        want = part(numbers, row, range(len(shape)))
        for side in ("source", "destination"):
            if side in row:
                tensor = owns[side][row[side]["tensor"]]
                own = part(tensor.elements, row[side], tensor.dims)
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
