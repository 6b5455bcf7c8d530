"""Which Python a build is for: cmake/DtPython.cmake."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

if not shutil.which("cmake"):
    pytest.skip("cmake is not installed", allow_module_level=True)

PROJECT = """cmake_minimum_required(VERSION 3.20)
project(Probe NONE)
include({module})
"""


class Checkout:
    """One that has nothing but the lookup, and another Python on PATH."""

    def __init__(self, folder):
        self.folder = folder
        module = ROOT / "cmake/DtPython.cmake"
        (folder / "CMakeLists.txt").write_text(PROJECT.format(module=module))
        self.on_path = self.python("bin")

    def python(self, folder):
        path = self.folder / folder / "python3"
        path.parent.mkdir(parents=True)
        path.symlink_to(sys.executable)
        return str(path)

    def configure(self, *options):
        """The Python that is found."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        command = ["cmake", "-S", self.folder, "-B", self.folder / "build"]
        subprocess.run(
            [*command, *options],
            env=os.environ | {"PATH": path},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        cache = (self.folder / "build/CMakeCache.txt").read_text()
        lines = [s for s in cache.splitlines() if s.startswith("DT_PYTHON:")]
        return lines[0].partition("=")[2]


def test_a_venv_that_comes_later_is_found(tmp_path):
    """scripts/demo configures before scripts/test makes it."""
    checkout = Checkout(tmp_path)
    assert checkout.configure() == checkout.on_path
    venv = checkout.python(".venv/bin")
    assert checkout.configure() == venv
    assert checkout.configure() == venv


def test_the_one_that_is_named_stays(tmp_path):
    checkout = Checkout(tmp_path)
    named = checkout.python("named")
    assert checkout.configure(f"-DDT_PYTHON={named}") == named
    checkout.python(".venv/bin")
    assert checkout.configure() == named
