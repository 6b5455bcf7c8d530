"""The processes that take part."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Union

import torch.distributed as dist

from . import _C
from .board import Board
from .connections import connect_gloo
from .errors import InvalidError

#: What a trainer calls a switch: a step number, or a name.
Tag = Union[int, str, None]

_BACKENDS = ["gloo", *(["nccl"] if "nccl" in _C.features() else [])]


def _text_of(tag: Tag) -> str:
    if tag is None or isinstance(tag, str):
        return json.dumps(tag)
    try:
        if not isinstance(tag, bool):
            return json.dumps(operator.index(tag))
    except TypeError:
        pass
    raise InvalidError(f"tag is {tag!r}, expected an int or a str")


def _hosts(store: dist.Store) -> bool:
    """Whether the store ends with this process."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    # Of the process that serves it, the store names its server.
    return isinstance(store, dist.TCPStore) and "server=<nullptr>" not in repr(
        store
    )


def _connected(
    store: dist.Store, rank: int, size: int, seconds: float
) -> dist.Backend:
    """A backend that waits so long for the others: while it connects, all in
    all, and then in each operation."""
    backend = connect_gloo(store, rank, size, seconds)
    backend.set_timeout(timedelta(seconds=seconds))
    return backend


@dataclass
class Place:
    """Where this process stands in one transition."""

    rank: int
    size: int
    device: int
    timeout: float
    native: _C.World
    backend: str
    shared_memory: bool
    one_sided: bool
    hosts_store: bool

    def connect(self, store: dist.Store, seconds: float) -> dist.Backend:
        """Connections of the transition's own: one that fails or is aborted
        leaves the trainer's groups as they are. Waits for all processes."""
        return _connected(store, self.rank, self.size, seconds)

    def split(
        self, store: dist.Store, seconds: float, number: int, ranks: list[int]
    ) -> dist.Backend:
        """Connections of some of the transition's processes, of which this is
        one; all of them call it with the same number."""
        return _connected(
            dist.PrefixStore(f"members/{number}", store),
            ranks.index(self.rank),
            len(ranks),
            seconds,
        )


class World:
    """The processes among which a plan moves state.

    Give either a `store` that all of them share, with this process's `rank`,
    or a `process_group` of torch.distributed (default: the default group). The
    processes of a store have one switch at a time; for a second one beside it
    give a `PrefixStore`. Whoever can reach the store can stop the job and read
    what its ranks say to each other (docs/Switches.md).

    world_size: number of processes; default: as many as the plan has devices.
    backend: "gloo", or "nccl" where this package is built with it; nccl moves
        tensors on GPUs straight between them, gloo through the host's memory.
    devices: the plan's device of each rank; default: the plan's devices in
        ascending order.
    timeout: seconds after which a process that waits for others, in any phase,
        has an error that names those who are missing. The last part of them
        (0.2 while it prepares, else 0.4) goes into finding out who that is.
    shared_memory: gloo only: processes of one host hand each other what lies in
        the host's memory without a wire; False sends it all over gloo.
    one_sided: nccl only: writes into peers' staging where NCCL (2.29), driver
        and plan allow it (docs/GPU.md), else as without. After a transfer that
        fails the process should end: what waits on its GPU stays there.
    """

    def __init__(
        self,
        *,
        store: dist.Store | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        process_group: dist.ProcessGroup | None = None,
        backend: str = "gloo",
        devices: Sequence[int] | None = None,
        timeout: float = 300.0,
        shared_memory: bool = True,
        one_sided: bool = False,
    ) -> None:
        if backend not in _BACKENDS:
            raise InvalidError(
                f"backend '{backend}' is not built into this package; it has: "
                + ", ".join(_BACKENDS)
            )
        if one_sided and backend != "nccl":
            raise InvalidError(
                f"one_sided needs backend 'nccl', not '{backend}'"
            )
        if timeout <= 0:
            raise InvalidError(
                f"timeout is {timeout}, expected more than 0 seconds"
            )
        if store is None:
            if process_group is None and not dist.is_initialized():
                raise InvalidError(
                    "a world needs a store and a rank, or a process group"
                )
            group = process_group or dist.group.WORLD
            store, rank = group.get_group_store(), group.rank()
            world_size = group.size()
        elif process_group is not None:
            raise InvalidError(
                "give a world a store or a process group, not both"
            )
        elif rank is None:
            raise InvalidError(
                "a world made of a store needs this process's rank"
            )
        self.rank = int(rank)
        self.world_size = world_size
        self.backend = backend
        self.timeout = float(timeout)
        self.shared_memory = shared_memory
        self.one_sided = one_sided
        self._store = store
        self._devices = list(devices or [])

    def exchange(self, name: str) -> Board:
        """A `Board` among all processes: each calls this, in the same order."""
        if self.world_size is None:
            raise InvalidError(
                f"{name}: a world made of a store needs its world_size"
            )
        # Counted in the store: a World may be made anew for every switch.
        number = self._store.add(f"dynatrain/{name}/{self.rank}", 1)
        return Board(
            self._store,
            f"dynatrain/{name}/n{number}",
            self.rank,
            self.world_size,
            self.timeout,
            name,
        )

    def meet(self, value: Any = None) -> list[Any]:
        """Waits until all processes of the world call this, and returns what
        each has given (any JSON value), in rank order.

        After an error processes may be at different places of their work; here
        they find each other again::

            except dynatrain.Error:
                step = max(world.meet(step)) + 1

        A process that is in a switch meanwhile gets an error there, and should
        come here too.
        """
        if self.world_size is None:
            raise InvalidError(
                "to meet, a world made of a store needs its world_size"
            )
        said = _C.meet(self._native(self.world_size, None), json.dumps(value))
        return [json.loads(text) for text in said]

    def _native(self, size: int, tag: Tag) -> _C.World:
        return _C.World(
            self._store,
            self.rank,
            size,
            self._devices,
            self.timeout,
            _text_of(tag),
        )

    def join(self, plan: _C.Plan, tag: Tag = None) -> Place:
        """This process's place in the next transition of this store."""
        of_plan = plan.info()["devices"]
        devices = self._devices or of_plan
        size = self.world_size if self.world_size is not None else len(of_plan)
        native = self._native(size, tag)
        fault = None
        if len(devices) != size:
            what = "list" if self._devices else "plan"
            fault = (
                f"the {what} has {len(devices)} devices, the world has {size} "
                "ranks"
            )
        elif sorted(devices) != of_plan:
            fault = (
                f"the world's devices are {sorted(devices)}, the plan's are "
                f"{of_plan}"
            )
        elif not 0 <= self.rank < size:
            fault = f"rank {self.rank} is not below the world's size {size}"
        if fault:
            _C.refuse(plan, native, fault)
            raise InvalidError(fault)
        return Place(
            self.rank,
            size,
            devices[self.rank],
            self.timeout,
            native,
            self.backend,
            self.shared_memory,
            self.one_sided,
            _hosts(self._store),
        )
