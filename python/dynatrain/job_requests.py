"""Requests in words, and notices that a process is to go.

    job.request("lost node 3")    its processes are gone: go on without them
    job.request("leave rank 2")   it leaves, with all that it holds
    job.request("-1 node")        the last one leaves
    job.request("+2 nodes")       two more, for who starts processes

A node is what its processes say (`Job(node=...)`), or its place among the nodes
of the world, in the order of their first ranks.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from .errors import InvalidError
from .job_snapshots import node_of

_WORDS = re.compile(
    r"(?P<what>lost|leave) (?P<kind>node|rank) (?P<which>.+)"
    r"|(?P<sign>[+-])(?P<count>[1-9][0-9]*) nodes?"
)
# Seconds between two looks for a file.
_LOOK = 1.0


@dataclass
class Wish:
    """What a request wants; start: so many nodes more."""

    lost: list[str] = field(default_factory=list)
    leave: list[str] = field(default_factory=list)
    start: int = 0


def nodes_of(members: Sequence[str]) -> dict[str, list[str]]:
    """The processes of each node, in the order of their first ranks."""
    found: dict[str, list[str]] = {}
    for one in members:
        found.setdefault(node_of(one), []).append(one)
    return found


def _of_node(which: str, members: Sequence[str]) -> list[str]:
    nodes = nodes_of(members)
    if which in nodes:
        return nodes[which]
    if which.isdigit() and int(which) < len(nodes):
        return list(nodes.values())[int(which)]
    raise InvalidError(
        f"request: there is no node '{which}', expected one of "
        f"{', '.join(nodes)}, or 0 to {len(nodes) - 1}"
    )


def _of_rank(which: str, members: Sequence[str]) -> list[str]:
    if which.isdigit() and int(which) < len(members):
        return [members[int(which)]]
    raise InvalidError(
        f"request: there is no rank '{which}', expected 0 to {len(members) - 1}"
    )


def wish_of(text: str, members: Sequence[str]) -> Wish:
    """What the words mean in a world."""
    found = _WORDS.fullmatch(" ".join(text.split()))
    if found is None:
        raise InvalidError(
            f"request: '{text}', expected 'lost node NODE', 'leave node NODE', "
            "'lost rank RANK', 'leave rank RANK', '+N nodes' or '-N nodes'"
        )
    if found["sign"] == "+":
        return Wish(start=int(found["count"]))
    if found["sign"] == "-":
        nodes = list(nodes_of(members).values())
        gone = nodes[-int(found["count"]) :]
        return Wish(leave=[one for node in gone for one in node])
    of = _of_node if found["kind"] == "node" else _of_rank
    who = of(found["which"], members)
    return Wish(lost=who) if found["what"] == "lost" else Wish(leave=who)


class Notice:
    """That this process's node is to go, as schedulers say it: by a signal, or
    by a file that appears.

    signs: numbers of signals, and paths.
    """

    def __init__(self, signs: Sequence[int | str | os.PathLike[str]]) -> None:
        self._signals = [
            signal.Signals(one) for one in signs if isinstance(one, int)
        ]
        self._files = [Path(one) for one in signs if not isinstance(one, int)]
        self._before: dict[int, Any] = {}
        self._has_come = self._is_told = False
        self._next_look = 0.0

    def begin(self) -> None:
        """From now on. Python takes signals on its main thread only."""
        if not self._signals:
            return
        if threading.current_thread() is not threading.main_thread():
            raise InvalidError(
                "notice: signals can only be taken where the job is joined on "
                "the main thread"
            )
        for one in self._signals:
            self._before[one] = signal.signal(one, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._has_come = True
        before = self._before.get(number)
        if callable(before):
            before(number, frame)

    def end(self) -> None:
        """What was done on these signals is done again."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, before)
        self._before = {}

    def is_news(self) -> bool:
        """Whether it has come since this was asked last; once."""
        if self._is_told:
            return False
        now = time.monotonic()
        if self._files and now >= self._next_look:
            self._next_look = now + _LOOK
            self._has_come |= any(one.exists() for one in self._files)
        self._is_told = self._has_come
        return self._has_come
