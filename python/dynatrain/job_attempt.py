"""One process's work on one attempt of an elastic job to change its world.

`prepare` runs on a thread of its own, beside training: the groups of the new
world, its objects, the plan, connections and memory. The rest runs on the
trainer's thread, between two steps: `transfer`, `verify`, and then `adopt` or
`discard`. Until it is adopted nothing of the old world has changed.

Where the trainer's `build` cannot run beside training (`Terms.beside`), it runs
on the trainer's thread, while that waits. `prepare` makes only groups then, and
all that needs the new world's objects is put off until `transfer`. After a
loss, and where a job begins, the trainer's thread waits while `prepare` runs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.distributed as dist

from . import _C
from .board import Board
from .capture import Piece
from .connections import Pulse
from .errors import (
    AbortedError,
    Error,
    InvalidError,
    PeerLostError,
    code_of,
    error_of,
)
from .farewell import describe
from .held_parts import regions_of
from .hollow import local_part, warm_up
from .job_groups import Groups
from .job_log import JobLog
from .job_losses import LossWatch
from .job_memory import give_up, is_by_page, request_for
from .job_nccl import Communicators
from .job_recovery import Agreement, Recalled, supplied
from .job_snapshots import Snapshots, Version
from .job_start import Builder
from .job_status import layout_of
from .job_trace import SwitchTrace
from .job_world import JobWorld, asked_for
from .planning import plan_on
from .regions import Region
from .state import State
from .state_switch import StateSwitch
from .world import World

if TYPE_CHECKING:
    from .optimizer import Key

# Of the time that a process waits for others in a phase of the job: what waits
# inside of it ends first, and names who is missing.
_SHARE = 0.8
# Between two looks whether the attempt has ended.
_LOOK = 0.05

#: What a trainer builds may use variables of modules: one at a time.
building = threading.Lock()


def parties_of(record: _C.JobRecord) -> list[str]:
    """All that take part, by the rank that each has in the switch: first who is
    there, then who joins."""
    here = [name for name in record.members if name not in record.lost]
    join = [name for name in record.target_members if name not in here]
    return here + join


@dataclass
class Terms:
    """What is the same for all attempts of a process."""

    name: str
    root: str
    store: dist.Store
    #: The same, whose calls end in time.
    keys: dist.Store
    build: Builder
    patience: float
    group_timeout: float
    digests: bool
    cache: Any
    watch: LossWatch
    #: What bytes travel by, where that is not Gloo.
    gpu: Communicators | None = None
    trace: Path | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    snapshots: Snapshots | None = None
    log: JobLog = field(default_factory=lambda: JobLog(""))
    layout_for: Callable[[Any, int], Any] = asked_for
    #: Whether `build` runs beside training.
    beside: bool = True

    @property
    def device(self) -> torch.device:
        """Where tensors of a world are."""
        return torch.device("cpu") if self.gpu is None else self.gpu.device


class Held(State):
    """A State whose tensors were read at one moment, between two steps."""

    def __init__(self, state: State) -> None:
        self.__dict__.update(state.__dict__)
        self.__dict__["_read"] = state.tensors

    @property
    def tensors(self) -> dict[Key, Any]:
        return self.__dict__["_read"]


def _place(tensor: Any) -> tuple:
    """What a tensor is, and where it lies."""
    if isinstance(tensor, Piece):
        region = tensor.shape, tensor.offset, tensor.size, tensor.range
        return (*region, *_place(tensor.tensor))
    own = local_part(tensor)
    return own.data_ptr(), tuple(own.shape), own.dtype


def _places(tensors: Mapping[Key, Any]) -> dict[Key, list[tuple]]:
    return {
        key: [
            _place(one)
            for one in (value if isinstance(value, list) else [value])
        ]
        for key, value in tensors.items()
    }


class Attempt:
    """Made when the job asks this process to prepare.

    is_torn: this process has stopped in the middle of a step.
    """

    def __init__(
        self,
        native: _C.Job,
        record: _C.JobRecord,
        terms: Terms,
        is_torn: bool = False,
    ) -> None:
        self.number = record.attempt
        self.stays = terms.name in record.target_members
        #: The new world, and what this process holds of it; None: it leaves.
        self.world: JobWorld | None = None
        self.state: State | None = None
        # The version of the snapshots that all go back to.
        self._recalled: tuple[int, int] | None = None
        self._is_torn = is_torn
        # The new world, until it is built.
        self._coming: JobWorld | None = None
        # Where the trainer's thread is to build it, and why it could not.
        self._wants_build = threading.Event()
        self._is_built = threading.Event()
        self._fault: BaseException | None = None
        self._snapshot_group: dist.ProcessGroup | None = None
        self.pulse: Pulse | None = None
        #: What this process has spent its time on.
        self.trace = SwitchTrace(self._tell)
        #: Whether this process, a member before, stands at the boundary.
        self.has_come = False
        #: The new world's first snapshot, where all have to have that before
        #: the decision.
        self.first: Version | None = None
        #: Bytes of its transfer, once that is over.
        self.moved: dict[str, Any] = {}
        self._live: list[Region] | None = None
        self._native, self._record, self._terms = native, record, terms
        self._groups = Groups(
            native.store(self.number),
            terms.patience,
            terms.group_timeout,
            self.trace,
            terms.gpu,
        )
        self._parties = parties_of(record)
        self._held: Held | None = None
        self._old: State | None = None
        self._has_source = threading.Event()
        if terms.name not in record.members:
            self._has_source.set()
        self._switch: StateSwitch | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._prepare, name="dynatrain-job", daemon=True
        )
        self._thread.start()

    # Beside training --------------------------------------------------------

    @property
    def is_after_loss(self) -> bool:
        """A process of the world that it leaves is gone, or what all held."""
        record = self._record
        return bool(record.members) and (bool(record.lost) or record.gone)

    @property
    def _is_put_off(self) -> bool:
        """Whether the world is built when all stand at the boundary. After a
        loss, and where a job begins, they wait while it is prepared."""
        is_planned = bool(self._record.members) and not self.is_after_loss
        return is_planned and not self._terms.beside

    @property
    def lost(self) -> list[str]:
        """The processes that the job goes on without."""
        return list(self._record.lost)

    def is_taken_over_by(self, record: _C.JobRecord) -> bool:
        """Whether another attempt brings what this one was to bring: who was to
        join is in its world, who was to leave is not."""
        own = self._record
        here, then = set(own.members), set(own.target_members)
        next_ones = set(record.target_members)
        brings_layout = (
            own.target_layout == own.layout
            or record.target_layout != record.layout
        )
        return (
            then - here <= next_ones
            and not (here - then) & next_ones
            and brings_layout
        )

    @property
    def recalls(self) -> bool:
        """The world that it leaves is given up, for what snapshots have."""
        return self.is_after_loss and self._terms.snapshots is not None

    @property
    def wants_source(self) -> bool:
        """Whether the trainer has yet to say what this process holds."""
        return not self._has_source.is_set()

    def _tell(self, what: str, **more: Any) -> None:
        self._terms.log.begins(what, self.number, **more)

    def read(self, state: State) -> None:
        """What this process holds, between two steps."""
        self._old = state
        try:
            self._held = Held(state)
            if self.is_after_loss and not self._record.gone:
                self._live = regions_of(state)
        except Exception as error:
            # In the middle of a step there may be nothing to be read.
            if not self._is_torn:
                self._fail(error)
        self._has_source.set()

    def _prepare(self) -> None:
        try:
            with self.trace.span("prepare"):
                if self.stays:
                    self._begin()
                if not self._terms.beside:
                    # Where it stands still, or has what is to be moved.
                    self._await_source()
                if not self._is_put_off:
                    here = self._terms.beside
                    self._make(self._build if here else self._hand_over)
            self._go_on()
        except BaseException as error:
            self._fail(error)
            return
        step = None if self._recalled is None else self._recalled[1]
        self._native.ended("prepare", self.number, step)

    def _go_on(self) -> None:
        if self._ended.is_set():
            raise AbortedError("the attempt has ended")

    def _fail(self, error: BaseException) -> None:
        self._native.failed(self.number, code_of(error), self._said(error))

    def _said(self, error: BaseException) -> str:
        is_own = code_of(error) == "cancelled"
        return describe(error) if is_own else str(error)

    def _make(self, build: Callable[[], None]) -> None:
        """What the new world holds, and what brings it there."""
        if self.stays:
            build()
        if self._record.members:
            self._connect()

    def _hand_over(self) -> None:
        """Lets the trainer's thread build."""
        self._wants_build.set()
        while not self._is_built.wait(_LOOK):
            self._go_on()
        if self._fault is not None:
            raise self._fault

    @property
    def wants_build(self) -> bool:
        """Whether the trainer's thread, which waits, is to call `build`."""
        return self._wants_build.is_set() and not self._is_built.is_set()

    def build(self) -> None:
        """What `prepare` waits for."""
        try:
            self._watched(self._build)
        except BaseException as error:
            self._fault = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._is_built.set()

    def _begin(self) -> None:
        """The new world, with the groups that the job itself needs."""
        record, terms = self._record, self._terms
        asked = layout_of(record.target_layout)
        world = JobWorld(
            epoch=record.epoch + 1,
            members=record.target_members,
            name=terms.name,
            layout=terms.layout_for(asked, len(record.target_members)),
            asked=asked,
            founded=not record.members,
            groups=self._groups,
            by_page=is_by_page(terms.request),
            device=terms.device,
        )
        self.pulse = world.new_pulse()
        terms.watch.expect(self.number, world, self.pulse)
        if terms.snapshots is not None:
            self._snapshot_group = world.new_host_group()
        self._coming = world

    def _build(self) -> None:
        world = self._coming
        with building:
            self._go_on()
            if world.founded:
                # Later worlds are made on the meta device, and in haste.
                warm_up()
            with self.trace.span("build"):
                state = self._terms.build(world)
        world.close()
        if not isinstance(state, State):
            raise InvalidError(
                f"build has returned a {type(state).__name__}, expected a "
                "dynatrain.State"
            )
        self.world, self.state = world, state

    def _connect(self) -> None:
        """The plan, and the switch that it is for."""
        snapshots = self._terms.snapshots
        if self.recalls:
            snapshots.hold(self._record.epoch)
        if not self.recalls or not snapshots.versions:
            self._await_source()
        terms, rank = self._terms, self._parties.index(self._terms.name)
        board = Board(
            self._native.store(self.number),
            "plan",
            rank,
            len(self._parties),
            terms.patience * _SHARE,
            "switch of the job",
        )
        with board:
            source = self._source(board)
            with self.trace.span("plan"):
                more = request_for(terms.request, self._record.passes)
                plan = plan_on(board, source, self.state, terms.cache, more)
        world = World(
            store=dist.PrefixStore(self._prefix, terms.store),
            rank=rank,
            world_size=len(self._parties),
            backend="gloo" if terms.gpu is None else "nccl",
            timeout=terms.patience,
        )
        self._go_on()
        with self.trace.span("connect"):
            switch = plan.prepare(
                world,
                source,
                self.state,
                tag=self.number,
                digests=terms.digests,
            )
            self._switch = switch
            if self._ended.is_set():
                switch.abort("the job has gone on")
            switch.wait()
            if self._record.passes:
                # Once all have come to the boundary there is no way back.
                switch.make_sure()
        if terms.trace is not None:
            switch.time_steps()

    def _await_source(self) -> None:
        """Until the trainer stands where it can say what it holds."""
        with self.trace.span("wait for a boundary"):
            while not self._has_source.wait(_LOOK):
                self._go_on()

    def _source(self, board: Board) -> State | None:
        """What this process supplies. After a loss all agree on it."""
        if not self.is_after_loss:
            return self._held
        record, terms = self._record, self._terms
        with self.trace.span("choose what to go back to"):
            choice = Agreement(
                board,
                self._parties,
                record.members,
                record.lost,
                terms.snapshots,
                self._live,
                # On GPUs nobody knows whether the step before was whole.
                self._is_torn or terms.gpu is not None,
            ).reach()
        if choice.number is None:
            return self._held
        self._recalled = choice.number
        if record.flat:
            # There is no room for what nobody goes on with.
            self._await_source()
            if self._old is not None:
                give_up(self._old)
        self._held = self._old = None
        copies = supplied(board.rank, choice, terms.snapshots)
        if not copies:
            return None
        return Recalled(copies, terms.name, self._device())

    def _device(self) -> torch.device:
        """Of what is to be filled: one process moves tensors of one device."""
        state = self.state
        tensors = state.destination_tensors() if state is not None else {}
        for value in tensors.values():
            one = value[0] if isinstance(value, list) else value
            one = one.tensor if isinstance(one, Piece) else one
            return local_part(one).device
        return torch.device("cpu")

    @property
    def _prefix(self) -> str:
        return f"{self._terms.root}/{self.number}"

    # On the trainer's thread ------------------------------------------------

    def come(self, since: float | None) -> None:
        """All are ready, at the boundary where a member's trainer stands since
        then; and have said so, where this is the point of no return."""
        self.has_come = since is not None
        if self._record.passes:
            self._tell("pass")
            if since is not None:
                self.trace.add("pass", since, time.monotonic())

    def transfer(self, state: State | None) -> None:
        """Moves the bytes; `state` is what the trainer holds now."""
        if self._is_put_off:
            self._make_now(state)
        if self.world is not None and self._terms.gpu is not None:
            with self.trace.span("warm up"):
                self._beside(self.world.warm_up)
        if self._switch is None:
            return
        with self.trace.span("transfer"):
            self._transfer(state)
        self.moved = self._switch.stats
        self.trace.add_steps(self._switch.steps())

    def _make_now(self, state: State | None) -> None:
        """What `prepare` does elsewhere, while the trainer stands. A fault of
        what the trainer builds is one of the switch, as there."""
        if state is not None:
            self.read(state)
        try:
            self._watched(lambda: self._make(self._build))
        except Error:
            raise
        except Exception as error:
            raise error_of(code_of(error), self._said(error)) from error

    def _transfer(self, state: State | None) -> None:
        if self._held is not None:
            now = _places(state.tensors)
            then = _places(self._held.tensors)
            for key in [*now, *then]:
                if now.get(key) != then.get(key):
                    raise InvalidError(
                        f"tensor '{key[0]}' state '{key[1]}' is not what and "
                        "where it was when the switch was prepared: ask again"
                    )
        self._switch.transfer()

    def verify(self, step: int) -> None:
        """All have their bytes, and shared values are the same. step: of the
        job, that the new world begins with."""
        with self.trace.span("verify"):
            if self._switch is not None:
                self._switch.settle()
            if self._snapshot_group is not None and self._copies_leave:
                self._make_first(step)
            self._native.leave(self.number)
        self._tell("vote")

    @property
    def _copies_leave(self) -> bool:
        """Whether who leaves takes copies of the old world with it. Who stays
        could not go back to these, whatever happened after the decision."""
        record = self._record
        there = set(record.members).difference(record.lost)
        return not there <= set(record.target_members)

    def _make_first(self, step: int) -> None:
        """Ends with the attempt, whoever is waited for."""
        snapshots, group = self._terms.snapshots, self._snapshot_group
        version = Version(self.world.epoch, step, self.world.members)

        def make() -> None:
            snapshots.make(version, self.world, group, self._switch.coming())

        with self.trace.span("first snapshot"):
            self._beside(make)
        if not version.is_whole:
            raise PeerLostError(
                f"there is no whole snapshot of the new world: {version.fault}"
            )
        self.first = version

    def _beside(self, work: Callable[[], None]) -> None:
        """Something in the new world's groups, which ends with the attempt."""
        faults: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                faults.append(error)

        thread = threading.Thread(
            target=run, name="dynatrain-beside", daemon=True
        )
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK)
            if not self._is_under_way():
                self._groups.cut()
        if faults:
            raise faults[0]

    def _watched(self, work: Callable[[], None]) -> None:
        """Something on this thread, whose waits in the new world's groups end
        with the attempt."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(_LOOK):
                if not self._is_under_way():
                    self._groups.cut()
                    return

        thread = threading.Thread(
            target=watch, name="dynatrain-watched", daemon=True
        )
        thread.start()
        try:
            work()
        finally:
            is_over.set()
            thread.join()

    def _is_under_way(self) -> bool:
        record = self._native.record()
        return (
            record.attempt == self.number
            and record.is_open
            and self._native.state() != "stopped"
        )

    def adopt(self) -> None:
        """The new world is the world."""
        if self.world is not None and self.world.default is not None:
            self.world.default.enter()
        if self._switch is not None:
            self._switch.install()
        if self._snapshot_group is not None:
            self._terms.snapshots.enter(
                self.world, self._snapshot_group, self._recalled, self.first
            )
        if self.world is not None and self.world.rank == 0:
            self._forget_lost()
        self._release()

    def _forget_lost(self) -> None:
        """Who is lost has left its sign of life, and how it stood."""
        root, store = self._terms.root, self._terms.keys
        with contextlib.suppress(RuntimeError):
            for name in self._record.lost:
                for kind in ("alive", "status"):
                    store.delete_key(f"{root}/{kind}/{name}")

    def discard(self, why: str) -> None:
        """The old world goes on as if nothing had been."""
        self._ended.set()
        self._groups.cut()
        if self._switch is not None:
            with contextlib.suppress(RuntimeError):
                self._switch.abort(why)
        self._native.leave(self.number)
        # What says that the switch was aborted: all know.
        with contextlib.suppress(RuntimeError):
            self._terms.keys.delete_key(f"{self._prefix}/dynatrain/attempt")
        if self._coming is not None:
            self._coming.forget()
        self.world = self.state = self.first = None
        if self.pulse is not None:
            self.pulse.close()
        self._release()

    def write_trace(self, outcome: str) -> None:
        """Where the trainer wants to see what the time went into."""
        if self._terms.trace is None:
            return
        record, name = self._record, self._terms.name
        before, after = (
            f"rank {world.index(name)}" if name in world else "none"
            for world in (record.members, record.target_members)
        )
        self.trace.write(
            self._terms.trace,
            self.number,
            self._parties.index(name),
            f"{before} -> {after} ({name})",
            outcome,
        )

    def _release(self) -> None:
        self._held = self._old = self._coming = None
        self._switch = self._snapshot_group = None
