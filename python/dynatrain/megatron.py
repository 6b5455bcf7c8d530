"""Megatron-Core's state: what its model chunks and optimizers hold, and where.

The sharded state dict of the model says which part of the full model each
parameter is; the optimizers say which elements of it they keep, as main
parameter and moments. Works with DistributedOptimizer (ZeRO-1), with
Float16OptimizerWithFloat16Params, with FP32Optimizer and with chains of them.
What is read beyond Megatron-Core's documented interface is listed in
docs/Trainers.md and probed for, not asked of a version.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import _C
from .capture import Piece
from .capture.megatron import box_of, parts_of, sharded_entries
from .errors import Error, TensorError
from .megatron_globals import Globals
from .optimizer import FreshState, Key, counters, fresh_state, training_state
from .state import MERGED, PER_RANK, SHARED, Arrived, Part, Rng, Small

# Layers keep their numbers in the names, so that stages may be uneven.
_METADATA = {"non_homogeneous_layers": True}
_MAIN = "master"


# Parameters ------------------------------------------------------------------


@dataclass
class _Box:
    """A run of a local tensor's elements that is a box of a full tensor. Gate
    and up of a gated layer are two in one tensor."""

    name: str
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    size: tuple[int, ...]
    begin: int

    @property
    def end(self) -> int:
        return self.begin + math.prod(self.size)

    def piece(self, tensor: torch.Tensor, first: int) -> Piece | None:
        """What a tensor that starts at the element `first` has of the box."""
        lo = max(self.begin, first)
        hi = min(self.end, first + tensor.numel())
        if lo >= hi:
            return None
        run = (lo - self.begin, hi - self.begin)
        part = _C.elements_of(tensor, lo - first, hi - first)
        return Piece(part, self.shape, self.offset, self.size, run)


@dataclass
class _Local:
    """A parameter (or persistent buffer) of a chunk."""

    tensor: torch.Tensor
    boxes: list[_Box]
    #: What the optimizer works on, and its first element in the parameter.
    main: torch.Tensor | None = None
    first: int = 0

    @property
    def name(self) -> str:
        """Of this process's own; a tensor of the full model has no such."""
        box = self.boxes[0]
        return f"{box.name}@{','.join(map(str, box.offset))}"

    def has_main(self) -> bool:
        """Whether the main parameter is not the parameter itself."""
        return self.main is not None and (
            self.main.untyped_storage().data_ptr()
            != self.tensor.untyped_storage().data_ptr()
        )


def _core(chunk: torch.nn.Module) -> torch.nn.Module:
    """Without DistributedDataParallel and Float16Module."""
    while hasattr(chunk, "module"):
        chunk = chunk.module
    return chunk


def _boxes(entry: Any) -> list[_Box]:
    boxes, begin = [], 0
    for part in parts_of(entry):
        offset, size = box_of(0, part)
        box = _Box(
            part.key,
            tuple(part.global_shape),
            tuple(offset),
            tuple(size),
            begin,
        )
        boxes.append(box)
        begin = box.end
    return boxes


def _locals_of(chunks: Iterable[torch.nn.Module]) -> list[_Local]:
    """All tensors of the chunks, each once."""
    found: dict[int, _Local] = {}
    for chunk in chunks:
        tree = _core(chunk).sharded_state_dict(metadata=dict(_METADATA))
        for entry in sharded_entries(tree):
            tensor = entry.data
            if id(tensor) not in found:
                found[id(tensor)] = _Local(tensor, _boxes(entry))
    return list(found.values())


# Optimizers ------------------------------------------------------------------


def _chain(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    return list(getattr(optimizer, "chained_optimizers", [optimizer]))


def _of_ranges(one: Any) -> Iterator[tuple[Any, torch.Tensor, int]]:
    """DistributedOptimizer: (parameter, main parameter, its first element)."""
    groups = one.optimizer.param_groups
    for buckets in itertools.chain(
        *(maps.values() for maps in one.gbuf_ranges)
    ):
        for bucket in buckets:
            for parameter, found in bucket["param_map"].items():
                group, order = one.model_param_group_index_map[parameter]
                main = groups[group]["params"][order]
                yield parameter, main, found["param"].start


def _of_groups(one: Any) -> Iterator[tuple[Any, torch.Tensor, int]]:
    """The float16 optimizer, and the one of single precision."""
    mains = {
        id(parameter): main
        for parameters, copies in zip(
            getattr(one, "float16_groups", ()),
            getattr(one, "fp32_from_float16_groups", ()),
        )
        for parameter, main in zip(parameters, copies)
    }
    own = list(itertools.chain(*getattr(one, "float16_groups", ())))
    if hasattr(one, "fp32_from_fp32_groups"):
        own += itertools.chain(*one.fp32_from_fp32_groups)
    else:
        own += itertools.chain(*(g["params"] for g in one.param_groups))
    for parameter in own:
        yield parameter, mains.get(id(parameter), parameter), 0


def _mains(one: Any) -> Iterator[tuple[Any, torch.Tensor, int]]:
    if hasattr(one, "gbuf_ranges"):
        return _of_ranges(one)
    if hasattr(one, "optimizer"):
        return _of_groups(one)
    raise TensorError(
        f"the optimizer is a {type(one).__name__}, expected one of "
        "Megatron-Core's with `optimizer` or `gbuf_ranges`"
    )


def _identity(group: Mapping[str, Any]) -> str:
    """What Megatron-Core tells groups by, whatever process has them."""
    from megatron.core.optimizer import optimizer as module

    keys = getattr(
        module,
        "param_group_identifier_keys",
        ("wd_mult", "lr_mult", "is_expert_parallel", "is_decoupled_lr"),
    )
    return ", ".join(f"{k}={group.get(k, group.get(f'pre_{k}'))}" for k in keys)


# The part --------------------------------------------------------------------


class Training(Part):
    """Model chunks and their optimizer, as a part of a `dynatrain.State`::

        state = dynatrain.State(
            megatron=dynatrain.megatron.Training(chunks, optimizer, scheduler),
            iteration=0, consumed_samples=0,
        )

    What moves by plan: parameters, persistent buffers, main parameters and the
    optimizer's moments. What travels beside them: step counters, options of
    parameter groups, the loss scaler, the scheduler, and the generators: the
    process's own, and the tracker's streams by their place in the model (stage
    and tensor or expert rank); a place that the old world does not have keeps
    the seed of the new one. Gradient buffers do not move: switch after the
    optimizer's step; those of the new side are zeroed.

    chunks: as get_model gives them, wrapped or not.
    globals: the new side's, where it was built in `Globals.aside` or
        `Globals.of_thread`; entered by `Switch.commit`.
    seed: for `model_parallel_cuda_manual_seed`, where the new side was built
        without; that is called when its world is entered.
    """

    def __init__(
        self,
        chunks: Sequence[torch.nn.Module] | torch.nn.Module,
        optimizer: Any = None,
        scheduler: Any = None,
        *,
        globals: Globals | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(chunks, torch.nn.Module):
            chunks = [chunks]
        self.chunks, self.optimizer = list(chunks), optimizer
        self.scheduler, self.globals = scheduler, globals
        self.seed = seed
        self._locals = _locals_of(self.chunks)
        self._chain = _chain(optimizer)
        self._place = _place()
        self._fresh: FreshState | None = None
        self._connect()

    def _connect(self) -> None:
        known = {id(local.tensor): local for local in self._locals}
        for one in self._chain:
            for parameter, main, first in _mains(one):
                local = known.get(id(parameter))
                if local is None:
                    raise TensorError(
                        f"{type(one).__name__} has a parameter of shape "
                        f"{list(parameter.shape)} that is in none of the "
                        f"{len(self.chunks)} chunks given"
                    )
                local.main, local.first = main, first

    # Tensors

    def _trained(self) -> dict[str, torch.Tensor]:
        return {
            local.name: local.main
            for local in self._locals
            if local.main is not None
        }

    def _inner(self) -> list[torch.optim.Optimizer]:
        return [one.optimizer for one in self._chain]

    def _pieces(self, kept: Mapping[Key, torch.Tensor]) -> dict[Key, Any]:
        """All that is held; `kept` is what the inner optimizers have."""
        found: dict[Key, list[Piece]] = {}

        def hold(local: _Local, state: str, tensor: Any, first: int) -> None:
            for box in local.boxes:
                piece = box.piece(tensor, first)
                if piece is not None:
                    found.setdefault((box.name, state), []).append(piece)

        by_name = {local.name: local for local in self._locals}
        for local in self._locals:
            hold(local, "param", local.tensor, 0)
            if local.has_main():
                hold(local, _MAIN, local.main, local.first)
        for (name, state), tensor in kept.items():
            if state != "param":
                hold(by_name[name], state, tensor, by_name[name].first)
        return found

    def tensors(self) -> dict[Key, Any]:
        return self._pieces(training_state(self._trained(), self._inner()))

    def _freshly(self) -> FreshState:
        if self._fresh is None:
            # Main parameters get their gradients from Megatron-Core.
            self._fresh = fresh_state(
                self._trained(), self._inner(), even_frozen=True
            )
        return self._fresh

    def destination_tensors(self) -> dict[Key, Any]:
        return self._pieces(self._freshly().tensors)

    def fresh_keys(self) -> Iterable[Key]:
        boxes = {local.name: local.boxes for local in self._locals}
        return {
            (box.name, state)
            for name, state in self._freshly().fresh_keys()
            for box in boxes[name]
        }

    def keep(self, wanted: set[Key]) -> None:
        boxes = {local.name: local.boxes for local in self._locals}
        self._freshly().keep(
            {
                (name, state)
                for name, state in self._freshly().fresh_keys()
                if any((box.name, state) in wanted for box in boxes[name])
            }
        )

    # The rest

    def small(self) -> dict[str, Small]:
        found = {"counters": Small(MERGED, self._counters())}
        if self._chain:
            found["param_groups"] = Small(MERGED, self._options())
        scalers = [one.grad_scaler.state_dict() for one in self._scaled()]
        if scalers:
            found["grad_scaler"] = Small(SHARED, scalers[0])
        if self.scheduler is not None:
            found["scheduler"] = Small(SHARED, self.scheduler.state_dict())
        found["rng"] = Small(PER_RANK, Rng().small()[""].value)
        found["rng_tracker"] = Small(MERGED, self._streams())
        return found

    def _scaled(self) -> list[Any]:
        return [one for one in self._chain if getattr(one, "grad_scaler", None)]

    def _counters(self) -> dict[str, dict[str, float]]:
        own = counters(self._trained(), self._inner())
        return {
            box.name: own[local.name]
            for local in self._locals
            if local.name in own
            for box in local.boxes
        }

    def _options(self) -> dict[str, dict[str, Any]]:
        found = {}
        for inner in self._inner():
            for group in inner.param_groups:
                # One without members is not stepped with care.
                if group["params"]:
                    options = {k: v for k, v in group.items() if k != "params"}
                    found[_identity(group)] = options
        return found

    def _streams(self) -> dict[str, torch.Tensor]:
        from megatron.core.tensor_parallel import get_cuda_rng_tracker

        return {
            f"{name} of {self._place[_KIND.get(name, 'tensor')]}": state
            for name, state in get_cuda_rng_tracker().get_states().items()
        }

    def install(self, arrived: Mapping[str, Arrived]) -> None:
        if self.globals is not None:
            self.globals.enter()
        self._install_counters(arrived["counters"].value)
        self._install_options(arrived.get("param_groups"))
        if "grad_scaler" in arrived:
            for one in self._scaled():
                one.grad_scaler.load_state_dict(arrived["grad_scaler"].value)
        if self.scheduler is not None and "scheduler" in arrived:
            # It counts on from what it has.
            self.scheduler.num_steps = 0
            self.scheduler.load_state_dict(arrived["scheduler"].value)
        self._seed_streams()
        Rng().install({"": arrived["rng"]})
        self._install_streams(arrived["rng_tracker"].value)
        for chunk in self.chunks:
            if hasattr(chunk, "zero_grad_buffer"):
                chunk.zero_grad_buffer()

    def _install_counters(self, given: Mapping[str, Any]) -> None:
        own = {
            local.name: given[local.boxes[0].name]
            for local in self._locals
            if local.boxes[0].name in given
        }
        self._freshly().install(own)
        self._fresh = None

    def _install_options(self, came: Arrived | None) -> None:
        for inner in self._inner() if came is not None else ():
            for group in inner.param_groups:
                options = came.value.get(_identity(group))
                if options is None and group["params"]:
                    raise Error(
                        f"no group of the source is {_identity(group)}, there "
                        f"are: {'; '.join(sorted(came.value))}"
                    )
                group.update(options or {})

    def _seed_streams(self) -> None:
        """The process's generators are drawn from for that."""
        from megatron.core import tensor_parallel

        streams = tensor_parallel.get_cuda_rng_tracker().get_states()
        if self.seed is not None and not streams:
            tensor_parallel.model_parallel_cuda_manual_seed(self.seed)

    def _install_streams(self, given: Mapping[str, torch.Tensor]) -> None:
        from megatron.core.tensor_parallel import get_cuda_rng_tracker

        tracker = get_cuda_rng_tracker()
        states = tracker.get_states()
        for name in states:
            place = self._place[_KIND.get(name, "tensor")]
            states[name] = given.get(f"{name} of {place}", states[name])
        tracker.set_states(states)


# Which coordinates a stream of the tracker depends on.
_KIND = {"expert-parallel-rng": "expert", "data-parallel-rng": "data"}


def _place() -> dict[str, str]:
    """Where this process stands in the model, per kind of stream."""
    from megatron.core import parallel_state as world

    stage = f"stage {world.get_pipeline_model_parallel_rank()}"
    tensor = world.get_tensor_model_parallel_rank()
    expert = world.get_expert_model_parallel_rank()
    cut = getattr(world, "get_expert_tensor_parallel_rank", lambda: tensor)()
    return {
        "tensor": f"{stage}, tensor rank {tensor}",
        "expert": f"{stage}, expert rank {expert}, tensor rank {cut}",
        "data": stage,
    }
