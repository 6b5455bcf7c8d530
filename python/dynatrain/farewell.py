"""What a process that ends owes to the other ranks of its switches.

They wait for it until it says that it will not come; and where it hosts the
store they read there why a switch has ended. Its own threads have to end before
Python does: one that comes out of the extension later finds no interpreter, and
takes the process down with it ("terminate called without an active exception").
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING

from . import _C

if TYPE_CHECKING:
    from .switch import Switch
    from .world import Place

# Seconds for ranks that are alive to leave, where the store stays.
_SHORT = 2.0

_begun: weakref.WeakSet[Switch] = weakref.WeakSet()
# Threads that prepare, and for how many seconds they may wait for other ranks.
_preparing: weakref.WeakKeyDictionary[threading.Thread, float] = (
    weakref.WeakKeyDictionary()
)
# What others read is the end of the last switch; a few are for processes that
# use several stores.
_aborted: deque[tuple[_C.Ranks, float]] = deque(maxlen=4)


def begin(switch: Switch, thread: threading.Thread, place: Place) -> None:
    """It is to be aborted if the process ends first, and the thread that
    prepares it to be waited for."""
    _begun.add(switch)
    _preparing[thread] = place.timeout


def end(switch: Switch, ranks: _C.Ranks, place: Place) -> None:
    """It has been aborted."""
    _begun.discard(switch)
    if place.hosts_store:
        _aborted.append((ranks, place.timeout))
    elif ranks.has_aborted():
        _aborted.append((ranks, min(_SHORT, place.timeout)))


def forget(switch: Switch) -> None:
    """It has been committed, and all others know."""
    _begun.discard(switch)


def describe(error: BaseException) -> str:
    """The exception's name and the first line of its text."""
    lines = str(error).splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name


def _why() -> str:
    error = getattr(sys, "last_value", None)
    why = f": {describe(error)}" if error is not None else ""
    return f"its process has ended{why}"


def _begin_anew() -> None:
    """In a process that is forked: it owes nothing, its parent does."""
    _begun.clear()
    _preparing.clear()
    _aborted.clear()


os.register_at_fork(after_in_child=_begin_anew)


@atexit.register
def _leave() -> None:
    for switch in list(_begun):
        switch._end(_why())
    # Those of switches that have ended long ago are over, or about to be.
    for thread, seconds in list(_preparing.items()):
        thread.join(seconds)
    for ranks, seconds in _aborted:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not ranks.all_have_left():
            time.sleep(0.02)
        ranks.clean_up()
