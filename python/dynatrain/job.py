"""A job whose processes come and go while it trains.

What a process does is said by a protocol (docs/ElasticJobs.md) that runs in the
extension, on a thread of its own. It asks the trainer for work; this takes it
between two steps, where the trainer calls `Job.boundary`.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import socket
import threading
import time
import uuid
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import torch.distributed as dist

from . import _C
from .errors import (
    AbortedError,
    Error,
    InvalidError,
    JobWarning,
    LostStateError,
    PeerLostError,
    PeerTimeoutError,
    code_of,
    error_of,
)
from .farewell import describe
from .job_attempt import Attempt, Held, Terms, building
from .job_launch import Launch
from .job_log import JobLog
from .job_losses import LossWatch
from .job_memory import check_beside, is_flat, with_gpu_memory
from .job_nccl import communicators_of
from .job_plans import PlansAhead
from .job_recovery import processes_of
from .job_requests import Notice, wish_of
from .job_snapshots import Snapshots, node_of
from .job_start import folder_of, start_of
from .job_status import (
    Counters,
    StatusPost,
    connected,
    layout_of,
    name_of,
    queued_of,
    sweep,
    text_of,
)
from .job_world import JobWorld, asked_for
from .state import State

# Seconds that a wait for something to do takes at a time.
_LOOK = 0.5
# Seconds between two looks where another thread acts.
_SHORT_LOOK = 0.01
# Shares of the timeout: of what a process that closes waits for, and of how
# much longer than it the collectives of a world wait.
_CLOSE_SHARE, _GROUP_SHARE = 0.2, 2.0

# How often a recovery is tried.
_TRIES = 3

_open: weakref.WeakSet[Job] = weakref.WeakSet()


def _name(node: str | None) -> str:
    """Of this start of this process; `job_snapshots.node_of` reads it."""
    node = node or socket.gethostname()
    return f"{node}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _check_snapshots(every: int) -> None:
    if every < 0:
        raise InvalidError(
            f"snapshots is {every}, expected a number of steps, or 0"
        )


class Job:
    """This process's part in an elastic job::

        def build(world):
            model = world.make(Decoder)
            return dynatrain.State(model=model, optimizer=adamw(model))

        with dynatrain.Job(state, build=build, plans="plans/") as job:
            while job.step < 1000:
                train_step(job.state, job.world)
                job.boundary()

    With ``snapshots=10`` it survives the loss of processes: what they held
    comes from the last snapshot, and all go on from its step. The trainer
    says where it has stopped, in place of the lines within the loop::

        try:
            train_step(job.state, job.world)
        except RuntimeError as error:
            if not job.recover(error):
                break  # this process has left
            continue

    As a context manager it joins the job, and leaves it at the end. The first
    processes found it; those that come later are taken in while the others
    train. What the trainer holds and in which world is `state` and `world`:
    read them anew after every `boundary`, which may have put others there.

    state: what this process holds when the job begins. Without one `build`
        makes it, as in all later worlds; a process that joins needs none. The
        store may stand in its place.
    store: one that all processes of the job share, for this job alone, or the
        "HOST:PORT" of a TCPStore, or "etcd://HOST:PORT,.../NAME" (EtcdStore).
        Without one ("env://") it is that which torchrun says in MASTER_ADDR
        and MASTER_PORT. It should outlive every process of the job.
    build: makes model, optimizer and the rest for a `JobWorld`, on a thread of
        its own beside training: it must not touch what is being trained, nor
        the process's generators of random numbers.
    plans: a folder that keeps plans, as files that are filled in as worlds
        come, and found again by this job and by later ones. Processes may
        share it or not. cache: an older name of it.
    layout: any JSON value; `build` finds it in the world. Of the first world;
        `request` asks for another one.
    layout_for: gives the layout of each world, from the one that was asked for
        and the number of its processes: what to become after a loss, say
        (`advise.Layouts`). The same on all processes, and for the same
        arguments; it runs beside training. Plans ahead are for what it gives.
        Without it the layout stays what was asked for.
    processes: how many are started together with this one, and join together;
        the first ones found the job. Of torchrun's store: by default as many
        as torchrun has started. launch: their name, where several such
        sets start at the same time. rank: the place among them.
    step: how many steps of the job are over when it begins, such as those of a
        checkpoint; the same on all processes.
    timeout: no wait for other processes is longer than this many seconds. Take
        it longer than a few steps and than `build`.
    snapshots: after so many steps each process copies what it holds to another
        one, of another node where there is one; the same on all processes.
        0: a process that is lost takes with it what it held.
    node: what fails together with this process; default: the host's name.
    name: where the job's keys are in the store.
    plans_ahead: plans for the loss of each one process, and for each one's
        leaving, are made beside training, so that such a switch compiles
        nothing; the same on all processes. `build` is called for worlds that
        are not made then; their groups carry nothing.
    notice: signals (their numbers) and files (their paths) by which a scheduler
        says that this process's node is to go: all of the node's processes
        leave then, with all that they hold, as soon as a boundary is reached.
    start: called with a number of nodes where `request` asks for so many more;
        what it starts joins the job.
    trace: a folder for what each switch has spent its time on, process by
        process, as Perfetto shows it; `dt-ctl trace` makes one file of them.
    backend: what the bytes of switches travel by, "gloo" or "nccl". With the
        latter state is on the current GPU, and the groups of worlds are for
        tensors there too.
    beside: False where `build` cannot run beside training, as it changes
        variables of modules that steps read, or draws random numbers: it runs
        on the trainer's thread then, which stands at the boundary meanwhile.
    default_group: in `build` and in steps torch.distributed's default group is
        that of the world, and `dist.new_group`, `init_device_mesh` and the like
        make groups of the job's. They are made in `build`, and not later.
    digests: the receiver of every message checks it. more: further keys of
        the request of plans. With memory={"mode": "flat"}, the same on all
        processes, a switch needs no room for both worlds; past its point of no
        return a failure takes the job back to the last snapshot, or without
        `snapshots` ends it.
    """

    def __init__(
        self,
        state: State | dist.Store | str | None = None,
        build: Callable[[JobWorld], State] | None = None,
        *,
        store: dist.Store | str | None = None,
        plans: str | os.PathLike[str] | None = None,
        layout: Any = None,
        layout_for: Callable[[Any, int], Any] | None = None,
        processes: int | None = None,
        launch: str = "start",
        rank: int | None = None,
        step: int = 0,
        timeout: float = 300.0,
        snapshots: int = 0,
        node: str | None = None,
        name: str = "dynatrain",
        plans_ahead: bool = False,
        notice: Sequence[int | str | os.PathLike[str]] = (),
        start: Callable[[int], None] | None = None,
        trace: str | os.PathLike[str] | None = None,
        backend: str = "gloo",
        cache: str | os.PathLike[str] | None = None,
        digests: bool = True,
        beside: bool = True,
        default_group: bool = False,
        **more: Any,
    ) -> None:
        _check_snapshots(snapshots)
        check_beside(beside, plans_ahead, is_flat(more))
        gpu = communicators_of(backend)
        begun = start_of(
            state, build, store, processes, rank, name, default_group
        )
        name, folder = begun.root, folder_of(plans, cache)
        self.name = _name(node)
        self.timeout = float(timeout)
        #: What this process holds, and the world that it is in; None before
        #: `join` and after this process has left.
        self.state: State | None = None
        self.world: JobWorld | None = None
        #: Why the last switch that failed has failed.
        self.failure: Error | None = None
        self._store = connected(begun.store, self.timeout)
        self._layout = layout
        self._native = _C.Job(self._store, self.name, self.timeout, name, 1)
        self._launch = Launch(
            self._bounded(),
            f"{name}/launch/{launch}",
            self.name,
            begun.processes,
            begun.rank,
        )
        self._watch = LossWatch(self._native, self._bounded(), f"{name}/alive")
        self._terms = Terms(
            name=self.name,
            root=name,
            store=self._store,
            keys=self._bounded(),
            build=begun.build,
            patience=self._native.patience(),
            group_timeout=_GROUP_SHARE * self.timeout,
            digests=digests,
            cache=folder,
            watch=self._watch,
            gpu=gpu,
            trace=Path(trace) if trace is not None else None,
            request=with_gpu_memory(more) if gpu else more,
            layout_for=layout_for or asked_for,
            snapshots=Snapshots(self.name, snapshots) if snapshots else None,
            log=JobLog(self.name),
            beside=beside,
        )
        self._ahead = self._planner(name) if plans_ahead else None
        self._notice, self._start = Notice(notice), start
        self._begins_at = step
        self.counters = Counters()
        self._post = self._poster(name)
        self._begin()
        _open.add(self)

    def _begin(self) -> None:
        """Nothing is under way, and nothing has been."""
        self._attempt: Attempt | None = None
        self._step = self._first_step = self._begins_at
        self._has_left = False
        # What has stopped the trainer in the middle of a step, or that nothing
        # has and the world is given up all the same; and how often a recovery
        # has failed since.
        self._cause: BaseException | None = None
        self._is_torn = False
        self._failures = 0
        # When the trainer came to the boundary where it stands.
        self._stands_since: float | None = None
        # Steps of a world that was founded, of which state may yet come.
        self._first_seen: int | None = None
        self._is_over = self._is_closed = False
        self._sweeps: list[threading.Thread] = []

    def _bounded(self) -> dist.Store:
        """The job's store, whose calls end in time wherever its host is. All
        go by one connection: a store may take seconds for a new one."""
        return _C.bounded_store(
            self._store, self.timeout, self._native.answer()
        )

    def _poster(self, root: str) -> StatusPost:
        key = f"{root}/status/{self.name}"
        return StatusPost(
            self._bounded(), key, self._posted, self._native.beat()
        )

    def _planner(self, root: str) -> PlansAhead:
        terms = self._terms
        return PlansAhead(
            self.name,
            self._bounded(),
            root,
            terms.build,
            building,
            terms.patience,
            terms.cache,
            terms.request,
            terms.snapshots,
            terms.layout_for,
        )

    # The trainer's calls ----------------------------------------------------

    def join(self) -> None:
        """Waits until this process is in a world: the job's first one, or one
        that a running job makes with it."""
        if self.world is not None or self._is_closed:
            raise InvalidError("join: this process has joined the job already")
        try:
            self._notice.begin()
            names = self._launch.come()
            if names is not None:
                self._ask(join=names, layout=self._layout)
            until = time.monotonic() + self.timeout
            while self.world is None:
                self._build_asked()
                task = self._native.next(_LOOK)
                if task is not None:
                    self._do(task)
                    until = time.monotonic() + self.timeout
                elif self._attempt is None and time.monotonic() > until:
                    raise self._never_taken()
        except BaseException as error:
            self._launch.withdraw()
            self.close(describe(error))
            raise

    @property
    def step(self) -> float:
        """How many steps of the job are over: each `boundary` counts one, and a
        recovery goes back. Infinite where this process has left: the others
        take all that there are."""
        return math.inf if self._has_left else self._step

    def boundary(self, step: int | None = None) -> bool:
        """Between two steps: one more of the job is over, or `step` of them,
        the same number on all processes. False when this process has left the
        job.

        While nothing is under way this costs no call of the store. When all
        processes are ready for another world, all stop at the same boundary;
        when this returns they are in it, or the old one goes on.
        """
        if self._is_closed or self.world is None:
            raise InvalidError("boundary: this process is in no world")
        self._step = self._step + 1 if step is None else step
        if self._notice.is_news():
            self.request(f"leave node {node_of(self.name)}")
        goes_on = (
            self._native.at_boundary(self._step) and not self._wants_source()
        )
        if not goes_on and not self._stay():
            return False
        self._take_snapshot()
        # An optimizer may have no state before its first step.
        if self._ahead is not None and self._step > self._first_step:
            self._ahead.begin(lambda: Held(self.state))
        return True

    def recover(self, error: BaseException) -> bool:
        """From an `except` clause around a step that has failed, such as in a
        collective that misses a process. False when this process has left.

        Waits until the job has found out who is lost, and is in a world without
        it; `state` and `world` are others then, and the step is that of the
        last snapshot. What cannot be recovered raises `LostStateError`; where
        no process is lost `error` is raised again.
        """
        if self._is_closed or self.world is None:
            raise error
        self._is_torn, self._cause = True, error
        # Others may wait in collectives that this process has left.
        self.world.cut()
        if self._attempt is not None and not self._attempt.is_after_loss:
            self._give_up_attempt()
        return self._stay()

    def _stay(self) -> bool:
        """Between two steps, until the trainer may take one."""
        self._stands_since = time.monotonic()
        until = time.monotonic() + self._terms.patience
        while not self._is_over:
            if self._wants_source():
                self._attempt.read(self.state)
            self._build_asked()
            task = self._native.next(_LOOK)
            if task is not None:
                self._do(task)
                until = time.monotonic() + self._terms.patience
            elif self._is_torn:
                if self._attempt is None and time.monotonic() > until:
                    raise self._cause or self.failure
                time.sleep(_SHORT_LOOK)
            elif self._native.at_boundary(self._step):
                return True
        return False

    def _give_up_attempt(self) -> None:
        """Another one, without the lost process, takes its place."""
        why = f"a step has failed: {describe(self._cause)}"
        self._native.failed(self._attempt.number, "cancelled", why)

    def _take_snapshot(self) -> None:
        snapshots = self._terms.snapshots
        if snapshots is not None and snapshots.is_due(self._step):
            snapshots.take(self.state, self._step)

    def request(
        self,
        what: Any = None,
        *,
        layout: Any = None,
        leave: Sequence[int | str] = (),
    ) -> None:
        """Asks for another world, and does not wait for it: it is made beside
        training, and a later `boundary` enters it.

        what: words, such as "lost node 3", "leave rank 2", "-1 node" or
        "+2 nodes" (`job_requests`), or a layout that is no text. layout: any
        JSON value, for `build`; None: as it is. leave: processes by rank in
        this world, or by name. Of several requests that come before the switch
        all hold; where layouts differ the newest. When all processes ask for
        the same, that is one request. What has failed is not tried again: see
        `failure`.
        """
        if self.world is None:
            raise InvalidError("request: this process is in no world")
        members = self.world.members
        names = [name_of(one, members) for one in leave]
        if not isinstance(what, str):
            self._ask(leave=names, layout=layout if what is None else what)
            return
        wish = wish_of(what, members)
        if wish.start:
            if self._start is None:
                raise InvalidError(
                    f"request: '{what}', but nobody starts processes here: "
                    "give the job start=, or start them, and they join"
                )
            self._start(wish.start)
            if not names and layout is None:
                return  # who joins asks for it
        self._ask(leave=[*names, *wish.leave], layout=layout, lost=wish.lost)

    def status(self) -> dict[str, Any]:
        """How the job stands, as this process knows."""
        record = self._native.record()
        snapshots = self._terms.snapshots
        return {
            "process": self.name,
            "state": self._native.state(),
            "step": self._step,
            "epoch": record.epoch,
            "members": record.members,
            "layout": layout_of(record.layout),
            "attempt": record.attempt,
            "phase": record.phase,
            "target": record.target_members,
            "why": record.why,
            "queued": queued_of(self._native),
            "snapshots": snapshots and snapshots.status(),
            "plans_ahead": self._ahead and self._ahead.status(),
            "counters": self.counters.plain(),
        }

    def _posted(self) -> dict[str, Any]:
        """Of `status`, what is not in the job's record."""
        told = self.status()
        own = ("state", "step", "queued", "snapshots")
        own += ("plans_ahead", "counters")
        return {name: told[name] for name in own}

    def close(self, why: str = "its trainer has ended") -> None:
        """Ends this process's part, without a switch: the others go on with it
        only if they end too. A switch that is under way fails with `why`."""
        if self._is_closed:
            return
        self._is_closed = True
        _open.discard(self)
        if self._terms.snapshots is not None:
            # Another one may need what travels now.
            self._terms.snapshots.wait(_CLOSE_SHARE * self.timeout)
            if self.world is not None:
                self._terms.snapshots.hold(self.world.epoch)
            self._terms.snapshots.end()
        self._notice.end()
        self._watch.leave()
        self._post.end(_CLOSE_SHARE * self.timeout)
        if self._ahead is not None:
            self._ahead.pause(_CLOSE_SHARE * self.timeout)
        # What reaches the others goes out within this time.
        self._native.close(why, _CLOSE_SHARE * self.timeout)
        while (task := self._native.next(0)) is not None:
            if task.what == "swept":
                self._swept(task)
        self._drop(why)
        self._forget_world()
        # What says that this process is there has gone before.
        self._watch.close()
        for thread in self._sweeps:
            thread.join(_CLOSE_SHARE * self.timeout)

    def __enter__(self) -> Job:
        if self.world is None:
            self.join()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
            return
        if not self._is_over:
            self._hear()
        if self.failure is not None and hasattr(error, "add_note"):
            what = "job" if self._is_over else "last switch of the job"
            error.add_note(f"the {what} failed: {self.failure}")
        self.close(describe(error))

    def _hear(self) -> None:
        """What ended the job, or the switch under way: where another process
        has ended, that is what this one's error comes from."""
        # It hears within two answers of the store, however slow these are.
        self._native.listen(self._terms.patience)
        while not self._is_over:
            task = self._native.next(0)
            if task is None:
                break
            self._note(task)
        record = self._native.record()
        if self.failure is None and record.phase == "aborted":
            # It has failed before this process read that it had begun.
            self.failure = AbortedError(record.why)
        if not self._is_over and record.lost:
            # What others have failed with since comes from that.
            who = processes_of(record.lost, record.members)
            more = f"; {self.failure}" if self.failure is not None else ""
            self.failure = PeerLostError(f"{who} lost{more}")

    def _note(self, task: _C.JobTask) -> None:
        if task.what == "discard":
            if self._is_at(task):
                self._drop(task.why)
            self.failure = error_of(task.code, task.why)
        elif task.what == "stopped" and task.end != "left":
            self._is_over = True
            self.failure = error_of(task.code, task.why)

    # What the job asks for --------------------------------------------------

    def _ask(
        self,
        join: Sequence[str] = (),
        leave: Sequence[str] = (),
        layout: Any = None,
        lost: Sequence[str] = (),
    ) -> None:
        self._native.ask(
            list(join),
            list(leave),
            text_of(layout),
            list(lost),
            is_flat(self._terms.request),
            self._terms.snapshots is not None,
        )

    def _wants_source(self) -> bool:
        """Whether an attempt waits to know what this process holds. The
        optimizer of a world that was founded has no state before a step."""
        if self._attempt is None or not self._attempt.wants_source:
            return False
        if not self.world.founded or self._attempt.is_after_loss:
            return True
        if self._first_seen is None:
            self._first_seen = self._step
        return self._step > self._first_seen

    def _build_asked(self) -> None:
        """Of a world for which this thread waits anyway."""
        if self._attempt is not None and self._attempt.wants_build:
            self._attempt.build()

    def _do(self, task: _C.JobTask) -> None:
        getattr(self, f"_{task.what}")(task)

    def _run(self, task: _C.JobTask, work: Callable[[], None]) -> None:
        """A part of an attempt, on this thread."""
        try:
            work()
        except Error as error:
            self._native.failed(task.attempt, code_of(error), str(error))
        except BaseException as error:
            why = describe(error)
            self._native.failed(task.attempt, code_of(error), why)
            raise
        else:
            self._native.ended(task.what, task.attempt)

    def _is_at(self, task: _C.JobTask) -> bool:
        return self._attempt is not None and (
            self._attempt.number == task.attempt
        )

    def _prepare(self, task: _C.JobTask) -> None:
        self._drop("superseded")
        if self._ahead is not None:
            self._ahead.pause()
        self._attempt = Attempt(
            self._native, task.record, self._terms, self._is_torn
        )
        if self._attempt.recalls and self.world is not None:
            # Its groups are cut.
            self._is_torn = True
        elif self._is_torn and not self._attempt.is_after_loss:
            self._give_up_attempt()

    def _transfer(self, task: _C.JobTask) -> None:
        if self._is_at(task):
            self._attempt.come(self._stands_since if self.world else None)
            self._run(task, lambda: self._attempt.transfer(self.state))

    def _verify(self, task: _C.JobTask) -> None:
        if self._is_at(task):
            attempt, step = self._attempt, task.record.horizon
            self._run(task, lambda: attempt.verify(step))

    def _adopt(self, task: _C.JobTask) -> None:
        attempt, self._attempt = self._attempt, None
        self._note_decision(attempt)
        with attempt.trace.span("adopt"):
            attempt.adopt()
            self._forget_world()
            self.state, self.world = attempt.state, attempt.world
            self._step = self._first_step = task.record.first_step
            if self.world is not None and self.world.founded:
                self._step = self._first_step = self._begins_at
            self._terms.build.forget()
            self._first_seen = None
            self._is_torn, self._cause, self._failures = False, None, 0
            if self.state is not None:
                self._enter(attempt)
        self.counters.committed += 1
        self.counters.recoveries += attempt.is_after_loss
        self._log_committed(attempt)
        self._account(attempt, "committed")

    def _forget_world(self) -> None:
        """torch.distributed's default group is another's from now on."""
        if self.world is not None:
            self.world.forget()

    def _log_committed(self, attempt: Attempt) -> None:
        log, world = self._terms.log, self.world
        if world is None:
            log.ends("left", attempt.number)
            return
        log.ends(
            "recovered" if attempt.is_after_loss else "committed",
            attempt.number,
            world=world.epoch,
            rank=world.rank,
            size=world.size,
            step=self._step,
        )

    def _enter(self, attempt: Attempt) -> None:
        self._watch.enter(self.world, attempt.pulse)
        self._post.begin()
        if self._ahead is not None:
            self._ahead.enter(attempt.number, self.world)
        if self._terms.snapshots is not None and attempt.first is None:
            self._terms.snapshots.take(self.state, self._step)
            if self.world.founded or attempt.recalls:
                # Of the one before there is nothing, or no second copy.
                self._terms.snapshots.wait()

    def _drop(self, why: str) -> None:
        """The attempt under way, if there is one, comes to nothing."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        self._note_decision(attempt)
        attempt.discard(why)
        if self._ahead is not None and self.world is not None:
            self._ahead.enter(attempt.number, self.world)
        self.counters.aborted += 1
        self._terms.log.ends("aborted", attempt.number, why=why)
        self._account(attempt, f"aborted: {why}")

    def _note_decision(self, attempt: Attempt) -> None:
        """All this time the others have had for theirs."""
        since = attempt.trace.end_of("verify")
        if since is not None:
            attempt.trace.add("decide", since, time.monotonic())

    def _account(self, attempt: Attempt, outcome: str) -> None:
        """What an attempt has taken; it is over."""
        self.counters.sent_bytes += attempt.moved.get("bytes_sent", 0)
        self.counters.received_bytes += attempt.moved.get("bytes_received", 0)
        if attempt.has_come and self._stands_since is not None:
            now = time.monotonic()
            attempt.trace.add("stands", self._stands_since, now)
            self.counters.stood_s += now - self._stands_since
            self._stands_since = now
        try:
            attempt.write_trace(outcome)
        except OSError as error:
            warnings.warn(f"no trace: {error}", JobWarning, stacklevel=4)

    def _discard(self, task: _C.JobTask) -> None:
        ended = self._attempt if self._is_at(task) else None
        if ended is not None:
            self._drop(task.why)
        record = self._native.record()
        # Without what it held there is nothing to take a step with.
        self._is_torn = self._is_torn or self._is_bare()
        is_open = record.attempt != task.attempt and record.is_open
        if is_open and (ended is None or ended.is_taken_over_by(record)):
            return
        if self._is_torn and self.world is not None:
            self._tell_of_recovery(task, ended)
        else:
            self._tell(task)

    def _is_bare(self) -> bool:
        """Whether a flat switch has failed past its point of no return."""
        record, world = self._native.record(), self.world
        return record.gone and world is not None and world.epoch == record.epoch

    def _tell_of_recovery(
        self, task: _C.JobTask, ended: Attempt | None
    ) -> None:
        """It is tried again, as others may have been lost meanwhile; what
        cannot be recovered is an error on all processes. A flat switch that has
        failed past its point of no return is the first reason for one."""
        self.failure = error_of(task.code, task.why)
        if ended is None or not (ended.is_after_loss or self._is_bare()):
            return
        if not ended.is_after_loss and self._terms.snapshots is None:
            return  # the job says what is lost, and ends
        self._failures += ended.is_after_loss
        is_final = isinstance(self.failure, LostStateError)
        if not is_final and self._failures < _TRIES:
            # The same on all processes is one request.
            self._ask(lost=ended.lost)
            return
        raise self.failure from self._cause

    def _refused(self, task: _C.JobTask) -> None:
        self._tell(task)

    def _tell(self, task: _C.JobTask) -> None:
        """What failed is an error for a process that has nothing else, and a
        warning for one that trains on."""
        self.failure = error_of(task.code, task.why)
        if self.world is None:
            raise self.failure
        warnings.warn(
            f"a switch of the job failed, training goes on: {task.why}",
            JobWarning,
            stacklevel=4,
        )

    def _swept(self, task: _C.JobTask) -> None:
        """Nobody needs keys of this attempt; those of a process that has died
        are still there."""
        self._sweeps = [one for one in self._sweeps if one.is_alive()]
        self._sweeps.append(
            threading.Thread(
                target=sweep,
                args=(self._store, self._terms.root, task.attempt),
                daemon=True,
            )
        )
        self._sweeps[-1].start()

    def _stopped(self, task: _C.JobTask) -> None:
        self._is_over = True
        if task.end == "left":
            self._has_left = True
            self._watch.leave()
            self._post.end(_CLOSE_SHARE * self.timeout)
            self._forget_world()
            self.state = self.world = None
            return
        self.failure = error_of(task.code, task.why)
        if task.end == "gone":
            more = "go on from a checkpoint, and give the job snapshots=STEPS"
            self.failure = LostStateError(f"{task.why}; {more}")
        raise self.failure

    def _never_taken(self) -> Error:
        missing = self._launch.missing()
        return PeerTimeoutError(
            f"join: no world within {self.timeout:g} s"
            + (f", {missing} processes have not come" if missing else "")
        )


# The jobs of a process that is forked are its parent's.
os.register_at_fork(after_in_child=_open.clear)


@atexit.register
def _leave() -> None:
    for job in list(_open):
        with contextlib.suppress(Exception):
            job.close("its process has ended")
