"""Random transitions by a library's collectives, over NCCL's stand-in.

Every byte is compared. Calls against NCCL's rules fail (test/Gpu/FakeNccl.h).
"""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
sys.path.insert(0, str(ROOT / "test" / "Pipelines"))

from generate import random_request  # noqa: E402
from plan_tools import ToolError, Tools  # noqa: E402
from random_transitions import write_case  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (BIN / "fake-nccl-run").exists(),
    reason="this build has no CUDA and NCCL",
)

#: Cases, and how many of them have calls at least.
CASES, LEAST = 60, 10


def compiled(tools, number, folder):
    """A plan with a library forced; None where the request has none."""
    case = random_request(f"nccl/{number}")
    if case.request["memory"]["mode"] != "rollback":
        return None
    case.request["cluster"]["collectives"] = "library"
    request, plan = write_case(case, folder), folder / "out.dtplan"
    try:
        tools.compile(request, plan)
    except ToolError as error:
        assert "works" in str(error), error  # a limit that is too small
        return None
    counts = tools.json("dt-plan", "inspect", plan, "--json")["counts"]
    return plan if "library_collectives" in counts else None


@pytest.mark.parametrize("ways", [[], ["--one-sided"]], ids=["pairs", "puts"])
def test_every_byte_arrives(ways, tmp_path):
    tools = Tools(BIN)
    plans = [
        plan
        for number in range(CASES)
        if (plan := compiled(tools, number, tmp_path / str(number)))
    ]
    assert len(plans) >= LEAST
    tools.output("fake-nccl-run", *ways, *plans)


def test_a_plan_that_is_none_is_named(tmp_path):
    plan = tmp_path / "none.dtplan"
    plan.write_text(json.dumps({}))
    done = Tools(BIN).start("fake-nccl-run", plan)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {plan}")
