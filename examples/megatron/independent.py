"""What a switch must give, by a gather and a slice that know nothing of plans.

Full tensors are joined from what all processes of the old world hold, by each
one's place in Megatron's groups; the part of a process of the new world is cut
out by its place in the new groups. Numbers of layers and experts,
`partition_dim` and the optimizer's ranges are Megatron's own.
"""

import re
from dataclasses import dataclass

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel import get_cuda_rng_tracker
from trainer import NUM_EXPERTS


@dataclass
class Row:
    """A tensor of a process. `cut`: the dim that its tensor group cuts."""

    name: str
    state: str
    value: torch.Tensor
    cut: object
    #: Gate and up lie one after the other in it.
    gated: bool
    #: (rank, ranks) in the tensor group.
    place: tuple
    #: Of the parameter here; `value` starts at this element of it.
    shape: tuple
    first: int = 0


def place_of(sizes):
    """This process's ranks in the groups of the world that it is in."""
    return {
        "ep": parallel_state.get_expert_model_parallel_rank(),
        "dense": (parallel_state.get_tensor_model_parallel_rank(), sizes.tp),
        "expert": (
            parallel_state.get_expert_tensor_parallel_rank()
            if sizes.ep > 1 or sizes.etp > 1
            else 0,
            sizes.etp,
        ),
        "experts": NUM_EXPERTS // sizes.ep,
    }


def _global_name(core, name, place):
    """With the layer's and the expert's number in the full model."""
    found = re.match(r"decoder\.layers\.(\d+)\.", name)
    if found:
        layer = core.decoder.layers[int(found[1])].layer_number - 1
        name = f"decoder.layers.{layer}.{name[found.end() :]}"
    first = place["ep"] * place["experts"]
    return re.sub(
        r"local_experts\.(\d+)",
        lambda one: f"experts.{int(one[1]) + first}",
        name,
    )


def _kept(trainer):
    """{id(parameter): (what the optimizer keeps of it, first element)}."""
    found = {}
    whole = trainer.optimizer
    for one in getattr(whole, "chained_optimizers", [whole]):
        if hasattr(one, "gbuf_ranges"):
            for parameter in one.model_param_gbuf_map:
                found[id(parameter)] = (
                    one._get_main_param_and_optimizer_states(parameter),
                    one._get_model_param_range_map(parameter)["param"].start,
                )
            continue
        for chunk in trainer.chunks:
            for parameter in chunk.parameters():
                main = getattr(parameter, "main_param", parameter)
                state = one.optimizer.state.get(main)
                if state:
                    found[id(parameter)] = {"param": main, **state}, 0
    return found


def _parameters(trainer, place):
    """(parameter, what a row says of it) of all that are here."""
    core = trainer.chunks[0]
    while hasattr(core, "module"):
        core = core.module
    for name, parameter in core.named_parameters():
        expert = "local_experts" in name
        at = place["expert" if expert else "dense"]
        is_cut = getattr(parameter, "tensor_model_parallel", False)
        yield (
            parameter,
            {
                "name": _global_name(core, name, place),
                "cut": parameter.partition_dim
                if is_cut and at[1] > 1
                else None,
                "gated": expert and "linear_fc1" in name,
                "place": at,
                "shape": tuple(parameter.shape),
            },
        )


def rows_of(trainer, place):
    """All that this process holds of the model and its optimizer."""
    kept, rows = _kept(trainer), []
    for parameter, about in _parameters(trainer, place):
        whole = parameter.detach().clone().view(-1)
        rows.append(Row(state="param", value=whole, **about))
        states, first = kept.get(id(parameter), ({}, 0))
        for state, tensor in states.items():
            own = tensor.detach().clone().view(-1)
            if state == "step":
                about_step = about | {
                    "cut": None,
                    "gated": False,
                    "shape": (1,),
                }
                rows.append(Row(state=state, value=own, **about_step))
            elif own.numel():
                rows.append(
                    Row(state=f"main {state}", value=own, first=first, **about)
                )
    return rows


def _local(rows):
    """A process's whole tensor out of the runs that data parallelism holds."""
    whole = torch.full((rows[0].shape), 0.0, dtype=rows[0].value.dtype).view(-1)
    seen = torch.zeros(whole.shape, dtype=torch.bool)
    for row in rows:
        run = slice(row.first, row.first + row.value.numel())
        whole[run], seen[run] = row.value, True
    assert seen.all(), (rows[0].name, rows[0].state)
    return whole.view(rows[0].shape)


def _joined(parts, row):
    if row.cut is None:
        return parts[0]
    if row.gated and row.cut == 0:
        halves = zip(*(part.chunk(2) for part in parts))
        return torch.cat([torch.cat(half) for half in halves])
    return torch.cat(parts, row.cut)


def _part(full, row):
    at, count = row.place
    if row.cut is None:
        return full
    if row.gated and row.cut == 0:
        return torch.cat([half.chunk(count)[at] for half in full.chunk(2)])
    return full.chunk(count, row.cut)[at]


def gathered(rows):
    """{(name, state): full tensor} of all processes' rows."""
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, rows)
    return joined(everyones)


def joined(everyones):
    """The same of the rows of each process."""
    places = {}
    for row in (row for own in everyones for row in own):
        at = places.setdefault((row.name, row.state), {})
        at.setdefault(row.place[0], []).append(row)
    return {
        key: _joined([_local(of[at]) for at in sorted(of)], of[0][0])
        for key, of in places.items()
    }


def full_weights(trainer):
    """{(name, state): full tensor} of a model that has yet to be trained."""
    return gathered(rows_of(trainer, place_of(trainer.sizes)))


def load(trainer, weights):
    """Gives a model that has yet to be trained the weights of another layout's:
    each stage draws its own."""
    for parameter, about in _parameters(trainer, place_of(trainer.sizes)):
        row = Row(state="param", value=parameter, **about)
        part = _part(weights[row.name, row.state], row)
        with torch.no_grad():
            parameter.copy_(part.view(parameter.shape))
    trainer.optimizer.reload_model_params()


def check(rows, full):
    """Compares every value with its part of the full tensors; how many."""
    for row in rows:
        wanted = _part(full[row.name, row.state], row).reshape(-1)
        wanted = wanted[row.first : row.first + row.value.numel()]
        assert torch.equal(row.value, wanted), (row.name, row.state)
    return sum(row.value.numel() for row in rows)


def streams():
    """{(stream of the tracker, its place in the model): its state}, of all
    processes; those at one place draw the same numbers."""
    stage = parallel_state.get_pipeline_model_parallel_rank()
    tensor = parallel_state.get_tensor_model_parallel_rank()
    expert = parallel_state.get_expert_model_parallel_rank()
    cut = parallel_state.get_expert_tensor_parallel_rank()
    places = {
        "model-parallel-rng": (stage, tensor),
        "expert-parallel-rng": (stage, expert, cut),
        "data-parallel-rng": (stage,),
    }
    own = {
        (name, places[name]): state.tolist()
        for name, state in get_cuda_rng_tracker().get_states().items()
    }
    everyones, found = [None] * dist.get_world_size(), {}
    dist.all_gather_object(everyones, own)
    for told in everyones:
        for key, state in told.items():
            assert found.setdefault(key, state) == state, key
    return found


def check_streams(found, before):
    """Every place that both worlds have draws on; how many there are."""
    both = found.keys() & before.keys()
    for key in both:
        assert found[key] == before[key], key
    return len(both)
