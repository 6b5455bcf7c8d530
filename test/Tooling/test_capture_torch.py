"""Captured layouts against what torch itself holds: tensors of global indices
are distributed for every rank of a fake process group, and each rank's local
tensor must have the indices of the boxes that capture gives it."""

import math
import os
import pickle
import random
import traceback

import pytest
from made_once import made_once
from test_capture import capture

torch = pytest.importorskip("torch")
fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
tensors = pytest.importorskip("torch.distributed.tensor")
types = pytest.importorskip("torch.distributed.tensor.placement_types")

import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

Shard, Replicate = tensors.Shard, tensors.Replicate
Strided = types._StridedShard
SEEDS = range(60)
MOST_RANKS = 24


def indices(shape):
    return torch.arange(float(math.prod(shape))).view(shape)


# Every rank's view ----------------------------------------------------------


def seen_by(rank, world, make):
    """What a rank captures of make() = {name: DTensor}, and its own values."""
    dist.init_process_group(
        "fake", store=fake.FakeStore(), rank=rank, world_size=world
    )
    try:
        made = make()
        values = {
            name: tensor.to_local().detach().flatten().tolist()
            for name, tensor in made.items()
        }
        return capture.from_dtensors(made, world), values
    finally:
        dist.destroy_process_group()


def in_child(body):
    """A pipe that will hold what body() returns in a process of its own."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = "value", body()
        except BaseException:
            answer = "error", traceback.format_exc()
        with os.fdopen(theirs, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        kind, value = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    assert kind == "value", value
    return value


def observe(cases):
    """`seen_by` of every rank, {case: [rank's, ...]}, for {case: (world,
    make)}. A process stands for one rank only: torch keeps meshes, and with
    them the rank, in its caches."""
    seen = {case: [] for case in cases}
    for rank in range(max(world for world, _ in cases.values())):
        mine = {c: case for c, case in cases.items() if rank < case[0]}
        views = in_child(
            lambda rank=rank, mine=mine: {
                case: seen_by(rank, *mine[case]) for case in mine
            }
        )
        for case, view in views.items():
            seen[case].append(view)
    return seen


def elements_of(layout, name, rank):
    """The elements that capture gives a rank, in the order of a local tensor
    whose intervals ascend in each dim."""
    shape, _ = layout.tensors[name]
    held = torch.zeros(shape, dtype=torch.bool)
    for row in layout.rows:
        if (row["tensor"], row["rank"]) == (name, rank):
            box = zip(row["offset"], row["size"], strict=True)
            held[tuple(slice(lo, lo + size) for lo, size in box)] = True
    return indices(shape)[held].tolist()


def check(seen):
    """What each rank captures is what all the ranks hold that it tells of;
    what they capture together is all."""
    layouts = [layout for layout, _ in seen]
    merged = capture.merge(layouts)
    assert not merged.unknown
    for layout in [*layouts, merged]:
        for rank in set(range(layout.world)) - set(layout.unknown):
            for name, found in seen[rank][1].items():
                assert found == elements_of(layout, name, rank), (rank, name)


# distribute_tensor ----------------------------------------------------------


def random_sizes(rng):
    """Of a mesh: 1 to 3 dims, powers of two or not."""
    count = rng.randint(1, 3)
    sizes = [rng.choice([1, 2, 2, 3, 3, 4, 5]) for _ in range(count)]
    return sizes if math.prod(sizes) <= MOST_RANKS else random_sizes(rng)


def random_placements(rng, sizes, ndim):
    """Any that torch knows, _StridedShard of any factor among them."""
    kinds = [
        lambda: Replicate(),
        lambda: Shard(rng.randrange(ndim)),
        lambda: Shard(rng.randrange(ndim)),
        lambda: Strided(rng.randrange(ndim), split_factor=rng.randint(2, 4)),
    ]
    return [rng.choice(kinds)() for _ in sizes]


def readings_differ(placements, sizes, shape):
    """Whether FSDP2 says something else with these words (tested below)."""
    plain = [capture.tensors.placement_of(p, len(shape)) for p in placements]
    first, *others = capture.tensors.readings(plain, sizes)
    return any(
        capture.tensors.cut_at(shape, first, sizes, at)
        != capture.tensors.cut_at(shape, cuts, sizes, at)
        for cuts in others
        for at in capture.tensors.mesh_grid(torch.zeros(sizes))[0]
    )


def distributed_case(seed):
    rng = random.Random(seed)
    sizes, chosen = random_sizes(rng), {}
    while len(chosen) < 8:
        shape = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
        placements = random_placements(rng, sizes, len(shape))
        if not readings_differ(placements, sizes, shape):
            chosen[f"{shape} {placements}"] = shape, placements

    def make():
        mesh = init_device_mesh("cpu", tuple(sizes))
        return {
            name: tensors.distribute_tensor(
                indices(shape), mesh, placements, src_data_rank=None
            )
            for name, (shape, placements) in chosen.items()
        }

    return math.prod(sizes), make


# FSDP2 ----------------------------------------------------------------------

FSDP_MESHES = [
    ["dp"], ["rep", "dp"], ["dp", "tp"], ["dp", "tp"], ["rep", "dp", "tp"],
    ["dp", "ep", "tp"], ["rep", "dp", "ep", "tp"],
]  # fmt: skip


def random_fsdp(rng):
    """Names and sizes of a mesh, the dim that FSDP cuts, and per parameter its
    shape and how tensor parallelism cuts it before."""
    names = rng.choice(FSDP_MESHES)
    inner = [name for name in names if name in ("ep", "tp")]
    sizes = [rng.choice([2, 2, 3, 4]) for _ in names]
    if math.prod(sizes) > MOST_RANKS:
        sizes = [2] * len(names)
    dim = rng.choice([0, 0, 1])
    parameters = {}
    for number in range(5):
        shape = [rng.randint(1, 14), rng.randint(1, 5)]
        if dim:
            # FSDP2 wants equal chunks in all dims but the first.
            shape[1] = rng.randint(1, 2) * math.prod(sizes)
        cuts = rng.choice(
            [
                [Shard(rng.choice([0, 0, 1])) for _ in inner],
                [Shard(0) for _ in inner],
                [Replicate() for _ in inner],
                None,
            ]
        )
        parameters[f"p{number}"] = shape, cuts
    return names, sizes, dim, parameters


def fsdp_module(names, sizes, dim, parameters):
    """Parameters of a module that tensor parallelism and then FSDP2 cut; those
    that the first leaves alone lie on a sub-mesh."""
    mesh = init_device_mesh("cpu", tuple(sizes), mesh_dim_names=names)
    module = torch.nn.Module()
    inner = tuple(name for name in names if name in ("ep", "tp"))
    outer = tuple(name for name in names if name not in inner)
    for name, (shape, cuts) in parameters.items():
        full = indices(shape)
        if cuts:
            full = tensors.distribute_tensor(
                full, mesh[inner], cuts, src_data_rank=None
            )
        setattr(module, name, torch.nn.Parameter(full))
    fully_shard(
        module, mesh=mesh[outer], shard_placement_fn=lambda _: Shard(dim)
    )
    return dict(module.named_parameters())


def fsdp_case(seed):
    chosen = random_fsdp(random.Random(seed))
    return math.prod(chosen[1]), lambda: fsdp_module(*chosen)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    cases = {("distributed", seed): distributed_case(seed) for seed in SEEDS}
    cases |= {("fsdp", seed): fsdp_case(seed) for seed in SEEDS}
    return made_once(tmp_path_factory, "seen-by-torch", lambda: observe(cases))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_placements_hold_what_distribute_tensor_gives(seed, seen):
    check(seen["distributed", seed])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_modules_hold_what_fsdp2_gives(seed, seen):
    check(seen["fsdp", seed])
