"""A switch between two `State`s: tensors by plan, the rest as data."""

from __future__ import annotations

from typing import Any

from . import farewell, small_state
from .errors import Error
from .optimizer import Key
from .state import PER_RANK, Arrived, Small, State
from .switch import Switch


class Coming(State):
    """What a State is about to hold: its tensors are filled, and what is no
    tensor has come and is not installed."""

    def __init__(self, state: State, arrived: dict[str, Arrived]) -> None:
        self.__dict__["_read"] = state.destination_tensors()
        self.__dict__["_small"] = {
            **{k: v for k, v in state.small().items() if k not in arrived},
            **{
                name: Small(one.rule, one.value)
                for name, one in arrived.items()
                if state.has_part_of(name) and not self._is_anothers(one)
            },
        }

    @staticmethod
    def _is_anothers(one: Arrived) -> bool:
        """`install` makes of it what is this process's own; whoever has nothing
        of its own gets another's again."""
        return one.rule == PER_RANK and one.joined

    @property
    def tensors(self) -> dict[Key, Any]:
        return self.__dict__["_read"]

    def small(self) -> dict[str, Small]:
        return self.__dict__["_small"]


class StateSwitch(Switch):
    """`Plan.prepare` makes it where it is given a `State`. What is no tensor is
    read at `transfer`, compared and handed out before `commit` decides, and
    installed with it."""

    _old: State | None = None
    _new: State | None = None
    _arrived: dict[str, Arrived] | None = None

    def carry(self, old: State | None, new: State | None) -> None:
        """The States whose tensors are being moved."""
        self._old, self._new = old, new

    def transfer(self, user_data: Any = None) -> None:
        self._run(self._offer)
        super().transfer(user_data)

    def _offer(self) -> None:
        old = self._old
        if old is not None:
            old.refresh()
        small_state.offer(self.board, old.small() if old is not None else None)

    def commit(self) -> None:
        self.settle()
        self.install()

    def settle(self) -> None:
        """All of `commit` but for the last: this process has what it takes, and
        all others have theirs, but nothing of it is installed."""
        if self._arrived is None:
            self._arrived = self._run(self._collect)
        super().commit()

    def coming(self) -> State:
        """After `settle`: the new State as `install` makes it."""
        return Coming(self._new, self._arrived)

    def install(self) -> None:
        """Gives the new State what is no tensor."""
        if self._new is not None and self._arrived is not None:
            self._new.install(self._arrived)

    def _collect(self) -> dict[str, Arrived]:
        """What this process takes; the word of process 0 on it is the same for
        all, and so is its error."""
        try:
            if self.board.rank == 0:
                small_state.decide(self.board)
            return small_state.collect(self.board)
        except Error as error:
            self._end(str(error))
            raise
        except RuntimeError as error:
            # The store of a switch that has ended answers no more.
            self._end(farewell.describe(error))
            self._native.commit()  # raises why it has ended
            raise
