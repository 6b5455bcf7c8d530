"""Puts extreme values into every place of requests, model files and modules.

Each case takes a random request of the suite (generate.py), or the module that
dt-opt prints of it at one of its levels, and puts one extreme value in one
place: numbers at the ends of every integer and float, texts that are empty,
long or no number, another kind of value, deep nesting. dt-opt must end, in so
many CPU seconds and so much memory, with a plan that dt-plan verifies, or with
one error.

Runs --count cases of --seed; `--first N --count 1` with that seed runs one
again. `--sweep N` instead puts every value into every place of the request
number N and of its modules.
"""

import argparse
import copy
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from generate import random_request
from plan_tools import print_closing_line

CPU_SECONDS = 2
MEMORY_MIB = 512
# What ends a process that goes far beyond.
KILL_SECONDS = 10
KILL_BYTES = 8 << 30

NUMBERS = [
    0,
    -1,
    1,
    2,
    3,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    5e-324,
    1e-9,
    0.5,
    1e308,
]
TEXTS = ["", "x", "w{}", "a b\n", "\0", "é" * 5000, "x" * 200_000, "nan", "-1"]
# As they stand in a file: JSON has no such numbers.
RAW = ["NaN", "-Infinity", "1e999", "00", "1" * 400]


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


OTHERS = [None, True, [], {}, [0] * 50_000, nested(40), nested(90)]
VALUES = NUMBERS + TEXTS + OTHERS

# What dt-opt is asked for with a module of each level, after the passes that
# print it.
ALL = "--dt-verify-transport --dt-prove --dt-emit=output=PLAN"
LEVELS = {
    "layout": ("", "-o PLAN"),
    "families": ("--dt-group-families", "-o PLAN"),
    "routing": (
        "--dt-group-families --dt-route",
        f"--dt-verify-routing --dt-schedule --dt-allocate-staging {ALL}",
    ),
    "transport": ("--dt-lower", f"--dt-explain {ALL}"),
    "program": (
        "--dt-lower --dt-specialize",
        f"--dt-verify-program {ALL}",
    ),
}
# Numbers, texts and names of a module.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|@\w+|-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b')
MODULE_NUMBERS = [*map(str, NUMBERS[:13]), "5.0e-324", "1.0e308", "0.5"]
MODULE_NUMBERS += ["0x7FF0000000000000", "1.0e999", "9" * 400]
MODULE_TEXTS = ['""', '"w{}"', '"\\FF"', '"\\00"', '"' + "x" * 200_000 + '"']
MODULE_NAMES = ["@x", '@""', '@"w{}"', '@"\\FF"', "@" + "x" * 200_000]


WORD = re.compile(r"\b(error|warning|remark|note): ")


@dataclass
class Input:
    """What dt-opt is given: the first of the files, with these arguments."""

    what: str
    files: dict = field(default_factory=dict)  # name to text
    arguments: str = "-o PLAN"


def places_of(value, path=()):
    """Paths of a tree of JSON: each value, and each key."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key, "KEY")
            yield from places_of(inner, (*path, key))
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places_of(inner, (*path, number))


def put(tree, path, value):
    """A copy of the tree with a value, or a key, in the place of another."""
    if not path:
        return value
    tree = copy.deepcopy(tree)
    renames = path[-1] == "KEY"
    *way, last = path[:-1] if renames else path
    at = tree
    for step in way:
        at = at[step]
    if renames:
        at[str(value)[:300_000]] = at.pop(last)
    else:
        at[last] = value
    return tree


def json_text(value, raw=None):
    """`raw` stands for the text "RAW" in the tree."""
    text = json.dumps(value)
    return text if raw is None else text.replace('"RAW"', raw)


def json_inputs(case):
    """(place, value) of a request and its model files, as functions."""
    documents = {"request.json": case.request, **case.files}
    for name, tree in documents.items():
        for path in places_of(tree):
            for value in VALUES:
                yield name, path, value, None
            if not path or path[-1] != "KEY":
                for raw in RAW:
                    yield name, path, "RAW", raw


def json_input(case, name, path, value, raw):
    documents = {"request.json": case.request, **case.files}
    files = {key: json_text(tree) for key, tree in documents.items()}
    files[name] = json_text(put(documents[name], path, value), raw)
    shown = (raw or repr(value))[:30]
    where = ".".join(map(str, path)) or "all"
    return Input(f"{name} {where} = {shown}", files)


def tokens_of(module):
    for token in TOKEN.finditer(module):
        kinds = {'"': MODULE_TEXTS, "@": MODULE_NAMES}
        for value in kinds.get(token[0][0], MODULE_NUMBERS):
            yield token, value


def module_input(level, module, token, value):
    text = module[: token.start()] + value + module[token.end() :]
    line = module.count("\n", 0, token.start()) + 1
    what = f"{level} line {line} {token[0][:20]} -> {value[:30]}"
    return Input(what, {"module.mlir": text}, LEVELS[level][1])


class Runner:
    def __init__(self, binaries):
        self.binaries = Path(binaries).resolve()

    def tool(self, tool, arguments, folder):
        """(exit code, stderr, CPU seconds, MiB) of a tool, limited."""

        def limit():
            hard = KILL_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (hard, hard + 1))
            resource.setrlimit(resource.RLIMIT_AS, (KILL_BYTES, KILL_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [self.binaries / tool, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                preexec_fn=limit,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        cpu = usage.ru_utime + usage.ru_stime
        return process.returncode, text, cpu, usage.ru_maxrss / 1024

    def print_module(self, case, level):
        """The module of a request at a level; empty where it has none."""
        with tempfile.TemporaryDirectory() as folder:
            for name, tree in case.files.items():
                Path(folder, name).write_text(json.dumps(tree))
            Path(folder, "request.json").write_text(json.dumps(case.request))
            passes = LEVELS[level][0].split()
            if level == "program":
                device = (case.request["source"].get("devices") or [0])[0]
                passes[-1] += f"=device={device}"
            arguments = ["request.json", *passes, "--emit=mlir"]
            code, *_ = self.tool(
                "dt-opt", [*arguments, "-o", "out.mlir"], folder
            )
            return "" if code else Path(folder, "out.mlir").read_text()

    def problems(self, given):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in given.files.items():
                (folder / file).write_text(text)
            plan = folder / "out.dtplan"
            arguments = given.arguments.replace("PLAN", plan.name).split()
            if "-o" not in arguments:
                arguments += ["-o", os.devnull]
            code, errors, cpu, memory = self.tool(
                "dt-opt", [next(iter(given.files)), *arguments], folder
            )
            found = [f"took {cpu:.1f} CPU s"] if cpu > CPU_SECONDS else []
            if memory > MEMORY_MIB:
                found.append(f"took {memory:.0f} MiB")
            if code == 0:
                return found + self.check_plan(plan, folder)
            if code != 1:
                found.append(f"exit code {code}: {errors[-500:]}")
            if plan.exists():
                found.append("left a plan")
            return found + error_problems(errors, "request.json" in given.files)

    def check_plan(self, plan, folder):
        if not plan.exists():
            return ["exit code 0, but no plan"]
        code, errors, *_ = self.tool("dt-plan", ["verify", plan], folder)
        return [f"the plan does not verify: {errors[:300]}"] if code else []


def error_problems(text, is_json):
    """One error, of sane length."""
    found = []
    # Between them mlir-opt shows lines of its input.
    lines = [line for line in text.splitlines() if is_json or WORD.search(line)]
    if max(map(len, lines), default=0) > 1500:
        found.append(f"a line of {max(map(len, lines))} characters")
    errors = [line for line in lines if "error: " in line]
    if not errors or (is_json and len(errors) != 1):
        found.append(f"{len(errors)} errors: {text[:300]!r}")
    if is_json and any(
        not re.match("(error|warning|remark|note): ", line) for line in lines
    ):
        found.append(f"other words: {text[:300]!r}")
    return found


def random_input(runner, seed, number):
    rng = random.Random(f"{seed}/{number}")
    case = random_request(f"{seed}/{number}")
    kind = rng.choice(["json", "json", *LEVELS])
    if kind == "json":
        # Each place with the same chance, then its value.
        name = rng.choice(["request.json", *case.files])
        tree = {"request.json": case.request, **case.files}[name]
        path = rng.choice(list(places_of(tree)))
        raw = rng.choice(RAW) if rng.random() < 0.1 else None
        if path and path[-1] == "KEY":
            raw = None
        value = "RAW" if raw else rng.choice(VALUES)
        return json_input(case, name, path, value, raw)
    module = runner.print_module(case, kind)
    tokens = list(TOKEN.finditer(module))
    if not tokens:
        return Input("no module", {"request.json": json.dumps(case.request)})
    token = rng.choice(tokens)
    return module_input(kind, module, *rng.choice(list(tokens_of_one(token))))


def tokens_of_one(token):
    kinds = {'"': MODULE_TEXTS, "@": MODULE_NAMES}
    for value in kinds.get(token[0][0], MODULE_NUMBERS):
        yield token, value


def sweep_inputs(runner, seed, number):
    case = random_request(f"{seed}/{number}")
    for place in json_inputs(case):
        yield json_input(case, *place)
    for level in LEVELS:
        module = runner.print_module(case, level)
        for token, value in tokens_of(module):
            yield module_input(level, module, token, value)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**9))
    parser.add_argument("--sweep", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def main():
    options = parse_arguments()
    runner = Runner(options.bin)
    print(f"seed {options.seed}", flush=True)
    if options.sweep is not None:
        inputs = sweep_inputs(runner, options.seed, options.sweep)
        work = ((f"--sweep {options.sweep}", lambda i=i: i) for i in inputs)
    else:
        numbers = range(options.first, options.first + options.count)
        work = (
            (
                f"--first {n} --count 1",
                lambda n=n: random_input(runner, options.seed, n),
            )
            for n in numbers
        )

    def run(item):
        again, make = item
        given = make()
        return again, given.what, runner.problems(given)

    passed = failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for again, what, problems in pool.map(run, work):
            passed += not problems
            failed += bool(problems)
            if problems:
                print(f"--seed {options.seed} {again}: {what}")
                print("  " + "\n  ".join(problems), flush=True)
    return print_closing_line(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
