"""What processes held before and after each switch, on disk, and whether all of
it is right: every tensor is put together from the parts of the old world, and
each part of the new world must be a slice of that, bit for bit."""

import math
from pathlib import Path

import torch
from dynatrain.capture import Piece
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import (
    compute_local_shape_and_global_offset,
)


def part_of(value):
    """(full shape, offset, size, range, values) of a tensor or a `Piece`; of a
    DTensor as torch says it."""
    if isinstance(value, DTensor):
        size, offset = compute_local_shape_and_global_offset(
            value.shape, value.device_mesh, value.placements
        )
        value = Piece(value.to_local(), tuple(value.shape), offset, size)
    if not isinstance(value, Piece):
        shape = tuple(value.shape)
        value = Piece(value, shape, (0,) * len(shape), shape)
    return (
        tuple(value.shape),
        tuple(value.offset),
        tuple(value.size),
        tuple(value.range or (0, math.prod(value.size))),
        value.tensor.detach().clone().flatten(),
    )


def held(state):
    """Tensors by (name, state), and small values by their rules."""
    rest = {"shared": {}, "merged": {}}
    for key, small in state.small().items():
        if small.rule in rest:
            rest[small.rule][key] = small.value
    return {key: part_of(value) for key, value in state.tensors.items()}, rest


def same(one, other):
    """Bit for bit, so that zeros have their signs."""
    one, other = (t.contiguous().view(torch.uint8) for t in (one, other))
    return torch.equal(one, other)


class Recorder:
    """Writes both sides of each switch that this process has part in. held:
    what of a State."""

    def __init__(self, folder, held=held):
        self.folder, self.held = folder and Path(folder), held

    def joined(self, job):
        """This process is in its first world."""
        if self.folder is not None and not job.world.founded:
            self._after(job)

    def boundary(self, job, step):
        """`Job.boundary`, and what it has done on disk."""
        if self.folder is None:
            return job.boundary(step)
        epoch, rank = job.world.epoch, job.world.rank
        before = self.held(job.state)
        stays = job.boundary(step)
        if not stays or job.world.epoch != epoch:
            self._write(epoch + 1, "before", rank, before)
        if stays and job.world.epoch != epoch:
            self._after(job)
        return stays

    def _after(self, job):
        held = self.held(job.state)
        self._write(job.world.epoch, "after", job.world.rank, held)

    def _write(self, epoch, side, rank, what):
        folder = self.folder / str(epoch) / side
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(what, folder / f"{rank}.pt")


def read(folder):
    """What each rank has written, here and by nobody else."""
    files = sorted(folder.glob("[0-9]*.pt"), key=lambda path: int(path.stem))
    return [torch.load(path, weights_only=False) for path in files]


def switches(folder):
    """(what all ranks held before, and after) of each switch of a job."""
    for epoch in sorted(Path(folder).iterdir()):
        yield read(epoch / "before"), read(epoch / "after")


def gathered(ranks):
    """{(name, state): full tensor}; holders of one part must agree."""
    full, known = {}, {}
    for parts, _ in ranks:
        for key, (shape, offset, size, (first, end), values) in parts.items():
            if key not in full:
                full[key] = torch.zeros(shape, dtype=values.dtype)
                known[key] = torch.zeros(shape, dtype=torch.bool)
            box = tuple(slice(o, o + n) for o, n in zip(offset, size))
            here, there = full[key][box].flatten(), known[key][box].flatten()
            seen = there[first:end]
            assert same(here[first:end][seen], values[seen]), key
            here[first:end], there[first:end] = values, True
            full[key][box] = here.view(size)
            known[key][box] = there.view(size)
    for key, mask in known.items():
        assert mask.all(), f"nobody holds all of {key}"
    return full


def merged(ranks):
    """All small values of which each rank has a part; parts must agree."""
    whole = {}
    for _, rest in ranks:
        for name, own in rest["merged"].items():
            for key, value in own.items():
                assert whole.setdefault((name, key), value) == value, key
    return whole


def check(folder):
    """Bytes that were compared, over all switches of a job."""
    compared = 0
    for before, after in switches(folder):
        full, rest = gathered(before), before[0][1]
        assert merged(after) == merged(before)
        assert gathered(after).keys() == full.keys()
        for parts, small in after:
            assert small["shared"] == rest["shared"], (small, rest)
            for key, (shape, offset, size, run, values) in parts.items():
                assert tuple(full[key].shape) == shape
                box = tuple(slice(o, o + n) for o, n in zip(offset, size))
                want = full[key][box].flatten()[slice(*run)]
                assert want.dtype == values.dtype, key
                assert same(want, values), key
                compared += values.nbytes
    return compared
