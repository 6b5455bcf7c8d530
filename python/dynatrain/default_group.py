"""The world of an elastic job as `torch.distributed` sees it.

Trainers that know one world ask for the default group, and make others of it:
`dist.new_group`, `init_device_mesh`, `initialize_model_parallel` of
Megatron-Core. So that they work in a job, c10d is told of the job's world:
which group is the default one, and that new ones are made by the job, which can
cut them. A thread that builds a world is in that one, all others are in the
world that trains.

What c10d keeps of groups is in its `_world`, "Experimental extension point to
override it": what it says of the default group, and of names and tags that are
counted from it, is each world's own here; what it says of one group, whatever
world that is of, stays where it was.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .errors import InvalidError

if TYPE_CHECKING:
    from .job_world import JobWorld

_C10D = torch._C._distributed_c10d
_numbers = itertools.count()


class DefaultGroup:
    """What c10d is to know of one world, on one of its processes."""

    def __init__(self, world: JobWorld) -> None:
        self._world, self.group = world, world.group
        # A world that came to nothing may have had the same number.
        self._names = f"dynatrain world {world.epoch}, {next(_numbers)}"
        self._groups: list[dist.ProcessGroup] = []
        #: As c10d counts and finds them.
        self.group_count = 0
        self.tags_to_pg: dict[str, list[dist.ProcessGroup]] = {}
        self.store = dist.PrefixStore(
            "default group", self.group.get_group_store()
        )
        _teach()
        with self.here():
            self._register(self.group, range(world.size), "all", None)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """For this thread it is the default group."""
        before = _thread.entered
        _thread.entered = self
        try:
            yield
        finally:
            _thread.entered = before

    def enter(self) -> None:
        """For all threads that are in none of their own it is."""
        _process.entered = self
        _C10D._set_global_rank(self._world.rank)

    def forget(self) -> None:
        """c10d knows of none of its groups any more."""
        known = c10d._world
        if _process.entered is self:
            _process.entered = None
        groups, self._groups = self._groups, []
        for group in groups:
            of_group = known.pg_map, known.pg_names, known.pg_group_ranks
            for one in (*of_group, known.pg_backend_config, known.pg_to_tag):
                one.pop(group, None)
            _C10D._unregister_process_group(group.group_name)

    def new(
        self, ranks: Sequence[int], name: str, tag: str | None
    ) -> tuple[Any, dist.Store | None]:
        """As c10d's `_new_process_group_helper`: a group of these ranks."""
        if tag and (found := c10d._find_pg_by_ranks_and_tag(tag, list(ranks))):
            return found, c10d._world.pg_map[found][1]
        if self._world.rank not in ranks:
            return c10d.GroupMember.NON_GROUP_MEMBER, None
        group = self._world.new_group(ranks)
        return group, self._register(group, ranks, name, tag)

    def _register(
        self,
        group: dist.ProcessGroup,
        ranks: Sequence[int],
        name: str,
        tag: str | None,
    ) -> dist.Store:
        """Lets c10d know of a group as of those that it has made."""
        known, name = c10d._world, f"{self._names}: {name}"
        kinds = _kinds_of(group)
        store = dist.PrefixStore(name, self.store)
        group._set_group_name(name)
        group._set_group_desc("undefined")
        known.pg_map[group] = kinds[-1][1], store
        known.pg_names[group] = name
        known.pg_group_ranks[group] = {
            rank: at for at, rank in enumerate(ranks)
        }
        known.pg_backend_config[group] = ",".join(
            f"{device}:{kind}" for device, kind in kinds
        )
        tags = [f"user:{tag}"] if tag else ["", f"ptd:{name}"]
        for one in tags:
            self.tags_to_pg.setdefault(one, []).append(group)
        known.pg_to_tag[group] = tags[-1]
        _C10D._register_process_group(name, group)
        self._groups.append(group)
        return store


def _kinds_of(group: dist.ProcessGroup) -> list[tuple[str, str]]:
    """What tensors of which devices travel by, those of GPUs last."""
    kinds = {
        device.type: group._get_backend(device).name()
        for device in group._device_types
    }
    return sorted(kinds.items(), key=lambda one: one[0] != "cpu")


class _Entered(threading.local):
    """The world that a thread is in, where that is another than the others'."""

    entered: DefaultGroup | None = None


class _Process:
    entered: DefaultGroup | None = None


_thread, _process = _Entered(), _Process()


def _now() -> DefaultGroup | None:
    """The world that this thread is in; None: the process's own."""
    return _thread.entered or _process.entered


class _Known(c10d._World):
    """c10d's `_world`, of which a part is that of the thread's world."""

    @property
    def default_pg(self) -> dist.ProcessGroup | None:
        now = _now()
        return self._default_pg if now is None else now.group

    @default_pg.setter
    def default_pg(self, group: dist.ProcessGroup | None) -> None:
        if _now() is not None:
            raise InvalidError(
                "the default group is that of the job's world, and the job "
                "makes it and ends it: leave out init_process_group and "
                "destroy_process_group"
            )
        self._default_pg = group

    @property
    def group_count(self) -> int:
        now = _now()
        return _COUNT.fget(self) if now is None else now.group_count

    @group_count.setter
    def group_count(self, count: int) -> None:
        now = _now()
        if now is None:
            _COUNT.fset(self, count)
        else:
            now.group_count = count

    @property
    def tags_to_pg(self) -> dict[str, list[dist.ProcessGroup]]:
        now = _now()
        return _TAGS.fget(self) if now is None else now.tags_to_pg


_COUNT, _TAGS = c10d._World.group_count, c10d._World.tags_to_pg
_made_by_c10d = c10d._new_process_group_helper


def _new_process_group(
    size: int,
    rank: int,
    ranks: Sequence[int],
    *more: Any,
    **named: Any,
) -> tuple[Any, Any]:
    """c10d's `_new_process_group_helper`; more: backend, store and name."""
    now = _now()
    if now is None:
        return _made_by_c10d(size, rank, ranks, *more, **named)
    name = named["group_name"] if "group_name" in named else more[2]
    return now.new(ranks, name, named.get("pg_tag"))


def _teach() -> None:
    """From now on c10d asks which world a thread is in."""
    c10d._world.__class__ = _Known
    c10d._new_process_group_helper = _new_process_group
