"""What a switch must give, by torch's own gather of every tensor and by a
comparison of all copies of a shard."""

import copy
import hashlib

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor


def _tensors(trainer):
    found = {}
    for model in trainer.model_parts:
        found.update(model.named_parameters())
    named = {id(tensor): name for name, tensor in found.items()}
    for optimizer in trainer.optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                found[f"{named[id(parameter)]} {key}"] = value
    return found


def _full(tensor):
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().clone()


def _rest(trainer):
    """What is no tensor, as text."""
    groups = [
        {k: v for k, v in group.items() if k not in ("params", "param_names")}
        for optimizer in trainer.optimizers
        for group in optimizer.param_groups
    ]
    schedule = trainer.lr_schedulers
    found = [trainer.step, trainer.dataloader.state_dict(), groups]
    found += [schedule.state_dict(), schedule.get_metrics()]
    return copy.deepcopy(found)


def _tokens(trainer):
    """That all processes have seen; a tensor group sees the same."""
    told = torch.tensor(float(trainer.ntokens_seen))
    dist.all_reduce(told)
    return told.item() / trainer.parallel_dims.tp


def _check_copies(tensors):
    """Processes at one place of the sharding have the same bytes."""
    own = {}
    for name, tensor in tensors.items():
        at, local = (), tensor
        if isinstance(tensor, DTensor):
            local = tensor.to_local()
            where = tensor.device_mesh.get_coordinate()
            at = tuple(
                None if placement.is_replicate() else index
                for index, placement in zip(where, tensor.placements)
            )
        data = local.detach().contiguous().view(-1).numpy().tobytes()
        own[name, at] = hashlib.sha256(data).digest()
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, own)
    seen = {}
    for told in everyones:
        for key, digest in told.items():
            # A plain tensor of a sub-mesh has no place of its own.
            assert seen.setdefault(key, digest) == digest, key


class Check:
    """What a trainer has before a switch."""

    def __init__(self, trainer):
        self._sizes = str(trainer.parallel_dims)
        self._full = {k: _full(v) for k, v in _tensors(trainer).items()}
        self._rest, self._tokens = _rest(trainer), _tokens(trainer)
        self._generator = torch.get_rng_state()

    def compare(self, trainer):
        """The same things after it."""
        assert torch.equal(torch.get_rng_state(), self._generator)
        assert _rest(trainer) == self._rest
        assert _tokens(trainer) == self._tokens
        tensors = _tensors(trainer)
        assert tensors.keys() == self._full.keys()
        for name, tensor in tensors.items():
            assert torch.equal(_full(tensor), self._full[name]), name
        _check_copies(tensors)
        if dist.get_rank() == 0:
            count = sum(whole.numel() for whole in self._full.values())
            print(f"{count} values are right", flush=True)
