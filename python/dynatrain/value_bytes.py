"""Small values as bytes: step counters, options, states of generators.

What is made of numbers, texts, Python's own containers and whole tensors of the
host is pickled, without any code in it; all else goes through torch.save, which
takes a hundred times longer, and is read with weights_only.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch

from .errors import Error

# What the bytes begin with.
_PLAIN, _SAVED = b"p", b"s"


class _NotPlain(Exception):
    """A value that torch.save is to take."""


def _tensor_of(dtype: str, shape: tuple[int, ...], data: bytes) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if not isinstance(kind, torch.dtype):
        raise pickle.UnpicklingError(f"'{dtype}' is no dtype")
    own = torch.empty(shape, dtype=kind)
    if data:
        # In memory of its own.
        flat = torch.frombuffer(bytearray(data), dtype=kind)
        own.view(-1).copy_(flat)
    return own


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether there is nothing to it but its elements."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not tensor.is_quantized
        and not tensor.requires_grad
        and not tensor.is_neg()
        and not tensor.is_conj()
    )


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, protocol=5)
        self._storages: set[int] = set()

    def reducer_override(self, value: Any) -> Any:
        """Called for whatever is not of a type that Python pickles itself."""
        if value is _tensor_of:
            return NotImplemented  # by its name
        if not isinstance(value, torch.Tensor) or not _is_plain(value):
            raise _NotPlain
        # Tensors that share memory would come to have their own.
        if value.numel():
            storage = value.untyped_storage().data_ptr()
            if storage in self._storages:
                raise _NotPlain
            self._storages.add(storage)
        data = value.view(-1).view(torch.uint8).numpy().tobytes()
        dtype = str(value.dtype).removeprefix("torch.")
        return _tensor_of, (dtype, tuple(value.shape), data)


class _Unpickler(pickle.Unpickler):
    """Of all functions and types it knows one."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _tensor_of.__name__):
            return _tensor_of
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def encode(name: str, value: Any) -> bytes:
    """A value as bytes, which `decode` takes; an error that names it where it
    cannot be."""
    out = io.BytesIO(_PLAIN)
    out.seek(len(_PLAIN))
    try:
        _Pickler(out).dump(value)
    except (_NotPlain, RecursionError):
        return _SAVED + _saved(name, value)
    return out.getvalue()


def _saved(name: str, value: Any) -> bytes:
    out = io.BytesIO()
    torch.save(value, out)
    data = out.getvalue()
    try:
        _loaded(data)
    except Exception as error:
        raise Error(
            f"'{name.rstrip('/')}' of a State cannot travel: {error}"
        ) from None
    return data


def _loaded(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=True)


def decode(data: bytes) -> Any:
    """The value; its tensors have memory of their own."""
    rest = data[1:]
    if data[:1] == _PLAIN:
        return _Unpickler(io.BytesIO(rest)).load()
    return _loaded(rest)
