"""Builds dynatrain._C with CMake against the torch of this interpreter.

Under pip's build isolation that torch is out of sight of this script, but not
of a fresh interpreter: CMake asks one. LLVM is not needed.
"""

import os
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


class CMakeBuild(build_ext):
    """Configures and builds one target of the project."""

    def build_extension(self, ext: Extension) -> None:
        folder = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        build = Path(self.build_temp).resolve() / "cmake"
        environment = clean_environment()
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "DT_BUILD_COMPILER": "OFF",
            "DT_BUILD_TESTS": "OFF",
            "DT_BUILD_TORCH": "ON",
            "DT_PYTHON": sys.executable,
            "DT_PYTHON_OUTPUT": folder,
        }
        subprocess.run(
            ["cmake", "-S", ROOT, "-B", build]
            + [f"-D{name}={value}" for name, value in options.items()],
            check=True,
            env=environment,
        )
        jobs = str(self.parallel or os.cpu_count() or 1)
        subprocess.run(
            ["cmake", "--build", build, "--target", "dynatrain_C", "-j", jobs],
            check=True,
            env=environment,
        )
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        built = folder / f"_C{suffix}"
        wanted = Path(self.get_ext_fullpath(ext.name)).resolve()
        if not built.exists() or built != wanted:
            raise RuntimeError(f"the build made no {wanted}")


setup(
    ext_modules=[Extension("dynatrain._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
