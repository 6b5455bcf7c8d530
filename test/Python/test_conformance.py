"""Every transport moves the same plans, every byte compared.

A transport joins by a function in TRANSPORTS that runs a plan on all its ranks
with known values, and says what it found. What transports do with single groups
is in test/Unit/Runtime/TransportContract.cpp.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import dynatrain
import pytest
from conftest import BUILD, HANGS, PATHS
from dynatrain import _C, worker
from processes import run_ranks

#: Number of processes, where the name does not say it.
PLANS = {
    "two-ranks-rows-to-columns": 2,
    "adamw-mlp-4-rows-to-columns": 4,
    "explicit-shards-rows-to-flat-ranges": None,
    "gpt2-tiny-4-tied-embeddings": None,
    "llama-tiny-4-to-4-disjoint": 8,
    "llama-tiny-4-to-8-grow": 8,
    "llama-tiny-6-to-4-overlap-uneven": None,
    "llama-tiny-4-to-8-param-from-master": 8,
    "llama-tiny-8-change-dtypes": 8,
    "llama-tiny-8-master-f32-to-bf16-inference": None,
    "llama-tiny-8-to-4-shrink": 8,
    "llama-tiny-8-zero1-dp4-to-dp2": 8,
    "qwen3-moe-tiny-8-ep4-to-4-ep2": 8,
}

DTYPES_CHANGE = {
    "llama-tiny-4-to-8-param-from-master",
    "llama-tiny-8-change-dtypes",
}


def on_loopback(path, folder):
    return _C.loopback(_C.Plan.open(path), True, True)


def _rank(rank, store, path, shared_memory, options):
    plan = dynatrain.Plan.load(path)
    world = dynatrain.World(
        store=store, rank=rank, timeout=60, shared_memory=shared_memory
    )
    return worker.run(plan, world, check=True, **options)


def on_gloo(path, folder, digests=False, shared_memory=True, in_place=False):
    size = len(dynatrain.Plan.load(path).devices)
    options = {"digests": digests, "in_place": in_place}
    results = run_ranks(size, _rank, folder, path, shared_memory, options)
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


def on_gloo_in_place(path, folder):
    return on_gloo(path, folder, in_place=True)


def on_gloo_without_shared_memory(path, folder):
    return on_gloo(path, folder, shared_memory=False)


def on_adversarial(path, folder):
    """Prints nothing but runs; any wrong byte ends it."""
    command = [BUILD / "bin" / "dt-adversary", path, "5", str(os.getpid())]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "5 runs\n"


def _needs_gpu(feature):
    if feature not in _C.features():
        pytest.skip(f"this build has no {feature}")
    if not Path("/dev/nvidia0").exists():
        pytest.skip("this machine has no GPU")


def _run_json(command):
    """What a command found that prints the JSON of dt-run."""
    environment = {
        **os.environ,
        "PYTHONPATH": PATHS,
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    found["bytes_moved"] = round(found["GBps"] * found["seconds"] * 1e9)
    return found


def _workers(path, *arguments):
    size = len(dynatrain.Plan.load(path).devices)
    return _run_json(
        [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        + [f"--nproc-per-node={size}", "-m", "dynatrain.worker", path]
        + ["--check", "--json", "--device=cuda", *arguments]
    )


def on_nccl(path, folder):
    _needs_gpu("nccl")
    return _workers(path, "--backend=nccl")


def on_nccl_with_digests(path, folder):
    _needs_gpu("nccl")
    return _workers(path, "--backend=nccl", "--digests")


def on_nccl_one_sided(path, folder):
    _needs_gpu("nccl")
    return _workers(path, "--backend=nccl", "--one-sided")


def on_gloo_from_gpus(path, folder):
    _needs_gpu("cuda")
    return _workers(path, "--backend=gloo")


def _dt_run_nccl(path, *arguments):
    _needs_gpu("nccl")
    tool = BUILD / "bin" / "dt-run"
    return _run_json(
        [tool, "--transport=nccl", "--check", "--json", *arguments, path]
    )


def on_dt_run_nccl(path, folder):
    return _dt_run_nccl(path)


def on_dt_run_nccl_graph(path, folder):
    return _dt_run_nccl(path, "--graph")


def on_dt_run_nccl_one_sided(path, folder):
    return _dt_run_nccl(path, "--one-sided")


TRANSPORTS = {
    "loopback": on_loopback,
    "adversarial": on_adversarial,
    "gloo": on_gloo,
    "gloo-digests": on_gloo_with_digests,
    "gloo-all-by-wire": on_gloo_without_shared_memory,
    "gloo-in-place": on_gloo_in_place,
    "gloo-gpus": on_gloo_from_gpus,
    "nccl": on_nccl,
    "nccl-digests": on_nccl_with_digests,
    "nccl-one-sided": on_nccl_one_sided,
    "nccl-dt-run": on_dt_run_nccl,
    "nccl-dt-run-graph": on_dt_run_nccl_graph,
    "nccl-dt-run-one-sided": on_dt_run_nccl_one_sided,
}


def test_ranks_that_share_a_gpu_are_told_how():
    """2.28.9 and 2.29.7 do not know NCCL_MULTI_RANK_GPU_ENABLE."""
    for version in [(2, 27, 3), (2, 28, 9), (2, 29, 7)]:
        settings = [worker.shared_gpu_settings(r, version) for r in (0, 1)]
        assert settings[0].keys() == settings[1].keys() == {"NCCL_HOSTID"}
        assert settings[0] != settings[1]
    assert worker.shared_gpu_settings(0, (2, 30, 7)) == {
        "NCCL_MULTI_RANK_GPU_ENABLE": "1"
    }


def _two_ranks(folder, memory=None):
    """The smallest world: rows to columns; a third tensor stays as it is."""
    path = folder / "two.dtplan"
    request = {
        "model": {
            "tensors": [
                {"name": "w", "shape": [64, 48], "dtype": "BF16"},
                {"name": "b", "shape": [48], "dtype": "F32"},
                {"name": "c", "shape": [24], "dtype": "F32"},
            ]
        },
        "state": {"param": "bf16", "master": "f32"},
        "source": {"world": 2, "fsdp": 2},
        "destination": {"world": 2, "tp": 2},
        "rules": [
            {"match": "w", "tp": 1, "fsdp": 0},
            {"match": "b", "tp": 0, "fsdp": 0},
            {"match": "c", "replicate": True},
        ],
    }
    if memory:
        request["memory"] = memory
    dynatrain.compile(request, path)
    return str(path)


def _check(path, found):
    """What was counted is what the plan says."""
    said = dynatrain.Plan.load(path).inspect()
    assert found["mismatches"] == 0
    assert found["bytes_checked"] >= said["bytes"]["destination"] > 0
    assert found["staging_peak"] <= said["memory"]["staging_peak"]
    return said


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", PLANS)
def test_every_byte_arrives(transport, name, compile_plan, tmp_path):
    path = (
        _two_ranks(tmp_path)
        if name == "two-ranks-rows-to-columns"
        else compile_plan(name)
    )
    found = TRANSPORTS[transport](path, tmp_path)
    plan = dynatrain.Plan.load(path)
    if PLANS[name] is not None:
        assert len(plan.devices) == PLANS[name]
    if found is None:
        return
    said = _check(path, found)
    moved = said["bytes"]["local"] + said["bytes"]["wire"]
    # A local copy counts what it reads, the plan what is written.
    if name not in DTYPES_CHANGE:
        assert found["bytes_moved"] == moved


#: GPUs have no flat mode.
ON_HOSTS = [
    name
    for name in TRANSPORTS
    if not name.startswith("nccl") and name != "gloo-gpus"
]


@pytest.mark.parametrize("transport", ON_HOSTS)
@pytest.mark.parametrize("granularity", ["page", "tensor"])
def test_every_byte_arrives_in_flat_memory(transport, granularity, tmp_path):
    memory = {"staging": "32KiB", "mode": "flat", "granularity": granularity}
    path = _two_ranks(tmp_path, memory)
    found = TRANSPORTS[transport](path, tmp_path)
    if found is not None:
        _check(path, found)


#: What two layouts need of a library, and how many calls that are.
CALLS = {
    "broadcast": ({"world": 1}, {"world": 4, "dp": 4}),
    "all_gather": ({"world": 4, "fsdp": 4}, {"world": 4, "dp": 4}),
    "all_to_all": ({"world": 4, "fsdp": 4}, {"world": 4, "tp": 4}),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", CALLS)
def test_every_byte_arrives_by_collectives(transport, kind, tmp_path):
    source, destination = CALLS[kind]
    path = tmp_path / "calls.dtplan"
    request = {
        "model": {
            "tensors": [
                {"name": "w", "shape": [64, 48], "dtype": "BF16"},
                {"name": "v", "shape": [52, 96], "dtype": "F32"},
            ]
        },
        "source": source,
        "destination": destination,
        "rules": [{"match": "*", "tp": 1, "fsdp": 0}],
        "cluster": {"collectives": "library"},
        "memory": {"staging": "8KiB"},
    }
    dynatrain.compile(request, path)
    found = TRANSPORTS[transport](str(path), tmp_path)
    counts = dynatrain.Plan.load(str(path)).inspect()["counts"]
    assert counts["messages"] == 0
    assert counts["library_collectives"] > 1
    kinds = {
        row.get("collective")
        for row in map(
            json.loads,
            subprocess.run(
                [BUILD / "bin" / "dt-plan", "dump", "--deliveries", path],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines(),
        )
        if row["src"] != row["dst"]
    }
    assert kinds == {kind}
    if found is not None:
        _check(str(path), found)
