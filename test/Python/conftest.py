"""Plans and processes for the tests of the Python package.

They need torch and the extension that the build makes in build/python.
"""

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
