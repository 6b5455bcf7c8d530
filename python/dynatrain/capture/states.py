"""From captured layouts to a request: what keys of state dicts mean.

The tensors of a request are the parameters; what the optimizer keeps of one
are states of that tensor. What is shaped otherwise, such as a step counter, is
a tensor of its own.
"""

import re

from .layout import CaptureError, region_text

OPTIMIZER_STATES = {
    "fp32_param": "master", "param": "master", "master": "master",
    "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq",
    "max_exp_avg_sq": "max_exp_avg_sq", "momentum_buffer": "momentum_buffer",
}  # fmt: skip
MEGATRON = re.compile(r"(?:chained_\d+\.)?optimizer\.state\.([^.]+)\.(.+)")
TORCH = re.compile(r"(?:.*\b)?(?:optim\w*|optimizer\w*)\.state\.(.+)\.([^.]+)")


def tensor_and_state(key):
    """(tensor, state) of a key: Megatron-Core's `optimizer.state.STATE.KEY`,
    torch's `optim.state.FQN.STATE`; all else is a `param`."""
    found = MEGATRON.fullmatch(key)
    if found and found[1] in OPTIMIZER_STATES:
        return found[2], OPTIMIZER_STATES[found[1]]
    found = TORCH.fullmatch(key)
    return (found[1], found[2]) if found else (key, "param")


def state_key(tensor, state):
    """The key that `tensor_and_state` reads as this tensor and state: the
    tensor's own name for "param", else torch's optim.state.TENSOR.STATE."""
    key = tensor if state == "param" else f"optim.state.{tensor}.{state}"
    if tensor_and_state(key) != (tensor, state):
        raise CaptureError(
            f"tensor {tensor!r} with state {state!r} cannot be told from "
            f"{tensor_and_state(key)}, which the key {key!r} means"
        )
    return key


def suffixes(name):
    """The name, and what is left of it without its first components."""
    while True:
        yield name
        _, dot, name = name.partition(".")
        if not dot:
            return


def name_keys(shapes, naming):
    """{key: (tensor, state)} of all keys. The optimizer's names may lack the
    first components of a param's ("model."); a state whose shape is not the
    param's is a tensor of its own."""
    names = {key: naming(key) for key in shapes}
    params = {
        tensor: shapes[key]
        for key, (tensor, state) in names.items()
        if state == "param"
    }
    longer = {}
    for param in params:
        for suffix in suffixes(param):
            longer.setdefault(suffix, []).append(param)
    for key, (tensor, state) in names.items():
        if state == "param":
            continue
        if tensor not in params and len(longer.get(tensor, ())) == 1:
            tensor = longer[tensor][0]
        same = params.setdefault(tensor, shapes[key]) == shapes[key]
        names[key] = (tensor, state) if same else (key, "param")
    return names


def shapes_of(source, destination):
    """{key: shape} of both sides, which must agree."""
    shapes = {}
    for layout in (source, destination):
        for row in layout.rows:
            key = row["tensor"]
            shape, _ = layout.tensors[key]
            if shapes.setdefault(key, shape) != shape:
                raise CaptureError(
                    f"tensor {key!r} is {shapes[key]} in the source and "
                    f"{shape} in the destination, where rank {row['rank']} "
                    f"holds {region_text(row['offset'], row['size'])}: padded "
                    "unequally?"
                )
        for key, (shape, _) in layout.tensors.items():
            shapes.setdefault(key, shape)
    return shapes


def states_by_tensor(sides, names):
    """{tensor: {state: [source dtype, destination dtype]}}, None for none."""
    tensors = {}
    for number, layout in enumerate(sides):
        for key, (_, dtype) in layout.tensors.items():
            tensor, state = names[key]
            dtypes = tensors.setdefault(tensor, {}).setdefault(
                state, [None, None]
            )
            if dtypes[number]:
                raise CaptureError(
                    f"tensor {tensor!r} has state {state!r} twice, once as "
                    f"{key!r}"
                )
            dtypes[number] = dtype
    return tensors


def check_sides(tensor, states, derive, drop):
    """Nothing is lost in silence, and nothing comes from nowhere."""
    for number, (side, listed) in enumerate(
        [("source", derive), ("destination", drop)]
    ):
        absent = [n for n, dtypes in states.items() if not dtypes[number]]
        absent = [name for name in absent if name not in listed]
        if absent and len(absent) == len(states):
            raise CaptureError(f"the {side} does not have tensor {tensor!r}")
        if absent:
            raise CaptureError(
                f"the {side} does not have state {absent[0]!r} of tensor "
                f"{tensor!r}"
            )


def model_entry(tensor, shape, states):
    entry = {"name": tensor, "shape": shape}
    if states.keys() == {"param"} and len(set(states["param"])) == 1:
        return entry | {"dtype": states["param"][0]}
    return entry | {
        "state": {
            name: before if before == after else [before, after]
            for name, (before, after) in states.items()
        }
    }


def request(source, destination, naming=tensor_and_state, **more):
    """The request from one captured layout to another, with more of its keys
    (cluster, memory, derive, drop, ...). `naming` gives the tensor and the
    state that a key of a state dict means."""
    sides = source, destination
    source.check_whole("source")
    destination.check_whole("destination")
    shapes = shapes_of(*sides)
    names = name_keys(shapes, naming)
    tensors = states_by_tensor(sides, names)
    derive, drop = more.get("derive", {}), more.get("drop", [])
    for tensor, states in tensors.items():
        check_sides(tensor, states, derive, drop)
    kept = {
        tensor: states
        for tensor, states in tensors.items()
        if any(after for _, after in states.values())
    }
    shape_of = {names[key][0]: shape for key, shape in shapes.items()}

    def side(layout):
        rows = []
        for row in layout.rows:
            tensor, state = names[row["tensor"]]
            if tensor in kept:
                several = {"state": state} if len(kept[tensor]) > 1 else {}
                rows.append(row | {"tensor": tensor} | several)
        return {"world": layout.world, "shards": rows}

    entries = [model_entry(t, shape_of[t], s) for t, s in kept.items()]
    return {
        "model": {"tensors": entries},
        "source": side(source),
        "destination": side(destination),
    } | more
