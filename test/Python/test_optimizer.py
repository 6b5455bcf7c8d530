"""What training_state says of any optimizer of torch, what fresh_state makes,
and that neither changes a thing."""

import copy
import json

import dynatrain
import pytest
from processes import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p),
    "adamw": lambda p: torch.optim.AdamW(p),
    "adamw-amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "adamw-fused": lambda p: torch.optim.AdamW(p, fused=True),
    "adamw-foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd-momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adagrad-accumulated": lambda p: torch.optim.Adagrad(
        p, initial_accumulator_value=0.5
    ),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
    "rmsprop-all": lambda p: torch.optim.RMSprop(
        p, momentum=0.5, centered=True
    ),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "nadam": lambda p: torch.optim.NAdam(p),
    "radam": lambda p: torch.optim.RAdam(p),
    "adamax": lambda p: torch.optim.Adamax(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "rprop": lambda p: torch.optim.Rprop(p),
    "adafactor": lambda p: torch.optim.Adafactor(p),
}
#: The states that a plan moves.
STATES = {
    "adam": {"exp_avg", "exp_avg_sq"},
    "adamw": {"exp_avg", "exp_avg_sq"},
    "adamw-amsgrad": {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    "adamw-fused": {"exp_avg", "exp_avg_sq"},
    "adamw-foreach": {"exp_avg", "exp_avg_sq"},
    "sgd": set(),
    "sgd-momentum": {"momentum_buffer"},
    "adagrad": {"sum"},
    "adagrad-accumulated": {"sum"},
    "rmsprop": {"square_avg"},
    "rmsprop-all": {"square_avg", "momentum_buffer", "grad_avg"},
    "adadelta": {"square_avg", "acc_delta"},
    "nadam": {"exp_avg", "exp_avg_sq"},
    "radam": {"exp_avg", "exp_avg_sq"},
    "adamax": {"exp_avg", "exp_inf"},
    "asgd": {"ax"},
    "rprop": {"prev", "step_size"},
    "adafactor": {"row_var", "col_var", "variance"},
}


class Model(torch.nn.Module):
    """Weights, a scalar, a frozen weight, buffers that persist and one not."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.inner = torch.nn.Linear(4, 3)
        self.scale = torch.nn.Parameter(torch.rand(()) + 0.5)
        self.base = torch.nn.Linear(4, 4).requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("cache", torch.ones(2), persistent=False)
        self.register_buffer("unused", None)

    def forward(self, x):
        return self.norm(self.inner(self.base(x))) * self.scale


def groups(model):
    """Two groups, the frozen weights in one of them."""
    wide = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": wide}, {"params": rest, "lr": 0.01}]


def take_steps(model, optimizer, first, count):
    for number in range(first, first + count):
        generator = torch.Generator().manual_seed(number)
        optimizer.zero_grad()
        model(torch.randn(8, 4, generator=generator)).square().sum().backward()
        optimizer.step()


def trained(kind, steps=3):
    model = Model()
    optimizer = OPTIMIZERS[kind](groups(model))
    take_steps(model, optimizer, 0, steps)
    return model, optimizer


def as_it_is(optimizer):
    """All that an optimizer keeps, entries without content too."""
    state = {
        id(key): {name: copy.deepcopy(value) for name, value in kept.items()}
        for key, kept in optimizer.state.items()
    }
    rest = [
        {k: copy.deepcopy(v) for k, v in group.items() if k != "params"}
        for group in optimizer.param_groups
    ]
    return state, rest


def same(one, other):
    """Deep equality, bit for bit in tensors."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.equal(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


WEIGHTS = {
    "inner.weight", "inner.bias", "scale", "base.weight", "base.bias",
    "norm.weight", "norm.bias",
}  # fmt: skip
BUFFERS = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_state_says_what_exists(kind):
    model, optimizer = trained(kind)
    before = as_it_is(optimizer)
    state = dynatrain.training_state(model, optimizer)
    numbers = dynatrain.counters(model, optimizer)
    assert same(as_it_is(optimizer), before)
    assert {n for n, s in state if s == "param"} == WEIGHTS | BUFFERS
    # What has no dims is a counter, but beside a parameter that has none.
    of_tensors = {s for n, s in state if n != "scale"}
    assert of_tensors - {"param"} == STATES[kind]
    for (name, which), tensor in state.items():
        if which != "param":
            owner = model.get_parameter(name)
            assert tensor is optimizer.state[owner][which]
            # Adagrad has a state of all its parameters from the start.
            assert owner.requires_grad or "adagrad" in kind
    # What is left of the optimizer's state are the counters.
    left = {
        (name, which)
        for name, parameter in model.named_parameters()
        for which, value in optimizer.state.get(parameter, {}).items()
        if value is not None and (name, which) not in state
    }
    assert left == {(n, s) for n, values in numbers.items() for s in values}
    assert json.loads(json.dumps(numbers)) == numbers
    optimizer.state_dict()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_fresh_optimizer_goes_on_as_the_old_one(kind):
    """Moves by hand what a plan would; later steps are the same bit for bit."""
    model, optimizer = trained(kind)
    other = Model(seed=1)
    after = OPTIMIZERS[kind](groups(other))
    weights = copy.deepcopy(other.state_dict())
    before = as_it_is(after)
    fresh = dynatrain.fresh_state(other, after)
    assert same(as_it_is(after), before)
    assert same(other.state_dict(), weights)
    source = dynatrain.training_state(model, optimizer)
    assert fresh.tensors.keys() == source.keys()
    for key, tensor in source.items():
        assert fresh.tensors[key].dtype == tensor.dtype
        with torch.no_grad():
            fresh.tensors[key].copy_(tensor)
    fresh.install(dynatrain.counters(model, optimizer))
    assert dynatrain.training_state(other, after).keys() == source.keys()
    after.load_state_dict(after.state_dict())
    take_steps(model, optimizer, 3, 3)
    take_steps(other, after, 3, 3)
    assert same(model.state_dict(), other.state_dict())
    assert same(optimizer.state_dict()["state"], after.state_dict()["state"])


def test_no_step_yet_is_no_state():
    model = Model()
    optimizer = torch.optim.AdamW(groups(model))
    state = dynatrain.training_state(model, optimizer)
    assert {s for _, s in state} == {"param"}
    assert not optimizer.state and dynatrain.counters(model, optimizer) == {}
    other = Model()
    after = torch.optim.AdamW(groups(other))
    fresh = dynatrain.fresh_state(other, after, only=state)
    assert fresh.tensors.keys() == state.keys()
    fresh.install({})
    assert not after.state
    take_steps(other, after, 0, 1)


def test_a_parameter_that_no_step_has_reached():
    """Its first gradient comes later: nothing is made of it elsewhere."""
    ends = [torch.nn.Linear(2, 2) for _ in range(2)]
    models = [torch.nn.ModuleList(copy.deepcopy(ends)) for _ in range(2)]
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    models[0][0](torch.ones(2)).sum().backward()
    optimizers[0].step()
    state = dynatrain.training_state(models[0], optimizers[0])
    fresh = dynatrain.fresh_state(models[1], optimizers[1], only=state)
    assert fresh.tensors.keys() == state.keys()
    assert {n for n, s in state if s != "param"} == {"0.weight", "0.bias"}
    fresh.install(dynatrain.counters(models[0], optimizers[0]))
    assert len(optimizers[1].state) == 2


def test_a_state_that_the_source_lacks():
    model, optimizer = trained("adamw")
    other = Model()
    after = torch.optim.AdamW(groups(other), amsgrad=True)
    state = dynatrain.training_state(model, optimizer)
    words = r"'max_exp_avg_sq'\] of '[\w.]+', expected all or none"
    with pytest.raises(dynatrain.TensorError, match=words):
        dynatrain.fresh_state(other, after, only=state)


def test_amsgrad_has_its_third_moment():
    """Which a plan moves, and without which no step can be taken."""
    weight = torch.nn.Parameter(torch.zeros(4, 4))
    optimizer = torch.optim.AdamW([weight], amsgrad=True)
    fresh = dynatrain.fresh_state({"w": weight}, optimizer)
    assert ("w", "max_exp_avg_sq") in fresh.tensors
    fresh.install({"w": {"step": 5}})
    weight.grad = torch.ones(4, 4)
    optimizer.step()
    assert dynatrain.counters({"w": weight}, optimizer) == {"w": {"step": 6.0}}


def test_frozen_parameters_have_weights_only():
    """As in LoRA: the optimizer has the others."""
    model = torch.nn.ModuleDict(
        {"base": torch.nn.Linear(4, 4), "lora": torch.nn.Linear(4, 4)}
    )
    model["base"].requires_grad_(False)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad]
    )
    fresh = dynatrain.fresh_state(model, optimizer)
    states = {
        n: {s for m, s in fresh.tensors if m == n} for n, _ in fresh.tensors
    }
    assert states["base.weight"] == states["base.bias"] == {"param"}
    assert states["lora.weight"] == {"param", "exp_avg", "exp_avg_sq"}
    optimizer.state_dict()
    fresh.install({n: {"step": 1} for n in ("lora.weight", "lora.bias")})
    assert len(optimizer.state_dict()["state"]) == 2


def test_counters_that_do_not_fit():
    model, optimizer = trained("nadam")
    numbers = dynatrain.counters(model, optimizer)
    assert numbers["inner.weight"].keys() == {"step", "mu_product"}
    before = as_it_is(optimizer)
    numbers["norm.bias"] = {"step": 9}
    words = r"for 'norm.bias' are \['step'\], expected \['mu_product', 'step'\]"
    with pytest.raises(dynatrain.TensorError, match=words):
        dynatrain.set_counters(model, optimizer, numbers)
    assert same(as_it_is(optimizer), before)
    other = Model()
    after = torch.optim.NAdam(groups(other))
    fresh = dynatrain.fresh_state(other, after)
    for given in (numbers, {}):
        with pytest.raises(dynatrain.TensorError, match="the counters given"):
            fresh.install(given)
        assert not after.state


def test_steps_of_every_element_are_no_counter():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight])
    optimizer.state[weight] = {"step": torch.ones(3)}
    state = dynatrain.training_state({"w": weight}, optimizer)
    assert state.keys() == {("w", "param"), ("w", "step")}
    optimizer.state[weight] = {"step": torch.tensor([4.0])}
    numbers = dynatrain.counters({"w": weight}, optimizer)
    assert numbers == {"w": {"step": 4.0}}


def test_what_an_optimizer_does_not_keep():
    """Some say so by None."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight])
    optimizer.state[weight] = {"momentum_buffer": None}
    state = dynatrain.training_state({"w": weight}, optimizer)
    assert state.keys() == {("w", "param")}
    assert dynatrain.counters({"w": weight}, optimizer) == {}


def test_counters_that_are_numbers_and_names_from_elsewhere():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    optimizer.state[weight] = {"step": 3, "exp_avg": torch.ones(2)}
    given = {"w": {"step": 7.0}, "of another stage": {"step": 1}}
    dynatrain.set_counters({"w": weight}, optimizer, given)
    step = optimizer.state[weight]["step"]
    assert step == 7 and isinstance(step, int)


def test_several_optimizers_share_a_model():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    both = [
        torch.optim.Muon([model[0].weight, model[1].weight]),
        torch.optim.AdamW([model[0].bias, model[1].bias]),
    ]
    fresh = dynatrain.fresh_state(model, both)
    found = {key for key in fresh.tensors if key[1] != "param"}
    assert found == {
        ("0.weight", "momentum_buffer"), ("1.weight", "momentum_buffer"),
        ("0.bias", "exp_avg"), ("0.bias", "exp_avg_sq"),
        ("1.bias", "exp_avg"), ("1.bias", "exp_avg_sq"),
    }  # fmt: skip
    twice = [both[1], torch.optim.SGD([model[0].bias])]
    with pytest.raises(
        dynatrain.TensorError, match="'0.bias' is a parameter of"
    ):
        dynatrain.training_state(model, twice)


def test_an_optimizer_of_another_model_is_refused():
    optimizer = torch.optim.AdamW(torch.nn.Linear(5, 3).parameters())
    words = r"group 0 of AdamW has a parameter of shape \[3, 5\] that is none"
    with pytest.raises(dynatrain.TensorError, match=words):
        dynatrain.training_state(torch.nn.Linear(5, 3), optimizer)


def test_lbfgs_is_refused():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(
        dynatrain.TensorError, match="LBFGS keeps its parameters"
    ):
        dynatrain.fresh_state(model, optimizer)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(3)).square().sum()
        loss.backward()
        return loss

    assert len(dynatrain.training_state(model, optimizer)) == 2
    optimizer.step(closure)
    words = "LBFGS keeps 'al' of 'weight' as a list, expected tensors"
    with pytest.raises(dynatrain.TensorError, match=words):
        dynatrain.training_state(model, optimizer)


@pytest.mark.parametrize("kept", [lambda p: p, lambda p: {"w": p[0]}])
def test_an_optimizer_that_knows_its_parameters_twice(kept):
    """A step of a stand-in would change the real ones."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    optimizer.mirror = kept([weight])
    words = "AdamW keeps its parameters in 'mirror' too"
    with pytest.raises(dynatrain.TensorError, match=words):
        dynatrain.fresh_state({"w": weight}, optimizer)


def test_a_first_step_that_fails_is_named():
    table = torch.nn.Parameter(torch.ones(4, 2))
    optimizer = torch.optim.SparseAdam([table])
    words = "SparseAdam makes no state of 'table' by a step"
    with pytest.raises(dynatrain.TensorError, match=words):
        dynatrain.fresh_state({"table": table}, optimizer)


def test_hooks_and_schedulers_see_no_step():
    model = Model()
    optimizer = torch.optim.AdamW(groups(model))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("pre"))
    optimizer.register_step_post_hook(lambda *_: seen.append("post"))
    hook = register_optimizer_step_pre_hook(lambda *_: seen.append("all"))
    try:
        fresh = dynatrain.fresh_state(model, optimizer)
    finally:
        hook.remove()
    assert ("inner.weight", "exp_avg") in fresh.tensors
    assert not seen and scheduler.last_epoch == 0
    take_steps(model, optimizer, 0, 1)
    assert seen == ["pre", "post"]


def test_names_are_without_wrappers():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    plain = dynatrain.training_state(model)
    model[0] = torch.compile(model[0])
    assert any("_orig_mod" in name for name, _ in model.named_parameters())
    assert dynatrain.training_state(model).keys() == plain.keys()


def test_tied_parameters_come_once():
    model = torch.nn.ModuleDict(
        {"embed": torch.nn.Linear(4, 2), "head": torch.nn.Linear(4, 2)}
    )
    model["head"].weight = model["embed"].weight
    names = {name for name, _ in dynatrain.training_state(model)}
    assert names == {"embed.weight", "embed.bias", "head.bias"}
    table = torch.ones(2)
    assert list(dynatrain.training_state({"a": table, "b": table})) == [
        ("a", "param")
    ]


def test_state_on_meta_tells_the_layout_only():
    with torch.device("meta"):
        model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    fresh = dynatrain.fresh_state(model, optimizer)
    assert fresh.tensors["weight", "exp_avg"].is_meta
