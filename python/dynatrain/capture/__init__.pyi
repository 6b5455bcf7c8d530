"""Layouts of live objects, as the explicit shards of a request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..state import State
from ..world import World

class CaptureError(Exception):
    """What was given describes no layout."""

@dataclass(frozen=True)
class Piece:
    """A plain tensor that is a part of a full one."""

    tensor: Any
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    size: tuple[int, ...]
    range: tuple[int, int] | None = None
    @property
    def dtype(self) -> Any: ...
    def numel(self) -> int: ...

class Layout:
    """Who holds what on one side."""

    world: int
    tensors: dict[str, tuple[list[int], str]]
    rows: list[dict[str, Any]]
    seen: set[tuple[Any, ...]]
    unknown: dict[int, str]
    def __init__(self, world: int) -> None: ...
    def declare(
        self, name: str, shape: Iterable[int], dtype: Any, where: str = ""
    ) -> None: ...
    def hold(
        self,
        name: str,
        rank: int,
        offset: Sequence[int],
        size: Sequence[int],
        flat: Sequence[int] | None = None,
    ) -> None: ...
    def forget(self, names: Iterable[str]) -> None: ...
    def check_whole(self, side: str) -> None: ...

def describe_sharded(
    state_dict: Mapping[str, Any], gbuf_ranges: Iterable[Any] = ()
) -> list[dict[str, Any]]: ...
def huggingface(model: Any, experts: bool = False) -> dict[str, Any]: ...
def from_checkpoint_metadata(
    metadata: Any,
    world: int,
    ranks: Mapping[tuple[str, tuple[int, ...]], int] | None = None,
) -> Layout: ...
def from_dtensors(
    state_dict: Mapping[Any, Any],
    world: int,
    ranks: Iterable[int] | None = None,
) -> Layout: ...
def from_sharded_tensors(
    state_dicts: Sequence[Any], zero: Mapping[str, str] | None = None
) -> Layout: ...
def gather(
    tensors: State | Mapping[Any, Any] | None, world: World
) -> Layout: ...
def local_layout(
    tensors: Mapping[Any, Any], world: int, rank: int
) -> Layout: ...
def merge(layouts: Iterable[Layout]) -> Layout: ...
def request(
    source: Layout,
    destination: Layout,
    naming: Callable[[str], tuple[str, str]] = ...,
    **more: Any,
) -> dict[str, Any]: ...
def state_key(tensor: str, state: str) -> str: ...
def tensor_and_state(key: str) -> tuple[str, str]: ...
