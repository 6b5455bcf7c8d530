"""What a job goes on from when a process of it is lost.

All processes that are left say what they have: snapshots, of themselves and of
others for whom they keep them. The first of them chooses the newest version of
which all is there, and who supplies what; all of them check what they supply.
Without snapshots the source is what the processes hold now, where the lost one
held nothing alone and none has stopped in the middle of a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .board import Board
from .capture import Piece
from .capture.local import pack, unpack
from .errors import LostStateError
from .job_snapshots import Snapshots, Version, domain_of, held_alone
from .optimizer import Key
from .regions import Region, holes, not_held
from .snapshot import Snapshot
from .state import MERGED, PER_RANK, Small, State

# Regions that an error names.
_MOST_NAMED = 4


@dataclass(frozen=True)
class Choice:
    """A version, and who of the parties supplies whose copy; None: the source
    is what the processes hold."""

    number: tuple[int, int] | None
    suppliers: Mapping[str, int]


def _named(regions: Sequence[Region]) -> str:
    texts = [str(one) for one in regions[:_MOST_NAMED]]
    more = len(regions) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


# The choice -------------------------------------------------------------------


def offer_of(
    snapshots: Snapshots | None, live: list[Region] | None, is_torn: bool
) -> bytes:
    """What a process has, as the others read it."""
    versions = snapshots.versions if snapshots is not None else []
    return pack(
        {
            "versions": [
                [
                    one.epoch,
                    one.step,
                    one.members,
                    list(one.copies),
                    one.is_whole,
                ]
                for one in versions
            ],
            "live": live and [one.plain() for one in live],
            "torn": is_torn,
        }
    )


def processes_of(names: Sequence[str], members: Sequence[str]) -> str:
    """In words, by their ranks among the members of a world."""
    ranks = {one: rank for rank, one in enumerate(members)}
    texts = [
        f"rank {ranks[one]} ({one})" if one in ranks else one
        for one in sorted(names, key=lambda one: ranks.get(one, len(ranks)))
    ]
    several = "processes" if len(texts) > 1 else "process"
    return f"{several} {' and '.join(texts)}"


class _Table:
    """All offers, by version."""

    def __init__(
        self, parties: Sequence[str], offers: Sequence[Mapping[str, Any]]
    ) -> None:
        self.suppliers: dict[tuple[int, int], dict[str, int]] = {}
        # Of which somebody knows that all have what they are to keep.
        self.whole: set[tuple[int, int]] = set()
        # Who has its own copy.
        self.own: dict[tuple[int, int], set[str]] = {}
        self.members: dict[tuple[int, int], list[str]] = {}
        for rank, offer in enumerate(offers):
            for epoch, step, members, owners, whole in offer["versions"]:
                number = epoch, step
                self.members[number] = members
                if whole:
                    self.whole.add(number)
                supplied = self.suppliers.setdefault(number, {})
                own = self.own.setdefault(number, set())
                for owner in owners:
                    if owner == parties[rank]:
                        own.add(owner)
                    if owner not in supplied or owner == parties[rank]:
                        supplied[owner] = rank

    def shortfall(
        self,
        number: tuple[int, int],
        known: Version | None,
        members: Sequence[str],
    ) -> str:
        """What is missing of a version, in words; nothing: all is there. What a
        process keeps of another one is what that one alone held."""
        there, all_names = self.suppliers[number], self.members[number]
        gone = [one for one in all_names if one not in there]
        kept = [one for one in there if one not in self.own[number]]
        # What one domain does not hold alone another one does.
        is_whole = number in self.whole or not kept
        domains = {domain_of(one, all_names) for one in kept}
        if not gone and is_whole and len(domains) < 2:
            return ""
        what = "what is not known here"
        if known is not None and known.regions:
            missing = not_held(
                (one for name in gone + kept for one in known.regions[name]),
                self._held(known.regions, there, kept),
            )
            if not missing:
                return ""
            what = _named(missing)
        has = "no copy" if gone else "only a part of the copy"
        return (
            f"there is {has} of {processes_of(gone or kept, members)}, and "
            f"nobody else held {what}"
        )

    @staticmethod
    def _held(
        regions: Mapping[str, Sequence[Region]],
        there: Iterable[str],
        kept: Sequence[str],
    ) -> Iterator[Region]:
        for name in there:
            yield from (
                held_alone(regions, name) if name in kept else regions[name]
            )


def choose(
    parties: Sequence[str],
    members: Sequence[str],
    lost: Sequence[str],
    offers: Sequence[Mapping[str, Any]],
    own: Sequence[Version],
) -> Choice:
    """What all go on from. members: of the world that a process is lost of.
    own: versions of the process that chooses, which know who held what."""
    who = "what the world held is gone"
    if lost:
        who = f"{processes_of(lost, members)} lost"
    table = _Table(parties, offers)
    if not table.suppliers:
        return _choose_live(who, offers)
    known = {one.number: one for one in own}
    why = ""
    for number in sorted(table.suppliers, reverse=True):
        shortfall = table.shortfall(number, known.get(number), members)
        if not shortfall:
            return Choice(number, table.suppliers[number])
        why = why or f"of the newest snapshot, of step {number[1]}, {shortfall}"
    raise LostStateError(f"{who}: {why}; go on from a checkpoint")


def _choose_live(who: str, offers: Sequence[Mapping[str, Any]]) -> Choice:
    live = [Region.of(one) for offer in offers for one in offer["live"] or []]
    missing = holes(live)
    if missing:
        raise LostStateError(
            f"{who}: there is no snapshot, and nobody else holds "
            f"{_named(missing)}; go on from a checkpoint, and give the job "
            "snapshots=STEPS"
        )
    if any(offer["torn"] for offer in offers):
        raise LostStateError(
            f"{who}: there is no snapshot, and others have stopped in the "
            "middle of a step; go on from a checkpoint, and give the job "
            "snapshots=STEPS"
        )
    return Choice(None, {})


@dataclass
class Agreement:
    """How the parties of an attempt come to one choice, through its board; all
    of them make one. members, lost: of the world that is left."""

    board: Board
    parties: Sequence[str]
    members: Sequence[str]
    lost: Sequence[str]
    snapshots: Snapshots | None
    live: list[Region] | None
    is_torn: bool

    def reach(self) -> Choice:
        """The same on all processes, or the same error. What is supplied then
        is what it was when it was copied."""
        for number in itertools.count():
            made = self._try(f"recovery/{number}")
            if made is not None:
                return made

    def _try(self, key: str) -> Choice | None:
        board = self.board
        board.post_result(
            f"{key}/offer",
            lambda: offer_of(self.snapshots, self.live, self.is_torn),
        )
        if board.rank == 0:
            board.post_result(f"{key}/choice", lambda: self._choose(key))
        number, suppliers = unpack(board.read_verdict(f"{key}/choice"))
        if number is None:
            return Choice(None, {})
        made = Choice((number[0], number[1]), suppliers)
        board.post_result(
            f"{key}/right", lambda: str(self._is_right(made)).encode()
        )
        if board.rank == 0:
            board.post_result(f"{key}/all", lambda: self._all_right(key))
        return made if board.read_verdict(f"{key}/all") == b"True" else None

    def _choose(self, key: str) -> bytes:
        offers = [
            unpack(data) for data in self.board.read_results(f"{key}/offer")
        ]
        known = self.snapshots.versions if self.snapshots is not None else []
        made = choose(self.parties, self.members, self.lost, offers, known)
        return pack([made.number, made.suppliers])

    def _is_right(self, made: Choice) -> bool:
        """Of the copies that this process supplies; one that is damaged is
        offered no more."""
        copies = supplied(self.board.rank, made, self.snapshots)
        wrong = [name for name, copy in copies.items() if not copy.is_right()]
        for name in wrong:
            self.snapshots.drop(made.number, name)
        return not wrong

    def _all_right(self, key: str) -> bytes:
        told = self.board.read_results(f"{key}/right")
        return str(all(one == b"True" for one in told)).encode()


# The source -------------------------------------------------------------------


def supplied(
    rank: int, made: Choice, snapshots: Snapshots | None
) -> dict[str, Snapshot]:
    """The copies that a party supplies, by whose they are."""
    versions = snapshots.versions if snapshots is not None else []
    found: dict[str, Snapshot] = {}
    for one in versions:
        if one.number == made.number:
            found.update(
                (owner, copy)
                for owner, copy in one.copies.items()
                if made.suppliers.get(owner) == rank
            )
    return found


class Recalled(State):
    """Copies in place of what a process holds: its own, and those of others
    that it keeps."""

    def __init__(
        self, copies: Mapping[str, Snapshot], name: str, device: torch.device
    ) -> None:
        self.__dict__["_read"] = self._joined(copies.values(), device)
        self.__dict__["_small"] = self._all_small(copies, name)

    @staticmethod
    def _joined(
        copies: Iterable[Snapshot], device: torch.device
    ) -> dict[Key, list[Piece]]:
        """Each region once, where several copies have it."""
        found: dict[Key, dict[tuple, Piece]] = {}
        for copy in copies:
            for key, piece in copy.pieces():
                where = piece.offset, piece.size, piece.range
                of_key = found.setdefault(key, {})
                if where not in of_key:
                    of_key[where] = Piece(
                        piece.tensor.to(device), piece.shape, *where
                    )
        return {key: list(pieces.values()) for key, pieces in found.items()}

    @staticmethod
    def _all_small(
        copies: Mapping[str, Snapshot], name: str
    ) -> dict[str, Small]:
        """Its own; of others what is not theirs alone."""
        own = copies[name].small() if name in copies else {}
        for owner, copy in copies.items():
            if owner == name:
                continue
            for key, item in copy.small().items():
                if item.rule == PER_RANK:
                    continue
                if key not in own:
                    own[key] = item
                elif item.rule == MERGED:
                    own[key] = Small(MERGED, {**item.value, **own[key].value})
        return own

    @property
    def tensors(self) -> dict[Key, Any]:
        return self.__dict__["_read"]

    def small(self) -> dict[str, Small]:
        return self.__dict__["_small"]
