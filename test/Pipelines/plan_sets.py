"""Compiles sets of plans, and each of their plans alone: the bytes are equal.

What each transition of a set is, is worked out here again, from the request:
docs/Request.md says how.
"""

import argparse
import filecmp
import json
import sys
import tempfile
from pathlib import Path

from plan_tools import Tools, print_closing_line

SETS = Path(__file__).parents[2] / "examples" / "requests" / "sets"


def losses(source, node_size, unit):
    """{name: devices that are left}."""
    devices = source.get("devices", list(range(source["world"])))
    size = node_size if unit == "node" else 1
    return {
        f"lost-{unit}-{place}": [d for d in devices if d // size != place]
        for place in sorted({device // size for device in devices})
    }


def layout_for(source, family, left):
    """The layout that a loss leaves on these devices."""
    layouts = family.get("layout", [])
    layouts = layouts if isinstance(layouts, list) else [layouts]
    if layouts:
        fitting = [one for one in layouts if one["world"] <= len(left)]
        chosen = dict(max(fitting, key=lambda one: one["world"]))
    else:
        replica = source["world"] // source.get("dp", 1)
        replicas = len(left) // replica
        chosen = {**source, "dp": replicas, "world": replicas * replica}
    return {**chosen, "devices": left[: chosen["world"]]}


def transitions(request):
    """{name: (source, destination)}, as ordinary requests have them."""

    def plain(layout):
        return {key: layout[key] for key in layout if key != "name"}

    found = {}
    for key in ("swaps", "steps"):
        layouts = request.get(key, [])
        for i, old in enumerate(layouts):
            for k, new in enumerate(layouts):
                if (i != k) if key == "swaps" else (i + 1 == k):
                    name = f"{old['name']}-to-{new['name']}"
                    found[name] = plain(old), plain(new)
    wanted = request.get("destination", [])
    for i, one in enumerate(wanted if isinstance(wanted, list) else [wanted]):
        source = request["source"]
        if "each_lost" not in one:
            name = one.get("name", f"destination-{i}")
            found[name] = source, plain(one)
            continue
        size = request["cluster"]["devices_per_node"]
        for name, left in losses(source, size, one["each_lost"]).items():
            found[name] = source, layout_for(source, one, left)
    return found


def alone(request, sides):
    """The request of one transition."""
    out = {k: v for k, v in request.items() if k not in ("swaps", "steps")}
    return {**out, "source": sides[0], "destination": sides[1]}


def check_set(tools, request, folder):
    """What is wrong with the set of a request, a dict."""
    path, plans = folder / "set.json", folder / "set"
    path.write_text(json.dumps(request))
    tools.output("dt-opt", path, "-o", plans)
    tools.output(
        "dt-opt", path, "-o", folder / "one", "--mlir-disable-threading"
    )
    index = json.loads((plans / "index.json").read_text())
    expected = transitions(request)
    problems = []
    if [plan["name"] for plan in index["plans"]] != list(expected):
        problems.append(f"the index names {index['plans']}")
    for plan in index["plans"]:
        single = folder / "single.json"
        single.write_text(json.dumps(alone(request, expected[plan["name"]])))
        tools.output("dt-opt", single, "-o", folder / "single.dtplan")
        if not filecmp.cmp(
            folder / "single.dtplan", plans / plan["file"], shallow=False
        ):
            problems.append(f"{plan['name']} has other bytes alone")
    names = ["index.json", *(plan["file"] for plan in index["plans"])]
    if sorted(one.name for one in plans.iterdir()) != sorted(names):
        problems.append("the folder has other files than its index")
    _, wrong, missing = filecmp.cmpfiles(
        plans, folder / "one", names, shallow=False
    )
    if wrong or missing:
        problems.append(f"one thread writes other bytes: {wrong + missing}")
    return problems


def requests():
    """{what it shows: request}."""
    found = {}
    for path in sorted(SETS.glob("*.json")):
        request = json.loads(path.read_text())
        request["model"] = str((path.parent / request["model"]).resolve())
        found[path.stem] = request
    base = dict(found["llama-tiny-8-each-node-lost"])
    base["source"] = {"world": 8, "tp": 2, "dp": 4}
    found["layouts by count"] = {
        **base,
        "source": {**base["source"], "devices": [9, 8, 0, 1, 2, 3, 4, 5]},
        "destination": {
            "each_lost": "device",
            "layout": [
                {"world": 6, "tp": 2, "dp": 3},
                {"world": 4, "tp": 4},
            ],
            "spare": "last",
        },
    }
    found["replicas, some spare"] = {
        **base,
        "destination": {"each_lost": "device", "spare": "last"},
    }
    steps = {k: base[k] for k in base if k not in ("source", "destination")}
    found["steps"] = {
        **steps,
        "steps": [
            {"name": "8", "world": 8, "tp": 2, "dp": 4},
            {"name": "6", "world": 6, "tp": 2, "dp": 3},
            {"name": "4", "world": 4, "tp": 2, "dp": 2},
        ],
    }
    found["without names"] = {
        **base,
        "destination": [{"world": 4, "tp": 4}, {"world": 2, "tp": 2}],
    }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    options = parser.parse_args()
    failed = 0
    cases = requests()
    for name, request in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            problems = check_set(Tools(options.bin), request, Path(folder))
        for problem in problems:
            print(f"{name}: {problem}")
        failed += bool(problems)
    return print_closing_line(len(cases) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
