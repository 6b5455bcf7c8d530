"""What a trainer holds, by the names that plans use: weights, persistent
buffers, and the state of torch's optimizers.

A state of an optimizer is one of two kinds. It is a *counter* when it is a
number, when it is called "step" and has one element, or when it is a tensor of
no dims beside a parameter that has some: NAdam's "mu_product", ASGD's "eta".
Every other tensor is state that a plan moves. Counters are the same on all
processes that hold a part of the parameter; they travel as user data of the
switch, not in the plan.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .errors import TensorError
from .gathered import shard_again
from .hollow import give_back, is_hollow

#: A model, or tensors by name: parameters and what else belongs to the state.
Parameters = Union[torch.nn.Module, Mapping[str, torch.Tensor]]
#: None, one, or several that share the parameters between them.
Optimizers = Union[None, Optimizer, Iterable[Optimizer]]
#: {name: {state: number}}, as JSON takes it.
Counters = dict[str, dict[str, Union[int, float]]]
Key = tuple[str, str]

#: Modules that wrap another and add their own name to those of its tensors.
_WRAPPERS = {
    "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module",
}  # fmt: skip


# Names ----------------------------------------------------------------------


def _plain(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _buffers(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Those that state_dict() has, each once."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is None or name in module._non_persistent_buffers_set:
                continue
            if id(buffer) not in seen:
                seen.add(id(buffer))
                yield f"{prefix}.{name}" if prefix else name, buffer


def named_tensors(parameters: Parameters) -> dict[str, torch.Tensor]:
    """Parameters and persistent buffers by the names that plans use: those of
    the model's state_dict, without wrappers' own."""
    if not isinstance(parameters, torch.nn.Module):
        return dict(parameters)
    while isinstance(parameters, DistributedDataParallel):
        parameters = parameters.module
    shard_again(parameters)
    named = dict(parameters.named_parameters())
    named.update(_buffers(parameters))
    return {_plain(name): tensor for name, tensor in named.items()}


def _listed(optimizer: Optimizers) -> list[Optimizer]:
    if optimizer is None:
        return []
    return [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)


@dataclass
class _Owned:
    """A tensor by its name, and the optimizer and group that it belongs to."""

    name: str
    tensor: torch.Tensor
    optimizer: Optimizer | None = None
    group: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> dict[str, Any]:
        """What the optimizer keeps of it; empty before the first step."""
        if self.optimizer is None:
            return {}
        # Looking it up as state[tensor] would make an entry.
        return self.optimizer.state.get(self.tensor, {})


def _owned(parameters: Parameters, optimizer: Optimizers) -> list[_Owned]:
    """All tensors; an optimizer may have none that is not among them."""
    found: dict[int, _Owned] = {}
    for name, tensor in named_tensors(parameters).items():
        found.setdefault(id(tensor), _Owned(name, tensor))
    for one in _listed(optimizer):
        kind = type(one).__name__
        for number, group in enumerate(one.param_groups):
            for tensor in group["params"]:
                entry = found.get(id(tensor))
                if entry is None:
                    raise TensorError(
                        f"group {number} of {kind} has a parameter of shape "
                        f"{list(tensor.shape)} that is none of the tensors "
                        "given, expected parameters of this model only"
                    )
                if entry.optimizer is not None:
                    raise TensorError(
                        f"'{entry.name}' is a parameter of "
                        f"{type(entry.optimizer).__name__} and of {kind}, "
                        "expected one optimizer"
                    )
                entry.optimizer, entry.group = one, group
    return list(found.values())


# Kinds of state -------------------------------------------------------------


def _is_counter(parameter: torch.Tensor, state: str, value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    if state == "step":
        return value.numel() == 1
    return value.dim() == 0 and parameter.dim() > 0


def _checked(entry: _Owned, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors and numbers among what an optimizer keeps; None stands for
    what it does not keep."""
    kept = {}
    for name, value in state.items():
        if isinstance(value, (torch.Tensor, int, float)):
            kept[str(name)] = value
        elif value is not None:
            raise TensorError(
                f"{type(entry.optimizer).__name__} keeps '{name}' of "
                f"'{entry.name}' as a {type(value).__name__}, expected tensors "
                "and numbers: a plan cannot move this optimizer's state"
            )
    return kept


def _tensors(entry: _Owned, state: Mapping[str, Any]) -> dict[Key, Any]:
    return {
        (entry.name, name): value
        for name, value in _checked(entry, state).items()
        if not _is_counter(entry.tensor, name, value)
    }


def _counters(entry: _Owned, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in _checked(entry, state).items()
        if _is_counter(entry.tensor, name, value)
    }


def training_state(
    parameters: Parameters, optimizer: Optimizers = None
) -> dict[Key, torch.Tensor]:
    """What exists, as {(name, state): tensor}: nothing is made or changed.

    Parameters and persistent buffers have the state "param"; the optimizer's
    states have its own names ("exp_avg", "momentum_buffer", ...). Where it
    keeps none, as of frozen parameters and of those that no step has reached,
    there are the weights only. Tied parameters come once, under their first
    name. Counters are not tensors of a plan: see `counters`.

    optimizer: one of torch.optim or of the same make, or several that share
        the parameters. One that keeps anything but tensors and numbers (LBFGS)
        is refused with `TensorError`.
    """
    tensors: dict[Key, torch.Tensor] = {}
    for entry in _owned(parameters, optimizer):
        tensors[entry.name, "param"] = entry.tensor
        tensors.update(_tensors(entry, entry.state))
    return tensors


# Counters -------------------------------------------------------------------


def _number(value: Any) -> int | float:
    if not isinstance(value, torch.Tensor):
        return value
    local = value.to_local() if hasattr(value, "to_local") else value
    return local.item()


def counters(parameters: Parameters, optimizer: Optimizers) -> Counters:
    """The counters of each parameter that has any, as numbers: user data for
    `Switch.transfer`. Read them when the step is over that the switch follows.
    """
    found = {
        entry.name: _counters(entry, entry.state)
        for entry in _owned(parameters, optimizer)
    }
    return {
        name: {state: _number(value) for state, value in values.items()}
        for name, values in found.items()
        if values
    }


def _check_counters(
    name: str, own: Iterable[str], given: Mapping[str, float]
) -> None:
    if set(own) != set(given):
        raise TensorError(
            f"the counters given for '{name}' are {sorted(given)}, expected "
            f"{sorted(own)}"
        )


def _write(
    state: dict[str, Any], own: Mapping[str, Any], given: Mapping[str, float]
) -> None:
    for name, value in own.items():
        if isinstance(value, torch.Tensor):
            value = value.to_local() if hasattr(value, "to_local") else value
            with torch.no_grad():
                value.fill_(given[name])
        else:
            state[name] = type(value)(given[name])


def set_counters(
    parameters: Parameters,
    optimizer: Optimizers,
    given: Mapping[str, Mapping[str, float]],
) -> None:
    """Sets the counters that `counters` gave, of parameters whose state exists.
    Names that are not here are left out; a counter too many or too few is an
    error, and then none is set."""
    entries = [
        (entry, _counters(entry, entry.state))
        for entry in _owned(parameters, optimizer)
        if entry.name in given
    ]
    for entry, own in entries:
        _check_counters(entry.name, own, given[entry.name])
    for entry, own in entries:
        _write(entry.state, own, given[entry.name])


def elements(tensor: torch.Tensor) -> int:
    """How many of a tensor this process holds."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.numel()


# New state ------------------------------------------------------------------


def _keeps_parameters(optimizer: Optimizer) -> str | None:
    """An attribute by which a step would reach the real parameters."""
    own = {
        id(tensor)
        for group in optimizer.param_groups
        for tensor in group["params"]
    }
    for name, value in vars(optimizer).items():
        if name in ("param_groups", "state"):
            continue
        if isinstance(value, Mapping):
            value = list(value.values())
        values = value if isinstance(value, (list, tuple)) else [value]
        if any(id(one) in own for one in values):
            return name
    return None


def _alone(entry: _Owned, stand_in: torch.Tensor) -> Optimizer:
    """An optimizer like the entry's that has one parameter, no state and none
    of the hooks."""
    optimizer = entry.optimizer
    attribute = _keeps_parameters(optimizer)
    if attribute:
        raise TensorError(
            f"{type(optimizer).__name__} keeps its parameters in "
            f"'{attribute}' too, so what its first step makes cannot be found "
            "out on the side"
        )
    group = {k: v for k, v in entry.group.items() if k != "params"}
    alone = object.__new__(type(optimizer))
    alone.__dict__.update(optimizer.__dict__)
    # Learning rate schedulers put a step of their own in front.
    alone.__dict__.pop("step", None)
    alone.state = defaultdict(dict)
    alone.param_groups = [{**copy.deepcopy(group), "params": [stand_in]}]
    alone._optimizer_step_pre_hooks = OrderedDict()
    alone._optimizer_step_post_hooks = OrderedDict()
    return alone


def _first_state(entry: _Owned) -> dict[str, Any]:
    """The state that the first step makes of a parameter, found out on a
    stand-in of zeros: neither the parameter nor its optimizer is touched."""
    stand_in = torch.zeros_like(entry.tensor, requires_grad=True)
    stand_in.grad = torch.zeros_like(stand_in)
    alone = _alone(entry, stand_in)
    step = type(alone).step
    # torch puts a wrapper around it that calls hooks of all optimizers.
    if getattr(step, "hooked", False):
        step = inspect.unwrap(step, stop=lambda f: not hasattr(f, "hooked"))
    try:
        step(alone)
    except Exception as error:
        raise TensorError(
            f"{type(alone).__name__} makes no state of '{entry.name}' by a "
            f"step with a gradient of zeros: {error} (take a first step with "
            "it, then use training_state)"
        ) from error
    return dict(alone.state[stand_in])


@dataclass
class FreshState:
    """A trainer's tensors with optimizer state that does not exist yet.

    `tensors` are the destination of a plan. The optimizer has nothing of it
    before `install`: after an abort it is as it was.
    """

    #: {(name, state): tensor}, as `training_state` will give them.
    tensors: dict[Key, torch.Tensor]
    _entries: list[_Owned]
    _made: dict[str, dict[str, Any]]

    def fresh_keys(self) -> list[Key]:
        """Those of the state that does not exist yet."""
        made = self._made
        return [
            (entry.name, name)
            for entry in self._entries
            if entry.name in made
            for _, name in _tensors(entry, made[entry.name])
        ]

    def keep(self, wanted: Container[Key]) -> None:
        """Leaves out the new state of parameters of which nothing is wanted:
        the optimizer makes it when it first steps."""
        for key in [key for key in self.fresh_keys() if key not in wanted]:
            # No plan has a shard without elements; other processes may fill
            # theirs.
            if elements(self.tensors[key]):
                self.tensors.pop(key)
                self._made.pop(key[0], None)

    def install(self, counters: Mapping[str, Mapping[str, float]]) -> None:
        """Gives the optimizer the new state, with these counters (those that
        `dynatrain.counters` gave on the other side). Call it after commit.
        Every parameter with counters needs its own; on an error nothing has
        changed. Names that are not here are left out."""
        work = []
        for entry in self._entries:
            state = self._made.get(entry.name) or entry.state
            own = _counters(entry, state)
            given = counters.get(entry.name, {})
            if not given and not elements(entry.tensor):
                # None may have a state of it, on any process.
                self._made.pop(entry.name, None)
                continue
            _check_counters(entry.name, own, given)
            work.append((entry, own, given))
        for entry, own, given in work:
            if entry.name in self._made:
                entry.optimizer.state[entry.tensor] = self._made[entry.name]
            _write(entry.state, own, given)


def _wanted(
    entry: _Owned, tensors: Iterable[Key], only: Container[Key] | None
) -> bool:
    """Whether the states are to be made: all of a parameter's, or none."""
    made = [state for _, state in tensors]
    had = [s for s in made if only is None or (entry.name, s) in only]
    if had and had != made:
        raise TensorError(
            f"a first step of {type(entry.optimizer).__name__} makes {made} of "
            f"'{entry.name}', expected all or none of them in `only`, which "
            f"has {had}"
        )
    return had == made


def fresh_state(
    parameters: Parameters,
    optimizer: Optimizers,
    *,
    only: Container[Key] | None = None,
    even_frozen: bool = False,
) -> FreshState:
    """The destination of a plan: what `training_state` gives, and new tensors
    for the state that the optimizer's first step would make. Neither the
    parameters nor the optimizer change before `FreshState.install`.

    Of every parameter without state, a stand-in takes a step on its own, so
    memory for two more tensors of its size is needed for a moment. The state of
    a parameter without memory (`hollow`) has none either. An optimizer
    whose step talks to other processes (Muon on DTensors) does so here too.
    LBFGS is refused with `TensorError`.

    only: the states to make, for instance the source's `training_state`, which
        has none of a parameter that no step has reached; default: all.
    even_frozen: make state of parameters that require no gradient too, for
        optimizers that are given gradients by hand.
    """
    entries = _owned(parameters, optimizer)
    tensors: dict[Key, torch.Tensor] = {}
    made: dict[str, dict[str, Any]] = {}
    for entry in entries:
        tensors[entry.name, "param"] = entry.tensor
        state = entry.state
        steps = entry.tensor.requires_grad or even_frozen
        if not state and entry.optimizer and steps:
            state = _first_state(entry)
            if not state or not _wanted(entry, _tensors(entry, state), only):
                continue
            made[entry.name] = state
            if is_hollow(entry.tensor):
                for tensor in _tensors(entry, state).values():
                    give_back(tensor)
        tensors.update(_tensors(entry, state))
    return FreshState(tensors, entries, made)
