"""The step after which all processes stop, without a collective.

A process whose preparation is over writes at every step boundary how far it is.
When all have written, process 0 closes the list, reads it, and names the
boundary after the furthest. A process that finds the list closed waits for that
word before it goes on. Writing comes before looking: one that has not seen the
list closed has been read where it is, and the next boundary is the last that it
can reach.
"""

from __future__ import annotations

from .board import Board


class StepAgreement:
    """Made anew for each switch."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._last: int | None = None

    def due(self, step: int) -> bool:
        """Whether the step that is over is the one to stop after. Call it with
        a number that grows by one each time, the same on all processes, once
        the preparation is over."""
        if self._last is None:
            self._last = self._decide(step)
        return self._last is not None and step >= self._last

    def _decide(self, step: int) -> int | None:
        board = self._board
        board.write(f"at/{board.rank}", str(step).encode())
        if board.rank == 0:
            return self._close()
        if not board.has("closed"):
            return None
        return int(board.read("last", 0))

    def _close(self) -> int | None:
        board = self._board
        everyone = [f"at/{rank}" for rank in range(board.size)]
        if not board.has_all(everyone):
            return None
        board.write("closed", b"1")
        # Those at the furthest boundary may have gone on already.
        last = max(map(int, board.peek(everyone))) + 1
        board.post("last", str(last).encode())
        return last
