"""Compiles, verifies and runs random requests with --dt-fuse-collectives.

Usage: fused_transitions.py BIN COUNT [SEED]

Bytes on the wire are those of the default pipeline, and every destination byte
is compared on loopback. What the pass makes is taken by scheduling as it is, or
after --dt-lower-collectives, in turn.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import random_request
from plan_tools import ToolError, Tools
from random_transitions import compile_within_limit, write_case

LOWERING = [
    "--dt-schedule",
    "--dt-allocate-staging",
    "--dt-place-storage",
    "--dt-prove",
]


def run(*command):
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True
    ).stdout


def wire(tools, plan):
    return json.loads(run(tools / "dt-plan", "inspect", plan, "--json"))[
        "bytes"
    ]


def without_relays(size):
    """Without what relays add: over whom they go depends on the order of
    messages, which changes."""
    relayed = size.pop("relayed", 0)
    del size["inter_node"]
    return size | {"wire": size["wire"] - relayed}


def check(tools, seed, lowers, folder):
    """Number of collectives of a case; None where the request is refused."""
    case = random_request(seed)
    request = write_case(case, folder)
    plain, fused = folder / "plain.dtplan", folder / "fused.dtplan"
    try:
        compile_within_limit(Tools(tools), case, request, plain)
    except ToolError:
        return None
    opening = ["--dt-group-families", "--dt-verify-layout", "--dt-route"]
    opening += ["--dt-fuse-collectives"]
    module = folder / "fused.mlir"
    run(tools / "dt-opt", request, *opening, "-o", module)
    lowering = ["--dt-lower-collectives"] if lowers else []
    lowering += ["--dt-verify-routing", *LOWERING, f"--dt-emit=output={fused}"]
    run(tools / "dt-opt", module, *lowering, "-o", "/dev/null")
    run(tools / "dt-plan", "verify", fused)
    run(tools / "dt-run", fused, "--check")
    before, after = wire(tools, plain), wire(tools, fused)
    if "relayed" in before | after:
        before, after = without_relays(before), without_relays(after)
    if before != after:
        raise AssertionError(f"bytes are {after}, expected {before}")
    return module.read_text().count("dt.collective")


def main(tools, count, seed=None):
    seed = random.SystemRandom().randrange(2**32) if seed is None else int(seed)
    print(f"seed {seed}")
    found = 0
    for number in range(int(count)):
        with tempfile.TemporaryDirectory(prefix="fused-") as folder:
            try:
                found += (
                    check(
                        Path(tools),
                        seed + number,
                        number % 2 == 1,
                        Path(folder),
                    )
                    or 0
                )
            except subprocess.CalledProcessError as error:
                sys.exit(f"case {seed + number}: {error.cmd}: {error.stderr}")
            except AssertionError as error:
                sys.exit(f"case {seed + number}: {error}")
    print(f"{found} collectives")
    if int(count) >= 40 and found < 20:
        sys.exit("expected at least 20 collectives")


if __name__ == "__main__":
    main(*sys.argv[1:])
