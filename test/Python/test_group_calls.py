"""Messages of a group in one call of the extension."""

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
