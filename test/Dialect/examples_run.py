"""Checks that each example of an op description stands in a test that runs.

Usage: examples_run.py FOLDER_OF_TD_FILES TEST.mlir

Spaces and line ends do not count. Every op needs an example.
"""

import re
import sys
from pathlib import Path


def squeezed(text):
    return re.sub(r"\s+", "", text)


def descriptions(td):
    """(name, description) of each op of a .td file."""
    for op in re.split(r"\n(?=def |class )", td):
        name = re.match(r"def DT_(\w+)Op\b", op)
        if name:
            yield name.group(1), op


def main(folder, test):
    ran = squeezed(Path(test).read_text())
    missing = []
    for path in sorted(Path(folder).glob("*Ops.td")):
        for name, text in descriptions(path.read_text()):
            example = re.search(r"Example:\s*```mlir\n(.*?)```", text, re.S)
            if not example:
                missing.append(f"{path.name}: {name} has no example")
                continue
            parts = example.group(1).split("\n    dt.")
            for part in [parts[0]] + ["dt." + part for part in parts[1:]]:
                if squeezed(part) not in ran:
                    missing.append(f"{path.name}: {name} is not in {test}")
    print("\n".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
