"""Snapshots of an elastic job: what each process holds, kept by another too.

Every so many steps each process copies its state into the host's memory and
hands to a neighbour, of another node where there is one, what of it no other
node holds. The copying is done between two steps, the handing over on a thread
beside training, in a group of its own. A version is whole when all processes
know that theirs is where it belongs; only then may the one before it go. So one
whole version is there at any time, but for the first one's first moments.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from . import _C
from .beside import Beside
from .connections import gather_bytes
from .errors import JobWarning
from .farewell import describe
from .job_world import JobWorld
from .regions import Region, heard
from .snapshot import DIGEST_SIZE, Copier, Snapshot
from .snapshot_memory import NOWHERE, Memory, Place, Readings, memory_for
from .state import State

# Snapshots that are left out before the trainer is told.
_MOST_MISSED = 2
# There is room for so many bytes more of what is said than the last time had.
_SPARE = 256


def node_of(process: str) -> str:
    """A process is called NODE-PID-START."""
    return process.rsplit("-", 2)[0]


def holders_of(members: Sequence[str]) -> dict[str, str]:
    """Who keeps whose copy, each one's. Nobody has one of its own node to keep
    while no node has more than half of the processes."""
    nodes = Counter(map(node_of, members))
    # Sorting keeps the order of ranks within a node.
    ordered = sorted(members, key=node_of)
    shift = max(nodes.values()) % len(members) or 1
    return {
        one: ordered[(at + shift) % len(members)]
        for at, one in enumerate(ordered)
    }


def domain_of(process: str, members: Sequence[str]) -> str:
    """What is taken to be lost at once: a node, or one process where all are of
    one node."""
    nodes = set(map(node_of, members))
    return node_of(process) if len(nodes) > 1 else process


def held_alone(
    regions: Mapping[str, Sequence[Region]], process: str
) -> frozenset[Region]:
    """What a process holds and none of another domain, as that may be lost
    with it. regions: what each member holds."""
    members = list(regions)
    own = domain_of(process, members)
    elsewhere = {
        one
        for member in members
        if domain_of(member, members) != own
        for one in regions[member]
    }
    return frozenset(regions[process]).difference(elsewhere)


@dataclass
class Version:
    """What this process has of one step's snapshot: all of its own, and of
    others for whom it keeps it what they alone hold."""

    epoch: int
    step: int
    members: tuple[str, ...]
    copies: dict[str, Snapshot] = field(default_factory=dict)
    #: What each member held; nothing where not all have told yet.
    regions: dict[str, list[Region]] = field(default_factory=dict)
    is_whole: bool = False
    #: Why it is not; `is_cut`: others may not know.
    fault: str | None = None
    is_cut: bool = False

    @property
    def number(self) -> tuple[int, int]:
        """Grows with every version of a job."""
        return self.epoch, self.step


def _bytes(data: bytearray) -> torch.Tensor:
    """The same memory, as a tensor."""
    if not data:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(data, dtype=torch.uint8)


class _Wire:
    """Copies between the members of a world."""

    def __init__(self, world: JobWorld, group: dist.ProcessGroup) -> None:
        self._group, self._rank, self._size = group, world.rank, world.size
        own, holders = world.members[world.rank], holders_of(world.members)
        self._to = world.members.index(holders[own])
        self.kept_for = next(
            one for one, holder in holders.items() if holder == own
        )
        self._from = world.members.index(self.kept_for)
        self._own, self._members = own, world.members
        self._told: bytes | None = None
        # Whether this process reads what it keeps where that is, and whether
        # its own is read there; not known before one has been.
        self._reads: bool | None = None
        self._is_read: bool | None = None
        self._readings = Readings()
        # Bytes of what is said that go with the note, to either side; both
        # sides of a message count alike.
        self._fits_out = self._fits_in = 0
        #: What all hold, and what of it this process alone does; nothing before
        #: they have told.
        self.regions: dict[str, list[Region]] = {}
        self.alone: frozenset[Region] = frozenset()

    def gather_regions(self, layout: bytes) -> None:
        """All tell what they hold now."""
        everyone = gather_bytes(self._group, self._rank, self._size, layout)
        self.regions = dict(zip(self._members, map(heard, everyone)))
        self.alone = held_alone(self.regions, self._own)
        self._told = layout

    @property
    def may_be_read(self) -> bool:
        """Whether who keeps this process's copy may read it where it is."""
        return self._size > 1 and self._is_read is not False

    def hand_over(
        self, copy: Snapshot, room: list[Memory], layout: bytes
    ) -> tuple[Snapshot | None, list[bool]]:
        """Seals this process's copy, gives it away and takes another's; there
        is none where it is the only process, or where it came with other bytes.
        Of a process of the same host it is read where that has it. And whether
        all have what they keep of others, and whether all hold what the others
        know of; where not, something may be missing in it."""
        is_known = layout == self._told
        if self._size == 1:
            copy.seal()
            return None, [True, is_known]
        place = copy.memory.place if copy.cut and self.may_be_read else NOWHERE
        # Where more is to go to and fro than notes, no data is known.
        is_read = self._reads and self._is_read and place != NOWHERE
        came = _C.greet(
            self._group,
            copy.head,
            copy.data,
            copy.cut,
            place,
            is_known,
            (self._fits_out, self._fits_in),
            (self._to, self._from),
            self._readings.known() if is_read else [],
        )
        copy.digest = came.digest
        said = copy.head + copy.digest[:DIGEST_SIZE]
        unsaid = said[self._fits_out :]
        self._fits_out = len(said) + _SPARE
        self._fits_in = came.length + _SPARE
        if came.all is not None:
            memory = self._readings.of(Place(*came.place), came.cut)
            other, all_say = _arrived(came.heard, memory), came.all
            is_right = all_say[0] or other.has_come()
        else:
            other = self._go_on(copy, place, unsaid, came, room)
            is_right = other.has_come()
            words = _C.least(self._group, [is_right, is_known])
            all_say = [bool(one) for one in words]
        return other if is_right else None, all_say

    def _go_on(
        self,
        copy: Snapshot,
        place: Place,
        unsaid: bytes,
        came: _C.Greeting,
        room: list[Memory],
    ) -> Snapshot:
        """What did not go with the notes: of both copies what does not fit, and
        the data where it is not read."""
        rest = bytearray(came.length - len(came.heard))
        memory = self._read(where := Place(*came.place), came.cut)
        self._agree(place, where, memory is not None)
        out = [_bytes(bytearray(unsaid))]
        into = [_bytes(rest)]
        if place == NOWHERE or not self._is_read:
            out.append(copy.data[: copy.cut])
        if memory is None:
            memory = memory_for(came.cut, room)
            into.append(memory.data)
        self._swap(out, into)
        return _arrived(bytes(came.heard + rest), memory)

    def _read(self, place: Place, length: int) -> Memory | None:
        """What another process has there; None where it is to send it. Once
        one was read all are, or that is an error."""
        if place == NOWHERE or self._reads is False:
            return None
        try:
            return self._readings.of(place, length)
        except OSError:
            if self._reads:
                raise
            return None

    def _agree(self, place: Place, theirs: Place, reads: bool) -> None:
        """Of the first copies that have a place: whose they are is told whether
        they are read there."""
        out, into = [], []
        if theirs != NOWHERE and self._reads is None:
            self._reads = reads
            out.append(torch.tensor([int(reads)]))
        if place != NOWHERE and self._is_read is None:
            into.append(torch.zeros(1, dtype=torch.int64))
        self._swap(out, into, back=True)
        if into:
            self._is_read = bool(into[0])

    def _swap(
        self,
        out: Sequence[torch.Tensor],
        into: Sequence[torch.Tensor],
        back: bool = False,
    ) -> None:
        """back: to whom things come from, and the other way round."""
        if not any(one.numel() for one in (*out, *into)):
            return  # without giving way to the trainer
        ends = self._to, self._from
        _C.swap(self._group, out, into, *(ends[::-1] if back else ends))


def _arrived(said: bytes, memory: Memory) -> Snapshot:
    """Of what was said of it: its head and its digest."""
    return Snapshot.arrived(said[:-DIGEST_SIZE], memory, said[-DIGEST_SIZE:])


class Snapshots:
    """Those of one process. `enter` a world, then `take` them."""

    def __init__(self, name: str, every: int) -> None:
        self.every = every
        self.versions: list[Version] = []
        self._name = name
        self._world: JobWorld | None = None
        self._wire: _Wire | None = None
        self._copier = Copier()
        # Of own copies that are gone here, but may not be where they are read.
        self._resting: list[Memory] = []
        self._beside = Beside("dynatrain-snapshot")
        self._missed = 0
        # Of what is above, but for what the thread fills in.
        self._lock = threading.RLock()

    def enter(
        self,
        world: JobWorld,
        group: dist.ProcessGroup,
        recalled: tuple[int, int] | None,
        first: Version | None = None,
    ) -> None:
        """Snapshots to come are those of this world; what is of the one before
        stays until one of this is whole. recalled: the version that this world
        has begun with; so it was whole, and is kept by all. first: one of this
        world that is whole already (`make`)."""
        with self._lock:
            self.wait()
            if recalled is not None:
                self.versions = [
                    one for one in self.versions if one.number == recalled
                ]
            for one in self.versions:
                one.is_whole = one.is_whole or recalled is not None
            if first is not None:
                self.versions = [first]
            self._world, self._wire = world, _Wire(world, group)
            self._copier = Copier()
            self._resting = []
            self._missed = 0

    def make(
        self,
        version: Version,
        world: JobWorld,
        group: dist.ProcessGroup,
        state: State,
    ) -> None:
        """One of a world that is yet to be entered, until it is whole or has a
        fault; what there is already stays."""
        try:
            version.copies[self._name] = Snapshot.of(state, [], shared=True)
        except Exception as error:
            version.fault = describe(error)
            return
        self._hand_over(_Wire(world, group), version, [])

    def is_due(self, step: int) -> bool:
        """Whether one is to be made of this step, on all processes."""
        if self._wire is None or step % self.every:
            return False
        number = self._world.epoch, step
        return not self.versions or self.versions[-1].number < number

    def take(self, state: State, step: int) -> None:
        """Copies what is held now; the copy travels beside training. Waits
        for the one before."""
        with self._lock:
            self._take(state, step)

    def _take(self, state: State, step: int) -> None:
        self.wait()
        if self._wire is None or self._world.is_cut or self._is_cut():
            return
        kept = [one for one in self.versions if one.is_whole][-1:]
        gone = [one for one in self.versions if one not in kept]
        self.versions = kept
        room = self._room(gone)
        wire = self._wire
        copy = self._copier.copy(state, room, wire.alone, wire.may_be_read)
        if self._world.is_cut:
            return  # what was copied may miss what others said
        version = Version(self._world.epoch, step, self._world.members)
        version.copies[self._name] = copy
        self.versions.append(version)
        self._beside.begin(
            functools.partial(self._hand_over, wire, version, room)
        )

    def _room(self, gone: Sequence[Version]) -> list[Memory]:
        """Memory of versions that are gone, for new ones. What others read they
        have until they make the next version, so it rests for one: who takes
        part in that has the version between as whole, and this one no more."""
        found = [copy.memory for one in gone for copy in one.copies.values()]
        own = [one for one in found if not one.is_read]
        rested, self._resting = (
            self._resting,
            [one for one in own if one.place != NOWHERE],
        )
        return rested + [one for one in own if one.place == NOWHERE]

    def _is_cut(self) -> bool:
        """Whether this world makes no more. Where a process is lost, all know
        soon; otherwise the trainer has to know."""
        last = self.versions[-1] if self.versions else None
        if last is None or last.fault is None:
            return False
        if last.epoch != self._world.epoch:
            return False
        self._missed += last.is_cut
        if not last.is_cut or self._missed == _MOST_MISSED:
            more = ", and none is made until the next switch"
            warnings.warn(
                f"there is no whole snapshot of step {last.step}"
                f"{more if last.is_cut else ''}: {last.fault}",
                JobWarning,
                stacklevel=5,
            )
        return last.is_cut

    def _hand_over(
        self, wire: _Wire, version: Version, room: list[Memory]
    ) -> None:
        try:
            layout = version.copies[self._name].told()
            if not wire.regions:
                wire.gather_regions(layout)
            is_right, is_known = self._give(wire, version, room, layout)
            if not is_known:
                wire.gather_regions(layout)
                is_right, _ = self._give(wire, version, room, layout)
            version.regions = wire.regions
            version.is_whole = is_right
            if not is_right:
                version.fault = "a copy has arrived with other bytes"
        except Exception as error:
            version.fault, version.is_cut = describe(error), True
        own = version.copies[self._name]
        if not own.digest:
            own.seal()

    def _give(
        self,
        wire: _Wire,
        version: Version,
        room: list[Memory],
        layout: bytes,
    ) -> list[bool]:
        """Of a version's copies: `_Wire.hand_over`."""
        own = version.copies[self._name].parted(wire.alone)
        version.copies[self._name] = own
        other, all_say = wire.hand_over(own, room, layout)
        if other is not None:
            version.copies[wire.kept_for] = other
        return all_say

    def wait(self, seconds: float | None = None) -> None:
        """Until what is under way is over."""
        self._beside.wait(seconds)

    def hold(self, epoch: int) -> None:
        """None is made or goes from now on, until a world is entered; what is
        under way in that of `epoch` ends at once."""
        world = self._world
        if world is None or world.epoch != epoch:
            return
        world.cut()
        with self._lock:
            if self._world is world:
                self._wire = None
                self.wait()

    def end(self) -> None:
        """None is made any more."""
        self._beside.end()

    def drop(self, number: tuple[int, int], owner: str) -> None:
        """A copy that is not what it was."""
        for one in self.versions:
            if one.number == number:
                one.copies.pop(owner, None)

    def status(self) -> dict[str, Any]:
        """What there is, and what it takes."""
        return {
            "every": self.every,
            "steps": [one.step for one in self.versions if one.is_whole],
            "bytes": sum(
                copy.nbytes
                for one in self.versions
                # Other threads add to them.
                for copy in list(one.copies.values())
                if not copy.memory.is_read
            ),
        }
