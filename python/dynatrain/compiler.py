"""The compiler, where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import CompileError, CompileWarning
from .plan import Plan


def find_compiler() -> str | None:
    """dt-opt on PATH, in this package, or in build/bin of the checkout that
    holds this file."""
    found = shutil.which("dt-opt")
    if found:
        return found
    here = Path(__file__).resolve().parent
    places = [here / "bin", *(up / "build" / "bin" for up in here.parents)]
    for folder in places:
        candidate = folder / "dt-opt"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def _warnings_of(words: str) -> list[str]:
    """The warnings that dt-opt printed, each with the notes under it."""
    found: list[str] = []
    for line in words.splitlines():
        _, mark, text = line.partition("warning: ")
        if mark or not found:
            found.append(text if mark else line)
        else:
            found[-1] += f"; {line}"
    return found


def compiler_or_error() -> str:
    """Where dt-opt is; a `CompileError` where it is not found."""
    compiler = find_compiler()
    if compiler is None:
        raise CompileError(
            "dt-opt is neither on PATH nor in build/bin: build or install the "
            "compiler, or load a plan compiled elsewhere"
        )
    return compiler


def run_compiler(
    request: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str],
) -> None:
    """Has dt-opt write a plan, or a folder of plans; see `compile`."""
    compiler = compiler_or_error()
    inline = isinstance(request, Mapping)
    result = subprocess.run(
        [
            compiler,
            "-" if inline else os.fspath(request),
            "-o",
            os.fspath(output),
        ],
        input=json.dumps(request) if inline else None,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        words = result.stderr.strip() or f"exit code {result.returncode}"
        raise CompileError(f"dt-opt: {words}")
    for text in _warnings_of(result.stderr):
        warnings.warn(f"dt-opt: {text}", CompileWarning, stacklevel=3)


def compile(
    request: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str],
) -> Plan:
    """Compiles a request (a file, or the same as a dict) to a plan file.

    Paths in a dict are relative to the current folder. Raises `CompileError`
    with the compiler's own words, or when dt-opt is not found. What the
    compiler warns of, such as elements that no destination rank wants, becomes
    a `CompileWarning`. A request for several plans is for
    `PlanLibrary.compile`.
    """
    run_compiler(request, output)
    return Plan.load(output)
