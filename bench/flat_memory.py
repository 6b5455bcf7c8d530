#!/usr/bin/env python3
"""Flat mode on the benchmark set: what devices hold, and what it costs.

    bench/flat_memory.py [--bin build/bin] [--case NAME...] [--cap 64MiB...]
                         [--granularity page tensor] [--repeat N]
                         [--scaled [--layers N]] [--json FILE]

Compiles every case of bench/cases.py at full size in both memory modes for each
staging limit, and has `dt-plan verify` check the flat plan. One row per case
and limit: the most bytes that a device holds above the larger of its source and
its destination, the predicted time over that of rollback under the same limit
and over the lower bound, counts, sizes, and seconds of CPU time to compile (and
in parts of rollback's) and to verify. With --repeat both modes are compiled so
many times, in turns, and the seconds are medians. Exits with 1 when a plan is
refused or a device holds more than the limit.

By tensor, a limit that is too small for the largest tensors is replaced by the
one that the refusal names; the column "limit" has it.

With --scaled every model has matrices of about 1/4096 of their elements and the
limit is that much smaller, so that `dt-run --check` can run the flat plan with
every device in this process. What it counts while it runs is compared with the
limit, and every byte with what it has to be; layers, experts, heads and worlds
are those of the case. The limits are named as at full size. Plans of the
largest models have millions of messages, and all ranks in one process do not
fit this machine's memory: --layers gives models that have more than N layers N
of them, in equal pipeline stages.
"""

import argparse
import dataclasses
import itertools
import json
import math
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import CASES, MODELS
from plan_quality import ROOT, exit_status, ratio, table, write_json

CAPS = ["64MiB", "256MiB", "1GiB"]
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--case", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--cap", nargs="+", default=CAPS, metavar="SIZE")
    parser.add_argument(
        "--granularity",
        nargs="+",
        default=["page"],
        choices=["page", "tensor"],
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--scaled", action="store_true")
    parser.add_argument("--layers", type=int, metavar="N")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error(f"--repeat {options.repeat}, expected at least 1")
    return options


def bytes_of(size):
    number, unit = re.fullmatch(r"(\d+)(\w+)", size).groups()
    return int(number) * UNITS[unit]


def timed(*command):
    """(result, seconds of CPU time) of a tool."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime
    return done, seconds + after.ru_stime - before.ru_stime


# Extents of matrices, in the words of Hugging Face configs, and by how much
# --scaled divides them; 0: by what suits the hidden size.
EXTENTS = {
    "hidden_size": 0,
    "intermediate_size": 0,
    "moe_intermediate_size": 0,
    "vocab_size": 0,
    "n_embd": 0,
    "n_inner": 0,
    "n_positions": 0,
    "head_dim": 16,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
}
MOST_SCALE = 64
EVEN = 32  # scaled extents are multiples of this, which worlds divide


def scale_of(model):
    """The largest divisor of the hidden size that leaves whole heads."""
    hidden = model.get("hidden_size") or model["n_embd"]
    heads = model.get("num_attention_heads") or model["n_head"]
    return max(
        scale
        for scale in range(1, MOST_SCALE + 1)
        if hidden % scale == 0 and hidden // scale % heads == 0
    )


def with_layers(case, model, most):
    """(the case, its model) with at most so many layers."""
    key = "num_hidden_layers" if "num_hidden_layers" in model else "n_layer"
    if most is None or model[key] <= most:
        return case, model
    sides = {}
    for side in ("source", "destination"):
        sides[side] = dict(getattr(case, side))
        if "pp_layers" in sides[side]:
            each, more = divmod(most, sides[side]["pp"])
            sides[side]["pp_layers"] = [
                each + (stage < more) for stage in range(sides[side]["pp"])
            ]
    return dataclasses.replace(case, **sides), {**model, key: most}


def scaled(case, layers):
    """(case with a small model, what divides a limit)."""
    model = case.model
    if not isinstance(model, dict):
        model = json.loads((MODELS / f"{model}.json").read_text())
    case, model = with_layers(case, model, layers)
    scale = scale_of(model)
    small = dict(model)
    for key, by in EXTENTS.items():
        if not isinstance(model.get(key), int):
            continue
        extent = model[key] / (by or scale)
        if not by and key not in ("hidden_size", "n_embd"):
            extent = math.ceil(extent / EVEN) * EVEN
        small[key] = int(extent)
    return dataclasses.replace(case, model=small), scale * scale


def compile_case(case, staging, mode, options, folder, granularity="page"):
    """(plan, facts, seconds); facts are the error where it is refused."""
    memory = {"staging": staging, "mode": mode}
    if granularity == "tensor":
        memory["granularity"] = granularity
    request = case.write(folder, **memory)
    plan = folder / f"{case.name}-{mode}.dtplan"
    done, seconds = timed(options.bin / "dt-opt", request, "-o", plan)
    works = re.search(r"smallest limit that works is (\d+)", done.stderr)
    if works and granularity == "tensor" and staging != int(works.group(1)):
        limit = int(works.group(1))
        return compile_case(case, limit, mode, options, folder, granularity)
    if done.returncode:
        return plan, done.stderr.strip(), seconds
    facts, _ = timed(options.bin / "dt-plan", "inspect", plan, "--json")
    return plan, json.loads(facts.stdout), seconds


def measure(case, cap, options, granularity):
    with tempfile.TemporaryDirectory() as folder:
        compare = run_scaled if options.scaled else compare_modes
        return compare(Path(folder), case, cap, options, granularity)


def run_scaled(folder, case, cap, options, granularity):
    """What dt-run counts, and whether the bytes are right."""
    small, divisor = scaled(case, options.layers)
    limit = bytes_of(cap) // divisor
    plan, facts, seconds = compile_case(
        small, limit, "flat", options, folder, granularity
    )
    row = {"case": case.name, "granularity": granularity, "cap": cap}
    row["compile_s"] = seconds
    if isinstance(facts, str):
        return {**row, "problem": facts}
    limit = row["limit"] = facts["memory"]["staging_limit"]
    done, row["run_s"] = timed(options.bin / "dt-run", "--check", plan)
    if done.returncode:
        return {**row, "problem": (done.stdout + done.stderr).strip()}
    held = int(re.search(r"device peak (\d+) bytes", done.stdout).group(1))
    memory = facts["memory"]
    row["larger"] = max(memory["source_max"], memory["destination_max"])
    row["held"] = held
    row["planned"] = memory["device_peak"]
    row |= local_bytes(facts)
    row["checked"] = int(re.search(r"checked (\d+)", done.stdout).group(1))
    if held > row["larger"] + limit:
        row["problem"] = f"held {held} bytes of {row['larger']} and {limit}"
    return row


def local_bytes(facts):
    """What devices copy, and what stays where it is."""
    found = facts["bytes"]
    return {"copied": found["local"], "in_place": found.get("in_place", 0)}


def compare_modes(folder, case, cap, options, granularity):
    all_seconds, all_fast_s = [], []
    for _ in range(options.repeat):
        _, fast, fast_s = compile_case(case, cap, "rollback", options, folder)
        plan, facts, seconds = compile_case(
            case, cap, "flat", options, folder, granularity
        )
        all_seconds.append(seconds)
        all_fast_s.append(fast_s)
    seconds = statistics.median(all_seconds)
    fast_s = statistics.median(all_fast_s)
    row = {"case": case.name, "granularity": granularity, "cap": cap}
    row |= {"compile_s": seconds, "rollback_compile_s": fast_s}
    for problem in (fast, facts):
        if isinstance(problem, str):
            return {**row, "problem": problem}
    done, verify_s = timed(options.bin / "dt-plan", "verify", plan)
    if done.returncode:
        return {**row, "problem": done.stderr.strip()}
    above = int(re.search(r"at most (\d+) bytes above", done.stderr).group(1))
    times = facts["time"]
    row |= {
        "above": above,
        "over_rollback": ratio(
            times["predicted_s"], fast["time"]["predicted_s"]
        ),
        "over_bound": ratio(times["predicted_s"], times["lower_bound_s"]),
        "wire": ratio(
            facts["bytes"]["wire"], facts["bytes"]["wire_lower_bound"]
        ),
        "device_peak": facts["memory"]["device_peak"],
        "rollback_peak": fast["memory"]["device_peak"],
        "limit": facts["memory"]["staging_limit"],
        "waves": facts["counts"]["waves"],
        "rollback_waves": fast["counts"]["waves"],
        "messages": facts["counts"]["messages"],
        "plan_bytes": plan.stat().st_size,
        "verify_s": verify_s,
        **local_bytes(facts),
    }
    if above > row["limit"]:
        row["problem"] = f"holds {above} bytes above, more than {row['limit']}"
    return row


def print_scaled(rows):
    heads = ["case", "granularity", "cap", "limit KiB", "larger side KiB"]
    heads += ["held KiB"]
    heads += ["over limit", "copied MB", "in place MB", "checked MB"]
    heads += ["compile s", "run s"]
    table(
        heads,
        [
            [
                row["case"],
                row["granularity"],
                row["cap"],
                f"{row['limit'] / 2**10:.1f}",
                f"{row['larger'] / 2**10:.1f}",
                f"{row['held'] / 2**10:.1f}",
                f"{(row['held'] - row['larger']) / row['limit']:.2f}",
                f"{row['copied'] / 1e6:.1f}",
                f"{row['in_place'] / 1e6:.1f}",
                f"{row['checked'] / 1e6:.1f}",
                f"{row['compile_s']:.1f}",
                f"{row['run_s']:.1f}",
            ]
            for row in rows
            if "held" in row
        ],
    )


def print_rows(rows):
    heads = ["case", "granularity", "cap", "limit MiB", "above MiB"]
    heads += ["device GiB", "rollback GiB", "time/rollback", "time/bound"]
    heads += ["copied GB", "in place GB"]
    heads += ["waves", "rollback waves", "messages", "plan MB"]
    heads += ["compile s", "compile/rollback", "verify s"]
    table(
        heads,
        [
            [
                row["case"],
                row["granularity"],
                row["cap"],
                f"{row['limit'] / 2**20:.1f}",
                f"{row['above'] / 2**20:.1f}",
                f"{row['device_peak'] / 2**30:.1f}",
                f"{row['rollback_peak'] / 2**30:.1f}",
                f"{row['over_rollback']:.3f}",
                f"{row['over_bound']:.3f}",
                f"{row['copied'] / 1e9:.1f}",
                f"{row['in_place'] / 1e9:.1f}",
                str(row["waves"]),
                str(row["rollback_waves"]),
                str(row["messages"]),
                f"{row['plan_bytes'] / 1e6:.0f}",
                f"{row['compile_s']:.1f}",
                f"{row['compile_s'] / row['rollback_compile_s']:.1f}",
                f"{row['verify_s']:.1f}",
            ]
            for row in rows
            if "above" in row
        ],
    )


def main():
    options = parse_arguments()
    rows = []
    for case in CASES:
        if options.case and not any(n in case.name for n in options.case):
            continue
        for cap, granularity in itertools.product(
            options.cap, options.granularity
        ):
            rows.append(measure(case, cap, options, granularity))
            print(rows[-1], file=sys.stderr, flush=True)
    (print_scaled if options.scaled else print_rows)(rows)
    if options.json:
        write_json(options.json, rows)
    return exit_status(
        [
            f"{row['case']}, {row['granularity']}, "
            f"{row['cap']}: {row['problem']}"
            for row in rows
            if "problem" in row
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
