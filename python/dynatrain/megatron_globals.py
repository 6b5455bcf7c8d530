"""Megatron-Core keeps one world in the variables of its modules: process
groups, the micro-batch calculator, the tracker of generators. `Globals` is one
such set, so that a process may have two worlds.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .errors import InvalidError
from .state import Arrived, Rng
from .undrawn import Undrawn

# Under this name a module has what finds a function's own version.
_OWN = "__dynatrain_own__"


def _modules() -> list[ModuleType]:
    from megatron.core import num_microbatches_calculator, parallel_state
    from megatron.core.tensor_parallel import random as generators

    return [parallel_state, num_microbatches_calculator, generators]


def _variables(names: Mapping[str, Any]) -> dict[str, Any]:
    """A module's variables: _ALL_CAPS; they hold the world it works in."""
    return {
        name: value
        for name, value in names.items()
        if re.fullmatch(r"_[A-Z][A-Z0-9_]*", name)
    }


class Globals:
    """One world of Megatron-Core::

        world = Globals.now()              # the one that trains
        with Globals.aside() as new_world:
            parallel_state.initialize_model_parallel(...)
            ...                            # build; then the first is back
        new_world.enter()

    `aside` is for a thread that does nothing else meanwhile. `of_thread` is
    for one beside training.
    """

    def __init__(self) -> None:
        self._values: list[dict[str, Any]] = []

    @classmethod
    def now(cls) -> Globals:
        """The world that this process is in."""
        found = cls()
        found._values = [_variables(vars(one)) for one in _modules()]
        return found

    def enter(self) -> None:
        """Makes it the one that Megatron-Core works in."""
        for module, values in zip(_modules(), self._values):
            vars(module).update(values)

    @classmethod
    @contextlib.contextmanager
    def aside(cls) -> Iterator[Globals]:
        """Leaves the world for a new, empty one, and comes back to it at the
        end, with the generators as they were. What is given holds the new one
        then."""
        before, found = cls.now(), cls()
        generators = Rng().small()[""].value
        try:
            _clear([vars(one) for one in _modules()])
            yield found
            found._values = cls.now()._values
        finally:
            before.enter()
            Rng().install({"": Arrived(generators)})

    @classmethod
    @contextlib.contextmanager
    def of_thread(cls) -> Iterator[Globals]:
        """A new, empty world for this thread alone; all others stay in the one
        that trains. What is given holds it at the end.

        The process's generators are theirs too, so no random numbers are
        drawn: what a module would fill with them is left as it is, for the
        switch to fill. Leave out `torch.manual_seed` and
        `model_parallel_cuda_manual_seed` (`Training(seed=...)` calls that).
        """
        modules, found = _modules(), cls()
        for one in modules:
            _teach(one)
        spaces = {one.__name__: _space(one) for one in modules}
        before, _thread.spaces = _thread.spaces, spaces
        try:
            _clear(list(spaces.values()))
            with Undrawn():
                yield found
            found._values = [_variables(one) for one in spaces.values()]
        finally:
            _thread.spaces = before


def _clear(spaces: Sequence[MutableMapping[str, Any]]) -> None:
    """The world of this thread's variables is empty."""
    parallel_state, calculator, _ = _modules()
    parallel_state.destroy_model_parallel()
    calculator.unset_num_microbatches_calculator()
    spaces[-1].update(
        _CUDA_RNG_STATE_TRACKER=None, _CUDA_RNG_STATE_TRACKER_INITIALIZED=False
    )


# A thread's own variables ----------------------------------------------------
#
# Other modules have imported these functions by name, so they stay the same
# objects, and get another code: it calls the function's version for the thread.


class _Thread(threading.local):
    #: {module: its names, for this thread}; none: as for all others.
    spaces: Mapping[str, dict[str, Any]] | None = None


_thread = _Thread()
# {module: {function: as Megatron-Core has it}}
_functions: dict[str, dict[str, FunctionType]] = {}
_teaching = threading.Lock()


def _caller(name: str) -> CodeType:
    text = (
        f"def {name}(*args, **named):\n"
        f"    return {_OWN}({name!r})(*args, **named)\n"
    )
    made: dict[str, Any] = {}
    exec(compile(text, "<dynatrain.megatron>", "exec"), made)
    return made[name].__code__


def _copy(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """The same, with other global names."""
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _teach(module: ModuleType) -> None:
    """From now on the module's functions ask in which world the thread is."""
    key = module.__name__
    with _teaching:
        if key in _functions:
            return
        names = vars(module)
        found = {
            name: one
            for name, one in names.items()
            if isinstance(one, FunctionType)
            and one.__globals__ is names
            and one.__name__ == name
        }
        closed = [name for name, one in found.items() if one.__closure__]
        if closed:
            raise InvalidError(
                f"{key}: {closed[0]} is a closure, which dynatrain.megatron "
                "cannot tell of threads: build with Globals.aside, and the "
                "job with beside=False"
            )
        own = {name: _copy(one, names) for name, one in found.items()}

        def version(name: str) -> Any:
            spaces = _thread.spaces
            return own[name] if spaces is None else spaces[key][name]

        names[_OWN] = version
        for name, one in found.items():
            one.__wrapped__ = own[name]
            one.__code__ = _caller(name)
            one.__defaults__ = one.__kwdefaults__ = None
        _functions[key] = own


def _space(module: ModuleType) -> dict[str, Any]:
    """The module's names, with functions that use these names."""
    made = dict(vars(module))
    for name, one in _functions[module.__name__].items():
        made[name] = _copy(one, made)
    return made
