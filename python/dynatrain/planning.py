"""Plans between what is and what shall be, made once for all processes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import torch

from . import capture
from .board import Board
from .capture.local import layout_of, pack, plain_layout, unpack
from .compiler import compile
from .errors import Error
from .plan import Plan
from .state import State
from .tensors import TensorMap
from .world import World

#: A `State`, tensors as `Plan.prepare` takes them, or None: nothing here.
Side = Union[State, TensorMap, None]

# How many times a world's timeout the compiler may take.
_COMPILE_SHARE = 10
# Plans that a process keeps in memory.
_MOST_KEPT = 64
# Staging is made in `prepare`, and its pages cost CPU time there; an eighth of
# the state in about as many waves moves no slower. Bounds in bytes; the upper
# one is dt-opt's default.
_STAGING_SHARE = 8
_LEAST_STAGING, _MOST_STAGING = 64 << 20, 1 << 30


@dataclass
class _Kept:
    """A plan, and its file or, where there is none, the file's bytes."""

    plan: Plan
    file: bytes | Path


# Those of this process, by the hash of what they were compiled from; the ones
# used last at the end.
_known: OrderedDict[str, _Kept] = OrderedDict()


def tensors_of(side: Side, destination: bool = False) -> TensorMap:
    """The tensors of a side, {(name, state): tensor}."""
    if side is None:
        return {}
    if isinstance(side, State):
        return side.destination_tensors() if destination else side.tensors
    return side


def _flat(tensors: TensorMap) -> dict[tuple[str, str], Any]:
    """{state: {name: tensor}} as {(name, state): tensor}."""
    return {
        key: value
        for outer, inner in tensors.items()
        for key, value in (
            {(name, str(outer)): one for name, one in inner.items()}
            if isinstance(inner, Mapping)
            else {outer: inner}
        ).items()
    }


def _described(old: Side, new: Side, board: Board) -> bytes:
    """What this process holds, and will."""
    sides = [_flat(tensors_of(old)), _flat(tensors_of(new, destination=True))]
    fresh = new.fresh_keys() if isinstance(new, State) else []
    return pack(
        {
            "sides": [
                plain_layout(capture.local_layout(side, board.size, board.rank))
                for side in sides
            ],
            "fresh": [capture.state_key(*key) for key in fresh],
        }
    )


def _largest_part(layout: capture.Layout) -> int:
    """Bytes of the process that holds most of a side."""
    held: Counter[int] = Counter()
    for row in layout.rows:
        _, dtype = layout.tensors[row["tensor"]]
        first, end = row.get("range", (0, math.prod(row["size"])))
        held[row["rank"]] += (end - first) * getattr(torch, dtype).itemsize
    return max(held.values(), default=0)


def _memory(given: Mapping[str, Any], *sides: capture.Layout) -> dict[str, Any]:
    """The limits of the request: staging by what the processes hold, unless the
    trainer says how much."""
    share = max(map(_largest_part, sides)) // _STAGING_SHARE
    staging = min(max(share, _LEAST_STAGING), _MOST_STAGING)
    return {"staging": staging, **given}


def _request(everyones: list[bytes], more: Mapping[str, Any]) -> dict:
    """The request of all. State that an optimizer has yet to make, and of which
    no process has anything, is left to its first step."""
    told = [unpack(data) for data in everyones]
    before, after = (
        capture.merge(layout_of(one["sides"][number]) for one in told)
        for number in (0, 1)
    )
    fresh = {key for one in told for key in one["fresh"]}
    after.forget(fresh - before.tensors.keys())
    memory = _memory(more.get("memory", {}), before, after)
    return capture.request(before, after, **{**more, "memory": memory})


def _hash(request: Mapping[str, Any]) -> str:
    from . import __version__  # another version may make another plan

    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{__version__}{text}".encode()).hexdigest()[:32]


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.dtplan"


def _remember(name: str, plan: Plan, file: bytes | Path) -> Plan:
    _known[name] = _Kept(plan, file)
    while len(_known) > _MOST_KEPT:
        _known.popitem(last=False)
    return plan


def _find(folder: Path | None, name: str) -> Plan | None:
    """A plan that this process knows, or has in its folder; a damaged file is
    none."""
    if name in _known:
        _known.move_to_end(name)
        return _known[name].plan
    if folder is None or not _file(folder, name).exists():
        return None
    path = _file(folder, name)
    try:
        return _remember(name, Plan.load(path), path)
    except Error:
        return None


def _keep(folder: Path | None, name: str, data: bytes) -> Plan:
    """Takes a plan from a file's bytes. In the folder it appears whole, or not
    at all; without one nothing stays on disk."""
    place = folder or Path(tempfile.gettempdir())
    place.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=place, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        plan = Plan.load(path)
        if folder is not None:
            os.replace(path, _file(folder, name))
    finally:
        if os.path.exists(path):
            os.unlink(path)
    return _remember(name, plan, _file(folder, name) if folder else data)


def _bytes(name: str) -> bytes:
    file = _known[name].file
    return file if isinstance(file, bytes) else file.read_bytes()


def _compiled(request: Mapping[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "new.dtplan")
        compile(request, path)
        return Path(path).read_bytes()


def _agree(board: Board, folder: Path | None, more: Mapping[str, Any]) -> None:
    """On process 0: the plan's name, and what tells it from any other."""
    found: dict[str, Any] = {}

    def name() -> bytes:
        found["request"] = _request(board.read_results("own"), more)
        found["name"] = _hash(found["request"])
        return found["name"].encode()

    def digest() -> bytes:
        plan = _find(folder, found["name"]) or _keep(
            folder, found["name"], _compiled(found["request"])
        )
        return plan.digest.encode()

    board.post_result("name", name)
    if "name" in found:
        board.post_result("digest", digest)


def _hand_out(
    board: Board, folder: Path | None, name: str, digest: str
) -> Plan:
    """Everybody says whether it has the plan; process 0 writes it down where
    someone has not."""
    plan = _find(folder, name)
    has = plan is not None and plan.digest == digest
    board.post_result("has", lambda: b"1" if has else b"0")
    if board.rank == 0:
        board.post_result(
            "file",
            lambda: _bytes(name) if b"0" in board.read_results("has") else b"",
        )
    data = board.read_verdict("file")
    return plan if has else _keep(folder, name, data)


def plan_between(
    old: Side,
    new: Side,
    world: World,
    *,
    cache: str | os.PathLike[str] | None = None,
    **more: Any,
) -> Plan:
    """The plan from one state to another, on every process of the world.

    Collective: all processes call this, each with what it holds (`old`) and
    what it shall hold (`new`); None where that is nothing, as for processes
    that join or leave. Layouts are read off the tensors and gathered through
    the world's store, process 0 compiles, and the store hands the plan out: no
    folder need be shared. What fails on one process is an error on all.

    The same change of layout is compiled once: later calls find the plan in
    this process's memory or in `cache`, a folder that processes may share or
    not. So plans can be made ahead for the layouts that a job expects; tensors
    on `meta` will do for `new` there.

    more: further keys of the request: cluster, memory, derive, drop, ...
        Without `memory={"staging": ...}` a process stages at most an eighth of
        what the fullest one holds (64 MiB to 1 GiB).

    Waits for processes as long as the world's timeout, and ten times as long
    for the compiler.
    """
    with world.exchange("plan_between") as board:
        return plan_on(board, old, new, cache, more)


def plan_on(
    board: Board,
    old: Side,
    new: Side,
    cache: str | os.PathLike[str] | None,
    more: Mapping[str, Any],
) -> Plan:
    """What `plan_between` does, among the processes of a board."""
    folder = None if cache is None else Path(cache)
    board.post_result("own", lambda: _described(old, new, board))
    if board.rank == 0:
        _agree(board, folder, more)
    name = board.read_verdict("name").decode()
    patience = _COMPILE_SHARE * board.timeout
    digest = board.read_verdict("digest", patience).decode()
    return _hand_out(board, folder, name, digest)
