"""Compares layouts with Megatron-Core's own, rank by rank.

`check` compiles the recorded configurations of megatron-recorded/ and compares
with what Megatron-Core said when they were recorded; then, where megatron-core
is installed, random configurations with what it says now. `record` writes new
recordings. See docs/Megatron.md.
"""

import argparse
import importlib.util
import json
import math
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from megatron_cases import engine_names, engine_order, random_case, request_of
from plan_tools import Tools, print_closing_line

RECORDED = Path(__file__).parent / "megatron-recorded"
SHOWN_PROBLEMS = 5


def ask_megatron(case):
    """{"tensors": [(name, shape)], "ranks": [[(name, region, range)]]}; all
    names are the local spec's."""
    import megatron_truth

    tensors = megatron_truth.whole_model(case)
    engine = case["registration"] == "config"
    order = engine_order(case, tensors) if engine else None
    ranks = [
        megatron_truth.rank_layout(case, rank, order)
        for rank in range(case["sizes"]["world"])
    ]
    return {"tensors": tensors, "ranks": ranks}


# Recordings: tensors and regions by number, a range behind them.


def pack(case, truth):
    numbers = {name: n for n, (name, _) in enumerate(truth["tensors"])}
    regions = {}

    def packed(row):
        name, region, held = row
        text = json.dumps(region)
        number = regions.setdefault(text, len(regions))
        return [numbers[name], number, *(held or ())]

    ranks = [[packed(row) for row in rows] for rows in truth["ranks"]]
    return {
        "case": case,
        "tensors": truth["tensors"],
        "regions": [json.loads(text) for text in regions],
        "ranks": ranks,
    }


def unpack(recording):
    tensors = [(name, shape) for name, shape in recording["tensors"]]
    ranks = [
        [
            (tensors[n][0], recording["regions"][region], tuple(held) or None)
            for n, region, *held in rows
        ]
        for rows in recording["ranks"]
    ]
    return recording["case"], {"tensors": tensors, "ranks": ranks}


# What the compiler says.


def tensor_names(shard):
    """Names of the tensors of a shard, one per member."""
    names = [shard["family"]]
    for numbers in shard["numbers"]:
        names = [
            name.replace("{}", str(number), 1)
            for name in names
            for number in numbers
        ]
    return names


def joined(intervals):
    """Intervals in local order, neighbours joined."""
    out = []
    for lo, hi in intervals:
        if out and out[-1][1] == lo:
            out[-1][1] = hi
        else:
            out.append([lo, hi])
    return out


def held_by(tools, plan, device):
    """{(tensor, state): [(region, range or None)]} of a source rank."""
    held = {}
    program = tools.json("dt-plan", "dump", plan, "--rank", device, "--json")
    for shard in program["source"]:
        region = [joined(d) for d in shard["dims"][len(shard["numbers"]) :]]
        flat = tuple(shard["range"]) if "range" in shard else None
        for name in tensor_names(shard):
            for state in shard["states"]:
                held.setdefault((name, state), []).append((region, flat))
    return held


# The comparison.


def expected_of(rows, names):
    """What `held_by` has to give. A range of all elements is a whole tensor."""
    held = {}
    for name, region, owned in rows:
        held[names[name], "param"] = [(region, None)]
        if owned:
            size = math.prod(sum(hi - lo for lo, hi in dim) for dim in region)
            flat = None if owned == (0, size) else owned
            held[names[name], "master"] = [(region, flat)]
    return held


def compare_rank(rank, expected, found):
    return [
        f"rank {rank} {tensor} {state}: megatron-core has "
        f"{expected.get((tensor, state))}, found {found.get((tensor, state))}"
        for tensor, state in sorted(expected.keys() | found.keys())
        if expected.get((tensor, state)) != found.get((tensor, state))
    ]


def compare(tools, case, truth, folder):
    """(problems, figures) of one case."""
    request, plan = folder / "request.json", folder / "out.dtplan"
    request.write_text(json.dumps(request_of(case, truth["tensors"])))
    tools.compile(request, plan)
    names = {name: name for name, _ in truth["tensors"]}
    if case["registration"] == "config":
        names = engine_names(case, truth["tensors"])
    problems, figures = [], Counter(ranks=len(truth["ranks"]))
    for rank, rows in enumerate(truth["ranks"]):
        expected, found = expected_of(rows, names), held_by(tools, plan, rank)
        figures["regions"] += len(rows)
        figures["ranges"] += sum(held is not None for _, _, held in rows)
        problems += compare_rank(rank, expected, found)
    return problems, figures


def read_recording(name):
    return unpack(json.loads((RECORDED / name).read_text()))


def ask_for(seed):
    case = random_case(seed)
    return case, ask_megatron(case)


def run_case(read, binaries, name):
    """(name, problems, figures) of the case that `read(name)` gives."""
    try:
        case, truth = read(name)
        with tempfile.TemporaryDirectory() as folder:
            found = compare(Tools(binaries), case, truth, Path(folder))
        return name, *found
    except Exception:  # noqa: BLE001 - whatever went wrong is its result
        return name, [traceback.format_exc(limit=-3)], Counter()


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.figures = Counter()

    def add(self, name, problems, figures):
        self.passed += not problems
        self.failed += bool(problems)
        self.figures += figures
        if problems:
            print(f"{name} failed, {len(problems)} problems:")
            print("\n".join(problems[:SHOWN_PROBLEMS]))

    def close(self):
        print(", ".join(f"{n} {what}" for what, n in self.figures.items()))
        return print_closing_line(self.passed, self.failed, self.skipped)


# Commands.


def seeds_of(arguments):
    numbers = range(arguments.first, arguments.first + arguments.count)
    return [f"{arguments.seed}/{number}" for number in numbers]


def check(arguments, has_megatron):
    totals = Totals()
    recorded = sorted(path.name for path in RECORDED.glob("*.json"))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        run = partial(run_case, read_recording, arguments.bin)
        for result in pool.map(run, recorded):
            totals.add(*result)
        print(f"{len(recorded)} recordings replayed")
        if has_megatron:
            print(f"asking megatron-core, seed {arguments.seed}")
            run = partial(run_case, ask_for, arguments.bin)
            for result in pool.map(run, seeds_of(arguments)):
                totals.add(*result)
        else:
            print("skipped asking megatron-core: it is not installed")
            totals.skipped += 1
    return totals.close()


def record(arguments):
    RECORDED.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds_of(arguments)):
        case, truth = ask_for(seed)
        text = json.dumps(pack(case, truth), separators=(",", ":"))
        (RECORDED / f"{number:03}.json").write_text(text + "\n")
    return 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("check", "record"))
    parser.add_argument("--bin", help="folder of dt-opt and dt-plan")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default=str(time.time_ns()))
    return parser.parse_args()


def can_ask_megatron():
    try:
        return importlib.util.find_spec("megatron.core") is not None
    except ModuleNotFoundError:
        return False


def main():
    arguments = parse_arguments()
    has_megatron = can_ask_megatron()
    if arguments.command == "check":
        return check(arguments, has_megatron)
    if not has_megatron:
        print("error: megatron-core is not installed", file=sys.stderr)
        return 1
    return record(arguments)


if __name__ == "__main__":
    sys.exit(main())
