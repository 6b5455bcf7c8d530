"""`Job(state, build=..., plans=...)` as torchrun starts it, and what is wrong
with arguments of a job."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HANGS, PATHS
from dynatrain.job_start import start_of
from processes import dist, dynatrain

TRAINER = Path(__file__).with_name("torchrun_job.py")


def run(tmp_path, plans, *options, path=""):
    """What each process has seen, by torchrun's ranks."""
    out = tmp_path / f"out-{len(list(tmp_path.glob('out-*')))}"
    out.mkdir()
    environment = os.environ | {
        "PYTHONPATH": PATHS,
        "PATH": path + os.environ["PATH"],
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=3", TRAINER, out, plans, *options]
    agent = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HANGS
    )
    assert agent.returncode == 0, agent.stdout[-2000:] + agent.stderr[-6000:]
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(3)]


def check(told, begin):
    """Each step once, in worlds of 3, 3 and 2 processes; who leaves has no
    step to take any more."""
    assert [one["left"] for one in told] == [False, False, True]
    for rank, one in enumerate(told):
        steps = [step for step, *_ in one["seen"]]
        assert steps == list(range(begin, begin + len(steps)))
        worlds = dict.fromkeys(tuple(world) for _, *world in one["seen"])
        expected = [(1, rank, 3), (2, rank, 3), (3, rank, 2)]
        assert list(worlds) == expected[: 2 if rank == 2 else 3]
    assert told[0]["seen"][-1][0] == told[1]["seen"][-1][0]


def test_under_torchrun(tmp_path):
    plans = tmp_path / "plans"
    check(run(tmp_path, plans), 0)
    made = {file.name: file.read_bytes() for file in plans.iterdir()}
    assert len(made) == 2 and all(name.endswith(".dtplan") for name in made)
    # Another run, from a checkpoint, finds them, and has no compiler.
    broken = tmp_path / "bin" / "dt-opt"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    check(run(tmp_path, plans, "100", path=f"{broken.parent}:"), 100)
    assert made == {file.name: file.read_bytes() for file in plans.iterdir()}


def build(world):
    raise AssertionError("no world is made here")


def test_without_a_store(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(dynatrain.InvalidError, match="no store is given.*torc"):
        dynatrain.Job(dynatrain.State(step=0), build=build)


@pytest.mark.parametrize(
    ("given", "options", "why"),
    [
        (object(), {}, "is a object, expected a dynatrain.State"),
        ("127.0.0.1:1", {"store": "127.0.0.1:1"}, "there are two stores"),
        ("127.0.0.1:1", {"build": None}, "build is None, expected a function"),
        ("127.0.0.1:1", {"plans": "a", "cache": "b"}, "plans is 'a' and cache"),
        ("127.0.0.1:1", {"plans": __file__}, "a file, not a folder"),
        ("127.0.0.1", {}, "store is '127.0.0.1', expected 'HOST:PORT'"),
    ],
)
def test_arguments_that_cannot_be(given, options, why):
    with pytest.raises(dynatrain.InvalidError, match=why):
        dynatrain.Job(given, **{"build": build, **options})


def test_what_torchrun_says(monkeypatch):
    for name, number in ("WORLD_SIZE", 4), ("RANK", 2):
        monkeypatch.setenv(name, str(number))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")

    def told(store=None, processes=None, rank=None):
        start = start_of(None, build, store, processes, rank, "job")
        return start.store, start.processes, start.rank, start.root

    assert told() == told("env://") == ("env://", 4, 2, "job")
    assert told(processes=1) == ("env://", 1, None, "job")
    assert told("127.0.0.1:1") == ("127.0.0.1:1", 1, None, "job")
    # The store still has what the workers have left that were there before.
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "3")
    assert told() == ("env://", 4, 2, "job.3")
    assert told(processes=1) == ("env://", 1, None, "job")


def test_who_is_no_member_has_no_boundary():
    job = dynatrain.Job(dist.HashStore(), build)
    assert job.step == 0
    with pytest.raises(dynatrain.InvalidError, match="is in no world"):
        job.boundary()
    job.close()
