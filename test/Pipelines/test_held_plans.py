"""A plan that is held was verified before its process says that it is ready."""

import json
import subprocess
from pathlib import Path

import pytest
from plan_file import PlanBytes

HERE = Path(__file__).resolve().parent
TOOL = HERE.parents[1] / "build" / "bin" / "dt-opt"
REQUEST = HERE / "Inputs" / "replan.json"


def start(*arguments, lines=""):
    return subprocess.run(
        [TOOL, *arguments], input=lines, capture_output=True, text=True
    )


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.dtplan"
    assert start(REQUEST, "-o", path).returncode == 0
    return path


def test_a_plan_that_lies_is_refused_before_anything_is_asked(old):
    plan = PlanBytes(old.read_bytes())
    one, two = plan.stored(0), plan.stored(1)
    plan.replace(0, two)
    plan.replace(1, one)
    old.write_bytes(plan.data)
    done = start("--replan", old, "--requests")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: cannot replan: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_summary_that_lies_is_refused_too(old):
    """What is wrong with no program by itself."""
    plan = PlanBytes(old.read_bytes())
    common = plan.section(len(plan.table()) - 1)
    stated = json.loads(
        subprocess.run(
            [TOOL.with_name("dt-plan"), "inspect", "--json", old],
            check=True,
            capture_output=True,
        ).stdout
    )["bytes"]["wire"]
    word = stated.to_bytes(8, "little")
    at = plan.data.find(word, common.start)
    while at >= 0:
        plan.data[at : at + 8] = (stated + 8).to_bytes(8, "little")
        at = plan.data.find(word, at + 8)
    plan.seal()
    old.write_bytes(plan.data)
    done = start("--replan", old, "--requests")
    assert done.returncode == 1
    assert "error: cannot replan: summary says" in done.stderr


def test_a_long_line_is_passed_over(old, tmp_path):
    """One byte longer than the limit, and one without an end of its own."""
    new = tmp_path / "new.dtplan"
    order = json.dumps({"request": str(REQUEST), "output": str(new)})
    most = 1 << 26
    lines = f"{' ' * (most + 1)}\n{' ' * most}\n{order}\n{'[' * (1 << 17)}"
    done = start("--replan", old, "--requests", lines=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(one)[0] for one in answers] == [
        "ready",
        "error",
        "plan",
        "error",
    ]
    assert "more than the limit of 67108864 bytes" in answers[1]["error"]
    assert max(map(len, done.stdout.splitlines())) < 2000
    assert done.returncode == 1 and new.exists()
