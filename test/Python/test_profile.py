"""Profiles of live jobs: what hooks see, how it is smoothed and merged, and the
examples that act on it."""

import sys

import dynatrain
import pytest
from conftest import ROOT
from processes import dist, run_ranks, torch

sys.path.insert(0, str(ROOT / "examples"))


class Counted(torch.nn.Module):
    """Its clock moves by 2 in forward and by 3 in backward."""

    def __init__(self, clock, factor=1):
        super().__init__()
        self.clock, self.factor = clock, factor

    def forward(self, x):
        clock, factor = self.clock, self.factor

        class Work(torch.autograd.Function):
            @staticmethod
            def forward(_, x):
                clock[0] += 2 * factor
                return x * 1

            @staticmethod
            def backward(_, gradient):
                clock[0] += 3 * factor
                return gradient

        return Work.apply(x)


def take_step(profile, layers, micro_batches=2):
    for _ in range(micro_batches):
        x = torch.ones(2, requires_grad=True)
        for layer in layers:
            x = layer(x)
        x.sum().backward()
    profile.end_step()


def test_layers_by_their_hooks():
    clock = [0]
    layers = [Counted(clock), Counted(clock, 3)]
    profile = dynatrain.Profile(share=0.5, clock=lambda: clock[0])
    profile.attach(dict(enumerate(layers)))
    with profile.measure("last"):
        clock[0] += 7
    take_step(profile, layers)
    assert dict(profile.export()["seconds"]) == {"last": 7, 0: 5, 1: 15}
    layers[0].factor = 2
    take_step(profile, layers)
    assert dict(profile.export()["seconds"])[0] == 7.5  # half of 5 and of 10
    profile.detach()
    take_step(profile, layers)
    assert profile.export()["seconds"] == []


def test_only_some_steps_are_measured():
    clock, reads = [0], [0]

    def read():
        reads[0] += 1
        return clock[0]

    layer = Counted(clock)
    profile = dynatrain.Profile(every=3, clock=read)
    profile.attach({0: layer})
    for _ in range(6):
        take_step(profile, [layer], micro_batches=1)
    assert reads[0] == 2 * 4


def test_profiles_of_all_ranks_become_the_jobs():
    exports = []
    for rank, slow in enumerate((1, 1, 3, 1)):
        clock = [0]
        profile = dynatrain.Profile(clock=lambda clock=clock: clock[0])
        layers = [Counted(clock, slow), Counted(clock, 2 * slow)]
        profile.attach(
            {2 * (rank % 2) + i: one for i, one in enumerate(layers)}
        )
        take_step(profile, layers)
        profile.expert_load(0, [4 + rank, 0, 2, 2])
        for peer in range(rank + 1, 4):
            profile.link(rank, peer, 2 * 10**9, 1 + peer)
        exports.append(profile.export(device=rank))
    merged = dynatrain.merge_profiles(exports, devices=4)
    assert merged["layer_seconds"] == [5, 10, 5, 10]
    assert merged["device_slowdown"] == [1, 1, 3, 1]
    assert merged["expert_load"] == [[22, 0, 8, 8]]
    assert merged["links_GBps"][0][3] == merged["links_GBps"][3][0] == 0.5
    del exports[3]["links_GBps"][:], exports[2]["links_GBps"][:]
    assert "links_GBps" not in dynatrain.merge_profiles(exports)


def test_smoothing_is_of_rates_and_loads_too():
    profile = dynatrain.Profile(share=0.25)
    for seconds in (1, 1, 0.5):
        profile.link(0, 1, 10**9, seconds)
    profile.expert_load(3, [0, 8])
    profile.expert_load(3, [8, 0])
    export = profile.export()
    assert export["links_GBps"] == [[0, 1, 1.25]]
    assert export["expert_load"] == [[3, [2, 6]]]


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(dynatrain.Error, match="share is 0, expected more"):
        dynatrain.Profile(share=0)
    profile = dynatrain.Profile()
    with pytest.raises(dynatrain.Error, match="'head' names no layer"):
        profile.attach({"head": torch.nn.Linear(1, 1)})
    with pytest.raises(dynatrain.Error, match="0 bytes in 1 s gives no rate"):
        profile.link(0, 1, 0, 1)
    profile.expert_load(0, [1, 2])
    with pytest.raises(dynatrain.Error, match="loads of 3 experts, expected 2"):
        profile.expert_load(0, [1, 2, 3])
    gap = {"device": None, "seconds": [[0, 1.0], [2, 1.0]],
           "expert_load": [], "links_GBps": []}  # fmt: skip
    with pytest.raises(dynatrain.Error, match="layer 1 was measured on no"):
        dynatrain.merge_profiles([gap])


def join(rank, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/pg", rank=rank, world_size=4
    )


def _replicas(rank, store, folder):
    import uneven_replicas

    join(rank, folder)
    return [counts for counts, _ in uneven_replicas.demonstrate()]


def test_uneven_replicas_train_as_one_process(tmp_path):
    told = run_ranks(4, _replicas, tmp_path, str(tmp_path))
    assert told[0] == [[3, 3, 3, 3], [4, 4, 3, 1], [4, 4, 4]]
    assert told[3] == told[0][:2]
