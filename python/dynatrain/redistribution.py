"""DTensors onto other meshes, in one call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import empty as empty_dtensor

from .errors import TensorError
from .planning import plan_between
from .world import World


def _leaves(tree: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, tree


def _name(path: tuple) -> str:
    return ".".join(map(str, path)) or "tensor"


def _is_target(leaf: Any) -> bool:
    return (
        isinstance(leaf, tuple)
        and len(leaf) == 2
        and isinstance(leaf[0], DeviceMesh)
    )


def _allocated(
    name: str, source: Any, mesh: DeviceMesh, placements: Sequence[Any]
) -> DTensor:
    if source is None:
        raise TensorError(
            f"'{name}' is None, expected a DTensor: shape and dtype of the new "
            "one are read off it also where it has no part (or give the "
            "new one itself as the target)"
        )
    return empty_dtensor(
        *source.shape,
        dtype=source.dtype,
        device_mesh=mesh,
        placements=placements,
    )


def _target_of(targets: Mapping[tuple, Any], path: tuple) -> Any:
    """The leaf's own target, or that of a tree around it."""
    for length in range(len(path), -1, -1):
        if path[:length] in targets:
            return targets[path[:length]]
    raise TensorError(f"'{_name(path)}' has no target")


def _rebuilt(tree: Any, leaves: Mapping[tuple, Any], path: tuple = ()) -> Any:
    if isinstance(tree, Mapping):
        return {k: _rebuilt(v, leaves, (*path, k)) for k, v in tree.items()}
    return leaves[path]


def _here(leaves: Mapping[tuple, Any]) -> dict[tuple[str, str], Any]:
    """What a plan gets of them: those with a part on this process."""
    return {
        (_name(path), "param"): leaf
        for path, leaf in leaves.items()
        if isinstance(leaf, torch.Tensor)
        and not (
            isinstance(leaf, DTensor)
            and leaf.device_mesh.get_coordinate() is None
        )
    }


def redistribute(
    tree: Any,
    target: Any,
    world: World | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
) -> Any:
    """The same values on other meshes: disjoint, overlapping or equal ones.

    Collective: all processes of both meshes call this. Returns `tree` with new
    tensors in it; the old ones stay as they are.

    tree: a DTensor, or nested dicts of them. A process without a part of one
        gives the DTensor too (torch makes them without elements there), or
        None.
    target: (mesh, placements) for all, or a tree of them; or DTensors that are
        filled. A target stands for all that lies below it.
    world: the processes; default: those of the default group.

    The plan of each change of layout is made once (`plan_between`).
    """
    world = world if world is not None else World()
    leaves = dict(_leaves(tree))
    targets = dict(_leaves(target))
    new = {}
    for path, leaf in leaves.items():
        wanted = _target_of(targets, path)
        if _is_target(wanted):
            wanted = _allocated(_name(path), leaf, *wanted)
        elif not isinstance(wanted, DTensor):
            raise TensorError(
                f"the target of '{_name(path)}' is a {type(wanted).__name__}, "
                "expected (mesh, placements) or a DTensor"
            )
        new[path] = wanted
    before, after = _here(leaves), _here(new)
    plan = plan_between(before, after, world, cache=cache)
    with plan.prepare(world, before, after) as switch:
        switch.transfer()
        switch.commit()
    return _rebuilt(tree, new)
