"""All that a trainer holds, registered once.

Tensors move by plan. The rest is small and travels as data when the bytes move,
each item by one of three rules:

- shared: all processes that have it have the same value, and all get it. It is
  an error on all processes where values differ.
- per rank: every process keeps its own; one that joins gets the value of
  another (RNG: folded with its rank).
- merged: a dict of which every process has a part (step counters under
  pipelines); all get the whole. Parts must agree where they overlap.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch

from .errors import Error
from .flat_parameters import flat_parts
from .optimizer import (
    FreshState,
    Key,
    Optimizers,
    counters,
    elements,
    fresh_state,
    named_tensors,
    training_state,
)

SHARED, PER_RANK, MERGED = "shared", "per rank", "merged"


@dataclass(frozen=True)
class Small:
    """A value that travels beside the tensors. It may have anything in it that
    torch.load takes with weights_only: tensors, numbers, texts, bytes, and
    containers of them."""

    rule: str
    value: Any


@dataclass(frozen=True)
class Arrived:
    """A value that has come, and whether this process joined with it: its rule
    is per rank, and the value was another's."""

    value: Any
    joined: bool = False
    rule: str = SHARED


class Part:
    """A part of a `State`. Derive from it for objects that need their own way;
    what is not needed may be left as it is here."""

    def tensors(self) -> dict[Key, Any]:
        """What this process holds, {(name, state): tensor, `capture.Piece` or
        a list of pieces}."""
        return {}

    def destination_tensors(self) -> dict[Key, Any]:
        """The same for a side that is to be filled."""
        return self.tensors()

    def refresh(self) -> None:
        """A switch is about to read the bytes of `tensors`, which stay where
        they are: what is made of something else is made anew."""

    def fresh_keys(self) -> Iterable[Key]:
        """Those of the destination that do not exist before `install`, and may
        be left out where the source has none."""
        return ()

    def keep(self, wanted: set[Key]) -> None:
        """Which tensors of the destination the plan fills."""

    def small(self) -> dict[str, Small]:
        """What travels beside the tensors, as it is now."""
        return {}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        """Takes the small values after the commit; those that the source has
        of this part."""


class PerRank:
    """Marks what each process has for its own, such as a data loader that
    deals out other samples on every process::

        dynatrain.State(..., loader=dynatrain.PerRank(loader))
    """

    def __init__(self, stateful: Any) -> None:
        self.stateful = stateful


class _Stateful(Part):
    """What has state_dict and load_state_dict."""

    def __init__(self, stateful: Any, rule: str) -> None:
        self._stateful, self._rule = stateful, rule

    def small(self) -> dict[str, Small]:
        return {"": Small(self._rule, self._stateful.state_dict())}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        self._stateful.load_state_dict(arrived[""].value)


class _Value(Part):
    def __init__(self, value: Any) -> None:
        self.value = value

    def small(self) -> dict[str, Small]:
        return {"": Small(SHARED, self.value)}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        self.value = arrived[""].value


class Rng(Part):
    """The random number generators of a process: torch's, those of its GPUs,
    Python's and, once imported, numpy's."""

    def small(self) -> dict[str, Small]:
        own: dict[str, Any] = {
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
        }
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            own["cuda"] = torch.cuda.get_rng_state()
        if "numpy" in sys.modules:
            name, keys, *rest = sys.modules["numpy"].random.get_state()
            own["numpy"] = [name, torch.from_numpy(keys.astype("int64")), *rest]
        return {"": Small(PER_RANK, own)}

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        own = arrived[""].value
        torch.set_rng_state(own["torch"])
        random.setstate(own["python"])
        if "cuda" in own:
            torch.cuda.set_rng_state(own["cuda"])
        if "numpy" in own and "numpy" in sys.modules:
            name, keys, *rest = own["numpy"]
            keys = keys.numpy().astype("uint32")
            sys.modules["numpy"].random.set_state((name, keys, *rest))
        if arrived[""].joined:
            self._fold_rank_in()

    @staticmethod
    def _fold_rank_in() -> None:
        """Numbers of its own for a process that got another's state."""
        rank = 0
        if torch.distributed.is_initialized():
            rank = torch.distributed.get_rank()
        seed = int(torch.randint(0, 2**62, ())) ^ (rank + 1)
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)


class _Training(Part):
    """Models and the optimizers that share their parameters."""

    def __init__(
        self, models: Mapping[str, Any], optimizers: Mapping[str, list]
    ) -> None:
        self._models, self._optimizers = models, optimizers
        self._fresh: FreshState | None = None

    def _parameters(self) -> dict[str, torch.Tensor]:
        """By the names of get_state_dict; those of a second model have its name
        in front."""
        found: dict[str, torch.Tensor] = {}
        for name, model in self._models.items():
            prefix = "" if name == "model" else f"{name}."
            chunks = model if isinstance(model, (list, tuple)) else [model]
            for chunk in chunks:
                for key, tensor in named_tensors(chunk).items():
                    other = found.setdefault(prefix + key, tensor)
                    if other is not tensor:
                        raise Error(
                            f"two chunks of '{name}' have a '{key}', expected "
                            "the names of the full model in each (give a dict "
                            "of tensors by name)"
                        )
        return found

    def _listed(self) -> Optimizers:
        return [one for listed in self._optimizers.values() for one in listed]

    def _as_pieces(self, tensors: dict[Key, Any]) -> dict[Key, Any]:
        parts = {}
        for model in self._models.values():
            chunks = model if isinstance(model, (list, tuple)) else [model]
            for chunk in chunks:
                if isinstance(chunk, torch.nn.Module):
                    parts.update(flat_parts(chunk))
        if not parts:
            return tensors
        places = {
            name: parts[id(tensor)]
            for name, tensor in self._parameters().items()
            if id(tensor) in parts
        }
        return {
            (name, state): (
                places[name].piece(tensor) if name in places else tensor
            )
            for (name, state), tensor in tensors.items()
        }

    def tensors(self) -> dict[Key, Any]:
        return self._as_pieces(
            training_state(self._parameters(), self._listed())
        )

    def _freshly(self) -> FreshState:
        if self._fresh is None:
            self._fresh = fresh_state(self._parameters(), self._listed())
        return self._fresh

    def destination_tensors(self) -> dict[Key, Any]:
        return self._as_pieces(self._freshly().tensors)

    def fresh_keys(self) -> Iterable[Key]:
        return self._freshly().fresh_keys()

    def keep(self, wanted: set[Key]) -> None:
        self._freshly().keep(wanted)

    def small(self) -> dict[str, Small]:
        found = {}
        if self._optimizers:
            here = self._parameters()
            own = counters(here, self._listed())
            # Wrappers do not always step a shard without elements.
            own = {k: v for k, v in own.items() if elements(here[k])}
            found["counters"] = Small(MERGED, own)
        for name, listed in self._optimizers.items():
            for at, optimizer in enumerate(listed):
                groups = [_options(group) for group in optimizer.param_groups]
                found[f"{name}[{at}].param_groups"] = Small(SHARED, groups)
        return found

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        if "counters" in arrived:
            self._freshly().install(arrived["counters"].value)
        self._fresh = None
        for name, listed in self._optimizers.items():
            for at, optimizer in enumerate(listed):
                came = arrived.get(f"{name}[{at}].param_groups")
                if came is not None:
                    _set_options(optimizer, came.value)


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group without its members."""
    return {
        k: v for k, v in group.items() if k not in ("params", "param_names")
    }


def _set_options(optimizer: Any, saved: list[dict[str, Any]]) -> None:
    if len(saved) != len(optimizer.param_groups):
        raise Error(
            f"{type(optimizer).__name__} has {len(optimizer.param_groups)} "
            f"groups, the source's has {len(saved)}"
        )
    for group, options in zip(optimizer.param_groups, saved):
        for key, value in options.items():
            own = group.get(key)
            if isinstance(own, torch.Tensor) and own.shape == getattr(
                value, "shape", None
            ):
                own.copy_(value)
            else:
                group[key] = value


# The registry ---------------------------------------------------------------


def _optimizers_of(value: Any) -> list[torch.optim.Optimizer] | None:
    """One, a list of them, a container of them (torchtitan), or one around
    another (accelerate)."""
    listed = getattr(value, "optimizers", value)
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    if not listed:
        return None
    if not all(isinstance(one, torch.optim.Optimizer) for one in listed):
        return None
    return [getattr(one, "optimizer", one) for one in listed]


def _is_model(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(
            isinstance(one, torch.Tensor) for one in value.values()
        )
    chunks = value if isinstance(value, (list, tuple)) else [value]
    return bool(chunks) and all(
        isinstance(one, torch.nn.Module) for one in chunks
    )


def _is_stateful(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(
        getattr(value, "load_state_dict", None)
    )


def _part_of(name: str, value: Any) -> Part:
    if isinstance(value, Part):
        return value
    if isinstance(value, PerRank) and _is_stateful(value.stateful):
        return _Stateful(value.stateful, PER_RANK)
    if _is_stateful(value):
        return _Stateful(value, SHARED)
    if value is None or isinstance(
        value, (bool, int, float, str, bytes, list, tuple, dict)
    ):
        return _Value(value)
    raise Error(
        f"'{name}' of a State is a {type(value).__name__}, expected a model, "
        "an optimizer, an object with state_dict and load_state_dict, a "
        "dynatrain.Part, or a plain value"
    )


class State:
    """What a trainer holds, by names of its own choice::

        state = dynatrain.State(
            model=model, optimizer=adamw, scheduler=schedule, loader=loader,
            step=0, rng=True,
        )

    A model is a module, a list of modules (pipeline chunks that have the full
    model's names) or a dict of tensors. Its tensors are called as in its
    state_dict; a model that is not registered as `model` has its own name and a
    dot in front. Optimizers, one or several, belong to whichever model has
    their parameters. Anything else that has `state_dict` and `load_state_dict`
    is shared, or the process's own where `PerRank` says so. Plain values are
    shared, and may be read and set: ``state.step += 1``. rng: the process's
    random number generators too.

    A State is given to `plan_between` and `Plan.prepare` in place of tensors.
    After `Switch.commit` everything in the new one is as it was in the old one.
    """

    def __init__(self, *, rng: bool = False, **parts: Any) -> None:
        models = {k: v for k, v in parts.items() if _is_model(v)}
        rest = {k: v for k, v in parts.items() if k not in models}
        optimizers = {
            k: listed
            for k, v in rest.items()
            if (listed := _optimizers_of(v)) is not None
        }
        if optimizers and not models:
            raise Error(
                f"a State has the optimizer '{min(optimizers)}', expected the "
                "model with its parameters too"
            )
        own: dict[str, Part] = {}
        if models:
            own["."] = _Training(models, optimizers)
        for name, value in rest.items():
            if name not in optimizers:
                own[name] = _part_of(name, value)
        if rng:
            own["rng"] = Rng()
        self.__dict__["_parts"] = own
        self.__dict__["_given"] = {
            k: v for k, v in parts.items() if not isinstance(own.get(k), _Value)
        }

    def __getattr__(self, name: str) -> Any:
        part = self.__dict__.get("_parts", {}).get(name)
        if isinstance(part, _Value):
            return part.value
        try:
            return self.__dict__["_given"][name]
        except KeyError:
            raise AttributeError(f"a State without '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        part = self._parts.get(name)
        if not isinstance(part, _Value):
            raise AttributeError(
                f"'{name}' is no plain value of this State, and cannot be set"
            )
        part.value = value

    def _all(self, each: Callable[[Part], Mapping[Key, Any]]) -> dict[Key, Any]:
        found: dict[Key, Any] = {}
        for name, part in self._parts.items():
            for key, value in each(part).items():
                if key in found:
                    raise Error(
                        f"'{name}' of a State has tensor '{key[0]}' state "
                        f"'{key[1]}', which another part has too"
                    )
                found[key] = value
        return found

    @property
    def tensors(self) -> dict[Key, Any]:
        """{(name, state): tensor} of what is there, as the source of a plan."""
        return self._all(lambda part: part.tensors())

    def refresh(self) -> None:
        """Brings `tensors` up to date, before their bytes are read."""
        for part in self.__dict__.get("_parts", {}).values():
            part.refresh()

    def destination_tensors(self) -> dict[Key, Any]:
        """The same as the destination of a plan: with the state that the
        optimizers have yet to make, in tensors that `install` gives them."""
        return self._all(lambda part: part.destination_tensors())

    def fresh_keys(self) -> list[Key]:
        """Those of `destination_tensors` that no optimizer has yet."""
        return [
            key for part in self._parts.values() for key in part.fresh_keys()
        ]

    def keep(self, wanted: set[Key]) -> None:
        """Leaves out of the destination what no plan fills."""
        for part in self._parts.values():
            part.keep(wanted)

    def small(self) -> dict[str, Small]:
        """What travels beside the tensors, as it is now."""
        return {
            f"{name}/{key}": small
            for name, part in self._parts.items()
            for key, small in part.small().items()
        }

    def has_part_of(self, name: str) -> bool:
        """Whether a name of `small` is of a part that is here."""
        return name.partition("/")[0] in self._parts

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        """Takes the values that have come; `Switch.commit` does it. Parts that
        the source does not have stay as they are."""
        for name, part in self._parts.items():
            own = {
                key.partition("/")[2]: value
                for key, value in arrived.items()
                if key.partition("/")[0] == name
            }
            if own:
                part.install(own)
