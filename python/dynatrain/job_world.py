"""A world of an elastic job, as one of its processes sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, TypeVar

import torch
import torch.distributed as dist

from .connections import Pulse
from .default_group import DefaultGroup
from .errors import InvalidError
from .hollow import hollow, paged
from .job_groups import Groups

Module = TypeVar("Module", bound=torch.nn.Module)


def asked_for(layout: Any, size: int) -> Any:
    """The layout of a world, where the job does not say: what was asked for."""
    return layout


class JobWorld:
    """Who is in a world, and as what. It never changes; `Job` makes it.

    members: names of the processes, by rank. layout: any JSON value: what was
    asked for, `asked`, or what `Job(layout_for=...)` gives for it. group: of
    all members, connected. founded: this world is the job's first one, which
    nothing comes to. by_page: memory that can go page by page is of use.
    device: where `make` puts modules: the host, or the process's GPU.
    """

    def __init__(
        self,
        epoch: int,
        members: Sequence[str],
        name: str,
        layout: Any,
        founded: bool,
        groups: Groups,
        asked: Any,
        by_page: bool = False,
        device: torch.device | None = None,
    ) -> None:
        self.epoch = epoch
        self.members = tuple(members)
        self.rank = self.members.index(name)
        self.layout, self.asked = layout, asked
        self.founded = founded
        self.device = device or torch.device("cpu")
        self._by_page = by_page
        self._groups = groups
        self.group = self.new_group(range(self.size))
        #: Where the trainer wants it to be torch.distributed's.
        self.default: DefaultGroup | None = None

    @property
    def size(self) -> int:
        """How many processes it has."""
        return len(self.members)

    def new_group(self, ranks: Sequence[int]) -> dist.ProcessGroup:
        """A group of some members, in this order, of whom this process is one.

        Each of them calls this, while the world is built, in an order of groups
        that does not make them wait for each other in a circle. Collectives
        take it as `group=`; where they name a process, give `group_src` or
        `group_dst`, the place in the group.
        """
        if self.rank not in ranks or len(set(ranks)) != len(ranks):
            raise InvalidError(
                f"a group of ranks {list(ranks)} for rank {self.rank}, "
                "expected each rank once, this one among them"
            )
        return self._groups.new(ranks, self.rank)

    def new_host_group(self) -> dist.ProcessGroup:
        """Of all members, for tensors of the host alone."""
        return self._groups.new(range(self.size), self.rank, on_gpu=False)

    def new_pulse(self) -> Pulse:
        """Of all members. Each calls this, as `new_group`."""
        return self._groups.new_pulse(range(self.size), self.rank)

    def make(self, factory: Callable[[], Module]) -> Module:
        """A module for this world, on its `device`: in the job's first one as
        `factory` makes it, later without memory, as what comes fills it
        (`hollow`). Then no random numbers are drawn, which would be the running
        trainer's."""
        if self.founded:
            module = factory().to(self.device)
            return paged(module) if self._by_page else module
        with torch.device("meta"):
            module = factory()
        return hollow(module, self.device)

    def close(self) -> None:
        """No more groups can be made."""
        self._groups.close()

    def cut(self) -> None:
        """Ends what waits in a collective of this world, here and on the other
        processes, with an error: nothing more can be said in it."""
        self._groups.cut()

    @property
    def is_cut(self) -> bool:
        """Whether what has been computed in it may miss what others said: on
        GPUs an operation that is cut raises nothing."""
        return self._groups.is_cut

    def warm_up(self) -> None:
        """What first messages on GPUs connect."""
        self._groups.warm_up()

    def forget(self) -> None:
        """torch.distributed knows of it no more."""
        if self.default is not None:
            self.default.forget()

    def release(self) -> None:
        """Nobody says anything in it any more."""
        self._groups.release()

    def __repr__(self) -> str:
        return (
            f"JobWorld(epoch={self.epoch}, rank={self.rank}, size={self.size}, "
            f"layout={self.layout!r})"
        )
