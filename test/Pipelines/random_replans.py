"""Compiles random requests, changes them, and replans: dt-opt --replan.

The change is one that a cluster knows: devices that take each other's place or
are replaced, on either side, slower links, less staging, or no change at all.
What is replanned is checked as what is compiled is (random_transitions.py): by
`dt-plan verify`, against the oracle, element by element, its bytes in runs of
`dt-run --check` and of the adversarial machine. How many take more than 5 %
longer than a plan from zero, as both predict, is printed: waves are compared as
if all messages were packed, so a tiny plan may be one. A failing case keeps its
files and prints its seed; `--seed S --count 1 --first N` runs it again alone.
"""

import copy
import json
import random
import re
import sys
import zlib
from collections import Counter

from generate import random_request
from oracle import Transition, problems_of
from plan_tools import ToolError, print_closing_line
from random_cases import parse_arguments, run_cases
from random_transitions import compile_within_limit, write_case

ADVERSARIAL_RUNS = 10
# What a plan that keeps waves may take, in times of one from zero.
WORTH_KEEPING = 1.05
# A run of this many cases has plans that keep something for every change.
REPRESENTATIVE_COUNT = 200


def devices_of(layout):
    return layout.get("devices", list(range(layout["world"])))


def replace_device(rng, request):
    """One device of a side has failed: another one has its place."""
    layout = request[rng.choice(["source", "destination"])]
    devices = list(devices_of(layout))
    used = {*devices_of(request["source"]), *devices_of(request["destination"])}
    devices[rng.randrange(len(devices))] = rng.choice(
        [d for d in range(max(used) + 9) if d not in devices]
    )
    layout["devices"] = devices


def swap_devices(rng, request):
    layout = request[rng.choice(["source", "destination"])]
    devices = list(devices_of(layout))
    a, b = rng.randrange(len(devices)), rng.randrange(len(devices))
    devices[a], devices[b] = devices[b], devices[a]
    layout["devices"] = devices


def replace_node(rng, request):
    """All devices of a node of the destination have moved to a new one."""
    size = request["cluster"]["devices_per_node"]
    devices = list(devices_of(request["destination"]))
    used = {*devices_of(request["source"]), *devices}
    node = rng.choice(devices) // size
    new = max(used) // size + 1
    request["destination"]["devices"] = [
        new * size + d % size if d // size == node else d for d in devices
    ]


def slower_links(rng, request):
    key = rng.choice(["inter_node_GBps", "intra_node_GBps"])
    request["cluster"][key] = rng.choice([1, 5, 12.5])


def other_nodes(rng, request):
    """The same devices stand in other nodes."""
    cluster = request["cluster"]
    if cluster.get("nics_per_node") or "links" in cluster:
        return
    cluster["devices_per_node"] = rng.choice([1, 2, 4, 8])


def less_staging(rng, request):
    memory = request.setdefault("memory", {})
    match = re.fullmatch(r"(\d+)(\w+)", str(memory.get("staging", "1GiB")))
    memory["staging"] = f"{max(1, int(match[1]) // 2)}{match[2]}"


def back_again(rng, request):
    """The other way round: mostly nothing of it can be kept."""
    request["source"], request["destination"] = (
        request["destination"],
        request["source"],
    )


def no_change(rng, request):
    pass


CHANGES = [
    replace_device,
    swap_devices,
    replace_node,
    slower_links,
    other_nodes,
    less_staging,
    back_again,
    no_change,
]
# Those after which some plans keep something.
KEEPING = {change.__name__ for change in CHANGES if change is not back_again}


def replan(tools, old, request, plan):
    """What the tool says on stderr."""
    done = tools.start("dt-opt", "--replan", old, request, "-o", plan)
    if done.returncode:
        raise ToolError(f"replan of {request}: {done.stderr.strip()}")
    return done.stderr


def replan_held(tools, old, before, request, plans):
    """Has one process that holds the old plan make the same plan again and
    again, at last as one who expects what is like the old request."""
    lines = request.with_name("lines.jsonl")
    asked = [{"request": str(request), "output": str(one)} for one in plans]
    asked.insert(-1, {"expect": str(before)})
    lines.write_text("".join(f"{json.dumps(one)}\n" for one in asked))
    tools.output("dt-opt", "--replan", old, "--requests", lines)


def check_words(words, inspect):
    """What the tool says is what the plan states; (problems, whether kept)."""
    lines = words.splitlines()
    problems = []
    kept = re.match(
        r"replanned: of the bytes on the wire ([\d.]+) % go from where to "
        r"where they went, ([\d.]+) % in the same wave$",
        lines[0],
    )
    if not kept and not lines[0].startswith("replanned from zero: "):
        problems.append(f"the tool says {lines[0]!r}")
    for key in ("wire", "inter_node"):
        text = (
            f"{inspect['bytes'][key]} bytes (at least "
            f"{inspect['bytes'][key + '_lower_bound']})"
        )
        if text not in words:
            problems.append(f"the tool does not say {text}: {words}")
    return problems, bool(kept and float(kept[2]) > 0)


def check_replanned(tools, case, request, plan, folder):
    """(problems, facts, whether slower than from zero) of one plan."""
    tools.output("dt-plan", "verify", plan)
    inspect = tools.json("dt-plan", "inspect", plan, "--json")
    run = tools.json("dt-run", plan, "--check", "--json")
    tools.output(
        "dt-adversary", plan, ADVERSARIAL_RUNS, zlib.crc32(request.read_bytes())
    )
    transition = Transition(case.request, case.model)
    problems = problems_of(transition, inspect, tools.deliveries(plan), run)
    for key in ("wire", "inter_node"):
        if (
            inspect["bytes"][key] != inspect["bytes"][key + "_lower_bound"]
            and "links" not in case.request["cluster"]
        ):
            problems.append(f"{key} bytes are above the bound")
    zero = folder / "zero.dtplan"
    tools.compile(request, zero)
    best = tools.json("dt-plan", "inspect", zero, "--json")["time"]
    took = inspect["time"]["predicted_s"]
    is_slower = took > WORTH_KEEPING * best["predicted_s"] * (1 + 1e-9)
    return problems, inspect, is_slower


def check_case(tools, seed, number, folder):
    """(problems, figures): a plan, a change, and the plan after it."""
    rng = random.Random(f"{seed}/{number}/change")
    case = random_request(f"{seed}/{number}")
    request, old = write_case(case, folder), folder / "old.dtplan"
    compile_within_limit(tools, case, request, old)
    change = rng.choice(CHANGES)
    changed = copy.deepcopy(case)
    change(rng, changed.request)
    request.with_name("old.json").write_text(json.dumps(case.request, indent=1))
    write_case(changed, folder)
    zero = tools.start("dt-opt", request, "-o", folder / "zero.dtplan")
    if zero.returncode:  # such as a limit too small, or a state that is gone
        again = tools.start("dt-opt", "--replan", old, request, "-o", "-")
        problems = []
        if again.stderr != zero.stderr:
            problems = [f"replanning says {again.stderr!r}: {zero.stderr!r}"]
        return problems, Counter(refused=1)
    plan = folder / "new.dtplan"
    words = replan(tools, old, request, plan)
    problems, inspect, is_slower = check_replanned(
        tools, changed, request, plan, folder
    )
    more, kept = check_words(words, inspect)
    copies = re.search(r"replanned: (\d+) of \d+ programs are copies", words)
    twice = [folder / "again.dtplan", folder / "third.dtplan"]
    before = request.with_name("old.json")
    replan_held(tools, old, before, request, twice)
    if any(one.read_bytes() != plan.read_bytes() for one in twice):
        more.append("replanning from a held plan gives different bytes")
    figures = {
        change.__name__: kept,
        "replanned": 1,
        "slower": is_slower,
        "copies": bool(copies) and change is not no_change,
    }
    return problems + more, Counter(figures)


def main():
    options = parse_arguments(__doc__, 200)
    totals, failed = run_cases(options, check_case, "replans")
    print(
        f"{totals['replanned']} replanned, {totals['slower']} of them more "
        f"than 5 % slower than from zero; {totals['refused']} refused as from "
        f"zero; {totals['copies']} with copied programs after a change; plans "
        "that kept waves after"
    )
    if not totals["copies"] and options.count >= REPRESENTATIVE_COUNT:
        print("no plan had copied programs")
        failed += 1
    for change in sorted(KEEPING):
        print(f"  {change}: {totals[change]}")
        if not totals[change] and options.count >= REPRESENTATIVE_COUNT:
            print(f"no plan kept a wave after {change}")
            failed += 1
    return print_closing_line(options.count - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
