"""The state of torch's Adam optimizers, by the names that plans use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import torch

from .errors import TensorError

#: A model, or its parameters by name.
Parameters = Union[torch.nn.Module, Mapping[str, torch.Tensor]]
_MOMENTS = ("exp_avg", "exp_avg_sq")


def _named(parameters: Parameters) -> dict[str, torch.Tensor]:
    if isinstance(parameters, torch.nn.Module):
        return dict(parameters.named_parameters())
    return dict(parameters)


def training_state(
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    *,
    create: bool = False,
) -> dict[tuple[str, str], torch.Tensor]:
    """Parameters and AdamW moments as ``{(name, state): tensor}``, the states
    "param", "exp_avg" and "exp_avg_sq".

    With `create`, moments that the optimizer does not have yet are made, as
    zeros: so a new optimizer becomes the destination of a plan. Step counters
    are no tensors of a plan: see `steps` and `set_steps`.
    """
    tensors: dict[tuple[str, str], torch.Tensor] = {}
    for name, parameter in _named(parameters).items():
        tensors[name, "param"] = parameter
        state = optimizer.state[parameter]
        if create:
            state.setdefault("step", torch.zeros((), dtype=torch.float32))
        for moment in _MOMENTS:
            if create and moment not in state:
                state[moment] = torch.zeros_like(parameter)
            if moment not in state:
                raise TensorError(
                    f"the optimizer has no '{moment}' of '{name}' yet, "
                    "expected one (take a step, or pass create=True)"
                )
            tensors[name, moment] = state[moment]
    return tensors


def steps(
    parameters: Parameters, optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """Step counter of each parameter: user data for `Plan.prepare`."""
    return {
        name: float(optimizer.state[parameter]["step"])
        for name, parameter in _named(parameters).items()
        if "step" in optimizer.state[parameter]
    }


def set_steps(
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    counters: Mapping[str, float],
) -> None:
    """Sets the counters that `steps` gave; other names are left out."""
    for name, parameter in _named(parameters).items():
        if name in counters:
            state = optimizer.state[parameter]
            state.setdefault("step", torch.zeros((), dtype=torch.float32))
            if isinstance(state["step"], torch.Tensor):
                state["step"].fill_(counters[name])
            else:
                state["step"] = counters[name]
