"""A world of an elastic job, as one of its processes sees it.

Processes that join are members of no group that the job had before. So the
groups of a world are made of a store alone, by its members, and belong to
nothing else: not to `torch.distributed`'s default group either.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable, TypeVar

import torch
import torch.distributed as dist

from .connections import Connection, Pulse, connections_of, cut, open_sockets
from .errors import InvalidError
from .hollow import hollow

Module = TypeVar("Module", bound=torch.nn.Module)


def make_group(
    store: dist.Store, rank: int, size: int, connect: float
) -> dist.ProcessGroup:
    """A group over Gloo whose members are all connected when this returns.

    Waits up to `connect` seconds for them, or until the store ends the wait.
    """
    group = dist.ProcessGroup(store, rank, size)
    backend = dist.ProcessGroupGloo(
        store, rank, size, timedelta(seconds=connect)
    )
    kind = dist.ProcessGroup.BackendType.GLOO
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, backend)
    # What a first collective makes is made now.
    dist.all_reduce(torch.zeros(1), group=group)
    return group


def set_timeout(group: dist.ProcessGroup, seconds: float) -> None:
    """Of the group's collectives to come."""
    backend = group._get_backend(torch.device("cpu"))
    backend._set_default_timeout(timedelta(seconds=seconds))


class JobWorld:
    """Who is in a world, and as what. It never changes; `Job` makes it.

    members: names of the processes, by rank. layout: what was asked for, any
    JSON value. group: of all members, connected. founded: this world is the
    job's first one, which nothing comes to.
    """

    def __init__(
        self,
        epoch: int,
        members: Sequence[str],
        name: str,
        layout: Any,
        founded: bool,
        store: dist.Store,
        connect: float,
        timeout: float,
        can_be_cut: bool = False,
    ) -> None:
        self.epoch = epoch
        self.members = tuple(members)
        self.rank = self.members.index(name)
        self.layout = layout
        self.founded = founded
        self._store: dist.Store | None = store
        self._connect, self._timeout = connect, timeout
        self._can_be_cut = can_be_cut
        self._made: dict[tuple[int, ...], int] = {}
        self._connections: list[Connection] = []
        self._pulse_group: dist.ProcessGroup | None = None
        self.group = self.new_group(range(self.size))

    @property
    def size(self) -> int:
        """How many processes it has."""
        return len(self.members)

    def new_group(self, ranks: Sequence[int]) -> dist.ProcessGroup:
        """A group of some members, in this order, of whom this process is one.

        Each of them calls this, while the world is built, in an order of groups
        that does not make them wait for each other in a circle. Collectives
        take it as `group=`; where they name a process, give `group_src` or
        `group_dst`, the place in the group.
        """
        group, connections = self._new_group(tuple(ranks))
        self._connections += connections
        return group

    def new_pulse(self) -> Pulse:
        """Of all members. Each calls this, as `new_group`."""
        group, connections = self._new_group(tuple(range(self.size)))
        self._pulse_group = group  # whose connections these are
        return Pulse(connections)

    def _new_group(
        self, places: tuple[int, ...]
    ) -> tuple[dist.ProcessGroup, dict[Connection, int]]:
        if self._store is None:
            raise InvalidError(
                "groups of a world are made while it is built, not later"
            )
        if self.rank not in places or len(set(places)) != len(places):
            raise InvalidError(
                f"a group of ranks {list(places)} for rank {self.rank}, "
                "expected each rank once, this one among them"
            )
        number = self._made[places] = self._made.get(places, 0) + 1
        name = f"group/{'-'.join(map(str, places))}/{number}"
        before = open_sockets() if self._can_be_cut else set()
        place, size = places.index(self.rank), len(places)
        group = make_group(
            dist.PrefixStore(name, self._store), place, size, self._connect
        )
        connections = {}
        if self._can_be_cut:
            connections = connections_of(group, place, size, before)
        set_timeout(group, self._timeout)
        return group, connections

    def make(self, factory: Callable[[], Module]) -> Module:
        """A module for this world: in the job's first one as `factory` makes
        it, later without memory, as what comes fills it (`hollow`). Then no
        random numbers are drawn, which would be the running trainer's."""
        if self.founded:
            return factory()
        with torch.device("meta"):
            module = factory()
        return hollow(module)

    def close(self) -> None:
        """No more groups can be made."""
        self._store = None

    def cut(self) -> None:
        """Ends what waits in a collective of this world, here and on the other
        processes, with an error: nothing more can be said in it."""
        cut(self._connections)

    def __repr__(self) -> str:
        return (
            f"JobWorld(epoch={self.epoch}, rank={self.rank}, size={self.size}, "
            f"layout={self.layout!r})"
        )
