"""Compiles requests and compares the time of each plan's drawing with the one
that the plan states."""

import json
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "requests"

# What is added to a request.
VARIANTS = [
    {},
    {"cluster": {"devices_per_node": 4, "nics_per_node": 1}},
    {"cluster": {"devices_per_node": 2, "latency_us": 15}},
    {"memory": {"staging": "64MiB", "mode": "flat"}},
]
REQUESTS = [
    "links-unequal-bandwidth.json",
    "llama-tiny-4-to-8-grow.json",
    "qwen3-moe-tiny-8-to-8-disjoint-uneven.json",
]


def drawn_seconds(plan: Path) -> tuple[float, float]:
    """What the plan states, and what its page draws."""
    page = subprocess.run(
        ["dt-plan", "draw", plan], check=True, capture_output=True, text=True
    ).stdout
    numbers = {}
    for key in ("predicted", "seconds"):
        numbers[key] = float(re.search(rf'"{key}":([0-9.e+-]+)', page)[1])
    return numbers["predicted"], numbers["seconds"]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in REQUESTS:
        for number, variant in enumerate(VARIANTS):
            request = json.loads((EXAMPLES / name).read_text())
            if isinstance(request["model"], str):
                request["model"] = str(EXAMPLES / request["model"])
            request |= variant
            path = folder / f"{number}-{name}"
            path.write_text(json.dumps(request))
            plan = path.with_suffix(".dtplan")
            subprocess.run(["dt-opt", path, "-o", plan], check=True)
            predicted, drawn = drawn_seconds(plan)
            assert predicted > 0, (name, variant)
            assert drawn == predicted, (name, variant, drawn, predicted)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
