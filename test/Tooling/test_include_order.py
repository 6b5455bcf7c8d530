"""Includes go to a part before, in docs/Map.md, and no other way."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("*.h", "*.cpp", "*.cu", "*.td")
INCLUDE = re.compile(r'^\s*#?include "([^"]+)"', re.MULTILINE)
FOR_THE_COMPILER = {"types", "cost", "format", "verify", "report"}


def orders():
    text = (ROOT / "docs/Map.md").read_text().split("## Who includes whom")[1]
    lines = re.findall(r"^- (\w+): (.*)$", text, re.MULTILINE)
    return {side: names.split(", ") for side, names in lines}


ORDERS = orders()


def folders(side, part):
    """Where the sources and the public headers of a part are."""
    if side == "runtime":
        return [ROOT / "runtime" / part, ROOT / "runtime/include/dtrt" / part]
    return [ROOT / "lib" / part, ROOT / "include/dt" / part]


def part_of(path, included):
    """(side, part) of what a source includes; None: of no part of ours."""
    public = re.match(r"(dt|dtrt)/(\w+)/", included)
    if public:
        side = "compiler" if public[1] == "dt" else "runtime"
        return side, public[2]
    if "/" in included or (path.parent / included).exists():
        return None
    for side, parts in ORDERS.items():
        for part in parts:
            if (folders(side, part)[0] / included).exists():
                return side, part
    return None  # made by the build, or of a library


@pytest.mark.parametrize(
    "side, part", [(s, p) for s, parts in ORDERS.items() for p in parts]
)
def test_includes_go_down(side, part):
    allowed = {(side, p) for p in ORDERS[side][: ORDERS[side].index(part) + 1]}
    if side == "compiler":
        allowed |= {("runtime", p) for p in FOR_THE_COMPILER}
    sources = [
        path
        for folder in folders(side, part)
        for pattern in SOURCES
        for path in folder.glob(pattern)
    ]
    assert sources
    wrong = [
        f"{path.relative_to(ROOT)}: {included}"
        for path in sources
        for included in INCLUDE.findall(path.read_text())
        if (part_of(path, included) or (side, part)) not in allowed
    ]
    assert wrong == []


def test_every_folder_has_its_place():
    tops = {
        "runtime": ("runtime", "runtime/include/dtrt"),
        "compiler": ("lib", "include/dt"),
    }
    for side, names in tops.items():
        found = {
            path.name
            for name in names
            for path in (ROOT / name).iterdir()
            if path.is_dir()
        }
        assert found - {"include"} == set(ORDERS[side])
