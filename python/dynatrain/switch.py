"""One change of layout, as it runs."""

from __future__ import annotations

import json
import os
import threading
import weakref
from functools import partial
from typing import Any, Callable

import torch

from . import _C, farewell
from .agreement import StepAgreement
from .board import Board
from .errors import Error, InvalidError
from .hollow import leave_empty
from .world import Place


def encode_user_data(user_data: Any) -> str:
    """None is no user data."""
    return "" if user_data is None else json.dumps(user_data)


def _decode_user_data(text: str) -> Any:
    return json.loads(text) if text else None


class Switch:
    """A prepared change of layout; `Plan.prepare` makes it.

    Any error in `wait`, `transfer` or `commit` is raised on every process and
    names rank, phase and cause. Unless it is `UndecidedError`, it leaves the
    source tensors untouched. Signal handlers of the trainer run while these
    calls wait; an exception that one raises (Ctrl-C) ends the switch on all
    processes, unless it is committed already: `outcome` tells. In mode flat,
    where memory of source tensors goes, only errors before all have begun to
    transfer leave these as they are.

    As a context manager: a switch that is not committed at the end is aborted.

    It belongs to the process that has prepared it. In one that is forked from
    that it does nothing, not even at the end.
    """

    def __init__(
        self,
        plan: _C.Plan,
        place: Place,
        tensors: list[_C.Tensor],
        note: str,
        digests: bool,
    ) -> None:
        self._place = place
        self._process = os.getpid()
        self._sources: list[weakref.ref[torch.Tensor]] = []
        self._native = _C.Switch(plan, place.native)
        self._error: BaseException | None = None
        self._agreement: StepAgreement | None = None
        self._board: Board | None = None
        self._prepared = threading.Event()
        self._note = ""
        thread = threading.Thread(
            target=self._prepare,
            args=(tensors, note, digests),
            name="dynatrain-prepare",
            daemon=True,
        )
        farewell.begin(self, thread, place)
        thread.start()

    @property
    def board(self) -> Board:
        """Words between the processes of this switch, once it is prepared; they
        are gone when it has ended."""
        if self._board is None:
            self._board = Board(
                self._native.store(),
                "words",
                self._place.rank,
                self._place.size,
                self._place.timeout,
                check=self._native.ranks().check,
            )
        return self._board

    def watch(self, sources: list[torch.Tensor]) -> None:
        """Tensors that have no elements left when their storage has gone."""
        self._sources = [weakref.ref(tensor) for tensor in sources]

    def due(self, step: int) -> bool:
        """Whether to switch now: True on all processes after the same step.

        Call it at each step boundary with the step's number, which must be the
        same on all processes. Before this process is prepared it costs nothing,
        then two short words with the store, never a collective.
        """
        if not self.ready():
            return False
        self.wait()
        if self._agreement is None:
            self._agreement = StepAgreement(self.board)
        agreement = self._agreement
        return self._run(lambda: agreement.due(step))

    def _prepare(
        self, tensors: list[_C.Tensor], note: str, digests: bool
    ) -> None:
        try:
            self._note = self._native.compare(tensors, note)
            if self._place.backend == "nccl":
                self._native.connect_nccl(digests, self._place.one_sided)
            else:
                self._native.connect(
                    self._connect(),
                    partial(
                        self._place.split,
                        self._native.store(),
                        self._native.patience(),
                    ),
                    self._place.shared_memory,
                    digests,
                )
        except BaseException as error:
            self._error = error
            self._end(farewell.describe(error))
        finally:
            self._prepared.set()

    def _connect(self) -> Any:
        try:
            return self._place.connect(
                self._native.store(), self._native.patience()
            )
        except Exception as error:
            # Raises, with the names of those who are missing.
            self._native.cannot_connect(farewell.describe(error))

    def _end(self, why: str) -> str:
        """Ends the switch unless it has ended; how it has."""
        outcome = self._native.abort(why)
        if outcome == "committed":
            farewell.forget(self)
        else:
            farewell.end(self, self._native.ranks(), self._place)
        return outcome

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise InvalidError(
                f"rank {self._place.rank}: the switch is that of process "
                f"{self._process}, from which this one was forked"
            )

    def _run(self, phase: Callable[[], Any]) -> Any:
        self._check_process()
        self.wait()
        try:
            return phase()
        except Error:
            if self.outcome == "aborted":
                farewell.end(self, self._native.ranks(), self._place)
            raise
        except BaseException as error:
            outcome = self._end(f"interrupted by {farewell.describe(error)}")
            if hasattr(error, "add_note"):
                error.add_note(f"the switch under way is {outcome}")
            raise

    def ready(self) -> bool:
        """Whether `transfer` would start at once (or raise)."""
        return self._prepared.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the preparation; False when it is not over in time."""
        if not self._prepared.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def warm_up(self) -> None:
        """Connects what a GPU's first messages connect, between two steps.

        Optional, and collective: `transfer` does it otherwise. It runs kernels
        that wait for other processes, so the trainer must have no collective
        of its own under way, on any process.
        """
        self._run(self._native.warm_up)

    def make_sure(self) -> None:
        """Of a plan of mode flat: takes the pages of a GPU that this process
        will need at once, after `wait`. `transfer` does it before anything
        goes; call it earlier where you decide earlier that there is no way
        back. OutOfMemoryError where there are not enough: then the switch has
        ended on all processes, and every source is whole."""
        self._run(self._native.make_sure)

    def transfer(self, user_data: Any = None) -> None:
        """Moves the bytes; the source must not change until it returns.

        On a GPU it starts behind what the thread's current stream of that GPU
        holds: streams that write the source must have been joined with it.

        `user_data`, any JSON value, is what goes with the tensors as they are
        now: step counters, the scheduler's state, seeds. It reaches every
        process with the commit: see `user_data`.
        """
        note = encode_user_data(user_data)
        try:
            self._run(
                lambda: self._native.transfer(note, self._trainer_stream())
            )
        finally:
            sources = [tensor() for tensor in self._sources]
            leave_empty(tensor for tensor in sources if tensor is not None)

    def _trainer_stream(self) -> int | None:
        gpu = self._native.gpu()
        if gpu is None:
            return None
        return torch.cuda.current_stream(gpu).cuda_stream

    def commit(self) -> None:
        """Returns when all processes have all their bytes, and know it. The
        source tensors may go then."""
        self._note = self._run(self._native.commit)
        farewell.forget(self)

    def abort(self, reason: str = "aborted by the trainer") -> None:
        """Ends the change on all processes, those too that have yet to prepare
        it; the old state is intact, but in mode flat once all have begun to
        transfer. Raises `Error` where it is committed."""
        self._check_process()
        if self._end(f"rank {self._place.rank}: {reason}") == "committed":
            raise Error(
                f"rank {self._place.rank}, abort: the switch is committed"
            )

    @property
    def outcome(self) -> str:
        """ "open" until the end, then "committed" or "aborted"; "undecided"
        where this process cannot learn which."""
        return self._native.outcome()

    @property
    def user_data(self) -> Any:
        """After `commit` what `transfer` was given, on the lowest rank that
        gave any; else, and before, what `Plan.prepare` was given."""
        self.wait()
        return _decode_user_data(self._note)

    @property
    def stats(self) -> dict[str, Any]:
        """Bytes, messages and seconds of this process's transfer.

        ``bytes_read_by_peers``: of ``bytes_sent``, what was not packed, as
        processes of this host have copied it from shared pages (`paged`).

        ``compressed``: for each state that this process has sent over links
        that the plan compresses, its bytes, and those that were sent for
        them."""
        self.wait()
        return self._native.stats()

    def time_steps(self) -> None:
        """Once prepared: `transfer` notes when each instruction ran."""
        self.wait()
        self._native.time_steps()

    def steps(self) -> list[tuple[str, int, int, float, float]]:
        """What has run, where `time_steps` has asked for it: what, its wave,
        bytes, and from when to when by `time.monotonic`. On a GPU nothing, as
        the host only starts what runs there."""
        self.wait()
        return self._native.steps()

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if os.getpid() == self._process and self.outcome != "committed":
            self._end(
                farewell.describe(error)
                if error is not None
                else "left without a commit"
            )
