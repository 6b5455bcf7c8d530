"""Plans for the worlds that a job may come to next, made beside training.

For each process of a world there are two: it is asked to leave, or it is lost
and the others go back to a snapshot. All say what they would hold then: each
builds its state for that world, without memory and without connections. One of
them has the plan compiled, all keep it, and a switch that needs it finds it, by
what it would be compiled from (`planning`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.distributed as dist

from .board import Board
from .errors import AbortedError, InvalidError
from .farewell import describe
from .job_memory import is_flat, request_for
from .job_recovery import Choice, Recalled, supplied
from .job_snapshots import Snapshots, holders_of
from .job_world import JobWorld, asked_for
from .planning import plan_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .state import State

# Seconds between two looks for a snapshot.
_LOOK = 0.05


_DEVICES = ("cpu", "cuda")


class _Imagined:
    """Groups of a world that is not made: nothing travels in them."""

    def new(self, ranks: Sequence[int], rank: int) -> dist.ProcessGroup:
        from torch._C._distributed_c10d import FakeProcessGroup

        place, size = list(ranks).index(rank), len(ranks)
        group = dist.ProcessGroup(dist.HashStore(), place, size)
        kind = dist.ProcessGroup.BackendType.CUSTOM
        group._set_default_backend(kind)
        nothing = FakeProcessGroup._create_internal(place, size)
        for device in _DEVICES:
            group._register_backend(torch.device(device), kind, nothing)
        return group


def can_imagine() -> bool:
    """Whether this torch has groups in which nothing travels."""
    try:
        _Imagined().new([0], 0)
    except (ImportError, AttributeError):
        return False
    return True


@dataclass(frozen=True)
class Case:
    """One world that may be the next."""

    is_loss: bool
    rank: int

    def __str__(self) -> str:
        return f"{'lost' if self.is_loss else 'leaves'}-{self.rank}"


@dataclass
class _Round:
    """What is made for one world. number: the last attempt that has ended."""

    number: int
    world: JobWorld
    held: State | None = None
    thread: threading.Thread | None = None
    made: list[str] = field(default_factory=list)
    fault: str = ""


class PlansAhead:
    """Those of one process. `enter` a world, and `begin` when its state can be
    read; what is under way ends with `pause`."""

    def __init__(
        self,
        name: str,
        store: dist.Store,
        root: str,
        build: Callable[[JobWorld], State],
        building: threading.Lock,
        patience: float,
        cache: Any,
        request: Mapping[str, Any],
        snapshots: Snapshots | None,
        layout_for: Callable[[Any, int], Any] = asked_for,
    ) -> None:
        if not can_imagine():
            raise InvalidError("plans_ahead: this torch has no fake groups")
        self._name, self._store, self._root = name, store, root
        self._build, self._building = build, building
        self._patience, self._cache, self._request = patience, cache, request
        self._snapshots, self._layout_for = snapshots, layout_for
        self._is_flat = is_flat(request)
        self._round: _Round | None = None

    def enter(self, number: int, world: JobWorld) -> None:
        """A world that the attempt of this number has made, or has left as it
        was."""
        self.pause()
        self._round = _Round(number, world)

    def begin(self, held: Callable[[], State]) -> None:
        """Between two steps; once for each `enter`."""
        now = self._round
        if now is None or now.thread is not None:
            return
        now.held = held()
        now.thread = threading.Thread(
            target=self._run, args=(now,), name="dynatrain-ahead", daemon=True
        )
        now.thread.start()

    def pause(self, seconds: float = 0.0) -> None:
        """Ends what is under way; `enter` begins anew."""
        before, self._round = self._round, None
        if before is not None and before.thread is not None:
            before.thread.join(seconds)

    def status(self) -> dict[str, Any]:
        """Which plans there are of this world, and why there are no more."""
        now = self._round
        return {
            "made": list(now.made) if now is not None else [],
            "fault": now.fault if now is not None else "",
        }

    # On its thread ----------------------------------------------------------

    def _run(self, now: _Round) -> None:
        try:
            for case in self._cases(now):
                self._make(now, case)
                now.made.append(str(case))
        except AbortedError:
            pass
        except Exception as error:
            now.fault = describe(error)

    def _cases(self, now: _Round) -> Iterator[Case]:
        """Of which this process would be a party; the same order on all."""
        size = now.world.size
        for rank in range(size) if size > 1 else ():
            yield Case(False, rank)
            if self._snapshots is not None and rank != now.world.rank:
                yield Case(True, rank)

    def _make(self, now: _Round, case: Case) -> None:
        parties = list(now.world.members)
        gone = parties[case.rank]
        stay = [one for one in parties if one != gone]
        if case.is_loss:
            parties = stay
        board = Board(
            self._store,
            f"{self._root}/ahead/{now.number}/{case}",
            parties.index(self._name),
            len(parties),
            self._patience,
            "plans ahead of the job",
            check=lambda: self._go_on(now),
        )
        with board:
            new = self._imagine(now, stay) if self._name in stay else None
            old = now.held
            if case.is_loss:
                old = self._recalled(now, parties, gone)
            more = request_for(
                self._request, self._is_flat and not case.is_loss
            )
            plan_on(board, old, new, self._cache, more)

    def _go_on(self, now: _Round) -> None:
        if self._round is not now:
            raise AbortedError("the job goes to another world")

    def _imagine(self, now: _Round, members: Sequence[str]) -> State:
        world = JobWorld(
            epoch=now.world.epoch + 1,
            members=members,
            name=self._name,
            layout=self._layout_for(now.world.asked, len(members)),
            asked=now.world.asked,
            founded=False,
            groups=_Imagined(),
            device=now.world.device,
        )
        with self._building:
            self._go_on(now)
            try:
                return self._build(world)
            finally:
                world.forget()

    def _recalled(
        self, now: _Round, parties: Sequence[str], gone: str
    ) -> State | None:
        """What this process would supply; copies look the same at any step."""
        while True:
            self._go_on(now)
            whole = [
                one
                for one in self._snapshots.versions
                if one.is_whole and one.epoch == now.world.epoch
            ]
            if whole:
                break
            time.sleep(_LOOK)
        suppliers = {one: at for at, one in enumerate(parties)}
        holder = holders_of(now.world.members)[gone]
        suppliers[gone] = parties.index(holder)
        choice = Choice(whole[-1].number, suppliers)
        copies = supplied(parties.index(self._name), choice, self._snapshots)
        if not copies:
            return None
        return Recalled(copies, self._name, next(_devices(copies)))


def _devices(copies: Mapping[str, Any]) -> Iterator[Any]:
    """Where copies are: only their layout counts."""
    for copy in copies.values():
        yield copy.data.device
