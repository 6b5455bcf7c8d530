"""Which samples a step trains on, however many replicas there are."""

import itertools

import dynatrain
import pytest
from processes import dist, run_ranks, torch
from test_state import switch_now
from test_trainer import join

COUNTS = [(12, 4), (12, 5), (10, 4), (7, 1), (3, 8), (16, 16)]


def step_of(samples, replicas):
    """What all replicas do of one step, each on an object of its own."""
    count = replicas if isinstance(replicas, int) else len(replicas)
    lists = []
    for replica in range(count):
        own = dynatrain.Samples(
            samples.length, samples.batch, samples.micro_batch
        )
        own.load_state_dict(samples.state_dict())
        lists.append(own.next(replica, replicas))
    samples.load_state_dict(own.state_dict())
    return lists


def real(lists):
    """The micro-batches that count."""
    return [micro for one in lists for micro in one if micro.factor]


@pytest.mark.parametrize("batch, micro_batch", COUNTS)
@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7])
def test_every_sample_counts_once(batch, micro_batch, replicas):
    samples = dynatrain.Samples(100, batch, micro_batch)
    lists = step_of(samples, replicas)
    assert len({len(one) for one in lists}) == 1
    work = real(lists)
    assert [m.first for m in work] == list(range(0, batch, micro_batch))
    assert sum(len(m.samples) for m in work) == batch
    # Averaged over the replicas, every sample counts alike.
    for micro in work:
        share = micro.factor / replicas / len(micro.samples)
        assert share == pytest.approx(1 / batch, rel=1e-12)


def test_replicas_of_unequal_speed():
    samples = dynatrain.Samples(100, batch=12, micro_batch=2)
    lists = step_of(samples, [3, 1, 2, 0])
    assert [sum(m.factor > 0 for m in one) for one in lists] == [3, 1, 2, 0]
    assert [len(one) for one in lists] == [3] * 4
    assert sum(len(m.samples) for m in real(lists)) == 12
    for wrong in ([3, 1, 1], [7, -1], [], 0):
        with pytest.raises(dynatrain.InvalidError):
            samples.next(0, wrong)
    with pytest.raises(dynatrain.InvalidError, match="0 to 2"):
        samples.next(3, 3)
    assert samples.taken == 12


def test_the_order_is_that_of_one_replica():
    """Also where a batch ends one epoch and begins the next."""
    alone = dynatrain.Samples(25, batch=8, micro_batch=2)
    many = dynatrain.Samples(25, batch=8, micro_batch=2)
    taken = []
    for replicas in (1, 4, 3, 2, 5, 4, 1, 3, 2):
        (wanted,) = step_of(alone, 1)
        found = real(step_of(many, replicas))
        assert [(m.samples, m.first, m.seed) for m in found] == [
            (m.samples, m.first, m.seed) for m in wanted
        ]
        taken += [number for micro in found for number in micro.samples]
    epochs = [taken[at : at + 25] for at in range(0, len(taken) - 24, 25)]
    assert all(sorted(epoch) == list(range(25)) for epoch in epochs)
    assert len(epochs) == 2 and epochs[0] != epochs[1]


def test_seeds_differ():
    samples = dynatrain.Samples(64, batch=16, micro_batch=4)
    seeds = [m.seed for _ in range(8) for m in samples.next(0, 1)]
    assert len(set(seeds)) == len(seeds) == 32


def test_state_of_another_order_is_refused():
    samples = dynatrain.Samples(64, batch=16)
    samples.next(0, 1)
    for other in (
        dynatrain.Samples(63, batch=16),
        dynatrain.Samples(64, batch=16, seed=1),
        dynatrain.Samples(64, batch=16, shuffle=False),
    ):
        with pytest.raises(dynatrain.InvalidError, match="the same order"):
            other.load_state_dict(samples.state_dict())
    # The batch is no part of the order.
    larger = dynatrain.Samples(64, batch=32)
    larger.load_state_dict(samples.state_dict())
    assert larger.next(0, 1)[0].first == 16
    with pytest.raises(dynatrain.InvalidError, match="batch is 0"):
        dynatrain.Samples(64, batch=0)


# A job whose replicas come and go ---------------------------------------------


def _net():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Dropout(0.25), torch.nn.Linear(8, 1)
    ).double()


def _registered():
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    samples = dynatrain.Samples(40, batch=12, micro_batch=2)
    return dynatrain.State(model=model, optimizer=optimizer, samples=samples)


def _train_step(state, data, replica, replicas, group=None):
    """Gradients averaged over the replicas; returns what was taken."""
    taken = []
    for micro in state.samples.next(replica, replicas):
        torch.manual_seed(micro.seed)
        inputs = data[micro.samples]
        loss = (state.model(inputs) - inputs.sum(1, True)).square().mean()
        (loss * micro.factor).backward()
        taken += micro.samples if micro.factor else []
    for parameter in state.model.parameters():
        if replicas > 1:
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad /= replicas
    state.optimizer.step()
    state.optimizer.zero_grad()
    return taken


def _elastic(rank, store, folder):
    """Replicas on processes 0 to 3, then 0 and 1, then 1 to 3, then all."""
    join(rank, folder)
    world = dynatrain.World(store=store, rank=rank, world_size=4, timeout=60)
    data = torch.rand(
        40, 6, dtype=torch.double, generator=torch.Generator().manual_seed(5)
    )
    alone, old = _registered(), None
    worlds = [[0, 1, 2, 3], [0, 1], [1, 2, 3], [0, 1, 2, 3]]
    for number, ranks in enumerate(worlds):
        group = dist.new_group(ranks)
        new = _registered() if rank in ranks else None
        if number:
            switch_now(old, new, world)
        old = new
        for _ in range(3):
            wanted = _train_step(alone, data, 0, 1)
            own = []
            if old is not None:
                replica = ranks.index(rank)
                own = _train_step(old, data, replica, len(ranks), group)
            everyones = [None] * 4
            dist.all_gather_object(everyones, own)
            assert list(itertools.chain(*everyones)) == wanted
        if old is not None:
            for found, expected in zip(
                old.model.parameters(), alone.model.parameters(), strict=True
            ):
                assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    return alone.samples.taken


def test_replicas_come_and_go(tmp_path):
    """No sample is skipped or taken twice, and the weights are those of one
    process that trains alone, but for the order of additions."""
    assert run_ranks(4, _elastic, tmp_path, str(tmp_path)) == [144] * 4
