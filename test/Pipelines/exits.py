"""Runs a command that must end with a given exit code.

Usage: exits.py CODE COMMAND [ARGUMENT...]
"""

import subprocess
import sys

if __name__ == "__main__":
    expected, command = int(sys.argv[1]), sys.argv[2:]
    code = subprocess.run(command).returncode
    if code != expected:
        sys.exit(f"{' '.join(command)}: exit code {code}, expected {expected}")
