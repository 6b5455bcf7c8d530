"""How what a compilation takes grows with the world.

python bench/scale.py [--models NAME ...] [--modes rollback flat]
       [--worlds 64 ... 8192] [--runs 1] [--memory GIB] [--json FILE]

Full state of llama3-70b (TP 8 x PP 4 to TP 8 x PP 2), of qwen3-235b-a22b (EP 16
x PP 4 to EP 32 x PP 2) and of deepseek-v3 (EP 16 x PP 8 to EP 32 x PP 4), all
with ZeRO-1, data parallelism taking the rest of the world.

Prints a Markdown table for each model and mode. CPU: seconds of `dt-opt REQUEST
-o PLAN`, and how much more per doubling of the world; clock: the same by the
clock; proof: of these, the solver and the certificate; peak: of memory; routes
and transport: text of the IR at these levels; plan: the file; verify: seconds
of `dt-plan verify PLAN`. Medians of the runs. A world stops a table where its
memory, by the growth of those before, would be more than --memory: the table
says so. While it runs, a line on stderr for each world.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import CLUSTER, DS_PP8, TRAINING, sizes
from proof_cost import ROOT, compile_once, growth, spread, verify_seconds

WORLDS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
GIB = 2**30


def sides(world, source, destination):
    """Layouts of both sides: what the other sizes leave is data parallel."""
    return [
        sizes(world, **own, dp=world // (own.get("tp", 1) * own["pp"]), zero=1)
        for own in (source, destination)
    ]


def llama(world):
    return sides(world, {"tp": 8, "pp": 4}, {"tp": 8, "pp": 2})


def qwen(world):
    uneven = {"pp": 4, "pp_layers": [24, 23, 23, 24]}
    return sides(world, {"ep": 16, **uneven}, {"ep": 32, "pp": 2})


def deepseek(world):
    return sides(
        world,
        {"ep": 16, "pp": 8, "pp_layers": DS_PP8},
        {"ep": 32, "pp": 4, "pp_layers": [15, 15, 15, 16]},
    )


#: Layouts of a world, and the least that has them.
MODELS = {
    "llama3-70b": (llama, 32),
    "qwen3-235b-a22b": (qwen, 64),
    "deepseek-v3": (deepseek, 128),
}


def request(model, mode, world):
    source, destination = MODELS[model][0](world)
    return {
        "model": str(ROOT / "examples" / "models" / f"{model}.json"),
        "state": TRAINING,
        "source": source,
        "destination": destination,
        "cluster": CLUSTER,
        "memory": {"staging": "1GiB", "mode": mode},
    }


def text_bytes(binaries, path, *passes):
    """Of the IR behind these passes."""
    command = [binaries / "dt-opt", path, *passes, "--emit=mlir", "-o", "-"]
    count = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while block := process.stdout.read(1 << 20):
            count += len(block)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return count


def measure(binaries, path, runs):
    plan = path.with_suffix(".dtplan")
    found = [compile_once(binaries, path, plan) for _ in range(runs)]
    row = {
        "cpu_s": spread([one["cpu"] for one in found]),
        "clock_s": spread([one["total"] for one in found]),
        "proof_s": spread([one["passes"]["ProvePlan"] for one in found]),
        "peak_bytes": max(one["peak"] for one in found),
        "verify_s": spread(
            [verify_seconds(binaries, plan) for _ in range(runs)]
        ),
        "plan_bytes": plan.stat().st_size,
        "routes_bytes": text_bytes(
            binaries, path, "--dt-group-families", "--dt-route"
        ),
        "transport_bytes": text_bytes(binaries, path, "--dt-lower"),
    }
    plan.unlink()
    return row


def expected_peak(rows, world):
    """Of the next world, by the growth of the last two per doubling."""
    if not rows:
        return 0
    last, before = rows[-1], rows[max(len(rows) - 2, 0)]
    per_rank = max(
        1.0,
        (last["peak_bytes"] - before["peak_bytes"])
        / max(1, last["world"] - before["world"]),
    )
    return last["peak_bytes"] + per_rank * (world - last["world"])


def measure_worlds(options, model, mode, folder):
    """Rows of a table, and what it says of worlds that it leaves out."""
    rows = []
    for world in sorted(options.worlds):
        if world < MODELS[model][1]:
            continue
        peak = expected_peak(rows, world)
        if peak > options.memory * GIB:
            return rows, (
                f"{world:,} ranks would take some {peak / GIB:.0f} GiB."
            )
        print(f"{model}, {mode}, {world:,} ranks", file=sys.stderr, flush=True)
        path = folder / f"{model}-{mode}-{world}.json"
        path.write_text(json.dumps(request(model, mode, world)))
        row = measure(options.bin, path, options.runs)
        rows.append({"model": model, "mode": mode, "world": world, **row})
    return rows, ""


def size_text(count):
    return f"{count / 1e3:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"


def table(model, mode, rows):
    lines = [
        f"{model}, {mode}:",
        "",
        "| ranks | CPU | per doubling | clock | proof | peak | routes "
        "| transport | plan | verify |",
        "|---" * 10 + "|",
    ]
    for before, row in zip([None, *rows], rows):
        cells = [
            f"{row['world']:,}",
            f"{row['cpu_s']['median']:.2f} s",
            growth(before, row),
            *(
                f"{row[what]['median']:.2f} s"
                for what in ("clock_s", "proof_s")
            ),
            f"{row['peak_bytes'] / 2**20:,.0f} MiB",
            *(
                size_text(row[f"{what}_bytes"])
                for what in ("routes", "transport", "plan")
            ),
            f"{row['verify_s']['median']:.2f} s",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def flat_beside_rollback(rows):
    """Of each model, how many times rollback's CPU flat takes."""
    cpu = {
        (row["model"], row["world"], row["mode"]): row["cpu_s"]["median"]
        for row in rows
    }
    found = {}
    for (model, world, mode), seconds in cpu.items():
        rollback = cpu.get((model, world, "rollback"))
        if mode == "flat" and rollback:
            found.setdefault(model, []).append(seconds / rollback)
    return [
        f"{model}: flat takes {statistics.median(times):.1f} x the CPU of "
        f"rollback ({min(times):.1f} to {max(times):.1f})"
        for model, times in found.items()
    ]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin")
    parser.add_argument(
        "--models", nargs="+", choices=list(MODELS), default=list(MODELS)
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=["rollback", "flat"],
        default=["rollback", "flat"],
    )
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--runs", type=int, default=1)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    parser.add_argument(
        "--memory",
        type=float,
        default=0.75 * memory,
        metavar="GIB",
        help="that a compilation may take; three quarters of the machine's",
    )
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main():
    options = parse_arguments()
    all_rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            for mode in options.modes:
                rows, left_out = measure_worlds(
                    options, model, mode, Path(folder)
                )
                all_rows += rows
                print(f"{table(model, mode, rows)}\n{left_out}\n", flush=True)
    for line in flat_beside_rollback(all_rows):
        print(line)
    if options.json:
        options.json.write_text(json.dumps(all_rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
