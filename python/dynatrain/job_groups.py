"""The groups of one world of an elastic job, on one of its processes.

Processes that join are members of no group that the job had before. So groups
are made of a store alone, by their members, and belong to nothing else: not to
`torch.distributed`'s default group either. All of a world's can be cut at any
time, from any thread: what waits in them raises, here at once, and on the other
processes as soon as they see the connections end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from . import _C
from .connections import (
    Connection,
    Pulse,
    connect_gloo,
    connections_of,
    cut,
    open_sockets,
)
from .errors import AbortedError, InvalidError
from .job_trace import SwitchTrace


def _set_timeout(group: dist.ProcessGroup, seconds: float) -> None:
    """Of the group's operations to come."""
    backend = group._get_backend(torch.device("cpu"))
    backend.set_timeout(timedelta(seconds=seconds))


class Groups:
    """Makes them, and cuts them.

    store: keys of these groups alone. connect: seconds that making one waits
    for its members; timeout: that its operations wait, later.
    trace: takes what connecting takes.
    """

    def __init__(
        self,
        store: dist.Store,
        connect: float,
        timeout: float,
        trace: SwitchTrace | None = None,
    ) -> None:
        self._trace = trace or SwitchTrace()
        self._store: dist.Store | None = store
        self._connect, self._timeout = connect, timeout
        self._made: dict[tuple[int, ...], int] = {}
        self._lock = threading.Lock()  # of what follows
        self._backends: list[dist.Backend] = []
        self._connections: list[Connection] = []
        self._is_cut = False

    def new(self, places: Sequence[int], rank: int) -> dist.ProcessGroup:
        """Of some ranks, in this order, of which `rank` is this process's; all
        are connected when this returns. Each of them calls this."""
        group, connections = self._new(tuple(places), rank)
        with self._lock:
            self._connections += connections
        return group

    def new_pulse(self, places: Sequence[int], rank: int) -> Pulse:
        """Over a group of its own, which stays when the others are cut."""
        return Pulse(*self._new(tuple(places), rank))

    def _new(
        self, places: tuple[int, ...], rank: int
    ) -> tuple[dist.ProcessGroup, dict[Connection, int]]:
        if self._store is None:
            raise InvalidError(
                "groups of a world are made while it is built, not later"
            )
        number = self._made[places] = self._made.get(places, 0) + 1
        name = f"group/{'-'.join(map(str, places))}/{number}"
        before = open_sockets()
        place, size = places.index(rank), len(places)
        with self._trace.span("connect", ranks=list(places)):
            group = self._connected(
                dist.PrefixStore(name, self._store), place, size
            )
            connections = connections_of(group, place, size, before)
        _set_timeout(group, self._timeout)
        return group, connections

    def _connected(
        self, store: dist.Store, place: int, size: int
    ) -> dist.ProcessGroup:
        backend = _C.abortable(
            connect_gloo(store, place, size, self._connect),
            "the job has ended what this group does",
        )
        group = dist.ProcessGroup(store, place, size)
        kind = dist.ProcessGroup.BackendType.GLOO
        group._set_default_backend(kind)
        group._register_backend(torch.device("cpu"), kind, backend)
        self._keep(backend)
        _set_timeout(group, self._connect)
        # What a first collective makes is made now.
        dist.all_reduce(torch.zeros(1), group=group)
        return group

    def _keep(self, backend: dist.Backend) -> None:
        with self._lock:
            if self._is_cut:
                raise AbortedError("the groups of this world have been cut")
            self._backends.append(backend)

    def close(self) -> None:
        """No more can be made."""
        self._store = None

    def cut(self) -> None:
        """Nothing more can be said in any of them."""
        with self._lock:
            self._is_cut = True
            backends, connections = self._backends, self._connections
            self._backends, self._connections = [], []
        for backend in backends:
            backend.abort()
        cut(connections)
