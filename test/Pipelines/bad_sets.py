"""Checks that bad requests for sets of plans, and bad indexes of sets, are each
one clear error: exit code 1, one line on stderr that says what is wrong, and
nothing written.
"""

import argparse
import copy
import json
import sys
import tempfile
from pathlib import Path

from plan_tools import Tools, print_closing_line, refusal_problems

ROWS = {"tensors": [{"name": "w", "shape": [8, 8], "dtype": "f32"}]}
BASE = {
    "model": ROWS,
    "rules": [{"match": "*", "tp": 0}],
    "source": {"world": 4, "tp": 2, "dp": 2},
    "cluster": {"devices_per_node": 2},
    "memory": {"staging": "4KiB"},
}
TP2 = {"world": 2, "tp": 2}


def to(destination):
    return {**BASE, "destination": destination}


def between(**pairs):
    return {k: v for k, v in BASE.items() if k != "source"} | pairs


#: {what it shows: (request, part of the error)}
REQUESTS = {
    "no layouts": (to([]), "destination has no layouts"),
    "a number": (to([3]), "destination[0] must be an object"),
    "a layout that does not fit": (
        to([{"name": "good", **TP2}, {"name": "bad", "world": 3, "tp": 2}]),
        "plan 'bad': destination: tp 2 x cp 1",
    ),
    "the compiler's error": (
        to(
            [
                {"name": "good", **TP2},
                {
                    "name": "far",
                    "world": 2,
                    "shards": [
                        {
                            "tensor": "w",
                            "rank": 0,
                            "offset": [0, 0],
                            "size": [4, 8],
                        }
                    ],
                },
            ]
        ),
        "plan 'far': ",
    ),
    "two of a name": (
        to([{"name": "a", **TP2}, {"name": "a", **TP2}]),
        'two plans of the request have the name "a"',
    ),
    "a name that leaves the folder": (
        to([{"name": "../a", **TP2}]),
        'destination[0].name is "../a", which cannot name a plan\'s file',
    ),
    "a name that is a number": (
        to([{"name": 3, **TP2}]),
        "destination[0].name must be a string",
    ),
    "an unknown loss": (
        to({"each_lost": "rack"}),
        'destination.each_lost is "rack": expected "node" or "device"',
    ),
    "an unknown key": (
        to([TP2, {"each_lost": "node", "layuot": TP2}]),
        'unknown key "layuot" in destination[1]',
    ),
    "no whole replicas": (
        to({"each_lost": "device"}),
        "without device 0 3 devices remain, no whole number of replicas of 2",
    ),
    "no replica left": (
        {**to({"each_lost": "device"}), "source": TP2},
        "without device 0 1 devices remain, fewer than the 2 of one replica",
    ),
    "no device left": (
        {**to({"each_lost": "node"}), "source": TP2},
        "without node 0 no device remains",
    ),
    "no layout for so many": (
        to({"each_lost": "device", "layout": [TP2, {"world": 4, "tp": 4}]}),
        'without device 0 3 devices remain, but "layout" is for 2, 4; '
        '"spare": "last" would leave some idle',
    ),
    "two layouts for so many": (
        to({"each_lost": "device", "layout": [TP2, {"world": 2, "dp": 2}]}),
        "destination.layout[1] is the second layout for 2 devices",
    ),
    "devices of a loss": (
        to({"each_lost": "node", "layout": {**TP2, "devices": [0, 1]}}),
        'destination.layout has "devices": these are what each loss leaves',
    ),
    "another spare": (
        to({"each_lost": "device", "spare": "first"}),
        'destination.spare is "first": expected "last"',
    ),
    "shards without a layout": (
        {**to({"each_lost": "node"}), "source": {"world": 4, "shards": []}},
        'destination has no "layout", and the source, which is by explicit',
    ),
    "a family without a source": (
        {k: v for k, v in to([TP2]).items() if k != "source"},
        'request needs the key "source"',
    ),
    "one swap": (
        between(swaps=[{"name": "a", **TP2}]),
        "swaps has 1 layouts: expected two or more",
    ),
    "swaps without a name": (
        between(swaps=[TP2, TP2]),
        'swaps[0] needs the key "name"',
    ),
    "swaps beside a source": (
        {**BASE, "swaps": [TP2, TP2]},
        'request has "source" beside "swaps", which says both sides',
    ),
    "swaps beside steps": (
        between(swaps=[TP2], steps=[TP2]),
        'request has "steps" beside "swaps"',
    ),
    "too many": (
        between(swaps=[{"name": f"n{i}", **TP2} for i in range(100)]),
        "swaps has 9900 plans, more than",
    ),
}


def changed(path, value):
    """Sets what is at a path of an index."""

    def change(index):
        place = index
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return json.dumps(index)

    return change


def text(value):
    return lambda index: value


FIRST = ["plans", 0]
#: {what it shows: (text of the index from the one that is right, error)}
INDEXES = {
    "nothing": (text(""), "index.json' is no JSON"),
    "half": (lambda index: json.dumps(index)[:99], "index.json' is no JSON"),
    "deep": (text("[" * 100_000), "index.json' is no JSON"),
    "deep and whole": (
        text("[" * 100_000 + "]" * 100_000),
        "the index is no object",
    ),
    "huge": (text(" " * (1 << 25)), "has 33554432 bytes, expected at most"),
    "a list": (text("[]"), "the index is no object"),
    "another format": (changed(["format"], "x"), 'format is "x", expected'),
    "another version": (changed(["version"], 2), "version is 2, expected 1"),
    "no list": (changed(["plans"], {}), "plans is no list"),
    "a number": (changed(FIRST, 1), "plans[0] is no object"),
    "a path": (
        changed([*FIRST, "file"], "../a.dtplan"),
        'plans[0].file names no file of the folder: "../a.dtplan"',
    ),
    "an absolute path": (
        changed([*FIRST, "file"], "/etc/passwd"),
        "names no file of the folder",
    ),
    "a name with an end of line": (
        changed([*FIRST, "name"], "a/\n"),
        'plans[0].name names no file: "a/\\n"',
    ),
    "one file twice": (
        changed([*FIRST, "file"], "b.dtplan"),
        "plans[1].file is that of another",
    ),
    "one name twice": (
        changed([*FIRST, "name"], "b"),
        "plans[1].name is that of another",
    ),
    "bytes below zero": (
        changed([*FIRST, "bytes"], -1),
        "plans[0].bytes is no whole number",
    ),
    "bytes of a file": (
        changed([*FIRST, "bytes"], 7),
        "a.dtplan' is not the plan of the index: size in bytes is",
    ),
    "no time": (
        changed([*FIRST, "predicted_s"], "soon"),
        "predicted_s is no time",
    ),
    "another time": (
        changed([*FIRST, "predicted_s"], 1.5),
        "predicted time is",
    ),
    "another digest": (
        changed([*FIRST, "digest"], "0" * 32),
        "a.dtplan' is not the plan of the index: digest is",
    ),
    "too many devices": (
        changed([*FIRST, "source", "devices"], "0-2147483647"),
        "plans[0].source.devices is",
    ),
    "devices backwards": (
        changed([*FIRST, "source", "devices"], "3-1"),
        "expected devices and",
    ),
    "devices of another world": (
        changed([*FIRST, "source", "devices"], "0-2"),
        "plans[0].source.devices has 3 devices, but world is 4",
    ),
    "other devices": (
        changed([*FIRST, "source", "devices"], "0-2,7"),
        'source devices is "0-3", but the index says "0-2,7"',
    ),
    "a layout of text": (
        changed([*FIRST, "source", "layout"], "tp2"),
        "plans[0].source.layout is neither an object nor null",
    ),
    "a size of text": (
        changed([*FIRST, "source", "layout", "tp"], "2"),
        'plans[0].source.layout."tp" is no whole number',
    ),
}


def check_requests(tools, folder):
    for name, (request, fragment) in REQUESTS.items():
        path, plans = folder / "set.json", folder / "set"
        path.write_text(json.dumps(request))
        done = tools.start("dt-opt", path, "-o", plans)
        problems = refusal_problems(done, [fragment])
        path.unlink()
        problems += [f"left {one.name} behind" for one in folder.iterdir()]
        yield name, problems


def check_indexes(tools, folder):
    path, plans = folder / "set.json", folder / "set"
    names = [{"name": "a", **TP2}, {"name": "b", **TP2, "devices": [2, 3]}]
    path.write_text(json.dumps(to(names)))
    tools.output("dt-opt", path, "-o", plans)
    index = json.loads((plans / "index.json").read_text())
    for name, (change, fragment) in INDEXES.items():
        (plans / "index.json").write_text(change(copy.deepcopy(index)))
        done = tools.start("dt-plan", "verify", plans)
        yield name, refusal_problems(done, [fragment])


def check_files(tools, folder):
    """Files that are not those of the index."""
    plans = folder / "set"
    path = folder / "set.json"
    names = [{"name": "a", **TP2}, {"name": "b", **TP2}]
    path.write_text(json.dumps(to(names)))

    def refused(fragment):
        done = tools.start("dt-plan", "verify", plans)
        return refusal_problems(done, [fragment])

    tools.output("dt-opt", path, "-o", plans)
    (plans / "c.dtplan").write_bytes((plans / "b.dtplan").read_bytes())
    yield "one file more", refused("set/c.dtplan' is not in the index")
    (plans / "c.dtplan").unlink()
    whole = (plans / "b.dtplan").read_bytes()
    (plans / "b.dtplan").write_bytes(whole[:-1])
    yield "a file that is cut", refused("b.dtplan: plan file has")
    (plans / "b.dtplan").write_bytes(whole[:200] + b"?" + whole[201:])
    yield "a file that is damaged", refused("b.dtplan'")
    (plans / "b.dtplan").unlink()
    yield "a file that is missing", refused("b.dtplan': No such file")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bin", default="build/bin", help="folder of the tools"
    )
    tools = Tools(parser.parse_args().bin)
    passed = failed = 0
    for check in (check_requests, check_indexes, check_files):
        with tempfile.TemporaryDirectory() as folder:
            for name, problems in check(tools, Path(folder)):
                for problem in problems:
                    print(f"{name}: {problem}")
                failed += bool(problems)
                passed += not problems
    return print_closing_line(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
