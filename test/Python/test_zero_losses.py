"""Processes are killed under ZeRO-1: a few times of what bench/zero_losses.py
does fifty times."""

import json
import subprocess
import sys
from pathlib import Path

COMMAND = Path(__file__).resolve().parents[2] / "bench" / "zero_losses.py"


def test_kills_under_zero():
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--kills", "3", "--seed", "2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["right"] == 3
