#!/usr/bin/env python3
"""Compiles the cases below and runs executor-bw on each.

Prints one line of JSON per case, as executor-bw does. With --plans DIR the
plans are kept there, for machines that cannot compile.

Examples:
  bench/executor/run.py --bin build/bin
  bench/executor/run.py --bin build/bin --case experts --staged
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

MEMORY = {"staging": "1GiB", "device": "64GiB", "mode": "rollback"}


def tensors(count, shape, name="layers.{}.weight", experts=0):
    """A flat list of `count` layers, each with `experts` tensors if any."""
    names = [name.format(i) for i in range(count)]
    if experts:
        names = [
            f"layers.{i}.experts.{e}.weight"
            for i in range(count)
            for e in range(experts)
        ]
    return {
        "tensors": [{"name": n, "shape": shape, "dtype": "bf16"} for n in names]
    }


def request(
    model, rule, source, destination, source_devices, destination_devices
):
    return {
        "model": model,
        "rules": [{"match": "*", **rule}],
        "source": {**source, "devices": source_devices},
        "destination": {**destination, "devices": destination_devices},
        "memory": MEMORY,
    }


def rotated(world):
    return [(i + 1) % world for i in range(world)]


def plain(model, rule, source, destination):
    """Both worlds over the same devices, the second turned by one."""
    return request(
        model,
        rule,
        source,
        destination,
        list(range(source["world"])),
        rotated(destination["world"]),
    )


# What each case shows; bytes per run of the strided side in parentheses.
CASES = {
    # Whole 16 MiB shards change device.
    "large": lambda: plain(
        tensors(16, [8192, 4096]),
        {"tp": 0},
        {"world": 4, "tp": 4},
        {"world": 4, "tp": 4},
    ),
    # Rows become columns (2 KiB).
    "rows-to-columns": lambda: plain(
        tensors(16, [8192, 4096]),
        {"tp": 1, "fsdp": 0},
        {"world": 4, "fsdp": 4},
        {"world": 4, "tp": 4},
    ),
    # TP of dim 1, 4 to 8 ways (1 KiB).
    "tp-dim1": lambda: plain(
        tensors(16, [8192, 4096]),
        {"tp": 1},
        {"world": 4, "tp": 4},
        {"world": 8, "tp": 8},
    ),
    # Gate and up packed in one tensor, cut one by one.
    "gate-up": lambda: plain(
        tensors(8, [28672, 2048]),
        {"tp": 0, "blocks": [14336, 14336]},
        {"world": 4, "tp": 4},
        {"world": 8, "tp": 8},
    ),
    # Experts change place, each 1.5 MiB.
    "experts": lambda: plain(
        tensors(6, [1536, 512], experts=64),
        {"tp": None, "ep": True},
        {"world": 8, "dp": 8, "ep": 8},
        {"world": 4, "dp": 4, "ep": 4},
    ),
    # Experts cut thin: runs of 64, 32, 16 and 8 bytes.
    **{
        f"experts-{run}B": lambda run=run: plain(
            tensors(4, [4096, run * 8 // 2], experts=4096 // run),
            {"tp": 1, "ep": True},
            {"world": 4, "ep": 4, "tp": 4, "etp": 1},
            {"world": 8, "ep": 1, "tp": 8, "etp": 8},
        )
        for run in (64, 32, 16, 8)
    },
    # 128 virtual ranks on whatever cores there are.
    "ranks-128": lambda: plain(
        tensors(16, [8192, 4096]),
        {"tp": 1, "fsdp": 0},
        {"world": 64, "tp": 8, "fsdp": 8},
        {"world": 128, "tp": 4, "fsdp": 32},
    ),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", type=pathlib.Path, help="another dt-opt")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument(
        "--plans", type=pathlib.Path, help="keep the plans here"
    )
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument(
        "rest", nargs="*", help="after --: options of executor-bw"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.plans or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.case or CASES:
            source, plan = folder / f"{name}.json", folder / f"{name}.dtplan"
            if not plan.exists():
                source.write_text(json.dumps(CASES[name]()))
                compiler = options.compiler or options.bin / "dt-opt"
                subprocess.run([compiler, source, "-o", plan], check=True)
            if not options.compile_only:
                command = [options.bin / "executor-bw", plan, "--name", name]
                subprocess.run(command + options.rest, check=True)


if __name__ == "__main__":
    main()
