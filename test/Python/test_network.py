"""Ranks in two network namespaces, over a slow and uneven link."""

import json
import os
import subprocess
import sys
import uuid

import pytest
from conftest import HANGS, PATHS
from processes import torch  # noqa: F401  (skips without torch)

PLAN = "adamw-mlp-4-rows-to-columns"
RATES = ("200mbit", "50mbit")  # of the two directions


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def namespaces():
    """Two namespaces joined by a pair of shaped links, 10.77.0.1 and .2."""
    mark = uuid.uuid4().hex[:6]
    names = [f"dt{mark}{end}" for end in "ab"]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
        for end, name in enumerate(names):
            _ip("link", "set", name, "netns", name)
            inside = ("-n", name)
            _ip(*inside, "addr", "add", f"10.77.0.{end + 1}/24", "dev", name)
            _ip(*inside, "link", "set", name, "up")
            _ip(*inside, "link", "set", "lo", "up")
            subprocess.run(
                ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev"]
                + [name, "root", "tbf", "rate", RATES[end]]
                + ["burst", "64kb", "latency", "200ms"],
                check=True,
                capture_output=True,
            )
        yield names
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", b"") or str(error).encode()
        pytest.skip(f"no shaped network here: {why.decode().strip()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def test_plan_across_hosts(namespaces, compile_plan):
    """Two ranks on each side, as torchrun would start them."""
    workers = []
    for rank in range(4):
        side = namespaces[rank // 2]
        environment = {
            **os.environ,
            "PYTHONPATH": PATHS,
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "WORLD_SIZE": "4",
            "MASTER_ADDR": "10.77.0.1",
            "MASTER_PORT": "29511",
            "GLOO_SOCKET_IFNAME": side,
        }
        workers.append(
            subprocess.Popen(
                ["ip", "netns", "exec", side, sys.executable, "-m"]
                + ["dynatrain.worker", compile_plan(PLAN), "--check", "--json"]
                + ["--timeout", "60"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [worker.communicate(timeout=HANGS) for worker in workers]
    for worker, (_, words) in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, words
    found = json.loads(outputs[0][0])
    assert found["ok"] and found["mismatches"] == 0
    # About 200 KB each way at 50 Mbit/s: the link was the one that we shaped.
    assert found["seconds"] > 0.02
