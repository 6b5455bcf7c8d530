"""Snapshots that processes of one host read where they lie, and what they do
where that cannot be."""

import os
import signal
import time
from types import SimpleNamespace

import pytest
from dynatrain.job_snapshots import Snapshots
from dynatrain.snapshot_memory import (
    NOWHERE,
    Memory,
    Place,
    Readings,
    memory_for,
)
from processes import KILLED, dist, dynatrain, meet, run_ranks, torch

LENGTH = 10_000
SIZE, VERSIONS = 3, 7
NOTES = ["", "a" * 255, "b" * 5000, "c"]


# Memory -----------------------------------------------------------------------


def test_what_is_read_is_the_others_memory():
    own = Memory.shared(LENGTH)
    own.data.copy_(torch.arange(LENGTH))
    read = Memory.read(own.place, LENGTH - 1)
    assert read.is_read and read.place == NOWHERE and not own.is_read
    assert torch.equal(read.data, own.data[:-1])
    own.data[LENGTH // 2] += 1
    assert torch.equal(read.data, own.data[:-1])
    # What is written there stays there.
    read.data[0] = 77
    assert own.data[0] == 0


def is_refused(place, length=LENGTH):
    with pytest.raises(OSError):
        Memory.read(place, length)
    return True


def test_another_file_than_the_one_meant_is_not_read():
    own, other = Memory.shared(LENGTH), Memory.shared(LENGTH)
    assert is_refused(own.place, LENGTH + 1)
    assert is_refused(own.place._replace(inode=other.place.inode))
    assert is_refused(own.place._replace(device=own.place.device + 1))
    assert is_refused(own.place._replace(file=other.place.file))
    assert is_refused(own.place._replace(process=os.getppid()))
    # Nobody waits for one that writes into a pipe.
    ends = os.pipe()
    what = os.fstat(ends[0])
    assert is_refused(Place(os.getpid(), ends[0], what.st_dev, what.st_ino))
    for end in ends:
        os.close(end)
    # What has gone is another file's descriptor sooner or later.
    place = own.place
    del own
    assert is_refused(place)


def test_a_file_that_may_end_is_not_read():
    file = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, LENGTH)
    what = os.fstat(file)
    assert is_refused(Place(os.getpid(), file, what.st_dev, what.st_ino))
    os.close(file)
    own = Memory.shared(LENGTH)
    for length in (0, 2 * LENGTH):
        with pytest.raises(OSError):
            os.ftruncate(own.place.file, length)


def test_room_of_either_kind(monkeypatch):
    plain, shared = memory_for(8, []), memory_for(8, [], shared=True)
    assert plain.place == NOWHERE != shared.place
    room = [plain, shared]
    assert memory_for(8, room, shared=True) is shared
    assert memory_for(9, room).data.numel() == 9
    assert memory_for(8, room) is plain and not room
    assert memory_for(0, [], shared=True).place == NOWHERE

    def full(*_):
        raise OSError("too many open files")

    monkeypatch.setattr(os, "memfd_create", full)
    assert memory_for(8, [], shared=True).place == NOWHERE


def owns_or_reads(rank, store):
    if rank == 0:
        own = Memory.shared(LENGTH)
        own.data.fill_(5)
        store.set("place", " ".join(map(str, own.place)))
        meet(store, "read", rank, 2)
        os.kill(os.getpid(), signal.SIGKILL)
    place = Place(*map(int, store.get("place").split()))
    read = Memory.read(place, LENGTH)
    meet(store, "read", rank, 2)
    while os.path.exists(f"/proc/{place.process}/fd/{place.file}"):
        time.sleep(0.01)
    assert is_refused(place)
    return bool((read.data == 5).all())


def test_bytes_stay_when_their_process_ends(tmp_path):
    assert run_ranks(2, owns_or_reads, tmp_path) == [KILLED, True]


def test_memory_that_is_read_again():
    """It is looked up once while it is the same, and not kept for ever."""
    files, readings = [Memory.shared(LENGTH) for _ in range(4)], Readings()
    first = readings.of(files[0].place, LENGTH)
    files[0].data.fill_(3)
    again = readings.of(files[0].place, LENGTH)
    assert again is first and bool((again.data == 3).all())
    assert readings.of(files[0].place, LENGTH - 1).data.numel() == LENGTH - 1
    for one in files[1:]:
        readings.of(one.place, LENGTH)
    assert readings.of(files[0].place, LENGTH) is not first
    # Another file that has come to have its number.
    with pytest.raises(OSError):
        readings.of(files[0].place._replace(inode=files[1].place.inode), LENGTH)


# Snapshots --------------------------------------------------------------------


class Own(dynatrain.Part):
    """What each process has for itself."""

    def __init__(self, rank):
        self.rank, self.own = rank, torch.zeros(4096)

    def tensors(self):
        piece = dynatrain.capture.Piece(
            self.own, (SIZE, 4096), (self.rank, 0), (1, 4096)
        )
        return {("own", "param"): piece}

    def at(self, step):
        self.own.fill_(100 * self.rank + step)


def takes_snapshots(rank, store, elsewhere):
    """Of each version whether the copy that this process keeps is read where
    another one has it. elsewhere: processes that none of the others reads."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=SIZE)
    members = tuple(f"host-{one}-x" for one in range(SIZE))
    world = SimpleNamespace(
        epoch=1, members=members, rank=rank, size=SIZE, is_cut=False
    )
    owner = (rank - 1) % SIZE  # whose copy this one keeps
    read = Memory.read

    def read_there(place, length):
        if {rank, owner} & set(elsewhere):
            raise OSError("no such process")
        return read(place, length)

    Memory.read = read_there
    own = Own(rank)
    state = dynatrain.State(own=own, note="")
    snapshots = Snapshots(members[rank], every=1)
    snapshots.enter(world, dist.group.WORLD, None)
    places, found = [], []
    for step in range(1, VERSIONS + 1):
        own.at(step)
        # More, and less, than the one before has had.
        state.note = NOTES[(step + rank) % len(NOTES)]
        snapshots.take(state, step)
        # The one before is whole while this one is made, everywhere.
        for one in snapshots.versions[:-1]:
            check(one, rank, owner, members)
        own.at(-1)
        snapshots.wait()
        newest = snapshots.versions[-1]
        assert newest.step == step and newest.is_whole, newest.fault
        check(newest, rank, owner, members)
        note = newest.copies[members[owner]].small()["note/"].value
        assert note == NOTES[(step + owner) % len(NOTES)]
        places.append(newest.copies[members[rank]].memory.data.data_ptr())
        found.append(newest.copies[members[owner]].memory.is_read)
    # Memory comes again, but none that another one may still read.
    is_read = not {rank, (rank + 1) % SIZE} & set(elsewhere)
    assert len(set(places)) < VERSIONS - 1
    apart = 3 if is_read else 2
    for at in range(VERSIONS - apart + 1):
        assert len(set(places[at : at + apart])) == apart
    meet(store, "end", rank, SIZE)
    kept = 2 * own.own.numel() * 4
    assert snapshots.status()["bytes"] == kept * (1 if found[-1] else 2)
    return found


def check(version, rank, owner, members):
    for one in (rank, owner):
        copy = version.copies[members[one]]
        ((_, piece),) = copy.pieces()
        assert copy.is_right()
        assert bool((piece.tensor == 100 * one + version.step).all())


@pytest.mark.parametrize("elsewhere", [(), (0,), (1, 2)])
def test_copies_of_the_host_are_read(tmp_path, elsewhere):
    found = run_ranks(SIZE, takes_snapshots, tmp_path, elsewhere)
    for rank, read in enumerate(found):
        here = not {rank, (rank - 1) % SIZE} & set(elsewhere)
        assert read == [here] * VERSIONS
