"""What a process begins a job with: its store, its place among those that start
with it, and what it holds already.

torchrun tells the first two in the environment, so that a trainer need not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch.distributed as dist

from .default_group import DefaultGroup
from .errors import InvalidError
from .job_world import JobWorld
from .state import State

#: The store that torchrun says.
ENVIRONMENT = "env://"


class Builder:
    """The trainer's `build`. In the job's first world a process holds what its
    trainer has made already, where it has. default_group: the world's group is
    torch.distributed's default one."""

    def __init__(
        self,
        build: Callable[[JobWorld], State],
        first: State | None,
        default_group: bool = False,
    ) -> None:
        self._build, self._first = build, first
        self._default_group = default_group

    def __call__(self, world: JobWorld) -> State:
        if not self._default_group:
            return self._made(world)
        world.default = DefaultGroup(world)
        with world.default.here():
            return self._made(world)

    def _made(self, world: JobWorld) -> State:
        if world.founded and self._first is not None:
            return self._first
        return self._build(world)

    def forget(self) -> None:
        """The first world is there, or was before this process came."""
        self._first = None


@dataclass(frozen=True)
class Start:
    """What `Job` was given, and what the environment adds."""

    store: dist.Store | str
    build: Builder
    processes: int
    rank: int | None
    #: Where the job's keys are in the store.
    root: str


def _sorted_out(
    given: Any, store: dist.Store | str | None
) -> tuple[State | None, dist.Store | str]:
    """The first argument of `Job` is a State, or the store."""
    if given is None or isinstance(given, State):
        return given, ENVIRONMENT if store is None else store
    if not isinstance(given, (str, dist.Store)):
        raise InvalidError(
            f"Job: the first argument is a {type(given).__name__}, expected a "
            "dynatrain.State of what this process holds, or the job's store"
        )
    if store is not None:
        raise InvalidError(
            "Job: there are two stores, the first argument and store=; the "
            "first argument may be a dynatrain.State"
        )
    return None, given


def _number(name: str) -> int | None:
    """Of the environment."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def start_of(
    given: Any,
    build: Callable[[JobWorld], State] | None,
    store: dist.Store | str | None,
    processes: int | None,
    rank: int | None,
    root: str,
    default_group: bool = False,
) -> Start:
    """Of the arguments of `Job` that have these names; given: the first."""
    state, place = _sorted_out(given, store)
    if not callable(build):
        raise InvalidError(
            f"Job: build is {build!r}, expected a function that makes what "
            "this process holds in a world, build(world) -> dynatrain.State"
        )
    if processes is None and place == ENVIRONMENT:
        processes = _number("WORLD_SIZE")
        rank = _number("RANK") if rank is None else rank
        # All workers of an agent begin anew together, on the store of before.
        restarts = _number("TORCHELASTIC_RESTART_COUNT")
        if restarts and (processes or 1) > 1:
            root = f"{root}.{restarts}"
    return Start(
        place,
        Builder(build, state, default_group),
        1 if processes is None else processes,
        rank,
        root,
    )


def folder_of(
    plans: str | os.PathLike[str] | None, cache: str | os.PathLike[str] | None
) -> Path | None:
    """Where a job keeps its plans; cache: as `plans` was called."""
    if plans is not None and cache is not None:
        raise InvalidError(f"Job: plans is '{plans}' and cache is '{cache}'")
    given = cache if plans is None else plans
    if given is None:
        return None
    folder = Path(given)
    if folder.exists() and not folder.is_dir():
        raise InvalidError(f"Job: plans is '{folder}', a file, not a folder")
    return folder
