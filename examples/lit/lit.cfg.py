# Tests of transitions: every .test file in this folder, checked with FileCheck.
# dt-opt, dt-plan, dt-run and FileCheck are found on the PATH. Plans that tests
# make go to the folder of `--param output=FOLDER`, else to ./lit-output.

import os
import shutil
import sys

import lit.formats

config.name = "transitions"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".test"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.abspath(
    lit_config.params.get("output", "lit-output")
)
config.environment["PATH"] = os.environ.get("PATH", "")
config.substitutions.append(("%python", sys.executable))

for tool in ("dt-opt", "dt-plan", "dt-run", "FileCheck"):
    if not shutil.which(tool):
        lit_config.fatal(f"{tool} is not on the PATH")
