"""Messages of a group in one call of the extension."""

import struct

from dynatrain import _C
from processes import dist, run_ranks, torch

SIZE = 3


def calls(rank, store):
    dist.init_process_group("gloo", store=store, rank=rank, world_size=SIZE)
    group = dist.group.WORLD
    target, source = (rank + 1) % SIZE, (rank - 1) % SIZE
    none = torch.empty(0)
    out = [torch.full((4,), rank), none, torch.full((2, 3), -1.5 * rank)]
    into = [torch.zeros(4, dtype=torch.int64), none, torch.zeros(2, 3)]
    _C.swap(group, out, into, target, source)
    assert bool((into[0] == source).all())
    assert bool((into[2] == -1.5 * source).all())
    # Whom to, and whom from, may be told to different ends.
    back = [torch.zeros(1, dtype=torch.int64)]
    _C.swap(group, [torch.tensor([rank])], back, source, target)
    assert int(back[0]) == target
    assert _C.least(group, [rank, -rank, 7]) == [0, 1 - SIZE, 7]
    if rank > 0:
        return "ends"
    try:
        _C.least(group, [1])
    except RuntimeError as error:
        return str(error)


def test_swap_and_least(tmp_path):
    said, *rest = run_ranks(SIZE, calls, tmp_path)
    assert rest == ["ends"] * (SIZE - 1)
    assert "Connection" in said or "eer" in said, said


CUT = 40
FITS = 200


def place(rank):
    return [100 + rank, 7, 8, 9]


def greet(group, rank, head, *, known, is_known=True, fits=(FITS, FITS)):
    data = torch.full((CUT + rank,), rank, dtype=torch.uint8)
    ends = (rank + 1) % SIZE, (rank - 1) % SIZE
    came = _C.greet(
        group, head, data, CUT, place(rank), is_known, fits, ends, known
    )
    parts = [head, bytes([rank] * CUT), bytes([rank] * rank)]
    assert came.digest == b"".join(_C.digest(one) for one in parts if one)
    return came


def said_by(rank, head):
    return head + _C.digest(head) + _C.digest(bytes([rank] * CUT))


def greetings(rank, store):
    dist.init_process_group("gloo", store=store, rank=rank, world_size=SIZE)
    group, source = dist.group.WORLD, (rank - 1) % SIZE
    heads = [b"of %d" % (10**one) for one in range(SIZE)]
    known = [(1, place(source)), (CUT, place(source))]
    heard = said_by(source, heads[source])

    def check(came, all_say):
        assert (came.length, came.cut, came.place, came.all) == (
            len(heard),
            CUT,
            place(source),
            all_say,
        )

    # Where nothing is known, or not all fits, it is left to the caller.
    came = greet(group, rank, heads[rank], known=[])
    check(came, None)
    assert came.heard == heard
    came = greet(group, rank, heads[rank], known=known, fits=(9, 9))
    check(came, None)
    assert came.heard == heard[:9]
    came = greet(group, rank, heads[rank], known=known[:1])
    check(came, None)
    # All at once; one who does not know says so with `least`.
    came = greet(group, rank, heads[rank], known=known)
    check(came, [True, True])
    came = greet(
        group, rank, heads[rank], known=known if rank else [], is_known=rank < 2
    )
    check(came, [True, False] if rank else None)
    if rank == 0:
        assert _C.least(group, [1, 1]) == [1, 0]
    return not_as_sealed(group, rank, heads, known)


def not_as_sealed(group, rank, heads, known):
    """The process 0 says something else than what it has sealed."""
    if rank:
        return greet(group, rank, heads[rank], known=known).all
    said = said_by(0, heads[0])
    note = struct.pack("<6q", len(said), CUT, *place(0))
    own = bytearray(note + b"?" + said[1:].ljust(FITS - 1, b"\0"))
    into = torch.empty(len(own), dtype=torch.uint8)
    out = torch.frombuffer(own, dtype=torch.uint8)
    _C.swap(group, [out], [into], 1, SIZE - 1)
    return _C.least(group, [1, 1])


def test_greetings(tmp_path):
    found = run_ranks(SIZE, greetings, tmp_path)
    assert found == [[0, 1], *[[False, True]] * (SIZE - 1)]
