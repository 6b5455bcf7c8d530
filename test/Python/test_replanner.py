"""A plan that is held makes the plans that the compiler makes, and a request
that is wrong leaves it as it is."""

import json
import os
import signal
import subprocess
import threading
import warnings

import pytest
from conftest import ROOT

pytest.importorskip("torch")
dynatrain = pytest.importorskip("dynatrain")

from dynatrain import (  # noqa: E402
    CompileError,
    CompileWarning,
    Plan,
    Replanner,
)
from dynatrain.compiler import find_compiler  # noqa: E402

REQUEST = json.loads((ROOT / "test/Pipelines/Inputs/replan.json").read_text())


def changed(devices):
    destination = {**REQUEST["destination"], "devices": devices}
    return {**REQUEST, "destination": destination}


NODE = changed([4, 5, 8, 9])


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    path = tmp_path_factory.mktemp("old") / "old.dtplan"
    dynatrain.compile(REQUEST, path)
    return path


@pytest.fixture
def replanner(old):
    with Replanner(old) as held:
        yield held


def alone(old, request, path):
    """The bytes of a plan that a process of its own makes."""
    path.write_text(json.dumps(request))
    plan = path.with_suffix(".alone")
    subprocess.run(
        [find_compiler(), "--replan", old, path, "-o", plan],
        check=True,
        capture_output=True,
    )
    return plan.read_bytes()


def test_a_plan_is_the_one_that_is_made_alone(replanner, old, tmp_path):
    assert replanner.digest == Plan.load(old).digest
    for number, request in enumerate([NODE, changed([4, 5, 6, 8]), NODE]):
        path = tmp_path / f"{number}.dtplan"
        made = replanner.replan(request, path)
        assert made.plan.digest == Plan.load(path).digest
        assert (
            made.plan.destination_devices == (request["destination"]["devices"])
        )
        assert path.read_bytes() == alone(old, request, tmp_path / "one.json")


def test_what_is_expected_changes_no_plan(replanner, old, tmp_path):
    shards = [{"tensor": "w", "rank": 0, "offset": [0, 0], "size": [640, 480]}]
    by_rank = {**NODE, "source": {"world": 1, "shards": shards}}
    request = tmp_path / "request.json"
    request.write_text(json.dumps(REQUEST))
    for number, (expected, is_so) in enumerate(
        [(REQUEST, True), (request, True), (by_rank, False)]
    ):
        assert replanner.expect(expected) is is_so
        path = tmp_path / f"{number}.dtplan"
        assert replanner.replan(NODE, path).programs_copied == 2
        assert path.read_bytes() == alone(old, NODE, tmp_path / "one.json")
    with pytest.raises(CompileError, match="No such file"):
        replanner.expect(tmp_path / "none.json")


def test_says_what_became_of_the_old_plan(replanner, tmp_path):
    made = replanner.replan(NODE, tmp_path / "new.dtplan")
    assert made.programs_copied == 2
    assert made.from_zero is None
    assert made.seconds > 0
    assert 0 < made.lower_bound_s <= made.predicted_s
    flat = {**NODE, "memory": {**NODE.get("memory", {}), "mode": "flat"}}
    made = replanner.replan(flat, tmp_path / "flat.dtplan")
    assert made.from_zero == "flat memory orders all moves anew"


def test_a_request_may_be_a_file(replanner, tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps(NODE))
    made = replanner.replan(path, tmp_path / "new.dtplan")
    again = replanner.replan(NODE, str(tmp_path / "again.dtplan"))
    assert made.plan.digest == again.plan.digest


def test_a_wrong_request_is_an_error_and_the_next_is_answered(
    replanner, tmp_path
):
    path = tmp_path / "new.dtplan"
    wrongs = [
        ({**NODE, "stat": {}}, "unknown key"),
        (changed([4, 5, 8, 8]), "dt-opt: error: "),
        (tmp_path / "none.json", "No such file"),
        ({"tensors": ["\n"]}, "dt-opt: error: "),
    ]
    for wrong, words in wrongs:
        with pytest.raises(CompileError, match=words):
            replanner.replan(wrong, path)
        assert not path.exists()
    assert replanner.replan(NODE, path).programs_copied == 2


def test_a_plan_that_is_none_is_an_error(tmp_path):
    path = tmp_path / "none.dtplan"
    with pytest.raises(CompileError, match="cannot replan"):
        Replanner(path)
    path.write_bytes(b"DTPLAN" * 100)
    with pytest.raises(CompileError, match="cannot replan"):
        Replanner(path)


def test_without_a_compiler_it_says_so(old, monkeypatch):
    monkeypatch.setattr("dynatrain.compiler.find_compiler", lambda: None)
    with pytest.raises(CompileError, match="neither on PATH"):
        Replanner(old)


def test_threads_wait_for_each_other(replanner, tmp_path):
    requests = [NODE, changed([4, 5, 6, 8]), changed([9, 5, 6, 7])]
    found = {}

    def ask(number):
        made = replanner.replan(requests[number], tmp_path / f"{number}.dtplan")
        found[number] = made.plan.destination_devices

    threads = [
        threading.Thread(target=ask, args=(number,))
        for number in range(len(requests))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {
        number: request["destination"]["devices"]
        for number, request in enumerate(requests)
    }


def test_a_process_that_is_gone_is_an_error(old, tmp_path):
    with Replanner(old) as held:
        os.kill(held._process.pid, signal.SIGKILL)
        held._process.wait()
        with pytest.raises(CompileError, match="exit code -9"):
            held.replan(NODE, tmp_path / "new.dtplan")
        with pytest.raises(CompileError, match="closed"):
            held.replan(NODE, tmp_path / "new.dtplan")


def test_an_answer_that_nobody_waits_for_ends_it(old, tmp_path, monkeypatch):
    with Replanner(old) as held:

        def interrupted():
            raise KeyboardInterrupt

        monkeypatch.setattr(held, "_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.replan(NODE, tmp_path / "new.dtplan")
        with pytest.raises(CompileError, match="closed"):
            held.replan(NODE, tmp_path / "new.dtplan")


def test_warnings_of_the_compiler(replanner, tmp_path):
    """Told where `replan` was called; the same request without what is lost
    has none."""
    rows = [
        {"tensor": "w", "rank": 0, "offset": [0, 0], "size": [640, 480]},
        {"tensor": "b", "rank": 0, "offset": [0], "size": [32]},
    ]
    side = {"world": 1, "shards": rows, "partial": True}
    partial = {**NODE, "destination": side}
    with pytest.warns(CompileWarning, match="^dt-opt: destination") as told:
        replanner.replan(partial, tmp_path / "lost.dtplan")
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replanner.replan(NODE, tmp_path / "kept.dtplan")


def test_closing_ends_the_process(old, tmp_path):
    held = Replanner(old)
    held.close()
    assert held._process.returncode == 0
    held.close()
    with pytest.raises(CompileError, match="closed"):
        held.replan(NODE, tmp_path / "new.dtplan")
