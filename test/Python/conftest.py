"""Plans and processes for the tests of the Python package.

They need torch and the extension that the build makes in build/python.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# Seconds after which a process is taken to hang: far more than any takes on a
# machine that is busy with something else.
HANGS = 1800
HERE = Path(__file__).parent
# Of every process that a test starts: where the package is, and what makes
# Python start quickly.
PATHS = f"{BUILD / 'python'}:{HERE / 'quick_start'}"
sys.path[:0] = [str(BUILD / "python"), str(HERE), str(HERE / "quick_start")]

import without_dynamo  # noqa: E402, F401


def run_apart(script, *arguments):
    """What a script of this folder prints, in a process of its own: where it
    changes torch for all that comes after it."""
    for name in ("torch", "dynatrain"):
        pytest.importorskip(name)
    result = subprocess.run(
        [sys.executable, HERE / script, *arguments],
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
    return result.stdout


@pytest.fixture(scope="session")
def compile_plan(tmp_path_factory):
    """compile_plan(name) is the plan of examples/requests/NAME.json."""
    folder = tmp_path_factory.mktemp("plans")

    def compiled(name):
        path = folder / f"{name}.dtplan"
        if not path.exists():
            request = ROOT / "examples" / "requests" / f"{name}.json"
            subprocess.run(
                [BUILD / "bin" / "dt-opt", request, "-o", path], check=True
            )
        return str(path)

    return compiled
