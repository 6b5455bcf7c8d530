"""Explicit shards and joined tensors are read, checked, moved and proved in
n log n.

Usage: many_rows.py OUTPUT_FOLDER

Compiles 20,000 rows of one device to and from ten devices, in both modes, and
with one row too many; then 40,000 tensors that the destination has as one.
dt-opt may take so many CPU seconds each, a few times what it takes; looking at
every pair of rows takes it half a minute, at every pair of tensors ten seconds.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

ROWS, COLUMNS, DEVICES = 200, 100, 10
JOINED = 40_000
CPU_SECONDS = 6


def row(rank, offset, size):
    return {"tensor": "w", "rank": rank, "offset": offset, "size": size}


def side(rows):
    return {"world": rows[-1]["rank"] + 1, "shards": rows}


def request(source, destination, mode):
    shape = [2 * ROWS, 3 * COLUMNS]
    return {
        "model": {"tensors": [{"name": "w", "shape": shape, "dtype": "f32"}]},
        "source": side(source),
        "destination": side(destination),
        "memory": {"staging": "1MiB", "mode": mode},
    }


def joined(count):
    """So many tensors, cut in two, which the destination has whole as one."""
    names = [f"w.{i}" for i in range(count)]
    return {
        "model": {
            "tensors": [
                {"name": name, "shape": [4, 4], "dtype": "bf16"}
                for name in names
            ]
        },
        "rules": [{"match": "*", "tp": 0}],
        "source": {"world": 2, "tp": 2},
        "destination": {
            "world": 1,
            "views": [{"tensor": "w", "concat": names, "dim": 0}],
        },
    }


def compile_plan(value, path):
    """stderr of dt-opt, which writes a plan beside the request or none."""
    path.write_text(json.dumps(value))
    done = subprocess.run(
        ["dt-opt", path, "-o", path.with_suffix(".dtplan")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)
        ),
    )
    if done.returncode < 0:
        raise RuntimeError(f"{path.name}: more than {CPU_SECONDS} CPU s")
    return done.stderr


def compile_and_verify(value, path):
    words = compile_plan(value, path)
    if words:
        raise RuntimeError(f"{path.name}: {words}")
    subprocess.run(
        ["dt-plan", "verify", path.with_suffix(".dtplan")], check=True
    )


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cells = [
        row(0, [2 * i, 3 * j], [2, 3])
        for i in range(ROWS)
        for j in range(COLUMNS)
    ]
    width = 3 * COLUMNS // DEVICES
    columns = [
        row(rank, [0, rank * width], [2 * ROWS, width])
        for rank in range(DEVICES)
    ]
    for name, sides in (
        ("apart", (cells, columns)),
        ("back", (columns, cells)),
    ):
        for mode in ("rollback", "flat"):
            compile_and_verify(
                request(*sides, mode), folder / f"{name}-{mode}.json"
            )
    compile_and_verify(joined(JOINED), folder / "joined.json")
    twice = [*cells, row(0, [2 * ROWS - 1, 0], [1, 1])]
    words = compile_plan(
        request(twice, columns, "rollback"), folder / "twice.json"
    )
    number = len(cells) - COLUMNS
    expected = f'source.shards[{len(cells)}] (tensor "w", rank 0) overlaps '
    expected += f"source.shards[{number}] "
    if expected not in words:
        raise RuntimeError(f"expected '{expected}' in '{words}'")


if __name__ == "__main__":
    main()
