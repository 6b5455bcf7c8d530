"""The step after which all processes stop, without a collective.

A process whose preparation is over writes at every step boundary how far it
is. The last one to get ready closes the list, reads it, and names the boundary
after the furthest. A process that finds the list closed waits for that word
before it goes on. Writing comes before looking: one that has not seen the list
closed has been read where it is, and the next boundary is the last that it can
reach.
"""

from __future__ import annotations

from .board import Board


class StepAgreement:
    """Made anew for each switch."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._counted = False
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
        if not self._counted:
            self._counted = True
            if board.add("ready", 1) == board.size:
                return self._close()
        if not board.has("closed"):
            return None
        return int(board.read("last", 0))

    def _close(self) -> int:
        board = self._board
        board.write("closed", b"")
        everyone = [f"at/{rank}" for rank in range(board.size)]
        # Those at the furthest boundary may have gone on already.
        last = max(map(int, board.peek(everyone))) + 1
        board.post("last", str(last).encode())
        return last
