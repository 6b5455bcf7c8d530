"""scripts/mutate tells mutants that a test sees from those that none does."""

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutate"


@pytest.fixture
def mutate(tmp_path, monkeypatch):
    """The script, on a checkout of its own that needs no build."""
    loader = importlib.machinery.SourceFileLoader("mutate", str(SCRIPT))
    spec = importlib.util.spec_from_loader("mutate", loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutate", module)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    loader.exec_module(module)
    work = tmp_path / "build-mutants"
    for name, value in {
        "ROOT": tmp_path,
        "WORK": work,
        "TREE": work / "tree",
        "MUTANTS": tmp_path / "mutants.json",
        "PYTHON": sys.executable,
        "BUILD": ["true"],
        "CONFIGURE": ["true"],
    }.items():
        monkeypatch.setattr(module, name, value)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "larger.py").write_text(
        "def larger(a, b):\n    if a > b:\n        return a\n    return b\n"
    )
    (tmp_path / "test_larger.py").write_text(
        "from larger import larger\n\n\n"
        "def test_larger():\n    assert larger(2, 1) == 2\n\n\n"
        "def test_wrong():\n    assert larger(2, 1) == 3\n"
    )
    return module


def entry(name, into, **others):
    return {
        "name": name,
        "file": "larger.py",
        "line": "if a > b:",
        "into": into,
    } | others


def test_a_filter_that_finds_no_test_is_of_no_use(
    mutate, monkeypatch, tmp_path
):
    """GoogleTest passes where no test was selected."""
    binary = mutate.TREE / "build/bin/dt-some-tests"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        "#!/bin/sh\necho Suite.\n"
        "case $* in *Suite.Test*) echo '  Test';; esac\n"
    )
    binary.chmod(0o755)
    tests = ["dt-some-tests:Suite.Test", "dt-some-tests:Suite.Gone"]
    assert mutate.try_originals(tests) == {
        tests[1]: f"{tests[1]} finds no test"
    }


def run(mutate, monkeypatch, entries, *arguments):
    mutate.MUTANTS.write_text(json.dumps(entries))
    monkeypatch.setattr(sys, "argv", ["mutate", *arguments])
    return mutate.main()


RIGHT = "test_larger.py::test_larger"


def test_tells_dead_from_alive(mutate, monkeypatch, capsys):
    entries = [
        entry("dead", "if a < b:", killed_by=RIGHT),
        entry("alive", "if a >= b:", killed_by=RIGHT),
        entry("same", "if b < a:", equivalent="says the same"),
    ]
    assert run(mutate, monkeypatch, entries) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"dead: dead: {RIGHT} (")
    assert lines[1].startswith("alive: alive (")
    assert lines[2] == "1 dead, 1 alive, 1 equivalent"
    # The checkout was not touched, and its copy is as it was.
    for folder in (mutate.ROOT, mutate.TREE):
        assert "if a > b:" in (folder / "larger.py").read_text()


def test_a_test_that_always_fails_kills_nothing(mutate, monkeypatch, capsys):
    entries = [
        entry("m", "if a < b:", killed_by="test_larger.py::test_wrong"),
        entry("n", "if a < b:", killed_by="test_larger.py::test_none"),
    ]
    assert run(mutate, monkeypatch, entries) == 1
    out = capsys.readouterr().out
    assert "m: broken: test_larger.py::test_wrong fails without it" in out
    assert "n: broken: test_larger.py::test_none fails without it" in out


def test_a_report_is_gone_on_with(mutate, monkeypatch, capsys):
    report = str(mutate.ROOT / "report")
    entries = [entry("m", "if a < b:", killed_by=RIGHT)]
    assert run(mutate, monkeypatch, entries, "--report", report) == 0
    capsys.readouterr()
    assert run(mutate, monkeypatch, entries, "--report", report) == 0
    assert capsys.readouterr().out == "1 dead, 0 alive, 0 equivalent\n"


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"line": "if b:"}, "'if b:' stands 0 times"),
        ({"line": "return a", "into": "return a"}, "changes nothing"),
        ({"after": "no such line"}, "'no such line' stands 0 times"),
        ({"killed_by": ""}, "killed_by '' is no test"),
        ({"killed_by": "larger.py"}, "killed_by 'larger.py' is no test"),
        ({"killed_by": "dt-cost-tests"}, "'dt-cost-tests' is no test"),
        ({"killed_by": "test_none.py::a"}, "'test_none.py::a' is no test"),
    ],
)
def test_check_names_what_does_not_fit(
    mutate, monkeypatch, capsys, wrong, words
):
    entries = [entry("m", "if a < b:", killed_by=RIGHT) | wrong]
    assert run(mutate, monkeypatch, entries, "--check") == 1
    assert words in capsys.readouterr().out


def test_builds_only_what_a_test_needs(mutate, monkeypatch):
    (mutate.ROOT / "a.test").write_text("// RUN: dt-solve %s | FileCheck\n")
    of_lit = mutate.killer_of("a.test")
    assert of_lit.targets == [*mutate.TOOLS, "dt-solve"]
    assert of_lit.command[-1] == "build/a.test"
    assert mutate.killer_of(RIGHT).targets == mutate.TOOLS
    monkeypatch.setattr(mutate, "PACKAGE_TESTS", "test_larger")
    of_package = mutate.killer_of(RIGHT)
    assert of_package.targets == mutate.TOOLS + mutate.PACKAGE
    of_gtest = mutate.killer_of("dt-cost-tests:CostModel.*:Bounds.*")
    assert of_gtest.targets == ["dt-cost-tests"]
    assert of_gtest.command == [
        "build/bin/dt-cost-tests",
        "--gtest_filter=CostModel.*:Bounds.*",
    ]


def test_every_mutant_has_its_line_and_its_test():
    done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
