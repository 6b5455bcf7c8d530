"""Finds processes of an elastic job that are gone, sooner than their silence.

A process that ends without having left is told to the job at once: its
connections end, and its sign of life stays in the store. Where the whole host
goes nothing ends; then the job's count of signs of life finds it
(docs/ElasticJobs.md). One that ends while it is about to join ends the attempt.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from dataclasses import dataclass, field

import torch.distributed as dist

from . import _C
from .connections import Pulse
from .errors import StoreLostError
from .job_world import JobWorld

# Seconds after which it looks although nobody has told it of anything.
_LOOK = 10.0
# Bytes that it takes away at once; each is a word that something has changed.
_WORDS = 4096
# Worlds whose connections stay open: those who have yet to leave the world
# before must not see this process go.
_KEPT = 2


@dataclass
class _Prepared:
    """The world that an attempt prepares, and who has ended in it so far."""

    attempt: int
    world: JobWorld
    pulse: Pulse
    ended: set[str] = field(default_factory=set)


class LossWatch:
    """A thread of one process. Where the job has lost a process of this one's
    world it ends the collectives there, which would wait for it. It sleeps
    until a connection ends, or the job is told something.

    signs: where in the store the signs of life are.
    """

    def __init__(self, native: _C.Job, store: dist.Store, signs: str) -> None:
        self._native, self._store, self._signs = native, store, signs
        self._worlds: list[tuple[JobWorld, Pulse]] = []
        self._next: _Prepared | None = None
        self._gone: set[str] = set()
        self._has_left = False
        self._is_over = threading.Event()
        self._words, self._word = os.pipe()
        for file in (self._words, self._word):
            os.set_blocking(file, False)
        native.notify(self._word)
        self._thread = threading.Thread(
            target=self._run, name="dynatrain-watch", daemon=True
        )
        self._thread.start()

    def expect(self, attempt: int, world: JobWorld, pulse: Pulse) -> None:
        """A world that an attempt prepares."""
        self._note_ended()
        self._next = _Prepared(attempt, world, pulse)
        self._rouse()

    def enter(self, world: JobWorld, pulse: Pulse) -> None:
        """The world that this process is in now."""
        # The others look for it from now on.
        try:
            self._store.add(f"{self._signs}/{world.members[world.rank]}", 1)
        except dist.DistError as error:
            raise StoreLostError(f"lost the store: {error}") from error
        self._worlds.append((world, pulse))
        self._rouse()

    def leave(self) -> None:
        """This process has no part in the job any more, as was asked."""
        self._has_left = True

    def close(self) -> None:
        """The other processes see this one go."""
        self._native.notify(-1)
        self._is_over.set()
        self._rouse()
        self._thread.join()
        while self._worlds:
            self._worlds.pop()[1].close()
        os.close(self._words)
        os.close(self._word)

    def _rouse(self) -> None:
        """Where the pipe is full it is about to look."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._word, b"w")

    def _drop_oldest(self) -> None:
        world, pulse = self._worlds.pop(0)
        pulse.close()
        world.release()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._look_ahead()
            while len(self._worlds) > _KEPT:
                self._drop_oldest()
            if self._worlds:
                self._look(*self._worlds[-1])
            self._sleep()

    def _sleep(self) -> None:
        files = [self._words]
        files += [pulse.fileno() for _, pulse in self._worlds[-1:]]
        if self._next is not None:
            files.append(self._next.pulse.fileno())
        poll = select.poll()
        for file in files:
            if file >= 0:
                poll.register(file, select.POLLIN)
        poll.poll(1000 * _LOOK)
        with contextlib.suppress(BlockingIOError):
            os.read(self._words, _WORDS)

    def _look_ahead(self) -> None:
        """At the world that is prepared: nobody else is to wait for one that
        ends, as no process looks for the signs of life of who joins."""
        ahead = self._next
        if ahead is None:
            return
        attempt, world = ahead.attempt, ahead.world
        ended = ahead.pulse.ended()
        ahead.ended.update(world.members[at] for at in ended)
        record = self._native.record()
        for at in ended if record.attempt == attempt and record.is_open else ():
            name = world.members[at]
            # Without a member of the old world the job goes on as after a loss.
            if name not in record.members:
                why = f"rank {at} of the new world ({name}) has ended"
                self._native.failed(attempt, "peer_lost", why)

    def _note_ended(self) -> None:
        """Who had ended in a world before this process entered it. In one that
        nobody enters it means nothing: who discards it ends there too."""
        ahead = self._next
        if ahead is not None and any(
            world is ahead.world for world, _ in self._worlds
        ):
            self._gone.update(ahead.ended)
            ahead.ended.clear()

    def _look(self, world: JobWorld, pulse: Pulse) -> None:
        """At one world."""
        self._note_ended()
        self._gone.update(world.members[at] for at in pulse.ended())
        record = self._native.record()
        if self._native.state() == "stopped" and not self._has_left:
            # The others have gone on without it.
            world.cut()
        killed = self._killed(world, record)
        if record.epoch != world.epoch:
            # Only copies travel in it yet.
            if killed:
                world.cut()
            return
        if killed:
            self._native.ask([], [], "", killed)
        if record.is_open and record.lost:
            world.cut()

    def _killed(self, world: JobWorld, record: _C.JobRecord) -> list[str]:
        """Who has ended since the last look, and has not left."""
        news = self._gone.intersection(world.members).difference(record.lost)
        killed = [name for name in news if self._has_sign(name)]
        self._gone.difference_update(news)
        return killed

    def _has_sign(self, process: str) -> bool:
        """Who leaves, or ends with an error, takes it away."""
        try:
            return self._store.check([f"{self._signs}/{process}"])
        except RuntimeError:
            return False
