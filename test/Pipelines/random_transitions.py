"""Compiles, verifies and runs random requests, and compares with the oracle.

Every plan also runs on the adversarial machine (test/Unit/Runtime), many times.

Each case is a request from `generate.py`. A failing case keeps its files and
prints its seed; `--seed S --count 1 --first N` runs it again alone.
"""

import json
import math
import random
import re
import sys
import zlib
from collections import Counter

from generate import random_request
from oracle import Transition, problems_of
from plan_tools import ToolError, print_closing_line, refusal_problems
from random_cases import parse_arguments, run_cases
from seconds import copies_of, messages_of, seconds_of, with_other_time

# Every so many cases are compiled twice: the same request, the same bytes.
DETERMINISM_EVERY = 10
# Times that each plan runs, with its bytes, on the adversarial machine.
ADVERSARIAL_RUNS = 30
# A run of this many cases has every feature that `features_of` names.
REPRESENTATIVE_COUNT = 100
FEATURES = [
    "multicasts",
    "multicasts in rollback mode",
    "multicasts in flat mode",
    "multicasts over unequal links",
    "multicasts in parts",
    "bytes in place",
    "relays",
    "library collectives",
]


def write_case(case, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in case.files.items():
        (folder / name).write_text(json.dumps(content, indent=1))
    path = folder / "request.json"
    path.write_text(json.dumps(case.request, indent=1))
    return path


def compile_within_limit(tools, case, request, plan):
    """Compiles; where flat mode refuses a limit, with the one that it names."""
    try:
        tools.compile(request, plan)
    except ToolError as error:
        works = re.search(r"smallest limit that works is (\d+)", str(error))
        if not works:
            raise
        case.request["memory"]["staging"] = works.group(1) + "B"
        request.write_text(json.dumps(case.request, indent=1))
        tools.compile(request, plan)


def features_of(request, inspect, deliveries):
    """Which of FEATURES a case has."""
    kept = ["bytes in place"] if "in_place" in inspect["bytes"] else []
    kept += ["relays"] if "relayed" in inspect["bytes"] else []
    if "library_collectives" in inspect["counts"]:
        kept.append("library collectives")
    return kept + multicast_features(request, inspect, deliveries)


def multicast_features(request, inspect, deliveries):
    waves = {}  # of each pair
    for row in deliveries:
        waves.setdefault((row["src"], row["dst"]), set()).add(row["wave"])
    is_cut = any(len(own) > 1 for own in waves.values())
    if not inspect["counts"]["collectives"]:
        return []
    return [
        "multicasts",
        f"multicasts in {inspect['memory']['mode']} mode",
        *(["multicasts in parts"] if is_cut else []),
        *(
            ["multicasts over unequal links"]
            if "links" in request["cluster"]
            else []
        ),
    ]


def check_proof(proof):
    """Every class is small enough for the solver's budget of steps."""
    if re.fullmatch(r"z3 [\d.]+", proof.get("solver", "z3 0")):
        return []
    return [f"the plan is not all proved: {proof['solver']}"]


def check_seconds(tools, case, plan, facts):
    """The time that a plan states is the one that its programs take: as worked
    out here, and as drawn. A file that states another one is refused."""
    time = facts["time"]
    page, liar = plan.with_name("drawing.html"), plan.with_name("liar.dtplan")
    tools.output("dt-plan", "draw", plan, "-o", page)
    text = page.read_text()
    at = text.index("const plan = ") + len("const plan = ")
    drawn, _ = json.JSONDecoder().raw_decode(text, at)
    dump = tools.output("dt-plan", "dump", "--all-ranks", "--json", plan)
    seconds = seconds_of(
        messages_of(dump),
        case.request["cluster"],
        copies_of(dump) if facts["memory"]["mode"] == "flat" else (),
    )
    problems = [
        f"the plan states {time['predicted_s']} s, {what} are {seconds} s"
        for what, seconds in [
            ("its programs", seconds),
            ("what is drawn", drawn["seconds"]),
        ]
        if not math.isclose(seconds, time["predicted_s"], rel_tol=1e-9)
    ]
    rng = random.Random(dump)
    for stated in (time["predicted_s"], time["lower_bound_s"]):
        factor = rng.choice([0, 0.5, 1 - 1e-6, 1 + 1e-6, 2])
        liar.write_bytes(with_other_time(plan.read_bytes(), stated, factor))
        done = tools.start("dt-plan", "verify", liar)
        problems += [
            f"stating {factor} of {stated} s: {problem}"
            for problem in refusal_problems(done, [": stated "])
        ]
    return problems


def check_case(tools, case, folder, twice):
    """(problems, figures) of one case, whose files go to `folder`."""
    request, plan = write_case(case, folder), folder / "out.dtplan"
    compile_within_limit(tools, case, request, plan)
    tools.output("dt-plan", "verify", plan)
    inspect = tools.json("dt-plan", "inspect", plan, "--json")
    deliveries = tools.deliveries(plan)
    run = tools.json("dt-run", plan, "--check", "--json")
    adversaries = zlib.crc32(request.read_bytes())
    tools.output("dt-adversary", plan, ADVERSARIAL_RUNS, adversaries)
    transition = Transition(case.request, case.model)
    problems = problems_of(transition, inspect, deliveries, run)
    problems += check_proof(inspect["proof"])
    if inspect["counts"]["waves"]:
        problems += check_seconds(tools, case, plan, inspect)
    if twice:
        again = folder / "again.dtplan"
        tools.compile(request, again)
        if again.read_bytes() != plan.read_bytes():
            problems.append(
                "two compilations of one request give different bytes"
            )
    figures = Counter(
        bytes=inspect["bytes"]["destination"],
        inter_node=inspect["bytes"]["inter_node"],
        inter_node_bound=inspect["bytes"]["inter_node_lower_bound"],
        deliveries=len(deliveries),
        adversarial_runs=ADVERSARIAL_RUNS,
        multicasts=inspect["counts"]["collectives"],
    )
    figures.update(features_of(case.request, inspect, deliveries))
    return problems, figures


def check_number(tools, seed, number, folder):
    case = random_request(f"{seed}/{number}")
    return check_case(tools, case, folder, number % DETERMINISM_EVERY == 0)


def main():
    options = parse_arguments(__doc__, 500)
    totals, failed = run_cases(options, check_number, "transitions")
    print(
        f"{totals['bytes']} bytes in {totals['deliveries']} deliveries; "
        f"between nodes {totals['inter_node']}, "
        f"bound {totals['inter_node_bound']}"
    )
    print(
        f"{totals['adversarial_runs']} runs on the adversarial machine, "
        "bytes checked"
    )
    print(f"{totals['multicasts']} multicasts; cases with")
    for feature in FEATURES:
        print(f"  {feature}: {totals[feature]}")
        if not totals[feature] and options.count >= REPRESENTATIVE_COUNT:
            print(f"no case had {feature}")
            failed += 1
    return print_closing_line(options.count - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
