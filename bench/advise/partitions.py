#!/usr/bin/env python3
"""Partitions of layers into stages, beside those of others.

    bench/advise/partitions.py [--bin build/bin] [--count 300] [--seed 1]
                               [--dynmo FOLDER]

Random layers at several scales of time. One row per scale: how often each way
misses the optimum, and by how much at worst. "dynmo" is the partitioner that
DynMo released (chains-on-chains probe and bisection with an epsilon of 1e-3,
as DeepSpeed's `partition_balanced`); its rules are restated here, or, with
--dynmo, the functions are taken from a checkout of wahibium/DynMo. "even" is
Megatron's split by count. dt-advise must equal the optimum of a plain dynamic
program on fractions in every case; exit code 1 otherwise.
"""

import argparse
import ast
import json
import random
import subprocess
import sys
import time
from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EPSILON = 1e-3


def probe(sums, parts, bottleneck):
    """Fills stage after stage up to `bottleneck`, searching in strides."""
    layers, total = len(sums), sums[-1]
    cuts = [0] * (parts + 1)
    for part in range(1, parts + 1):
        cuts[part] = layers
    target = bottleneck
    stride = layers // parts
    step = stride
    for part in range(1, parts):
        while step < layers and sums[step] < target:
            step += stride
        cuts[part] = bisect_left(
            sums, target, lo=step - stride, hi=min(step, layers)
        )
        if cuts[part] == layers:
            last = sums[-1] - sums[cuts[part - 1]]
            return cuts, last < bottleneck
        target = sums[cuts[part] - 1] + bottleneck
    return cuts, target >= total


def dynmo_restated(seconds, parts):
    sums = list(accumulate(seconds))
    lower, upper = sums[-1] / parts, sums[-1]
    while upper > lower + EPSILON:
        middle = lower + (upper - lower) / 2
        _, fits = probe(sums, parts, middle)
        if fits:
            upper = middle
        else:
            lower = middle + EPSILON
    return probe(sums, parts, upper)[0]


def dynmo_from(folder):
    """`partition_balanced` and what it calls, from DynMo's own file."""
    source = folder / "megatron" / "balancer" / "deepspeed.py"
    wanted = {"_lprobe", "_rb_partition_balanced", "partition_balanced"}
    tree = ast.parse(source.read_text())
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    scope = {
        "bisect_left": bisect_left,
        "prefix_sum": lambda values: list(accumulate(values)),
    }
    exec(compile(tree, str(source), "exec"), scope)  # noqa: S102
    return scope["partition_balanced"]


def slowest(seconds, cuts):
    spans = zip(cuts, cuts[1:], strict=False)
    return max(sum(seconds[a:b]) for a, b in spans)


def even(layers, parts):
    sizes = [layers // parts + (s < layers % parts) for s in range(parts)]
    return [0, *accumulate(sizes)]


def optimum(seconds, parts):
    """The plain dynamic program, on exact fractions."""
    values = [Fraction(value) for value in seconds]
    sums = [Fraction(0), *accumulate(values)]
    best = sums[:]
    for _ in range(parts - 1):
        best = [
            min(max(best[k], sums[to] - sums[k]) for k in range(to + 1))
            for to in range(len(sums))
        ]
    return best[-1]


def ours(tool, seconds, parts):
    problem = {"stages": {"layer_seconds": seconds, "stages": parts}}
    done = subprocess.run(
        [tool, "--solve", "-"],
        input=json.dumps(problem),
        capture_output=True,
        text=True,
        check=True,
    )
    return [0, *accumulate(json.loads(done.stdout)["pp_layers"])]


def compare(options, scale, dynmo):
    rng = random.Random(options.seed)
    missed = {"dynmo": 0, "even": 0, "dt-advise": 0}
    worst = dict.fromkeys(missed, 1.0)
    tool = str(options.bin / "dt-advise")
    start = time.monotonic()
    for _ in range(options.count):
        parts = rng.randint(2, 8)
        layers = rng.randint(2 * parts, 48)
        seconds = [
            scale * rng.uniform(1, 3) * (3 if rng.random() < 0.2 else 1)
            for _ in range(layers)
        ]
        best = optimum(seconds, parts)
        cuts = {
            "dynmo": dynmo(seconds, parts),
            "even": even(layers, parts),
            "dt-advise": ours(tool, seconds, parts),
        }
        for name, cut in cuts.items():
            ratio = float(slowest([Fraction(v) for v in seconds], cut) / best)
            missed[name] += ratio > 1 + 1e-9
            worst[name] = max(worst[name], ratio)
    row = {
        "scale_s": scale,
        "cases": options.count,
        "missed": missed,
        "worst": {name: round(value, 4) for name, value in worst.items()},
        "seconds": round(time.monotonic() - start, 2),
    }
    print(json.dumps(row), flush=True)
    return missed["dt-advise"] == 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dynmo", type=Path)
    options = parser.parse_args()
    dynmo = dynmo_from(options.dynmo) if options.dynmo else dynmo_restated
    scales = (1.0, 1e-2, 1e-3, 1e-6)
    good = [compare(options, scale, dynmo) for scale in scales]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
