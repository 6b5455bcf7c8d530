"""Tensors that have a shape and no memory yet, and those whose memory can go.

A plan of mode flat makes memory of its destination when it is due, and gives
that of its source back when it has been read: by tensor, storage by storage, or
page by page. So a trainer makes its new objects without memory: `hollow`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeVar, overload

import torch

from . import _C
from .errors import InvalidError

Module = TypeVar("Module", bound=torch.nn.Module)


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The local shard of a DTensor itself, anything else as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def is_hollow(tensor: torch.Tensor) -> bool:
    """Whether the tensor has elements and no memory. Nothing but a switch may
    read or write it then."""
    own = local_part(tensor)
    return own.numel() > 0 and own.untyped_storage().nbytes() == 0


@overload
def hollow(
    what: torch.Tensor, device: torch.device | str = "cpu"
) -> torch.Tensor: ...
@overload
def hollow(what: Module, device: torch.device | str = "cpu") -> Module: ...
def hollow(
    what: torch.Tensor | torch.nn.Module, device: torch.device | str = "cpu"
) -> torch.Tensor | torch.nn.Module:
    """A tensor like the given one that has no memory; of a module, the module
    itself, with such parameters and buffers.

    Build the module on the meta device, so that nothing is allocated before::

        with torch.device("meta"):
            model = Decoder(config)
        dynatrain.hollow(model)

    Non-persistent buffers are no state that a plan moves: fill them after the
    switch, as after `torch.nn.Module.to_empty`.
    """
    if isinstance(what, torch.nn.Module):
        return what._apply(lambda tensor: hollow(tensor, device))
    if local_part(what) is what and torch.device(device).type == "cuda":
        # A GPU may have no room for what is given back at once.
        empty = torch.empty(0, dtype=what.dtype, device=device)
        return _C.hollow_like(empty, what.shape)
    with torch.no_grad():
        made = torch.empty_like(
            what, device=device, memory_format=torch.contiguous_format
        )
        give_back(made)
    return made


@overload
def paged(what: torch.Tensor, *, shared: bool = False) -> torch.Tensor: ...
@overload
def paged(what: Module, *, shared: bool = False) -> Module: ...
def paged(
    what: torch.Tensor | torch.nn.Module, *, shared: bool = False
) -> torch.Tensor | torch.nn.Module:
    """A copy of a tensor in memory that a plan by page can give back page by
    page while the tensor lives; of a module, the module itself, with such
    parameters and buffers.

    A switch makes its destination of such memory. So only the first state of a
    job needs this, when its plans are by page. Tensors on the host below 64 KiB
    are not worth it and stay in the memory that torch gives them. On a GPU a
    page is the driver's, 2 MiB or more, and each tensor has pages of its own:
    `page_pool` puts small ones side by side, without a copy.

    `shared`: in memory that processes of one host read from each other,
    whatever the plan's memory mode; not on GPUs. What goes from such a tensor
    to a process of the same host is copied once, from where it lies to where it
    goes. Where any of its source is of such memory, a switch makes its
    destination of it too. The processes of a switch can read all such memory of
    each other as long as they hold the switch. A forked process writes into its
    parent's pages, as with `torch.Tensor.share_memory_`.
    """
    if isinstance(what, torch.nn.Module):
        return what._apply(functools.partial(paged, shared=shared))
    device = local_part(what).device
    if shared and device.type != "cpu":
        raise InvalidError(
            f"paged: only processes on CPUs share pages, not on {device}"
        )
    made = hollow(what, device)
    with torch.no_grad():
        _C.allocate_pages(local_part(made), shared)
        local_part(made).copy_(local_part(what))
    return made


def page_pool() -> torch.cuda.MemPool:
    """A pool of torch's allocator whose memory is of pages that a plan of mode
    flat can take from tensors while they live. A trainer makes its first state
    in it::

        pool = dynatrain.page_pool()
        with torch.cuda.use_mem_pool(pool):
            model = Decoder(config).cuda()

    Pages that tensors of the pool have in part stay until all of the page is
    of tensors that have gone.
    """
    if not torch.cuda.is_available():
        raise InvalidError("page_pool: this torch has no GPU")
    if "cuda" not in _C.features():
        raise InvalidError("page_pool: this package is built without CUDA")
    return torch.cuda.MemPool(_allocator().allocator())


@functools.cache
def _allocator() -> torch.cuda.memory.CUDAPluggableAllocator:
    """It has to outlive all of its pools."""
    return torch.cuda.memory.CUDAPluggableAllocator(
        _C.__file__, "dynatrain_allocate_pages", "dynatrain_free_pages"
    )


def warm_up() -> None:
    """What torch imports at the first use of the meta device, which takes as
    long as a recovery, is imported now."""
    torch.eye(1, device="meta")


def give_back(tensor: torch.Tensor) -> None:
    """Frees the memory of a tensor that keeps its shape."""
    local_part(tensor).untyped_storage().resize_(0)


def leave_empty(tensors: Iterable[torch.Tensor]) -> None:
    """Tensors whose storage is gone get no elements: to read them is an error
    then, and not an access to memory that is not there."""
    for tensor in tensors:
        if is_hollow(tensor):
            own = local_part(tensor)
            own.data = own.new_empty(0)
