"""docs/GPU.md names tests, files and settings that exist."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "GPU.md").read_text()
SOURCES = "".join(
    path.read_text() for path in sorted((ROOT / "test" / "Gpu").glob("*.cpp"))
)


def quoted():
    return set(re.findall(r"`([^`]+)`", PAGE))


def test_named_tests_exist():
    named = {name for name in quoted() if re.match(r"(Nccl|Gpu)\w*\.", name)}
    assert len(named) > 10
    for name in named:
        suite, test = name.split(".")
        wanted = r"\w+" if test == "*" else test
        pattern = rf"TEST(_F|_P)?\(\s*{suite},\s*{wanted}\)"
        assert re.search(pattern, SOURCES), name


def rows():
    return re.findall(r"^\| ([AB]\d+) \|(.*)$", PAGE, re.MULTILINE)


def test_every_finding_has_a_row():
    names = [name for name, _ in rows()]
    assert names == [f"A{i}" for i in range(1, 6)] + [
        f"B{i}" for i in range(6, 11)
    ]


def test_every_finding_has_mutants_that_its_tests_see():
    """scripts/mutate 'finding-*' brings each one back, and runs the test."""
    mutants = json.loads((ROOT / "test/Mutants/mutants.json").read_text())
    for finding, text in rows():
        prefix = f"finding-{finding.lower()}-"
        own = [m for m in mutants if m["name"].startswith(prefix)]
        assert own, finding
        for mutant in own:
            test = mutant["killed_by"].partition(":")[2]
            test = test.removeprefix("Calls/").removesuffix("/*")
            whole = test.split(".")[0] + ".*"
            shown = re.findall(r"`([^`]+)`", text)
            assert test in shown or whole in shown, (finding, test)


def test_named_files_exist():
    for name in quoted():
        if re.fullmatch(
            r"(runtime|test|bench|docs(?!/userguide))/[\w./-]+", name
        ):
            assert (ROOT / name).exists(), name
        if re.fullmatch(r"dtrt/\w+\.h", name):
            assert (ROOT / "runtime" / "include" / name).exists(), name
