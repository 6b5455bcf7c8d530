"""Every transport moves the same plans, every byte compared.

A transport joins by a function in TRANSPORTS that runs a plan on all its ranks
with known values, and says what it found.
"""

import dynatrain
import pytest
from dynatrain import _C, worker
from processes import run_ranks

PLANS = {
    "adamw-mlp-4-rows-to-columns": 4,
    "explicit-shards-rows-to-flat-ranges": None,
    "gpt2-tiny-4-tied-embeddings": None,
    "llama-tiny-4-to-4-disjoint": 8,
    "llama-tiny-4-to-8-grow": 8,
    "llama-tiny-6-to-4-overlap-uneven": None,
    "llama-tiny-8-to-4-shrink": 8,
    "llama-tiny-8-zero1-dp4-to-dp2": 8,
    "qwen3-moe-tiny-8-ep4-to-4-ep2": 8,
}


def on_loopback(path, folder):
    return _C.loopback(_C.Plan.open(path), True, True)


def _rank(rank, store, path, digests):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    return worker.run(plan, world, check=True, digests=digests)


def on_gloo(path, folder, digests=False):
    size = len(dynatrain.Plan.load(path).devices)
    results = run_ranks(size, _rank, folder, path, digests)
    assert all(isinstance(result, dict) for result in results), results
    return {
        "bytes_checked": sum(r["bytes_checked"] for r in results),
        "mismatches": sum(r["mismatches"] for r in results),
        "staging_peak": max(r["staging_peak"] for r in results),
        "bytes_moved": sum(
            r["bytes_received"] + r["bytes_copied"] for r in results
        ),
    }


def on_gloo_with_digests(path, folder):
    return on_gloo(path, folder, digests=True)


TRANSPORTS = {
    "loopback": on_loopback,
    "gloo": on_gloo,
    "gloo-digests": on_gloo_with_digests,
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", PLANS)
def test_every_byte_arrives(transport, name, compile_plan, tmp_path):
    path = compile_plan(name)
    found = TRANSPORTS[transport](path, tmp_path)
    plan = dynatrain.Plan.load(path)
    if PLANS[name] is not None:
        assert len(plan.devices) == PLANS[name]
    said = plan.inspect()
    assert found["mismatches"] == 0
    assert found["bytes_checked"] >= said["bytes"]["destination"] > 0
    assert (
        found["bytes_moved"] == said["bytes"]["local"] + said["bytes"]["wire"]
    )
    assert found["staging_peak"] <= said["memory"]["staging_peak"]
