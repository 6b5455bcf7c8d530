"""Finds processes of an elastic job that are gone, sooner than their silence.

A process that ends without having left is told to the job at once: its
connections end, and its sign of life stays in the store. Where the whole host
goes nothing ends; then the job's count of signs of life finds it
(docs/ElasticJobs.md).
"""

from __future__ import annotations

import threading

import torch.distributed as dist

from . import _C
from .connections import Pulse
from .job_world import JobWorld

# Seconds between two looks at what the job knows.
_LOOK = 0.1
# Worlds whose connections stay open: those who have yet to leave the world
# before must not see this process go.
_KEPT = 2


class LossWatch:
    """A thread of one process. Where the job has lost a process of this one's
    world it ends the collectives there, which would wait for it.

    signs: where in the store the signs of life are.
    """

    def __init__(self, native: _C.Job, store: dist.Store, signs: str) -> None:
        self._native, self._store, self._signs = native, store, signs
        self._worlds: list[tuple[JobWorld, Pulse]] = []
        self._gone: set[str] = set()
        self._has_left = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="dynatrain-watch", daemon=True
        )
        self._thread.start()

    def enter(self, world: JobWorld, pulse: Pulse) -> None:
        """The world that this process is in now."""
        # The others look for it from now on.
        self._store.add(f"{self._signs}/{world.members[world.rank]}", 1)
        self._worlds.append((world, pulse))

    def leave(self) -> None:
        """This process has no part in the job any more, as was asked."""
        self._has_left = True

    def close(self) -> None:
        """The other processes see this one go."""
        self._is_over.set()
        self._thread.join()
        for _, pulse in self._worlds:
            pulse.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            if not self._worlds:
                self._is_over.wait(_LOOK)
                continue
            while len(self._worlds) > _KEPT:
                self._worlds.pop(0)[1].close()
                self._gone.clear()
            self._look(*self._worlds[-1])

    def _look(self, world: JobWorld, pulse: Pulse) -> None:
        """At one world, for a moment."""
        self._gone.update(world.members[at] for at in pulse.ended(_LOOK))
        record = self._native.record()
        if self._native.state() == "stopped" and not self._has_left:
            # The others have gone on without it.
            world.cut()
        if record.epoch != world.epoch:
            return
        news = self._gone.intersection(world.members).difference(record.lost)
        killed = [name for name in news if self._has_sign(name)]
        self._gone.difference_update(news)
        if killed:
            self._native.ask([], [], "", killed)
        if record.is_open and record.lost:
            world.cut()

    def _has_sign(self, process: str) -> bool:
        """Who leaves, or ends with an error, takes it away."""
        try:
            return self._store.check([f"{self._signs}/{process}"])
        except RuntimeError:
            return False
