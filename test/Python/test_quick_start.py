"""What stands for torch._dynamo gives way to it when more of it is needed."""

import subprocess
import sys

import pytest
from conftest import HANGS, PATHS

pytest.importorskip("torch")

OPTIMIZES = """
import sys, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert "torch._dynamo.eval_frame" not in sys.modules
"""
COMPILES = """
compiled = torch.compile(lambda x: x + 1, backend="eager")
assert compiled(torch.ones(2)).tolist() == [2, 2]
"""
PARTS = """
import sys, torch
import torch._dynamo.config, torch._dynamo.utils
"""
IS_REAL = """
assert sys.modules["torch._dynamo"] is torch._dynamo
assert sys.modules["torch._dynamo.utils"] is torch._dynamo.utils
assert torch._dynamo.__file__ and torch._dynamo.config.cache_size_limit
"""


@pytest.mark.parametrize(
    "lines",
    [OPTIMIZES, OPTIMIZES + COMPILES + IS_REAL, PARTS + IS_REAL],
    ids=["not-needed", "compiles", "its-parts"],
)
def test_the_compiler_is_there_when_it_is_needed(lines):
    done = subprocess.run(
        [sys.executable, "-c", lines],
        env={"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
