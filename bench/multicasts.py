#!/usr/bin/env python3
"""What several devices need of one piece of data, against its least time.

    bench/multicasts.py [--bin build/bin] [--only CASE...] [--mib N...]
                        [--check]

A row per case and size: predicted milliseconds, over the least that any
lowering by equal blocks takes, and over the bound that `dt-plan inspect`
states. The least of a broadcast to p - 1 others is that of

    (m - 1 + ceil(log2 p)) (bytes / (m rate) + latency)

for any number m of blocks. Where both levels are used, nodes and devices of a
node, it is the larger of both levels' own. The bound holds for every
schedule: it counts the rounds of both levels, but not what blocks cost
(docs/Schedule.md). LIMITS has what a ratio to the least may be, ABOVE the cases
that are above it, and why. With --check exits with 1 where a
case is above its limit, or above what ABOVE says of it.
"""

import argparse
import json
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cases import CLUSTER, at
from plan_quality import ROOT, run, table

#: By the number of levels.
LIMITS = {1: 1.05, 2: 1.10}
BOTH = "the latencies of both levels add up"
#: (case, MiB): (the ratio that it may have, why).
ABOVE = {
    ("1 to all of 8 nodes", 1): (2.76, BOTH),
    ("1 to all of 8 nodes", 16): (1.95, BOTH),
    ("1 to all of 8 nodes", 256): (1.30, BOTH),
    ("1 to all of 64 nodes", 1): (1.95, BOTH),
    ("1 to all of 64 nodes", 16): (1.59, BOTH),
    ("1 to all of 64 nodes", 256): (1.22, BOTH),
    ("8 to 64 devices", 1): (1.76, BOTH),
    ("8 to 64 devices", 16): (1.49, BOTH),
    ("8 to 64 devices", 256): (1.18, BOTH),
    ("all-gather of 64", 1): (3.20, BOTH),
    ("all-gather of 64", 16): (2.60, BOTH),
    ("all-gather of 64", 256): (1.34, BOTH),
}

PER_NODE = CLUSTER["devices_per_node"]
LATENCY = CLUSTER["latency_us"] * 1e-6
INTER = CLUSTER["inter_node_GBps"] * 1e9
INTRA = CLUSTER["intra_node_GBps"] * 1e9


@dataclass
class Case:
    source: dict
    destination: dict
    #: Least seconds of each level for so many bytes.
    levels: list

    def least(self, size):
        return max(level(size) for level in self.levels)

    @property
    def limit(self):
        return LIMITS[len(self.levels)]


def rounds_of(members):
    return math.ceil(math.log2(members))


def broadcast(members, rate, share=1):
    """To all but one of the members, of a share of the bytes."""

    def seconds(size):
        return min(
            (m - 1 + rounds_of(members)) * (size / share / (m * rate) + LATENCY)
            for m in range(1, 4096)
        )

    return seconds


def gather(members, rate, share=1):
    """Each of the members has a part as large as the others'."""

    def seconds(size):
        own = size / share * (members - 1) / members
        return own / rate + rounds_of(members) * LATENCY

    return seconds


def one_message(rate, share):
    return lambda size: size / share / rate + LATENCY


def to_nodes(nodes):
    """One holder to one device on each of so many other nodes."""
    devices = [PER_NODE * (node + 1) for node in range(nodes)]
    return Case(
        at(0, 1),
        {"world": nodes, "dp": nodes, "devices": devices},
        [broadcast(nodes + 1, INTER)],
    )


def to_all_devices(nodes, holders=1):
    """To all devices of so many nodes, of which the first has the holders. All
    NICs of a node bring it in, each a share."""
    levels = [broadcast(PER_NODE, INTRA)] if holders == 1 else []
    if nodes > 1:
        levels.append(broadcast(nodes, INTER, PER_NODE))
    if holders > 1:
        levels.append(gather(PER_NODE, INTRA))
    return Case(
        at(0, holders, dp=holders),
        at(0, PER_NODE * nodes, dp=PER_NODE * nodes),
        levels,
    )


def all_gather(world):
    nodes = world // PER_NODE
    return Case(
        at(0, world, fsdp=world),
        at(0, world, dp=world),
        [gather(nodes, INTER, PER_NODE), gather(PER_NODE, INTRA)],
    )


def all_to_all():
    """Experts of 8 ranks, one node each, which all of its devices hold, for 64
    ranks, numbered across the nodes."""
    nodes = range(PER_NODE)
    one_by_one = [PER_NODE * b + a for a in nodes for b in nodes]
    return Case(
        {"world": 64, "fsdp": 8, "dp": 8, "devices": one_by_one},
        {"world": 64, "fsdp": 64, "devices": one_by_one},
        [one_message(INTER, 64)],
    )


CASES = {
    **{f"1 to {n} nodes": to_nodes(n) for n in (1, 2, 3, 7, 8, 15, 63)},
    **{f"1 to all of {n} nodes": to_all_devices(n) for n in (1, 8, 64)},
    "8 to 64 devices": to_all_devices(8, holders=8),
    "all-gather of 64": all_gather(64),
    "all-to-all of 8 to 64": all_to_all(),
}


def request(case, mib):
    return {
        "model": {
            "tensors": [{"name": "w", "shape": [mib << 19], "dtype": "BF16"}]
        },
        "rules": [{"match": "*", "fsdp": 0}],
        "source": case.source,
        "destination": case.destination,
        "cluster": CLUSTER,
        "memory": {"staging": "1GiB", "mode": "rollback"},
    }


def measure(tools, case, mib, folder):
    path, plan = folder / "request.json", folder / "plan.dtplan"
    path.write_text(json.dumps(request(case, mib)))
    run(tools / "dt-opt", path, "-o", plan)
    return json.loads(run(tools / "dt-plan", "inspect", plan, "--json"))


def row_of(name, mib, facts):
    """The cells of a case, and what is wrong with it, or None."""
    case, seconds = CASES[name], facts["time"]["predicted_s"]
    least, bound = case.least(mib << 20), facts["time"]["lower_bound_s"]
    ratio = seconds / least
    limit, why = ABOVE.get((name, mib), (case.limit, ""))
    cells = [
        name,
        str(mib),
        f"{seconds * 1e3:.3f} ms",
        f"{least * 1e3:.3f} ms",
        f"{ratio:.3f}",
        f"{seconds / bound:.3f}",
        str(facts["counts"]["waves"]),
        why,
    ]
    bytes_of = facts["bytes"]
    wrong = None
    if ratio > limit:
        wrong = f"{ratio:.3f} of the least time, limit {limit}"
    if (
        bytes_of["wire"] != bytes_of["wire_lower_bound"]
        or bytes_of["inter_node"] != bytes_of["inter_node_lower_bound"]
    ):
        wrong = "more bytes than the lower bound"
    return cells, wrong and f"{name}, {mib} MiB: {wrong}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--only", nargs="+", default=list(CASES))
    parser.add_argument(
        "--mib", type=int, nargs="+", default=[1, 16, 256, 4096]
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            for mib in options.mib:
                facts = measure(options.bin, CASES[name], mib, Path(folder))
                cells, problem = row_of(name, mib, facts)
                rows.append(cells)
                wrong += [problem] if problem else []
    table(
        ["case", "MiB", "predicted", "least", "ratio", "bound", "waves", "why"],
        rows,
    )
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
