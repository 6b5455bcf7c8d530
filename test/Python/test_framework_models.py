"""Models as Hugging Face and Megatron-Core build them: weights go over, logits
of both agree, weights come back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, HANGS, PATHS
from test_examples import needs

CASES = (
    "llama", "llama-fsdp", "llama-tied", "qwen3_moe", "qwen3_moe-fsdp",
    "deepseek_v3", "gpt2", "gpt2-fsdp", "llama4_text",
)  # fmt: skip


@needs("megatron", "transformers")
def test_logits_of_both_frameworks_agree():
    for name in ("torch", "dynatrain"):
        pytest.importorskip(name)
    result = subprocess.run(
        [sys.executable, Path(__file__).parent / "framework_models.py", *CASES],
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
    told = {line.split(":")[0] for line in result.stdout.splitlines()}
    assert told == set(CASES), result.stdout
