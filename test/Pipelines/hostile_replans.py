"""Replans from old plans that lie: hostile_replans.py [--count N] [--seed S]

Changes bits of programs in a right plan and seals it again, so that no checksum
tells, or puts one device's program in another one's place. Then replans after a
node of the destination was replaced, so that most programs would be copied.
Each time there has to be one error, or a plan that `dt-plan verify` accepts and
`dt-run --check` runs right. A failing case says its seed and number.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from plan_file import COMMON, PlanBytes
from plan_tools import Tools, print_closing_line

HERE = Path(__file__).resolve().parent


def damage(rng, plan):
    """Changes a program, or swaps two; what became of the file is sealed."""
    programs = [n for n, entry in enumerate(plan.table()) if entry[0] != COMMON]
    if rng.random() < 0.2:
        one, two = rng.sample(programs, 2)
        contents = plan.stored(one), plan.stored(two)
        plan.replace(one, contents[1])
        plan.replace(two, contents[0])
        return
    where = plan.section(rng.choice(programs))
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(where.start, where.stop)
        plan.data[at] ^= 1 << rng.randrange(8)
    plan.seal()


def check(tools, folder, old, request, rng):
    """What is wrong with replanning from a damaged plan, or an empty text, and
    whether a plan was made of it."""
    plan = PlanBytes(old)
    damage(rng, plan)
    lying, new = folder / "lying.dtplan", folder / "new.dtplan"
    lying.write_bytes(plan.data)
    new.unlink(missing_ok=True)
    done = tools.start("dt-opt", "--replan", lying, request, "-o", new)
    if done.returncode:
        is_one = done.stderr.startswith("error: ") and not new.exists()
        return ("" if is_one else f"it says {done.stderr!r}"), False
    for command in (("dt-plan", "verify"), ("dt-run", "--check")):
        ran = tools.start(*command, new)
        if ran.returncode:
            return f"{command} says {ran.stderr!r}", True
    return "", True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**9))
    options = parser.parse_args()
    tools = Tools(options.bin)
    request = json.loads((HERE / "Inputs" / "replan.json").read_text())
    made = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, old = folder / "request.json", folder / "old.dtplan"
        path.write_text(json.dumps(request))
        tools.compile(path, old)
        right = old.read_bytes()
        request["destination"]["devices"] = [4, 5, 8, 9]
        path.write_text(json.dumps(request))
        for number in range(options.count):
            rng = random.Random(f"{options.seed}/{number}")
            problem, is_made = check(tools, folder, right, path, rng)
            made += is_made
            if problem:
                failed += 1
                print(f"seed {options.seed}, case {number}: {problem}")
    print(f"seed {options.seed}: {made} of {options.count} made a plan")
    return print_closing_line(options.count - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
