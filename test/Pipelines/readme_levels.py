"""README's IR is what dt-opt prints.

Usage: readme_levels.py README OUTPUT_FOLDER

In the section "One change at every level" a JSON block is the request, and each
block of IR follows the command that prints it: its lines must be in the output,
in that order.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path


def main(readme, out):
    text = Path(readme).read_text()
    section = text.split("## One change at every level")[1].split("\n## ")[0]
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    request = re.search(r"```json\n(.*?)```", section, re.DOTALL).group(1)
    (out / "split.json").write_text(request)
    levels = re.findall(
        r"`(dt-opt [^`]*)`\s*```mlir\n(.*?)```", section, re.DOTALL
    )
    assert len(levels) == 4, f"found {len(levels)} levels, expected 4"
    for command, block in levels:
        printed = subprocess.run(
            shlex.split(command), cwd=out, capture_output=True, text=True
        )
        assert printed.returncode == 0, (command, printed.stderr)
        rest = iter(line.strip() for line in printed.stdout.splitlines())
        for line in block.splitlines():
            assert line.strip() in rest, f"{command}: no '{line.strip()}' there"


if __name__ == "__main__":
    main(*sys.argv[1:])
