"""Words between the processes of a world, through its store.

Each exchange has keys of its own, which are deleted when the last process has
left it: however often a job switches, the store stays as it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist

from . import errors
from .errors import Error, PeerTimeoutError

# Bytes of one value; what is longer is cut, so that no store has to take a plan
# of gigabytes in one message.
_CHUNK = 8 << 20
# Seconds between two looks for a key: at first, and at most.
_FIRST_LOOK, _LAST_LOOK = 0.0005, 0.05


def _failure(error: BaseException) -> bytes:
    return f"-{type(error).__name__}:{error}".encode()


def _raise(text: str, who: str) -> None:
    """Raises what another process met, as its class where that is ours."""
    name, _, words = text.partition(":")
    kind = getattr(errors, name, Error) if name in errors.__all__ else Error
    raise kind(f"{who}: {words}")


class Board:
    """One exchange. Leave it (as a context manager) when all is read."""

    def __init__(
        self,
        store: dist.Store,
        prefix: str,
        rank: int,
        size: int,
        timeout: float,
        what: str = "switch",
        check: Callable[[], None] | None = None,
    ) -> None:
        """check: raises what ends a wait here."""
        self.rank, self.size, self.timeout = rank, size, timeout
        self._what, self._check = what, check
        self._store = dist.PrefixStore(prefix, store)
        self._mine: dict[str, None] = {}

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: Any) -> None:
        self.leave()

    # Plain values ------------------------------------------------------------

    def post(self, key: str, data: bytes) -> None:
        """Writes a key of this process's; once."""
        parts = range(0, max(len(data), 1), _CHUNK)
        for number, at in enumerate(parts):
            self._set(f"{key}#{number}", data[at : at + _CHUNK])
        self._set(key, str(len(parts)).encode())

    def has(self, key: str) -> bool:
        """Whether a key is there; does not wait."""
        return self.has_all([key])

    def has_all(self, keys: Sequence[str]) -> bool:
        """Whether all of them are there; does not wait."""
        return self._store.check(list(keys))

    def read(self, key: str, rank: int, timeout: float | None = None) -> bytes:
        """A key that process `rank` writes, as soon as it has. Raises `Error`
        when it has not after `timeout` seconds (default: the world's)."""
        self.wait([key], [rank], timeout)
        count = int(self._store.get(key))
        return b"".join(self._store.get(f"{key}#{n}") for n in range(count))

    def wait(
        self,
        keys: Sequence[str],
        ranks: Sequence[int],
        timeout: float | None = None,
    ) -> None:
        """Until all keys are there; `ranks` are those who write them."""
        seconds = self.timeout if timeout is None else timeout
        end, pause = time.monotonic() + seconds, _FIRST_LOOK
        while not self.has_all(keys):
            if self._check is not None:
                self._check()
            if time.monotonic() > end:
                late = sorted(
                    {r for k, r in zip(keys, ranks) if not self.has(k)}
                )
                who = ", ".join(map(str, late[:8]))
                more = f" and {len(late) - 8} more" if len(late) > 8 else ""
                raise PeerTimeoutError(
                    f"rank {self.rank}, {self._what}: no answer within "
                    f"{seconds:g} s from rank {who}{more}"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK)

    def write(self, key: str, data: bytes) -> None:
        """Writes a short value, again and again if need be."""
        self._set(key, data)

    def peek(self, keys: Sequence[str]) -> list[bytes]:
        """Short values that are known to be there."""
        return [self._store.get(key) for key in keys]

    def _set(self, key: str, data: bytes) -> None:
        self._mine[key] = None
        self._store.set(key, data)

    # Values or errors --------------------------------------------------------

    def post_result(self, key: str, make: Callable[[], bytes]) -> None:
        """Writes what `make` returns, or the error that it raises."""
        try:
            data = b"+" + make()
        except Exception as error:
            data = _failure(error)
        self.post(f"{key}/{self.rank}", data)

    def read_verdict(self, key: str, patience: float = 0.0) -> bytes:
        """What process 0 made of what all had posted. It may have waited for
        them as long as it could, so it is given twice the time, and `patience`
        seconds for its own work."""
        return self.read_result(key, 0, 2 * self.timeout + patience)

    def read_result(
        self, key: str, rank: int, timeout: float | None = None
    ) -> bytes:
        """What process `rank` made; its error is raised here."""
        data = self.read(f"{key}/{rank}", rank, timeout)
        if data[:1] == b"-":
            _raise(data[1:].decode(), f"rank {rank}, {self._what}")
        return data[1:]

    def read_results(self, key: str) -> list[bytes]:
        """What all have made, in rank order, or the first error."""
        everyone = range(self.size)
        self.wait([f"{key}/{rank}" for rank in everyone], everyone)
        return [self.read_result(key, rank) for rank in everyone]

    # The end -----------------------------------------------------------------

    def leave(self) -> None:
        """This process reads no more. The last one wipes the board; where one
        never comes, its keys stay."""
        # A store that is gone keeps nothing.
        with contextlib.suppress(RuntimeError):
            self._wipe(self._store)

    def _wipe(self, store: dist.Store) -> None:
        store.set(f"keys/{self.rank}", "\n".join(self._mine))
        if store.add("left", 1) < self.size:
            return
        for rank in range(self.size):
            for key in store.get(f"keys/{rank}").decode().split("\n"):
                if key:
                    store.delete_key(key)
            store.delete_key(f"keys/{rank}")
        store.delete_key("left")
