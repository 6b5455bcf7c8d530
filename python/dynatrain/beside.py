"""A thread beside training that does one thing after the other."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import Callable

_Work = Callable[[], None]


def _let_others_go_first() -> None:
    """When it wakes up this thread waits until those that run on its core, the
    trainer's above all, wait for something or have had their time (sched(7),
    SCHED_BATCH). It gets as much of the core as they do."""
    with contextlib.suppress(AttributeError, OSError):  # not on every system
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Beside:
    """It is there from the first thing on that it is given until `end`: to
    start a thread takes as long as what it does for a snapshot of a small
    model."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._given: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._is_done = threading.Event()
        self._is_done.set()
        self._thread: threading.Thread | None = None

    def begin(self, work: _Work) -> None:
        """work: raises nothing. What was given before is over (`wait`)."""
        self._is_done.clear()
        self._given.put(work)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=self._name, daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        _let_others_go_first()
        while (work := self._given.get()) is not None:
            try:
                work()
            finally:
                self._is_done.set()
            del work  # and what it has

    def wait(self, seconds: float | None = None) -> bool:
        """Until what was given is over; whether it is."""
        return self._is_done.wait(seconds)

    def end(self) -> None:
        """The thread ends once it has done what it was given."""
        if self._thread is not None:
            self._given.put(None)
            self._thread = None
