"""Memory of the host for snapshots, which other processes of the host may read
where it is.

It is a file without a name (memfd_create(2)) that can neither grow nor shrink.
Whoever is to read it opens /proc/PROCESS/fd/FILE and looks whether that is the
file that was meant. The bytes stay while a process has them, whoever ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import weakref
from typing import NamedTuple

import torch

_FILE = "/proc/{}/fd/{}"
# Of versions there are two at most while a third one is made.
_MOST_READ = 3
# Of a file that others read: else what they read could end.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Place(NamedTuple):
    """Where memory is: a file that a process has open, and which one it is."""

    process: int
    file: int
    device: int
    inode: int


#: Memory that no other process can read.
NOWHERE = Place(0, 0, 0, 0)


class Memory:
    """Bytes of the host. `place`: where another process of it finds them.
    `is_read`: they are another process's, which does not change them; what is
    written here stays here."""

    def __init__(
        self,
        data: torch.Tensor,
        place: Place = NOWHERE,
        is_read: bool = False,
    ) -> None:
        self.data, self.place, self.is_read = data, place, is_read

    @classmethod
    def shared(cls, length: int) -> Memory:
        """So many bytes that others may read. Raises OSError."""
        file = os.memfd_create(
            "dynatrain-snapshot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        )
        try:
            os.ftruncate(file, length)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            what = os.fstat(file)
            place = Place(os.getpid(), file, what.st_dev, what.st_ino)
            made = cls(_mapped(file, length, mmap.ACCESS_WRITE), place)
        except OSError:
            os.close(file)
            raise
        # What is mapped stays mapped while a tensor needs it.
        weakref.finalize(made, os.close, file)
        return made

    @classmethod
    def read(cls, place: Place, length: int) -> Memory:
        """The first bytes of memory of another process. Raises OSError where
        that cannot be, as of a process of another host."""
        path = _FILE.format(place.process, place.file)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(path, flags)
        try:
            what = os.fstat(file)
            is_it = (what.st_dev, what.st_ino) == (place.device, place.inode)
            if not is_it or not stat.S_ISREG(what.st_mode):
                raise OSError(f"{path} is another file than the one meant")
            seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
            if what.st_size < length or not seals & fcntl.F_SEAL_SHRINK:
                raise OSError(f"{path} is too short, or may come to be")
            data = _mapped(file, length, mmap.ACCESS_COPY)
        finally:
            os.close(file)
        return cls(data, is_read=True)


def _mapped(file: int, length: int, access: int) -> torch.Tensor:
    return torch.frombuffer(
        mmap.mmap(file, length, access=access), dtype=torch.uint8
    )


class Readings:
    """Memory of other processes, each looked up once: it comes again and again
    with other bytes in it. A file stays the one it is while it is mapped."""

    def __init__(self) -> None:
        # The newest last.
        self._known: dict[tuple[Place, int], Memory] = {}

    def known(self) -> list[tuple[int, Place]]:
        """Length and place of each."""
        return [(length, place) for place, length in self._known]

    def of(self, place: Place, length: int) -> Memory:
        """As `Memory.read`; in memory that nobody has written to."""
        known = self._known.pop((place, length), None)
        memory = known or Memory.read(place, length)
        self._known[place, length] = memory
        while len(self._known) > _MOST_READ:
            del self._known[next(iter(self._known))]
        return memory


def memory_for(length: int, room: list[Memory], shared: bool = False) -> Memory:
    """So many bytes, out of `room` where it has just as many. shared: others
    may read them, where the system has such memory."""
    for at, one in enumerate(room):
        if one.data.numel() == length and (one.place != NOWHERE) == shared:
            return room.pop(at)
    if shared and length:
        with contextlib.suppress(OSError):
            return Memory.shared(length)
    return Memory(torch.zeros(length, dtype=torch.uint8))
