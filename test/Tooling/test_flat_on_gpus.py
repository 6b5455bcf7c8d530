"""Compiled flat plans in a pool of pages, on stand-ins for CUDA and its driver.

All devices are threads on one GPU, each with a pool of its own. Every byte is
compared; misuse of the driver, and what is left in the end, make the process
fail (test/Gpu/FakeBench.cpp).
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
REQUESTS = ROOT / "examples" / "requests"

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin" / "fake-gpu-bw").exists(),
    reason="this build has no CUDA and NCCL",
)


def run(*command, **more):
    return subprocess.run(
        list(map(str, command)), check=True, capture_output=True, **more
    ).stdout


@pytest.mark.parametrize("granularity", ["page", "tensor"])
@pytest.mark.parametrize(
    "name", ["llama-tiny-4-to-8-grow", "llama-tiny-8-zero1-dp4-to-dp2"]
)
def test_every_byte_arrives(name, granularity, tmp_path):
    request = json.loads((REQUESTS / f"{name}.json").read_text())
    request["model"] = str(REQUESTS / request["model"])
    request["memory"] = {
        "mode": "flat",
        "granularity": granularity,
        "staging": "1MiB",
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    plan = tmp_path / "flat.dtplan"
    run(BUILD / "bin" / "dt-opt", tmp_path / "request.json", "-o", plan)
    driver = BUILD / "test" / "Gpu" / "driver"
    row = json.loads(
        run(
            BUILD / "bin" / "fake-gpu-bw",
            plan,
            "--repeat=1",
            env={**os.environ, "LD_LIBRARY_PATH": str(driver)},
        )
    )
    told = json.loads(run(BUILD / "bin" / "dt-plan", "inspect", plan, "--json"))
    moved = told["bytes"]["wire"] + told["bytes"]["local"]
    assert row["bytes"] >= moved > 0
