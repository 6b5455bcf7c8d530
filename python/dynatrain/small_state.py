"""How what is no tensor of a plan gets from process to process.

Every process writes down the digest of each of its values, and each distinct
value once. Process 0 compares the digests and says which value each process
takes; the values themselves it reads only where they are merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .board import Board
from .capture.layout import ranks_text
from .capture.local import pack, unpack
from .errors import MismatchError
from .state import MERGED, PER_RANK, Arrived, Small
from .value_bytes import decode, encode


def _words(value: Any) -> Iterator[bytes]:
    """A value spelt out: equal values of one kind, however they share memory,
    give the same words."""
    if isinstance(value, Mapping):
        yield b"{%d" % len(value)
        for key in sorted(value, key=repr):
            yield repr(key).encode()
            yield from _words(value[key])
    elif isinstance(value, (list, tuple)):
        yield b"[%d" % len(value)
        for one in value:
            yield from _words(one)
    elif isinstance(value, torch.Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        dense = value.detach().cpu().contiguous()
        yield dense.view(-1).view(torch.uint8).numpy().tobytes()
    else:
        yield f"{type(value).__name__} {value!r}".encode()


def _digest(value: Any) -> str:
    """Equal for equal values, whatever process has them."""
    found = hashlib.sha256()
    for word in _words(value):
        found.update(b"%d:" % len(word))
        found.update(word)
    return found.hexdigest()[:32]


def _same(one: Any, other: Any) -> bool:
    return one is other or _digest(one) == _digest(other)


def _post_value(board: Board, name: str, value: Any) -> str:
    """Writes a value under its digest; whoever is first does, a second one
    would write the same."""
    data, digest = encode(name, value), _digest(value)
    if not board.has(f"value/{digest}"):
        board.post(f"value/{digest}", data)
    return digest


def offer(board: Board, small: Mapping[str, Small] | None) -> None:
    """Writes down what this process has; None where it has no source."""

    def record() -> bytes:
        told = {
            name: (item.rule, _post_value(board, name, item.value))
            for name, item in (small or {}).items()
        }
        return pack(told)

    board.post_result("small", record)


def _value(board: Board, digest: str, rank: int) -> Any:
    return decode(board.read(f"value/{digest}", rank))


def _merged(board: Board, name: str, digests: Mapping[int, str]) -> str:
    """The union of dicts; what several have must be equal."""
    union: dict[Any, Any] = {}
    origin: dict[Any, int] = {}
    for digest in dict.fromkeys(digests.values()):
        rank = next(r for r, one in digests.items() if one == digest)
        for key, value in _value(board, digest, rank).items():
            if not _same(union.setdefault(key, value), value):
                raise MismatchError(
                    f"'{name}' of '{key}' is {value} on rank {rank} and "
                    f"{union[key]} on rank {origin[key]}, expected one value"
                )
            origin.setdefault(key, rank)
    return _post_value(board, name, union)


def _shared(name: str, digests: Mapping[int, str]) -> str:
    found: dict[str, list[int]] = {}
    for rank, digest in digests.items():
        found.setdefault(digest, []).append(rank)
    if len(found) > 1:
        groups = " and ".join(map(ranks_text, list(found.values())[:2]))
        raise MismatchError(
            f"'{name.rstrip('/')}' of the State is not the same on {groups}, "
            "expected one value (dynatrain.PerRank marks what each process has "
            "for its own)"
        )
    return next(iter(found))


def decide(board: Board) -> None:
    """On process 0: what each item is. {name: [rule, digest]}, or a digest for
    each process that has a source."""

    def verdict() -> bytes:
        told = [unpack(data) for data in board.read_results("small")]
        items: dict[str, dict[int, tuple[str, str]]] = {}
        for rank, own in enumerate(told):
            for name, (rule, digest) in own.items():
                items.setdefault(name, {})[rank] = rule, digest
        decided = {}
        for name, of_ranks in items.items():
            rules = {rule for rule, _ in of_ranks.values()}
            if len(rules) > 1:
                raise MismatchError(
                    f"'{name.rstrip('/')}' of the State is "
                    f"{' and '.join(sorted(rules))}, expected one rule"
                )
            digests = {rank: digest for rank, (_, digest) in of_ranks.items()}
            rule = rules.pop()
            if rule == PER_RANK:
                decided[name] = rule, sorted(digests.items())
            elif rule == MERGED:
                decided[name] = rule, _merged(board, name, digests)
            else:
                decided[name] = rule, _shared(name, digests)
        return pack(decided)

    board.post_result("decided", verdict)


def _own(of_ranks: list, rank: int) -> tuple[str, bool]:
    """A process's own value; one that joins gets those of the others in
    turn."""
    known = dict(of_ranks)
    if rank in known:
        return known[rank], False
    return of_ranks[rank % len(of_ranks)][1], True


def collect(board: Board) -> dict[str, Arrived]:
    """What this process takes; the error of any process is raised here."""
    arrived = {}
    for name, (rule, what) in unpack(board.read_verdict("decided")).items():
        digest, joined = what, False
        if rule == PER_RANK:
            digest, joined = _own(what, board.rank)
        arrived[name] = Arrived(_value(board, digest, 0), joined, rule)
    return arrived
