"""torchtitan's Trainer, switched between two steps of its own train().

The trainer builds all it has in its constructor, and has no way to build it
anew. So a second one is made for the new layout, its state is filled, and the
first takes over what the second has: train() goes on with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from .errors import Error
from .planning import plan_between
from .state import MERGED, SHARED, Arrived, Part, Small, State
from .world import World


class _Progress(Part):
    """The step, and the tokens that all processes together have seen."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def _parts(self) -> int:
        dims = self._trainer.parallel_dims
        return dims.get_mesh("batch").size() if dims.dp_enabled else 1

    def small(self) -> dict[str, Small]:
        own = self._trainer.state_dict()
        own["ntokens_seen"] *= self._parts()
        return {"": Small(SHARED, own)}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        came = dict(arrived[""].value)
        came["ntokens_seen"] //= self._parts()
        self._trainer.load_state_dict(came)


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
        loader = _Loader(_own_loader(new))
        before = _Progress(self.trainer)._parts()
        after = _Progress(new)._parts()
        if loader.small()[""].rule == MERGED and before != after:
            raise Error(
                f"{type(new.dataloader).__name__} deals data out to {after} "
                f"parts of data parallelism, the old one to {before}: "
                "torchtitan cannot change that; expected equally many, or a "
                "loader whose state is the same on all processes"
            )
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
        closing = vars(self.trainer).copy()
        self._take(new)
        for name in ("checkpointer", "metrics_processor"):
            if closing.get(name) is not None:
                closing[name].close()
