"""Communicators of NCCL for the groups of an elastic job.

They are made beside training, without a message: NCCL's kernels of two
communicators may wait for each other where they begin in another order on
another process. What first messages connect is connected when all stand at the
boundary. They are released by abort only, which waits for nobody.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from . import _C
from .errors import InvalidError


def communicators_of(backend: str) -> Communicators | None:
    """Of what `Job` is given; over Gloo there are none."""
    if backend == "gloo":
        return None
    if backend != "nccl":
        raise InvalidError(
            f"Job: backend is '{backend}', expected 'gloo' or 'nccl'"
        )
    if "nccl" not in _C.features():
        raise InvalidError("Job: backend 'nccl' is not built into this package")
    if not dist.is_nccl_available():
        raise InvalidError("Job: this torch has no NCCL")
    return Communicators()


class Communicators:
    """Those of this process, on its current GPU."""

    kind = dist.ProcessGroup.BackendType.NCCL
    place = torch.device("cuda")

    def __init__(self) -> None:
        #: Where the tensors of this process's worlds are.
        self.device = torch.device("cuda", torch.cuda.current_device())

    def connect(
        self, store: dist.Store, rank: int, size: int, seconds: float
    ) -> dist.Backend:
        """Each process of the group calls this. seconds: of its operations."""
        options = dist.ProcessGroupNCCL.Options()
        # What makes one ends when it is aborted.
        options.config.blocking = 0
        options._timeout = timedelta(seconds=seconds)
        made = dist.ProcessGroupNCCL(store, rank, size, options)
        made.eager_connect_single_device(self.device)
        return made

    def warm_up(self, group: dist.ProcessGroup) -> None:
        """What a first message connects. All of the group call this, and none
        of them has other messages under way."""
        dist.all_reduce(torch.zeros(1, device=self.device), group=group)
        torch.cuda.synchronize(self.device)

    def abort(self, backend: dist.Backend) -> None:
        """What waits in it ends, and it is gone."""
        backend.abort()
