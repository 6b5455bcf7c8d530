"""State over links that a plan compresses: fewer bytes, and the same."""

import json
import subprocess

import pytest
from conftest import BUILD
from processes import dynatrain, run_ranks, torch

# Of a matrix that two processes, each a host of its own, hold by rows and then
# by columns.
SIZE = 512
STATES = {"param": "bf16", "master": "f32"}


@pytest.fixture
def compiled(tmp_path):
    """compiled(gigabits per second) is a plan that may compress."""
    if "zstd" not in dynatrain._C.features():
        pytest.skip("this build has no zstd")

    def plan(gigabits, **more):
        request = {
            "model": {
                "tensors": [
                    {"name": "w", "shape": [SIZE, SIZE], "dtype": "bf16"}
                ]
            },
            "state": STATES,
            "rules": [{"match": "w", "tp": 0}],
            "source": {"world": 2, "tp": 2},
            "destination": {
                "world": 2,
                "tp": 2,
                "rules": [{"match": "w", "tp": 1}],
            },
            "cluster": {
                "devices_per_node": 1,
                "inter_node_GBps": gigabits / 8,
            },
            "compression": {"below_GBps": 100, "block": "64KiB"},
            **more,
        }
        path = tmp_path / f"{gigabits}.dtplan"
        subprocess.run(
            [BUILD / "bin" / "dt-opt", "-", "-o", path],
            input=json.dumps(request).encode(),
            check=True,
        )
        subprocess.run([BUILD / "bin" / "dt-plan", "verify", path], check=True)
        return str(path)

    return plan


def full():
    """As trained weights are: exponents alike, no two mantissas."""
    torch.manual_seed(3)
    master = 0.02 * torch.randn(SIZE, SIZE)
    return {"param": master.bfloat16(), "master": master}


def move(rank, store, path, digests):
    """What this process was given, compared with a slice; bytes before and
    after compression."""
    half = SIZE // 2
    part = slice(rank * half, (rank + 1) * half)
    states = full()
    source = {
        ("w", state): value[part].clone() for state, value in states.items()
    }
    target = {
        ("w", state): torch.zeros(SIZE, half, dtype=value.dtype)
        for state, value in states.items()
    }
    world = dynatrain.World(
        store=store, rank=rank, timeout=60, shared_memory=False
    )
    plan = dynatrain.Plan.load(path)
    switch = plan.prepare(world, source, target, digests=digests)
    switch.transfer()
    switch.commit()
    same = all(
        torch.equal(target["w", state], value[:, part])
        for state, value in states.items()
    )
    return same, switch.stats["compressed"]


@pytest.mark.parametrize("digests", [False, True])
def test_slow_links_carry_fewer_bytes(compiled, tmp_path, digests):
    results = run_ranks(2, move, tmp_path, compiled(0.1), digests)
    quarter = SIZE * SIZE // 4
    for same, states in results:
        assert same
        assert states["param"][0] == 2 * quarter
        assert states["master"][0] == 4 * quarter
        ratios = {state: raw / sent for state, (raw, sent) in states.items()}
        # Of two bytes most of one is exponent, of four the same one.
        assert 1.1 < ratios["master"] < ratios["param"] < 2


def test_fast_links_carry_what_they_are_given(compiled, tmp_path):
    """No codec of one core is several times as fast as 10 Gb/s."""
    results = run_ranks(2, move, tmp_path, compiled(10), False)
    for same, states in results:
        assert same
        assert all(raw == sent for raw, sent in states.values())


def test_parameters_are_rebuilt_from_their_masters(compiled, tmp_path):
    path = compiled(0.1, derive={"param": "master"})
    results = run_ranks(2, move, tmp_path, path, False)
    for same, states in results:
        assert same
        assert list(states) == ["master"]
