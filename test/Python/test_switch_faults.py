"""A few of the runs that switch_faults.py makes; it says what must hold."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("switch_faults.py")


@pytest.mark.parametrize(
    "counts",
    [["--clean", "6", "--faults", "0"], ["--clean", "0", "--faults", "12"]],
    ids=["clean", "faulted"],
)
def test_one_decision(counts):
    done = subprocess.run(
        [sys.executable, SCRIPT, *counts, "--seed", "12"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert '"wrong": 0' in done.stdout
