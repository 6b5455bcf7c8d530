"""The connections of a group over Gloo: making them, and cutting them.

A connection that is cut looks like one whose peer has ended: what waits for it
on the other process raises.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

#: A file descriptor and its socket; another one may come to have the former.
Connection = tuple[int, int]

_FILES = "/proc/self/fd"
# As often as its timeout Gloo waits for a process that has said where it is and
# does not connect (transport/tcp/pair.h, waitUntil).
_GLOO_WAITS = 5
# Of the seconds for a connection, what is left for Gloo at least.
_LEAST = 0.2


def new_devices() -> list[Any]:
    """What Gloo connects with, as torch makes it: it listens, and has a thread
    that looks for messages a hundred times a second, until the last group that
    is made with it is gone.

    Groups may share it if none of them is kept once making another one of them
    has failed: Gloo forgets no connection that it waited for in vain, and a
    process that is late would connect with memory that is free.
    """
    names = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")
    gloo = dist.ProcessGroupGloo
    made = [gloo.create_device(interface=one) for one in names if one]
    return made or [gloo.create_default_device()]


def _options(devices: list[Any], seconds: float) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = devices
    options._threads = 2 * len(devices)
    options._timeout = timedelta(seconds=seconds)
    return options


def connect_gloo(
    store: dist.Store,
    rank: int,
    size: int,
    seconds: float,
    devices: list[Any] | None = None,
) -> dist.Backend:
    """A backend that is connected with all others; its operations have to be
    given a timeout. Each process calls this. It waits for the others for about
    so many seconds at most, also for one that ends on the way. devices: of
    `new_devices`, if it is not to have its own."""
    end = time.monotonic() + seconds
    keys = [f"here/{one}" for one in range(size)]
    store.set(keys[rank], b"1")
    store.wait(keys, timedelta(seconds=seconds))
    # All are there.
    left = max(end - time.monotonic(), _LEAST * seconds)
    options = _options(devices or new_devices(), left / _GLOO_WAITS)
    return dist.ProcessGroupGloo(store, rank, size, options)


def gather_bytes(
    group: dist.ProcessGroup, rank: int, size: int, data: bytes
) -> list[bytes]:
    """What all of a group give, by place. Collective."""
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(data)]), group=group)
    longest = max(int(length) for length in lengths)
    own = torch.zeros(longest, dtype=torch.uint8)
    if data:
        own[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    everyone = [torch.zeros_like(own) for _ in range(size)]
    if longest:
        dist.all_gather(everyone, own, group=group)
    return [
        one.numpy().tobytes()[: int(length)]
        for one, length in zip(everyone, lengths)
    ]


def open_sockets() -> set[Connection]:
    """All of this process; none where the system does not tell."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(_FILES):
            with contextlib.suppress(OSError):
                what = os.readlink(f"{_FILES}/{name}")
                if what.startswith("socket:["):
                    found.add((int(name), os.stat(f"{_FILES}/{name}").st_ino))
    return found


@contextlib.contextmanager
def _duplicate(file: int) -> Iterator[socket.socket]:
    copy = os.dup(file)
    try:
        opened = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with opened:
        yield opened


def _ends(connection: Connection) -> tuple[str, str] | None:
    """Of a connection over TCP: this end and the other one."""
    with contextlib.suppress(OSError), _duplicate(connection[0]) as opened:
        if opened.family in (socket.AF_INET, socket.AF_INET6):
            own, other = opened.getsockname(), opened.getpeername()
            return f"{own[:2]}", f"{other[:2]}"
    return None


def connections_of(
    group: dist.ProcessGroup, rank: int, size: int, before: set[Connection]
) -> dict[Connection, int]:
    """Those that a group has made since `before` was read, and to whose place
    each goes: both ends are among its processes' new ones. Collective."""
    ends = {one: _ends(one) for one in open_sockets() - before}
    own = [pair for pair in ends.values() if pair is not None]
    told = gather_bytes(group, rank, size, json.dumps(own).encode())
    places = {
        tuple(pair): place
        for place, data in enumerate(told)
        for pair in json.loads(data)
    }
    return {
        one: places[pair[::-1]]
        for one, pair in ends.items()
        if pair is not None and pair[::-1] in places
    }


def cut(connections: Iterable[Connection]) -> None:
    """Whoever waits for one of them gets an error; those that are closed
    already stay as they are."""
    for file, number in connections:
        with contextlib.suppress(OSError):
            if os.stat(f"{_FILES}/{file}").st_ino == number:
                with _duplicate(file) as opened:
                    opened.shutdown(socket.SHUT_RDWR)


class Pulse:
    """A group in which nothing is sent: a connection of it that ends says that
    the process at its other end does. The system tells at once, and no process
    has to do anything for it.

    connections: of the group, and to whose place each goes.
    """

    def __init__(
        self, group: dist.ProcessGroup, connections: Mapping[Connection, int]
    ) -> None:
        # Which keeps them open.
        self._group: dist.ProcessGroup | None = group
        self._lock = threading.Lock()  # of what follows
        self._places: dict[int, int] = {}
        self._ends = select.epoll()
        for (file, _), place in connections.items():
            copy = os.dup(file)
            self._places[copy] = place
            self._ends.register(copy, select.EPOLLRDHUP)

    def ended(self) -> list[int]:
        """Places of those that have ended, each once."""
        found = []
        with self._lock:
            for file, _ in [] if self._ends.closed else self._ends.poll(0):
                self._ends.unregister(file)
                found.append(self._places[file])
        return found

    def fileno(self) -> int:
        """A file that can be read when there is one in `ended`; -1: it is
        closed."""
        with self._lock:
            return -1 if self._ends.closed else self._ends.fileno()

    def close(self) -> None:
        """The others may see that as an end."""
        with self._lock:
            self._ends.close()
            for file in self._places:
                os.close(file)
            self._places = {}
            self._group = None
