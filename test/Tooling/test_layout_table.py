"""Every row of the table in docs/Layouts.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "Layouts.md").read_text()
PREFIXES = set(
    re.findall(
        r"--check-prefix=(\S+)",
        (ROOT / "test" / "Pipelines" / "layout-features.test").read_text(),
    )
)
CASES = set(
    re.findall(
        r'^    "([\w-]+)": of\(',
        (ROOT / "test" / "Pipelines" / "layout_cases.py").read_text(),
        re.MULTILINE,
    )
)
PEER_GROUPS = {"glu", "gpt", "experts", "latent-mtp", "dense", "latent"}


def rows():
    table = TEXT[TEXT.index("| feature |") :].split("\n\n")[0]
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def exists(name):
    """A layout case, an example, a test file, or a function of one."""
    if name in CASES or name in PEER_GROUPS:
        return True
    file, _, function = name.partition("::")
    found = [path for path in ROOT.rglob(file) if is_ours(path)]
    if "/" in file:
        found = [ROOT / file]
    texts = [path.read_text() for path in found if path.is_file()]
    return any(f"def {function}(" in text for text in texts) or (
        not function and bool(texts)
    )


def is_ours(path):
    return path.relative_to(ROOT).parts[0] in ("test", "examples")


def test_the_table_is_whole():
    assert len(rows()) >= 39
    for row in rows():
        assert len(row) == 4 and all(row), row


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_what_a_row_names_exists(row):
    _, _, lit, run = row
    assert quoted(lit) and set(quoted(lit)) <= PREFIXES
    assert quoted(run)
    missing = [name for name in quoted(run) if not exists(name)]
    assert not missing


def test_every_case_has_a_row():
    named = {name for row in rows() for name in quoted(row[3])}
    assert named >= CASES
    assert {name for row in rows() for name in quoted(row[2])} >= PREFIXES


def test_a_name_that_does_not_exist_is_noticed():
    assert not exists("no-such-case")
    assert not exists("test_capture.py::test_nothing")
    assert not exists("test/Pipelines/nothing.mlir")
