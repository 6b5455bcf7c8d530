"""The processes that take part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist

from . import _C
from .board import Board
from .errors import Error

_BACKENDS = ["gloo", *(["nccl"] if "nccl" in _C.features() else [])]
# Of the timeout; the rest is for finding out who is missing.
_CONNECT_SHARE = 0.7


@dataclass
class Place:
    """Where this process stands in one transition."""

    rank: int
    size: int
    device: int
    prefix: str
    timeout: float
    store: dist.Store
    native: _C.World
    backend: str
    shared_memory: bool

    def board(self) -> Board:
        """Words of the processes in this transition."""
        return Board(
            self.store,
            f"{self.prefix}/words",
            self.rank,
            self.size,
            self.timeout,
        )

    def connect(self) -> dist.Backend:
        """Connections of the transition's own: one that fails or is aborted
        leaves the trainer's groups as they are. Waits for all processes."""
        return dist.ProcessGroupGloo(
            dist.PrefixStore(f"{self.prefix}/gloo", self.store),
            self.rank,
            self.size,
            timedelta(seconds=_CONNECT_SHARE * self.timeout),
        )


class World:
    """The processes among which a plan moves state.

    Give either a `store` that all of them share, with this process's `rank`,
    or a `process_group` of torch.distributed (default: the default group).

    world_size: number of processes; default: as many as the plan has devices.
    backend: "gloo", or "nccl" where this package is built with it; nccl moves
        tensors on GPUs straight between them, gloo through the host's memory.
    devices: the plan's device of each rank; default: the plan's devices in
        ascending order.
    timeout: seconds that a process waits for others in any phase, before every
        process gets an error that names those who did not answer.
    shared_memory: gloo only: processes of one host hand each other what lies in
        the host's memory without a wire; False sends it all over gloo.
    """

    def __init__(
        self,
        *,
        store: dist.Store | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        process_group: dist.ProcessGroup | None = None,
        backend: str = "gloo",
        devices: Sequence[int] | None = None,
        timeout: float = 300.0,
        shared_memory: bool = True,
    ) -> None:
        if backend not in _BACKENDS:
            raise Error(
                f"backend '{backend}' is not built into this package; it has: "
                + ", ".join(_BACKENDS)
            )
        if timeout <= 0:
            raise Error(f"timeout is {timeout}, expected more than 0 seconds")
        if store is None:
            if process_group is None and not dist.is_initialized():
                raise Error(
                    "a world needs a store and a rank, or a process group"
                )
            group = process_group or dist.group.WORLD
            store, rank = group.get_group_store(), group.rank()
            world_size = group.size()
        elif process_group is not None:
            raise Error("give a world a store or a process group, not both")
        elif rank is None:
            raise Error("a world made of a store needs this process's rank")
        self.rank = int(rank)
        self.world_size = world_size
        self.backend = backend
        self.timeout = float(timeout)
        self.shared_memory = shared_memory
        self._store = store
        self._devices = list(devices or [])

    def exchange(self, name: str) -> Board:
        """A `Board` among all processes: each calls this, in the same order."""
        if self.world_size is None:
            raise Error(f"{name}: a world made of a store needs its world_size")
        # Counted in the store: a World may be made anew for every switch.
        number = self._store.add(f"dynatrain/{name}/{self.rank}", 1)
        return Board(
            self._store,
            f"dynatrain/{name}/n{number}",
            self.rank,
            self.world_size,
            self.timeout,
            name,
        )

    def join(self, plan: _C.Plan) -> Place:
        """This process's place in the next transition of this store."""
        of_plan = plan.info()["devices"]
        devices = self._devices or of_plan
        size = self.world_size if self.world_size is not None else len(of_plan)
        # Every rank counts its own transitions in the store, so that the n-th
        # of one rank meets the n-th of the others.
        number = self._store.add(f"dynatrain/ranks/{self.rank}", 1)
        prefix = f"dynatrain/{number}"
        native = _C.World(
            self._store, self.rank, size, self._devices, self.timeout, prefix
        )
        fault = None
        if len(devices) != size:
            what = "list" if self._devices else "plan"
            fault = (
                f"the {what} has {len(devices)} devices, the world has {size} "
                "ranks"
            )
        elif sorted(devices) != of_plan:
            fault = (
                f"the world's devices are {sorted(devices)}, the plan's are "
                f"{of_plan}"
            )
        elif not 0 <= self.rank < size:
            fault = f"rank {self.rank} is not below the world's size {size}"
        if fault:
            _C.refuse(plan, native, fault)
            raise Error(fault)
        return Place(
            self.rank,
            size,
            devices[self.rank],
            prefix,
            self.timeout,
            self._store,
            native,
            self.backend,
            self.shared_memory,
        )
