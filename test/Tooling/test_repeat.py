"""scripts/repeat on executables that are scripts of the shell."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/repeat"


@pytest.fixture
def repeat(tmp_path, monkeypatch, capsys):
    """repeat(*arguments): its exit code and what it printed."""
    loader = importlib.machinery.SourceFileLoader("repeat", str(SCRIPT))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("repeat", loader)
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "BIN", tmp_path)
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["repeat", *arguments])
        with pytest.raises(SystemExit) as ended:
            module.main()
        return ended.value.code, capsys.readouterr().out.splitlines()

    return run


def make_test(folder, name, body):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def runs(folder):
    return len((folder / "ran").read_text())


def test_each_runs_as_often_as_was_said(repeat, tmp_path):
    for name in ("dt-a-tests", "dt-b-tests", "dt-small-worlds-tests", "other"):
        make_test(tmp_path, name, f"printf x >>{tmp_path}/ran")
    code, lines = repeat("--count", "3")
    assert code == 0
    assert lines[-1] == "6 repeats, 0 failed"
    assert runs(tmp_path) == 6
    code, lines = repeat("dt-a*", "--count", "2")
    assert lines[-1] == "2 repeats, 0 failed"


def test_one_that_fails_now_and_then_is_found(repeat, tmp_path):
    body = f"echo seed 7; mkdir {tmp_path}/first 2>/dev/null || exit 3"
    make_test(tmp_path, "dt-a-tests", body)
    code, lines = repeat("--count", "2", "--jobs", "1")
    assert code == 1
    log = tmp_path / "logs/dt-a-tests.2"
    assert f"dt-a-tests: run 2 failed, see {log}" in lines
    assert lines[-2:] == [
        "dt-a-tests: 2 runs, 1 failed",
        "2 repeats, 1 failed",
    ]
    assert log.read_text() == "seed 7\n\nexit code 3\n"


def test_a_campaign_goes_on_where_it_was_cut(repeat, tmp_path):
    report = str(tmp_path / "report")
    make_test(tmp_path, "dt-a-tests", f"printf x >>{tmp_path}/ran")
    repeat("--count", "2", "--report", report)
    code, lines = repeat("--count", "5", "--report", report)
    assert lines[-1] == "5 repeats, 0 failed"
    assert runs(tmp_path) == 5
    make_test(tmp_path, "dt-a-tests", f"printf y >>{tmp_path}/ran")
    repeat("--count", "5", "--report", report)
    assert runs(tmp_path) == 10, "another executable begins again"


def test_a_name_of_nothing_is_an_error(repeat):
    code, _ = repeat("dt-none*")
    assert "no executable of tests" in code
