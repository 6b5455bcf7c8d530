#!/usr/bin/env python3
"""One holder's data for one device on each of several nodes, against the
round-optimal broadcast.

    bench/multicasts.py [--bin build/bin] [--nodes N...] [--mib N...]

Prints a row per number of other nodes and size: predicted milliseconds, over
the least of (m - 1 + ceil(log2 p)) (bytes / (m rate) + latency), for any number
m of blocks and p nodes. No broadcast of m equal blocks is faster. Exits with 1
where a ratio is above 1.05 and the case is not named in KNOWN.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

from cases import CLUSTER, at
from plan_quality import ROOT, run, table

MOST_RATIO = 1.05
# (other nodes, MiB) above it: there a route of another kind is taken, which is
# faster where messages are packed.
KNOWN = {(8, 256), (63, 1)}


def best_seconds(size, processors):
    rate = CLUSTER["inter_node_GBps"] * 1e9
    latency = CLUSTER["latency_us"] * 1e-6
    phase = math.ceil(math.log2(processors))
    return min(
        (m - 1 + phase) * (size / (m * rate) + latency) for m in range(1, 4096)
    )


def request(nodes, mib):
    devices = [8 * (node + 1) for node in range(nodes)]
    elements = mib << 19
    return {
        "model": {
            "tensors": [{"name": "w", "shape": [elements], "dtype": "BF16"}]
        },
        "rules": [{"match": "*", "replicate": True}],
        "source": at(0, 1),
        "destination": {"world": nodes, "dp": nodes, "devices": devices},
        "cluster": CLUSTER,
        "memory": {"staging": "1GiB", "mode": "rollback"},
    }


def measure(tools, nodes, mib, folder):
    path, plan = folder / "request.json", folder / "plan.dtplan"
    path.write_text(json.dumps(request(nodes, mib)))
    run(tools / "dt-opt", path, "-o", plan)
    facts = json.loads(run(tools / "dt-plan", "inspect", plan, "--json"))
    return facts["time"]["predicted_s"], facts["counts"]["waves"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[1, 2, 3, 7, 8, 15, 63]
    )
    parser.add_argument(
        "--mib", type=int, nargs="+", default=[1, 16, 256, 4096]
    )
    options = parser.parse_args()
    rows, slow = [], []
    with tempfile.TemporaryDirectory() as folder:
        for nodes in options.nodes:
            for mib in options.mib:
                seconds, waves = measure(options.bin, nodes, mib, Path(folder))
                least = best_seconds(mib << 20, nodes + 1)
                ratio = seconds / least
                rows.append(
                    [
                        str(nodes),
                        str(mib),
                        f"{seconds * 1e3:.3f} ms",
                        f"{least * 1e3:.3f} ms",
                        f"{ratio:.3f}",
                        str(waves),
                    ]
                )
                if ratio > MOST_RATIO and (nodes, mib) not in KNOWN:
                    slow.append(f"{nodes} nodes, {mib} MiB: {ratio:.3f}")
    table(["nodes", "MiB", "predicted", "least", "ratio", "waves"], rows)
    print("\n".join(slow), file=sys.stderr, end="\n" if slow else "")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
