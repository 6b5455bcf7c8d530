"""What frameworks are told while a world is built beside training: whose
Megatron-Core's variables are, and that generators are not touched."""

import importlib
import inspect
import threading
import types

import pytest
from dynatrain import megatron_globals
from dynatrain.megatron import Globals
from dynatrain.undrawn import Undrawn
from processes import dynatrain, torch

WORLD = """
_GROUP = None
_SIZES = {}
LIMIT = 7

def initialize(group, *, size=1):
    global _GROUP
    assert _GROUP is None, "initialized twice"
    _GROUP = group
    _SIZES[group] = size

def get_group(check=True):
    if check:
        assert _GROUP is not None, "not initialized"
    return _GROUP

def described(prefix, suffix="."):
    return f"{prefix}{get_group(check=False)}{suffix}{LIMIT}"

def destroy_model_parallel():
    global _GROUP
    _GROUP = None
"""
CALCULATOR = """
_CALCULATOR = None

def set_calculator(value):
    global _CALCULATOR
    _CALCULATOR = value

def get_calculator():
    return _CALCULATOR

def unset_num_microbatches_calculator():
    set_calculator(None)
"""
GENERATORS = """
_CUDA_RNG_STATE_TRACKER = None
_CUDA_RNG_STATE_TRACKER_INITIALIZED = False

def tracker():
    global _CUDA_RNG_STATE_TRACKER
    _CUDA_RNG_STATE_TRACKER = _CUDA_RNG_STATE_TRACKER or object()
    return _CUDA_RNG_STATE_TRACKER
"""


def _module(name, text):
    module = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(module))
    return module


@pytest.fixture
def modules(monkeypatch):
    """Modules that keep a world as Megatron-Core's do."""
    made = [
        _module("world", WORLD),
        _module("calculator", CALCULATOR),
        _module("generators", GENERATORS),
    ]
    monkeypatch.setattr(megatron_globals, "_modules", lambda: made)
    monkeypatch.setattr(megatron_globals, "_functions", {})
    return made


def _on_a_thread(work):
    """What it gives, or its error."""
    found = []

    def run():
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_has_a_world_of_its_own(modules):
    world, calculator, generators = modules
    # As other modules have them: by name.
    get_group, initialize = world.get_group, world.initialize
    initialize("old", size=4)
    calculator.set_calculator("old's")
    tracker = generators.tracker()
    seen = []

    def build():
        with Globals.of_thread() as own:
            assert get_group(check=False) is None
            assert calculator.get_calculator() is None
            initialize("new")
            calculator.set_calculator("new's")
            seen.append(generators.tracker())
            # The trainer goes on with its own.
            assert _on_a_thread(get_group) == "old"
            assert _on_a_thread(calculator.get_calculator) == "old's"
            assert world.described("in ") == "in new.7"
            assert _on_a_thread(lambda: world.described("in ")) == "in old.7"
        assert get_group() == "old"
        return own

    new = _on_a_thread(build)
    assert get_group() == "old" and generators.tracker() is tracker
    old = Globals.now()
    new.enter()
    assert get_group() == "new" and generators.tracker() is seen[0]
    assert calculator.get_calculator() == "new's"
    old.enter()
    assert get_group() == "old" and generators.tracker() is tracker


def test_a_world_is_left_by_an_error(modules):
    world = modules[0]
    world.initialize("old")

    def build():
        with Globals.of_thread():
            world.initialize("new")
            raise RuntimeError("no such layout")

    assert str(_on_a_thread(build)) == "no such layout"
    assert world.get_group() == "old"
    with Globals.aside() as aside:
        world.initialize("next")
    assert world.get_group() == "old"
    aside.enter()
    assert world.get_group() == "next"


def test_functions_look_as_before(modules):
    world = modules[0]
    before = (
        inspect.signature(world.described),
        inspect.signature(world.initialize),
    )
    functions = dict(vars(world))
    with Globals.of_thread():
        pass
    after = (
        inspect.signature(world.described),
        inspect.signature(world.initialize),
    )
    assert before == after
    assert all(vars(world)[name] is one for name, one in functions.items())
    assert world.described("in ", suffix="!") == "in None!7"
    with pytest.raises(TypeError, match="described"):
        world.described()


def test_what_cannot_be_told_of_threads_is_an_error(modules):
    world = modules[0]
    exec(
        "def _made(value):\n"
        "    def hidden():\n"
        "        return value\n"
        "    return hidden\n"
        "hidden = _made(3)\n",
        vars(world),
    )
    wrong = pytest.raises(dynatrain.InvalidError, match="hidden is a closure")
    with wrong, Globals.of_thread():
        pass
    assert world.hidden() == 3


def test_nothing_is_drawn_beside_training():
    state = torch.get_rng_state()
    tensor = torch.full((3,), 5.0)
    with Undrawn():
        tensor.normal_()
        tensor.uniform_(0, 1)
        assert torch.nn.init.xavier_uniform_(tensor.view(3, 1)) is not None
        layer = torch.nn.Linear(4, 4)
        torch.nn.Embedding(8, 2)
        for draw in (
            lambda: torch.randn(3),
            lambda: torch.rand_like(tensor),
            lambda: torch.randperm(4),
        ):
            with pytest.raises(dynatrain.InvalidError, match="generators"):
                draw()
        own = torch.Generator().manual_seed(1)
        drawn = torch.randn(3, generator=own)
        torch.zeros(3).normal_(generator=own)
    assert tensor.tolist() == [5.0] * 3 and layer.weight.shape == (4, 4)
    assert torch.equal(torch.get_rng_state(), state)
    again = torch.randn(3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(drawn, again)


@pytest.mark.parametrize("bounds", [(-2, 2), (1.5, 2.5)])
@pytest.mark.parametrize("memory", [1e30, float("nan"), 0.0])
def test_bounds_of_what_is_not_drawn_are_not_waited_for(bounds, memory):
    """trunc_normal_ draws again what is outside of them; memory as it was
    allocated may stay outside, and a process that joined was never ready."""
    from torch.nn.init import trunc_normal_

    state, tensor = torch.get_rng_state(), torch.full((64,), memory)
    with Undrawn():
        trunc_normal_(tensor, 0, 1, *bounds)
        with Undrawn():
            torch.nn.init.trunc_normal_(tensor, 0, 1, *bounds)
        trunc_normal_(tensor, 0, 1, *bounds)
        own = torch.Generator().manual_seed(1)
        drawn = trunc_normal_(torch.zeros(64), 0, 1, *bounds, generator=own)
    assert torch.equal(tensor, torch.full((64,), memory)) or memory != memory
    assert torch.equal(torch.get_rng_state(), state)
    assert drawn.min() >= bounds[0] and drawn.max() <= bounds[1]
    # All others draw as before.
    trunc_normal_(tensor, 0, 1, *bounds)
    assert tensor.min() >= bounds[0] and tensor.max() <= bounds[1]


def test_torchtitan_seeds_no_generator_beside_training():
    from dynatrain.torchtitan import _building

    config = pytest.importorskip("torchtitan.config")
    distributed = importlib.import_module("torchtitan.distributed.utils")
    tools = importlib.import_module("torchtitan.tools.utils")
    debug = config.DebugConfig(seed=11)
    alone = types.SimpleNamespace(world_size=1)
    how = {"distinct_seed_mesh_dims": ["pp"]}
    state = torch.get_rng_state()

    def build():
        with _building():
            distributed.set_determinism(alone, None, debug, **how)
            with tools.set_default_dtype(torch.float32):
                pass
            with pytest.raises(dynatrain.InvalidError, match="bfloat16"):
                tools.set_default_dtype(torch.bfloat16)

    assert _on_a_thread(build) is None
    assert torch.equal(torch.get_rng_state(), state)
    # A trainer alone does as torchtitan says.
    with tools.set_default_dtype(torch.bfloat16):
        assert torch.get_default_dtype() == torch.bfloat16
    distributed.set_determinism(alone, None, debug, **how)
    assert torch.initial_seed() == 11
    torch.set_rng_state(state)
