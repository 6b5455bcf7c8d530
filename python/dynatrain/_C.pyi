"""The extension module (runtime/torch/Module.cpp)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

class Error(RuntimeError):
    """A failed operation of the runtime; says what was found and expected."""

class Expected:
    tensor: str
    state: str
    source: bool
    ordinal: int
    shape: list[int]
    dtype: str
    in_place: bool
    full_shape: list[int]
    intervals: list[list[tuple[int, int]]]
    range: tuple[int, int] | None

class Plan:
    @staticmethod
    def open(path: str) -> Plan: ...
    def info(self) -> dict[str, Any]: ...
    def inspect(self, device: int | None) -> str: ...
    def deliveries(self) -> str: ...
    def verify(self) -> None: ...
    def inventory(self, device: int) -> list[Expected]: ...

class Tensor:
    def __init__(
        self,
        tensor: str,
        state: str,
        source: bool,
        ordinal: int,
        data: torch.Tensor,
    ) -> None: ...

class World:
    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        devices: Sequence[int],
        timeout: float,
        prefix: str,
    ) -> None: ...

class Switch:
    def __init__(self, plan: Plan, world: World) -> None: ...
    def compare(self, tensors: Sequence[Tensor], note: str) -> str: ...
    def connect(
        self, backend: Any, shares_memory: bool, digests: bool
    ) -> None: ...
    def connect_nccl(self) -> None: ...
    def cannot_connect(self, why: str) -> None: ...
    def transfer(self) -> None: ...
    def commit(self) -> None: ...
    def abort(self, why: str) -> None: ...
    def stats(self) -> dict[str, Any]: ...

def features() -> list[str]: ...
def refuse(plan: Plan, world: World, why: str) -> None: ...
def fill_pattern(
    plan: Plan, device: int, tensors: Sequence[Tensor]
) -> None: ...
def check_pattern(
    plan: Plan, device: int, tensors: Sequence[Tensor]
) -> dict[str, Any]: ...
def loopback(plan: Plan, checked: bool, staged: bool) -> dict[str, Any]: ...
