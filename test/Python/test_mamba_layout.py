"""Mamba mixers are cut as Megatron-Core's own code cuts them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, HANGS, PATHS
from test_examples import needs


@needs("megatron", "einops")
def test_parts_of_a_mixer():
    for name in ("torch", "dynatrain"):
        pytest.importorskip(name)
    result = subprocess.run(
        [sys.executable, Path(__file__).parent / "mamba_layout.py"],
        env=os.environ
        | {
            "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": PATHS,
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert "8 parameters of 2 ranks are as expected" in result.stdout
