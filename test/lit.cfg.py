# The lit suite: every .mlir and .test file in this folder, checked with
# FileCheck. `--param verify_roundtrip=1` runs it with the IR of every dt-opt
# printed and read again.
#
# `config` is lit's; lit.site.cfg.py of the build folder fills in where things
# are before it loads this file.

import os
import shutil
import sys

import lit.formats

config.name = "DynaTrain"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Unit", "Tooling", "Fuzz", "bad-requests"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.dt_binary_dir, "test")

folders = [
    os.path.join(config.dt_binary_dir, "bin"),
    config.llvm_tools_dir,
    os.environ.get("PATH", ""),
]
config.environment["PATH"] = os.pathsep.join(folders)
config.environment["FILECHECK_OPTS"] = "-enable-var-scope"
llvm_include = os.path.join(os.path.dirname(config.llvm_tools_dir), "include")
config.substitutions += [
    ("%examples", config.dt_source_dir + "/examples"),
    ("%dt_source_dir", config.dt_source_dir),
    ("%llvm_include", llvm_include),
    ("%python", sys.executable),
    ("%lit", os.path.abspath(sys.argv[0])),
    ("%dt_bin", os.path.join(config.dt_binary_dir, "bin")),
]

# "z3": the compiler proves plans; "z3-tool", "cvc5-tool": the solver is here as
# a program.
if config.dt_have_z3:
    config.available_features.add("z3")
for solver in ("z3", "cvc5"):
    if shutil.which(solver):
        config.available_features.add(solver + "-tool")

if lit_config.params.get("verify_roundtrip"):
    # The tool's name where it stands as a command, not inside a path.
    tool = r"(?<![\w./-])dt-opt(?![\w./-])"
    config.substitutions.append((tool, "dt-opt --verify-roundtrip"))
