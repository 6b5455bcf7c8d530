"""A switch between two `State`s: tensors by plan, the rest as data."""

from __future__ import annotations

from typing import Any

from . import small_state
from .errors import Error
from .state import State
from .switch import Switch


class StateSwitch(Switch):
    """`Plan.prepare` makes it where it is given a `State`. What is no tensor is
    read at `transfer`, compared and handed out before `commit` decides, and
    installed with it."""

    _old: State | None = None
    _new: State | None = None

    def carry(self, old: State | None, new: State | None) -> None:
        """The States whose tensors are being moved."""
        self._old, self._new = old, new

    def transfer(self, user_data: Any = None) -> None:
        self.wait()
        small_state.offer(
            self.board, self._old.small() if self._old is not None else None
        )
        super().transfer(user_data)

    def commit(self) -> None:
        try:
            if self.board.rank == 0:
                small_state.decide(self.board)
            arrived = small_state.collect(self.board)
        except Error as error:
            # All see the same error, or miss the same process.
            self.abort(str(error))
            raise
        super().commit()
        if self._new is not None:
            self._new.install(arrived)

    def abort(self, reason: str = "aborted by the trainer") -> None:
        if self.ready():
            small_state.withdraw(self.board, reason)
        super().abort(reason)
