"""torchtitan's Trainer, switched between two steps of its own train().

The trainer builds all it has in its constructor, and has no way to build it
anew. So a second one is made for the new layout, its state is filled, and the
first takes over what the second has: train() goes on with it. `Live` does so
among processes that stay the same, `Elastic` under a `dynatrain.Job`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from .errors import Error, InvalidError
from .planning import plan_between
from .state import MERGED, SHARED, Arrived, Part, Small, State
from .undrawn import Undrawn
from .world import World

if TYPE_CHECKING:
    from .job import Job
    from .job_world import JobWorld


class _Progress(Part):
    """The step, and the tokens that all processes together have seen."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def parts(self) -> int:
        """Of the batch, which data parallelism deals out."""
        dims = self.trainer.parallel_dims
        return dims.get_mesh("batch").size() if dims.dp_enabled else 1

    def small(self) -> dict[str, Small]:
        own = self.trainer.state_dict()
        own["ntokens_seen"] *= self.parts()
        return {"": Small(SHARED, own)}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        came = dict(arrived[""].value)
        came["ntokens_seen"] //= self.parts()
        self.trainer.load_state_dict(came)


class _Loader(Part):
    """torchtitan's own loaders have a state per part of data parallelism, and
    cannot be dealt out anew; any other is the same on all processes."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def small(self) -> dict[str, Small]:
        own = self._loader.state_dict()
        dealt = any(str(key).startswith("dp_rank_") for key in own)
        return {"": Small(MERGED if dealt else SHARED, own)}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        self._loader.load_state_dict(arrived[""].value)


def _check_loader(new: Any, before: int) -> None:
    """Raises where what has been given out before, to so many parts of data
    parallelism, cannot be given out by a new trainer."""
    after = _Progress(new).parts()
    is_dealt = _Loader(_own_loader(new)).small()[""].rule == MERGED
    if is_dealt and before != after:
        raise Error(
            f"{type(_own_loader(new)).__name__} deals data out to {after} "
            f"parts of data parallelism, the old one to {before}: "
            "torchtitan cannot change that; expected equally many, or a "
            "loader whose state is the same on all processes"
        )


def registered(trainer: Any) -> State:
    """The state of a torchtitan Trainer."""
    return State(
        model=trainer.model_parts,
        optimizer=trainer.optimizers,
        scheduler=trainer.lr_schedulers,
        loader=_Loader(_own_loader(trainer)),
        progress=_Progress(trainer),
        rng=True,
    )


class _Relay:
    """A loader that gives what the trainer's loader of the moment gives: the
    iterator of train() outlives a switch."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        while True:
            loader = self.loader
            for batch in loader:
                yield batch
                if self.loader is not loader:
                    break
            else:
                return

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def _own_loader(trainer: Any) -> Any:
    loader = trainer.dataloader
    return loader.loader if isinstance(loader, _Relay) else loader


class Live:
    """A trainer that may change its layout after any step::

        trainer = Trainer(config)
        live = dynatrain.torchtitan.Live(trainer, after_step)
        trainer.train()

    after_step: called after each train_step, before a checkpoint of it is
        saved, with this object; it may call `switch`. All processes must call
        it after the same step.
    world: the processes; default: those of the default group.
    cache: a folder for plans (see `plan_between`).
    """

    def __init__(
        self,
        trainer: Any,
        after_step: Callable[[Live], None],
        *,
        world: World | None = None,
        cache: str | None = None,
    ) -> None:
        self.trainer, self.cache = trainer, cache
        self._world, self._after_step = world, after_step
        self._relay = _Relay(trainer.dataloader)
        self._take(trainer)

    def _take(self, trainer: Any) -> None:
        """The relay and the hook are the one trainer's that train() runs."""
        self._relay.loader = _own_loader(trainer)
        vars(self.trainer).update(vars(trainer))
        self.trainer.dataloader = self._relay
        step = type(self.trainer).train_step

        @functools.wraps(step)
        def train_step(batches: Iterable[Any]) -> Any:
            done = step(self.trainer, batches)
            self._after_step(self)
            return done

        self.trainer.train_step = train_step

    def build(self, config: Any) -> Any:
        """Another trainer, without touching the generators."""
        with torch.random.fork_rng():
            new = type(self.trainer)(config)
        _check_loader(new, _Progress(self.trainer).parts())
        return new

    def switch(self, config: Any) -> None:
        """Goes on in the layout of `config`; everything else in it must be as
        it was. On an error the trainer is as it was."""
        world = self._world if self._world is not None else World()
        new = self.build(config)
        old_state, new_state = registered(self.trainer), registered(new)
        plan = plan_between(old_state, new_state, world, cache=self.cache)
        with plan.prepare(world, old_state, new_state) as switch:
            switch.transfer()
            switch.commit()
        self.take_over(new)

    def take_over(self, new: Any) -> None:
        """train() goes on with what another trainer has."""
        closing = vars(self.trainer).copy()
        self._take(new)
        for name in ("checkpointer", "metrics_processor"):
            if closing.get(name) is not None:
                closing[name].close()


class _Left(SystemExit):
    """Ends a trainer's train() without an error: what torchtitan wraps it in
    takes an exit with 0 for its end."""

    code = 0


@contextlib.contextmanager
def _groups_are_the_jobs() -> Iterator[None]:
    """torchtitan waits for all after the first step of a process, and sets the
    timeouts of its groups: whoever joins would do so alone, and the timeouts
    are the job's."""
    from torchtitan.distributed import utils

    before = utils.set_pg_timeouts
    utils.set_pg_timeouts = lambda *_, **__: None
    try:
        yield
    finally:
        utils.set_pg_timeouts = before


class _Thread(threading.local):
    """builds: it makes a trainer beside the one that trains."""

    builds = False


_thread = _Thread()


@functools.cache
def _teach() -> None:
    """torchtitan seeds the process's generators when it makes a trainer, and
    changes torch's default dtype for a moment: from now on not on a thread that
    builds."""
    from torchtitan.distributed import utils as distributed
    from torchtitan.tools import utils as tools

    set_determinism, set_dtype = (
        distributed.set_determinism,
        tools.set_default_dtype,
    )

    @functools.wraps(set_determinism)
    def unseeded(
        dims: Any, device: Any, debug: Any, *more: Any, **named: Any
    ) -> Any:
        if _thread.builds:
            # So much of it as is not seeds.
            dims = SimpleNamespace(world_size=1)
            debug = dataclasses.replace(debug, seed=None)
        return set_determinism(dims, device, debug, *more, **named)

    @functools.wraps(set_dtype)
    def unchanged(dtype: torch.dtype) -> Any:
        if not _thread.builds:
            return set_dtype(dtype)
        if dtype != torch.get_default_dtype():
            raise InvalidError(
                f"torchtitan: a trainer of {dtype} cannot be made beside "
                f"training, where torch's default is "
                f"{torch.get_default_dtype()}: expected training.dtype "
                "float32, or Elastic(..., beside=False) and Job(beside=False)"
            )
        return contextlib.nullcontext()

    distributed.set_determinism = unseeded
    tools.set_default_dtype = unchanged


@contextlib.contextmanager
def _building() -> Iterator[None]:
    """Makes a trainer that a switch fills, without touching generators."""
    _teach()
    before, _thread.builds = _thread.builds, True
    try:
        with Undrawn():
            yield
    finally:
        _thread.builds = before


class Elastic:
    """A trainer under an elastic job, whose processes come and go::

        elastic = dynatrain.torchtitan.Elastic(lambda world: Trainer(config))
        job = dynatrain.Job(store, elastic.build, default_group=True)
        with job:
            elastic.train(job)

    make: makes a trainer for a `JobWorld`, in that world; everything in its
        config but the parallelism has to be the same in all of them. What
        stands for the steps of the job is the trainer's step.
    beside: as `Job` is told. False: weights and generators are made as in a
        trainer alone, and then the generators are as they were.
    """

    def __init__(
        self, make: Callable[[JobWorld], Any], *, beside: bool = True
    ) -> None:
        self._make, self._beside = make, beside
        self._parts: int | None = None

    def build(self, world: JobWorld) -> State:
        """For `Job`: a trainer, without touching the generators of another."""
        if world.founded:
            return registered(self._make(world))
        with _building() if self._beside else torch.random.fork_rng():
            new = self._make(world)
        if self._parts is not None:
            _check_loader(new, self._parts)
        return registered(new)

    def train(
        self, job: Job, boundary: Callable[[Job, int], bool] | None = None
    ) -> None:
        """The trainer's own train(), from world to world, until it has taken
        all of its steps or this process has left.

        boundary: what is called after each step, with the job and the step, in
        place of `job.boundary(step)`, which it has to call and whose word it
        gives. With snapshots a step that has failed is taken to `job.recover`.
        """
        boundary = boundary or (lambda job, step: job.boundary(step))
        live = Live(self._entered(job), self._stepper(job, boundary))
        with _groups_are_the_jobs():
            while True:
                try:
                    return live.trainer.train()
                except Error:
                    raise  # it is the job's word, not a step that has failed
                except RuntimeError as error:
                    if not job.recover(error):
                        return None
                    self._goes_on(job, live)

    def _stepper(
        self, job: Job, boundary: Callable[[Job, int], bool]
    ) -> Callable[[Live], None]:
        def after_step(live: Live) -> None:
            epoch = job.world.epoch
            if not boundary(job, live.trainer.step):
                raise _Left
            if job.world.epoch != epoch:
                self._goes_on(job, live)

        return after_step

    def _entered(self, job: Job) -> Any:
        """The trainer of the world that the job is in."""
        progress = job.state.progress
        self._parts = progress.parts()
        return progress.trainer

    def _goes_on(self, job: Job, live: Live) -> None:
        live.take_over(self._entered(job))
        # Whose steps are counted.
        job.state.progress.trainer = live.trainer
