"""Copies of what a process holds, one after the other: what is known of the one
before is not taken for what is there now."""

import weakref
from dataclasses import replace

import torch
from dynatrain.capture import Piece
from dynatrain.held_parts import HeldParts, regions_of
from dynatrain.snapshot import Copier
from processes import dynatrain, run_ranks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

PART = Piece(torch.arange(12.0).view(2, 6), (8, 6), (0, 0), (2, 6))
BIAS = torch.arange(7.0)


class Holding(dynatrain.Part):
    def __init__(self, held):
        self.held = held

    def tensors(self):
        return {(name, "param"): value for name, value in self.held.items()}


def pieces_of(value):
    if isinstance(value, list):
        return value
    if isinstance(value, Piece):
        return [value]
    shape = tuple(value.shape)
    return [Piece(value, shape, (0,) * len(shape), shape)]


def check(copy, held):
    """The copy has each piece of what is held, and nothing else."""
    found = {(key[0], one.offset): one for key, one in copy.pieces()}
    for name, value in held.items():
        for one in pieces_of(value):
            if not one.numel():
                continue
            copied = found.pop((name, one.offset))
            assert torch.equal(copied.tensor, one.tensor)
            assert copied.tensor.dtype == one.tensor.dtype
            assert (copied.shape, copied.size, copied.range) == (
                one.shape,
                one.size,
                one.range,
            )
    assert not found


def copies(*looks):
    """One copy after the other, each in the memory of the one before."""
    copier, room = Copier(), []
    for held in looks:
        state = dynatrain.State(part=Holding(held))
        copy = copier.copy(state, room)
        check(copy, held)
        room = [copy.memory]


def test_values_change():
    weight = torch.randn(4, 6)
    copier, room = Copier(), []
    held = {"w": weight.t(), "b": BIAS, "none": torch.zeros(0, 3)}
    for _ in range(3):
        weight.mul_(1.5)
        copy = copier.copy(dynatrain.State(part=Holding(held)), room)
        check(copy, held)
        room = [copy.memory]


def test_tensors_come_go_and_change_places():
    other = torch.randn(3)
    copies(
        {"b": BIAS, "w": other},
        {"w": other, "b": BIAS},
        {"w": other},
        {},
        {"b": BIAS, "w": other},
    )


def test_a_tensor_of_another_shape_or_type():
    copies(
        {"b": BIAS},
        {"b": torch.randn(9)},
        {"b": torch.randn(3, 3)},
        {"b": torch.arange(9).view(3, 3)},
        {"b": torch.randn(9).to(torch.bfloat16)},
    )


def test_a_piece_of_another_place():
    copies(
        {"w": PART},
        {"w": replace(PART, offset=(2, 0))},
        {"w": replace(PART, shape=(10, 6))},
        {"w": replace(PART, tensor=torch.randn(4), range=(2, 6))},
        {"w": replace(PART, tensor=torch.randn(4), range=(3, 7))},
        {"w": [PART, replace(PART, tensor=torch.randn(2, 6), offset=(4, 0))]},
        {"w": PART},
    )


def test_what_is_as_before_is_not_described_again():
    held = {"w": PART, "b": BIAS.clone(), "none": torch.zeros(0, 3)}
    state, parts = dynatrain.State(part=Holding(held)), HeldParts()
    first, tensors = parts.of(state)
    assert [one.key[0] for one in first] == ["w", "b"] and len(tensors) == 2
    # Other objects and bytes, in the same places.
    held.update(w=replace(PART, tensor=torch.randn(2, 6)), b=torch.ones(7))
    again, tensors = parts.of(state)
    assert again is first and tensors[1] is held["b"]
    # The same object, which is another tensor now.
    held["b"].data = torch.ones(7, dtype=torch.float64)
    other, _ = parts.of(state)
    assert other is not first and other == first
    held["none"].data = torch.ones(2, 3)
    assert len(parts.of(state)[0]) == 3


def test_what_was_held_may_go():
    """A look keeps nothing of it alive."""
    held = {"w": replace(PART, tensor=torch.randn(2, 6)), "b": torch.ones(7)}
    parts = HeldParts()
    parts.of(dynatrain.State(part=Holding(held)))
    gone = [weakref.ref(one) for one in (held["w"].tensor, held["b"])]
    held.clear()
    assert [one() for one in gone] == [None, None]
    assert parts.of(dynatrain.State(part=Holding(held))) == ([], [])


def shard_changes(rank, store):
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=1
    )
    mesh = init_device_mesh("cpu", (1,))
    value = DTensor.from_local(torch.randn(4, 3), mesh, [Shard(0)])
    state, copier = dynatrain.State(part=Holding({"w": value})), Copier()
    for _ in range(3):
        value._local_tensor = torch.randn(4, 3)
        ((_, copied),) = copier.copy(state, []).pieces()
        assert torch.equal(copied.tensor, value._local_tensor)


def test_a_shard_that_is_another(tmp_path):
    """A DTensor may be the same object and have another shard, as FSDP2
    sets it."""
    run_ranks(1, shard_changes, tmp_path)


def test_others_are_to_travel():
    """What is in `first` lies before the rest, whatever came first before."""
    held = {"a": BIAS, "b": torch.randn(5), "c": torch.randn(3)}
    state = dynatrain.State(part=Holding(held))
    regions, copier = regions_of(state), Copier()
    for first in ((), {regions[1]}, {regions[2]}, {regions[2], regions[1]}):
        copy = copier.copy(state, [], first)
        check(copy, held)
        lead = copy.regions()[: len(first)]
        assert set(lead) == set(first)
