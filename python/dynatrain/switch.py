"""One change of layout, as it runs."""

from __future__ import annotations

import json
import threading
import weakref
from typing import Any

import torch

from . import _C
from .agreement import StepAgreement
from .board import Board
from .errors import Error
from .hollow import leave_empty
from .world import Place


class Switch:
    """A prepared change of layout; `Plan.prepare` makes it.

    Any error in `wait`, `transfer` or `commit` is raised on every process,
    names rank, phase and peer, and leaves the source tensors untouched; in mode
    flat, where their memory goes, only those before all have begun to transfer
    do.
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
        self._sources: list[weakref.ref[torch.Tensor]] = []
        self._native = _C.Switch(plan, place.native)
        self._error: Error | None = None
        self._note = ""
        self._thread = threading.Thread(
            target=self._prepare,
            args=(tensors, note, digests),
            name="dynatrain-prepare",
            daemon=True,
        )
        self._thread.start()
        self._agreement: StepAgreement | None = None
        self._board: Board | None = None

    @property
    def board(self) -> Board:
        """Words of this switch; wiped when all have committed or aborted."""
        if self._board is None:
            self._board = self._place.board()
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
        return self._agreement.due(step)

    def _prepare(
        self, tensors: list[_C.Tensor], note: str, digests: bool
    ) -> None:
        try:
            self._note = self._native.compare(tensors, note)
            if self._place.backend == "nccl":
                self._native.connect_nccl()
            else:
                self._native.connect(
                    self._connect(), self._place.shared_memory, digests
                )
        except Error as error:
            self._error = error

    def _connect(self) -> Any:
        try:
            return self._place.connect()
        except Exception as error:
            # Raises, with the names of those who are missing.
            self._native.cannot_connect(str(error).splitlines()[0])

    def ready(self) -> bool:
        """Whether `transfer` would start at once (or raise)."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the preparation; False when it is not over in time."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def transfer(self) -> None:
        """Moves the bytes; the source must not change until it returns."""
        self.wait()
        try:
            self._native.transfer()
        except BaseException:
            self.board.leave()
            raise
        finally:
            sources = [tensor() for tensor in self._sources]
            leave_empty(tensor for tensor in sources if tensor is not None)

    def commit(self) -> None:
        """Returns when all processes have all their bytes. The source tensors
        may go then."""
        self.wait()
        try:
            self._native.commit()
        finally:
            self.board.leave()

    def abort(self, reason: str = "aborted by the trainer") -> None:
        """Ends the change on all processes; the old state is intact."""
        self._native.abort(f"rank {self._place.rank}: {reason}")
        self.board.leave()

    @property
    def user_data(self) -> Any:
        """What `Plan.prepare` was given as user_data, on some process."""
        self.wait()
        return json.loads(self._note) if self._note else None

    @property
    def stats(self) -> dict[str, Any]:
        """Bytes, messages and seconds of this process's transfer."""
        self.wait()
        return self._native.stats()

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.abort(str(error))
