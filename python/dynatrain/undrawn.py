"""What is built beside training must leave the process's generators alone."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .errors import InvalidError

#: In place, of torch.Tensor and torch.nn.init.
_FILLING = frozenset(
    [
        "bernoulli_",
        "cauchy_",
        "exponential_",
        "geometric_",
        "kaiming_normal_",
        "kaiming_uniform_",
        "log_normal_",
        "normal_",
        "orthogonal_",
        "random_",
        "trunc_normal_",
        "uniform_",
        "xavier_normal_",
        "xavier_uniform_",
    ]
)
#: What gives a new tensor.
_DRAWING = frozenset(
    [
        "bernoulli",
        "multinomial",
        "normal",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
    ]
)


class _Thread(threading.local):
    """modes: so many of `Undrawn` it is in."""

    modes = 0


_thread = _Thread()


@functools.cache
def _teach() -> None:
    """trunc_normal_ draws until all numbers are within its bounds. Those of
    memory as it was allocated may never be, so it is left out as a whole."""
    module = torch.nn.init
    trunc_normal = module._no_grad_trunc_normal_

    @functools.wraps(trunc_normal)
    def unless_undrawn(tensor: Any, *args: Any, **named: Any) -> Any:
        is_drawn = named.get("generator") is not None
        if _thread.modes and not is_drawn:
            return tensor
        return trunc_normal(tensor, *args, **named)

    module._no_grad_trunc_normal_ = unless_undrawn


class Undrawn(TorchFunctionMode):
    """On this thread no random numbers are drawn: tensors that are to be filled
    with them stay as they are, for a switch to fill; what asks for new ones
    raises `InvalidError`, unless it gives a generator of its own."""

    def __enter__(self) -> Any:
        _teach()
        entered = super().__enter__()
        _thread.modes += 1
        return entered

    def __exit__(self, *why: Any) -> None:
        _thread.modes -= 1
        super().__exit__(*why)

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        name = getattr(function, "__name__", "")
        if named.get("generator") is None:
            if name in _FILLING:
                return args[0] if args else named["tensor"]
            if name in _DRAWING:
                raise InvalidError(
                    f"torch.{name} while a world is built beside training: the "
                    "process's generators are the trainer's; give a generator"
                )
        return function(*args, **named)
