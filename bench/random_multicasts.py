#!/usr/bin/env python3
"""Random multicasts: is any slower than by another build?

    bench/random_multicasts.py --than OTHER/bin [--bin build/bin]
                               [--count 200] [--seed 1] [--worst 10]

One device, those of a node, or all have a tensor, or a part of it each, and
all devices of two to sixteen nodes of one to sixteen want it: 64 KiB to 1 GiB
in one dim, in rows, or in rows that parts share unevenly, in all modes of
memory. Prints how many are predicted to be faster and slower than by the other
build, and a row for each of those that lose most. Exits with 1 where one is
slower by more than half a percent. What a seed gives is always the same.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from plan_quality import ROOT, run, table

MOST_DEVICES = 128
#: Of the time that the other build takes.
SLOWER = 1.005


def shape_of(rng, size, world, parts):
    """BF16 elements of about so many bytes, and whether rows are uneven."""
    elements = size // 2
    kind = rng.choice(["one dim", "rows", "uneven rows"])
    if kind == "one dim":
        return [max(1, elements // parts) * parts]
    columns = rng.choice([128, 512, 1000, 4096])
    if kind == "rows":
        return [max(1, elements // columns // parts) * parts, columns]
    return [max(world + 1, elements // columns), columns]


def random_request(rng):
    per_node = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 12, 16])
    nodes = rng.randint(2, min(16, MOST_DEVICES // per_node))
    world = nodes * per_node
    holders = rng.choice([1, per_node, world])
    part_of = "fsdp" if holders == world else "dp"
    size = int(2 ** rng.uniform(16, 30))
    cluster = {
        "devices_per_node": per_node,
        "intra_node_GBps": rng.choice([100, 200, 200, 400]),
        "inter_node_GBps": rng.choice([12.5, 25, 25, 50]),
        "latency_us": rng.choice([2, 5, 10, 10, 15, 20, 30]),
        "launch_us": rng.choice([0, 0, 0, 5]),
    }
    parts = world if holders == world else 1
    shape = shape_of(rng, size, world, parts)
    mode = rng.choice(["rollback", "rollback", "rollback", "flat"])
    name = (
        f"{holders} to {world} on {nodes} nodes, {shape},"
        f" {cluster['latency_us']} us, {mode}"
    )
    return name, {
        "model": {"tensors": [{"name": "w", "shape": shape, "dtype": "BF16"}]},
        "rules": [{"match": "*", "fsdp": 0}],
        "source": {
            "world": holders,
            part_of: holders,
            "devices": list(range(holders)),
        },
        "destination": {"world": world, "dp": world},
        "cluster": cluster,
        "memory": {"staging": "1GiB", "mode": mode},
    }


def seconds(tools, path, plan):
    run(tools / "dt-opt", path, "-o", plan)
    facts = json.loads(run(tools / "dt-plan", "inspect", plan, "--json"))
    return facts["time"]["predicted_s"]


def compare(options):
    """(ratio, name, seconds, seconds by the other), the worst first."""
    rng = random.Random(options.seed)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path, plan = Path(folder) / "request.json", Path(folder) / "a.dtplan"
        for _ in range(options.count):
            name, request = random_request(rng)
            path.write_text(json.dumps(request))
            ours = seconds(options.bin, path, plan)
            others = seconds(options.than, path, plan)
            out.append((ours / others, name, ours, others))
    return sorted(out, reverse=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--than", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=10)
    options = parser.parse_args()
    rows = compare(options)
    slower = sum(ratio > SLOWER for ratio, *_ in rows)
    faster = sum(ratio < 1 / SLOWER for ratio, *_ in rows)
    print(f"{len(rows)} multicasts: {faster} faster, {slower} slower")
    table(
        ["multicast", "predicted", "by the other", "ratio"],
        [
            [name, f"{a * 1e3:.3f} ms", f"{b * 1e3:.3f} ms", f"{ratio:.3f}"]
            for ratio, name, a, b in rows[: options.worst]
        ],
    )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
