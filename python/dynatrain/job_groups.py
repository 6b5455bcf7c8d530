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
from typing import Any

import torch
import torch.distributed as dist

from . import _C
from .connections import (
    Connection,
    Pulse,
    connect_gloo,
    connections_of,
    cut,
    new_devices,
    open_sockets,
)
from .errors import AbortedError, InvalidError
from .job_nccl import Communicators
from .job_trace import SwitchTrace


def _set_timeout(group: dist.ProcessGroup, seconds: float) -> None:
    """Of the group's operations to come."""
    backend = group._get_backend(torch.device("cpu"))
    backend.set_timeout(timedelta(seconds=seconds))


class Groups:
    """Makes them, and cuts them.

    store: keys of these groups alone. connect: seconds that making one waits
    for its members; timeout: that its operations wait, later.
    trace: takes what connecting takes. gpu: makes what tensors on a GPU travel
    in; without it there is nothing for these.
    """

    def __init__(
        self,
        store: dist.Store,
        connect: float,
        timeout: float,
        trace: SwitchTrace | None = None,
        gpu: Communicators | None = None,
    ) -> None:
        self._gpu = gpu
        self._trace = trace or SwitchTrace()
        self._store: dist.Store | None = store
        # For all of them. If one group can't be made, all are given up.
        self._devices: list[Any] = []
        self._connect, self._timeout = connect, timeout
        self._made: dict[tuple[int, ...], int] = {}
        self._lock = threading.Lock()  # of what follows
        self._backends: list[dist.Backend] = []
        # Of GPUs, with the groups that they are of.
        self._on_gpu: list[tuple[dist.ProcessGroup, dist.Backend]] = []
        self._connections: list[Connection] = []
        self._is_cut = False

    def new(
        self, places: Sequence[int], rank: int, on_gpu: bool = True
    ) -> dist.ProcessGroup:
        """Of some ranks, in this order, of which `rank` is this process's; all
        are connected when this returns. Each of them calls this. on_gpu: for
        tensors on GPUs too, where there is anything for these."""
        group, connections = self._new(tuple(places), rank)
        with self._lock:
            self._connections += connections
        if on_gpu and self._gpu is not None:
            self._connect_gpu(group, places.index(rank), len(places))
        return group

    def _connect_gpu(
        self, group: dist.ProcessGroup, place: int, size: int
    ) -> None:
        store = dist.PrefixStore("gpu", group.get_group_store())
        with self._trace.span("connect GPUs"):
            made = self._gpu.connect(store, place, size, self._timeout)
            group._register_backend(self._gpu.place, self._gpu.kind, made)
            with self._lock:
                is_late = self._is_cut
                if not is_late:
                    self._on_gpu.append((group, made))
        if is_late:
            self._gpu.abort(made)
            raise AbortedError("the groups of this world have been cut")

    def warm_up(self) -> None:
        """What first messages on GPUs connect; all of the world call this at
        one place, between two steps."""
        for group, _ in list(self._on_gpu):
            self._gpu.warm_up(group)

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
        self._devices = self._devices or new_devices()
        backend = _C.abortable(
            connect_gloo(store, place, size, self._connect, self._devices),
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
        self._devices = []

    def cut(self) -> None:
        """Nothing more can be said in any of them."""
        with self._lock:
            self._is_cut = True
            backends, connections = self._backends, self._connections
            self._backends, self._connections = [], []
        for backend in backends:
            backend.abort()
        cut(connections)
        self.release()

    @property
    def is_cut(self) -> bool:
        """Whether what was said last in them may not have arrived."""
        return self._is_cut

    def release(self) -> None:
        """What they have on a GPU, whoever else is there still."""
        with self._lock:
            on_gpu, self._on_gpu = self._on_gpu, []
        for _, backend in on_gpu:
            self._gpu.abort(backend)
