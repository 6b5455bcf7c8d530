"""Builds dynatrain._C with CMake against the torch of this interpreter.

Under pip's build isolation that torch is out of sight of this script, but not
of a fresh interpreter: CMake asks one. Where LLVM is installed, the compiler
dt-opt is built too and becomes part of the package.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def clean_environment() -> dict[str, str]:
    """Without what pip's isolation adds to Python's search path."""
    hidden = ("PYTHONPATH", "PYTHONNOUSERSITE", "PIP_BUILD_TRACKER")
    return {k: v for k, v in os.environ.items() if k not in hidden}


def compiler_given() -> Path | None:
    """A dt-opt that has been built, which becomes part of the package."""
    asked = os.environ.get("DYNATRAIN_COMPILER", "auto")
    if asked in ("auto", "on", "off"):
        return None
    if not os.access(asked, os.X_OK) or not Path(asked).is_file():
        raise SystemExit(
            f"DYNATRAIN_COMPILER is '{asked}', "
            "expected auto, on, off or the file of a dt-opt"
        )
    return Path(asked)


def compiler_wanted() -> tuple[bool, str]:
    """Whether dt-opt is built too, and why not. DYNATRAIN_COMPILER=on or off
    decides; else it is built where LLVM 22 with MLIR is installed."""
    asked = os.environ.get("DYNATRAIN_COMPILER", "auto")
    if asked != "auto":
        return asked == "on", "DYNATRAIN_COMPILER=off"
    config = shutil.which("llvm-config-22")
    root = Path("/usr/lib/llvm-22")
    if config:
        asked = subprocess.check_output([config, "--prefix"], text=True)
        root = Path(asked.strip())
    found = (root / "lib" / "cmake" / "mlir" / "MLIRConfig.cmake").exists()
    return found, "no LLVM 22 with MLIR is installed"


def summary(
    configured: str, with_compiler: bool, why_not: str, given: Path | None
) -> str:
    """What is built and what is left out, in one line, by what CMake said."""
    built, left = ["the extension", "gloo"], []
    for part, what in re.findall(r"^-- (CUDA|NCCL): (.*)$", configured, re.M):
        if what == "built":
            built.append(part)
        else:
            left.append(part + what.removeprefix("left out"))
    if with_compiler:
        built.append("dt-opt")
    elif not given:
        left.append(f"dt-opt ({why_not})")
    words = f"dynatrain: built {', '.join(built)}"
    words += f"; with {given}" if given else ""
    return words + (f"; left out {', '.join(left)}" if left else "")


class CMakeBuild(build_ext):
    """Configures the project, and builds of it what the package needs."""

    def build_extension(self, ext: Extension) -> None:
        folder = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        # As deep as in other checkouts, so that ccache finds there what one
        # has compiled.
        build = ROOT / f"build-{sys.implementation.cache_tag}"
        environment = clean_environment()
        given = compiler_given()
        with_compiler, why_not = (False, "") if given else compiler_wanted()
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            # Headers are read once for several files of a library. So no two
            # of these may give one name to different things. As scripts/build
            # has it: ccache then finds what that one has compiled.
            "CMAKE_UNITY_BUILD": "ON",
            "CMAKE_UNITY_BUILD_BATCH_SIZE": "16",
            "DT_BUILD_COMPILER": "ON" if with_compiler else "OFF",
            "DT_BUILD_TESTS": "OFF",
            "DT_BUILD_TORCH": "ON",
            "DT_WARNINGS_AS_ERRORS": os.environ.get(
                "DT_WARNINGS_AS_ERRORS", "OFF"
            ),
            "DT_PYTHON": sys.executable,
            "DT_PYTHON_OUTPUT": folder,
        }
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configured = subprocess.run(
            ["cmake", "-S", ROOT, "-B", build, *generator]
            + [f"-D{name}={value}" for name, value in options.items()],
            check=True,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        targets = ["dynatrain_C"] + ["dt-opt"] * with_compiler
        jobs = str(self.parallel or os.cpu_count() or 1)
        subprocess.run(
            ["cmake", "--build", build, "-j", jobs, "--target", *targets],
            check=True,
            env=environment,
        )
        self._check_built(ext, folder)
        if with_compiler or given:
            (folder / "bin").mkdir(exist_ok=True)
            made = given or build / "bin" / "dt-opt"
            shutil.copy2(made, folder / "bin" / "dt-opt")
        print(summary(configured, with_compiler, why_not, given), flush=True)

    def _check_built(self, ext: Extension, folder: Path) -> None:
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        built = folder / f"_C{suffix}"
        wanted = Path(self.get_ext_fullpath(ext.name)).resolve()
        if not built.exists() or built != wanted:
            raise RuntimeError(f"the build made no {wanted}")


setup(
    ext_modules=[Extension("dynatrain._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
