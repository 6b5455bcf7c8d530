"""Processes that are started together, and join a job together.

Each writes its name; the last one to come asks for all. So they make one switch
and not one each, and a job begins with as many as it was started with.
"""

from __future__ import annotations

import contextlib

import torch.distributed as dist

from .errors import InvalidError


class Launch:
    """One process's place among those that start with it.

    rank: its place; default: in the order in which they come.
    """

    def __init__(
        self,
        store: dist.Store,
        prefix: str,
        name: str,
        processes: int,
        rank: int | None,
    ) -> None:
        if processes < 1:
            raise InvalidError(f"processes is {processes}, expected 1 or more")
        if rank is not None and not 0 <= rank < processes:
            raise InvalidError(
                f"rank is {rank}, expected 0 to {processes - 1}, a place among "
                f"the {processes} processes that start together"
            )
        self._store = dist.PrefixStore(prefix, store)
        self._name, self._size = name, processes
        self._rank = rank
        self._is_in = False

    def come(self) -> list[str] | None:
        """The names of all, by rank, for the last one; it asks for them."""
        if self._size == 1:
            return [self._name]
        rank = self._rank
        if rank is None:
            rank = self._store.add("came", 1) - 1
        self._rank = rank
        self._store.set(str(rank), self._name)
        self._is_in = True
        if self._store.add("here", 1) < self._size:
            return None
        places = [str(place) for place in range(self._size)]
        empty = [place for place in places if not self._store.check([place])]
        if empty:
            raise InvalidError(
                f"{self._size} processes have come, none of them with rank "
                f"{empty[0]}, expected each rank once"
            )
        names = [self._store.get(place).decode() for place in places]
        for key in [*places, "came", "here"]:
            self._store.delete_key(key)
        return names

    def missing(self) -> int:
        """How many have yet to come."""
        if not self._is_in or not self._store.check(["here"]):
            return 0
        return self._size - int(self._store.get("here"))

    def withdraw(self) -> None:
        """Of a process that gives up; the others do not wait for it."""
        if not self._is_in:
            return
        self._is_in = False
        # A store that is gone keeps nothing.
        with contextlib.suppress(RuntimeError):
            if not self._store.check(["here"]):
                return
            self._store.delete_key(str(self._rank))
            if self._store.add("here", -1) <= 0:
                self._store.delete_key("here")
                self._store.delete_key("came")
