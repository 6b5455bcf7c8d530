"""How a job stands, as dt-ctl shows it, and what it asks of the job; what a
switch has spent its time on."""

import json
import subprocess
import time

import pytest
from conftest import BUILD
from dynatrain import ctl
from dynatrain.job_metrics import prometheus_text
from dynatrain.job_status import JobView
from dynatrain.job_trace import SwitchTrace, merged
from processes import dynatrain
from test_job import HANGS, LEFT, Jobs


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.end()


def told(jobs, what):
    """The status, as soon as `what` holds of it."""
    end = time.monotonic() + HANGS
    with JobView(f"127.0.0.1:{jobs.port}") as view:
        while not what(status := view.status()):
            assert time.monotonic() < end, status
            time.sleep(0.1)
    return status


def all_tell(status):
    members = status["members"]
    return bool(members) and all("state" in one for one in members)


def samples_of(text):
    """{(name, rank): value} of a text for Prometheus."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            kind, name = line.split()[1:3]
            assert kind in ("HELP", "TYPE") and name.startswith("dynatrain_")
            continue
        name, rest = line.split("{", 1)
        labels, value = rest.rsplit("} ", 1)
        words = dict(one.split("=") for one in labels.split(","))
        assert words["job"] == '"dynatrain"'
        rank = words.get("rank", '""').strip('"')
        found[name.removeprefix("dynatrain_"), rank] = float(value)
    return found


def control(jobs, capsys, *words):
    """dt-ctl's exit code, and what it has printed."""
    code = ctl.main([words[0], "--store", f"127.0.0.1:{jobs.port}", *words[1:]])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_job_is_seen_and_asked_from_outside(jobs, capsys, tmp_path):
    jobs.start(3, layout=0, snapshots=2, trace=tmp_path)
    jobs.until_epoch(1)
    status = told(jobs, all_tell)
    assert (status["world"], status["layout"]) == (1, 0)
    assert [one["rank"] for one in status["members"]] == [0, 1, 2]
    assert not status["switch"]["is_open"]
    # Its number grows with the steps.
    before = status["snapshots"]["steps"][-1:] or [0]
    status = told(jobs, lambda now: now["snapshots"]["steps"][-1:] > before)
    assert status["snapshots"]["every"] == 2
    assert status["snapshots"]["bytes"] > 0

    wanted = ["--layout", "1", "--leave", "2", "--wait", f"{HANGS}"]
    code, out, err = control(jobs, capsys, "request", *wanted)
    assert (code, err) == (0, "")
    assert out == "switch 2 has begun\nthe job is in world 2, 2 processes\n"
    at = jobs.until_epoch(2)
    assert (at["size"], at["layout"], at["failure"]) == (2, 1, None)

    def has_counted(now):
        return all_tell(now) and all(
            one["counters"]["committed"] == 2 for one in now["members"]
        )

    status = told(jobs, has_counted)
    samples = samples_of(prometheus_text(status))
    assert samples["world", ""] == 2 and samples["processes", ""] == 2
    for rank in ("0", "1"):
        assert samples["switches_committed_total", rank] == 2
        assert samples["switches_aborted_total", rank] == 0
        assert samples["stood_seconds_total", rank] > 0
        assert samples["received_bytes_total", rank] > 0
    code, out, _ = control(jobs, capsys, "status")
    assert code == 0
    assert out.startswith("job dynatrain: world 2 of 2 processes, since step")
    assert "snapshots: every 2 steps, whole of step" in out
    code, out, _ = control(jobs, capsys, "status", "--json")
    assert json.loads(out)["world"] == 2
    outcomes, keys = jobs.stop()
    assert sorted(outcomes) == ["left", "stopped", "stopped"] and keys == LEFT
    check_trace(tmp_path)


def check_trace(folder):
    """Of the switch from three processes to two."""
    whole = merged(folder, 2)
    assert whole["otherData"] == {
        "switch": 2,
        "outcomes": dict.fromkeys("012", "committed"),
    }
    tracks = {
        event["pid"]: event["args"]["name"].split(" (")[0]
        for event in whole["traceEvents"]
        if event["name"] == "process_name"
    }
    assert tracks == {
        0: "rank 0 -> rank 0",
        1: "rank 1 -> rank 1",
        2: "rank 2 -> none",
    }
    wired = 0
    for rank in tracks:
        spans = [
            event
            for event in whole["traceEvents"]
            if event["ph"] == "X" and event["pid"] == rank
        ]
        first = {one["name"]: one for one in reversed(spans)}
        order = ["prepare", "plan", "transfer", "verify", "decide", "adopt"]
        begins = [first[name]["ts"] for name in order]
        assert begins == sorted(begins), first
        assert is_within(first["plan"], first["prepare"])
        stands = first["stands"]
        for name in order[2:]:
            assert is_within(first[name], stands), name
        connects = [one for one in spans if one["cat"] == "connect"]
        assert connects and all(
            is_within(one, first["prepare"]) for one in connects
        )
        for one in spans:
            if one["cat"] in ("wire", "pack", "unpack", "copy"):
                assert is_within(one, first["transfer"]), one
        wired += sum(
            one["args"]["bytes"] for one in spans if one["cat"] == "wire"
        )
    # What is sent is received, and counts twice.
    assert wired > 0 and wired % 2 == 0


def is_within(one, other):
    """Up to what rounding does."""
    begin, end = one["ts"], one["ts"] + one["dur"]
    return other["ts"] <= begin + 1 and end <= other["ts"] + other["dur"] + 1


def test_what_comes_to_nothing_is_said(jobs, capsys, tmp_path):
    jobs.start(2, layout=0, trace=tmp_path)
    jobs.until_epoch(1)
    code, out, err = control(jobs, capsys, "request", "--layout", "0")
    assert (code, out, err) == (0, "the world is as asked for\n", "")
    wanted = ["--layout", '"unknown"', "--wait", f"{HANGS}"]
    code, out, err = control(jobs, capsys, "request", *wanted)
    assert (code, out) == (1, "switch 2 has begun\n")
    assert "ValueError: no layout 'unknown'" in err, err
    jobs.until_failure()
    status = told(jobs, all_tell)
    assert status["world"] == 1 and status["switch"]["phase"] == "aborted"
    for words, why in (
        (["--leave", "7"], "7 is no member of the world, which has ranks 0 to"),
        (["--leave", "0", "1"], "the world would have no member"),
        (["--layout", "{"], "--layout is no JSON"),
        ([], "give words, --layout, or --leave"),
        (["lost", "node", "none"], "there is no node 'none'"),
    ):
        code, out, err = control(jobs, capsys, "request", *words)
        assert (code, out) == (1, "") and why in err, err
    outcomes, keys = jobs.stop()
    # The world that it was to be goes with the next attempt.
    assert outcomes == ["stopped"] * 2 and keys == [*LEFT, "dynatrain/world"]
    code = ctl.main(["trace", str(tmp_path), "-o", str(tmp_path / "all.json")])
    assert code == 0
    whole = json.loads((tmp_path / "all.json").read_text())
    assert whole["otherData"]["switch"] == 2
    for outcome in whole["otherData"]["outcomes"].values():
        assert outcome.startswith("aborted: ") and "unknown" in outcome


def test_without_a_job_it_says_so(jobs, capsys):
    code, _, err = control(jobs, capsys, "request", "--layout", "1")
    assert (code, err) == (1, "dt-ctl: job 'dynatrain' has no world yet\n")
    code, out, _ = control(jobs, capsys, "status")
    assert code == 0 and out.startswith("job dynatrain: world 0 of 0 processes")
    assert jobs.keys() == []


def test_what_is_queued_is_told():
    counters = dict.fromkeys(("stood_s", "committed"), 1)
    queued = {"join": [], "leave": ["a-1-x"], "lost": [], "layout": {"tp": 2}}
    member = {"rank": 0, "process": "b", "step": 7, "state": "transferring"}
    status = {
        "job": "j",
        "world": 3,
        "first_step": 5,
        "layout": None,
        "members": [
            {**member, "queued": queued, "counters": counters},
            {"rank": 1, "process": "c"},
        ],
        "switch": {
            "attempt": 4,
            "phase": "transferring",
            "is_open": True,
            "parties": 2,
            "votes": {"ready": 2, "begun": 0, "done": 1},
            "passes": False,
            "gone": False,
            "target": ["b", "c"],
            "layout": {"tp": 1},
            "lost": [],
            "horizon": 9,
        },
        "snapshots": None,
    }
    assert ctl.status_in_words(status).splitlines() == [
        "job j: world 3 of 2 processes, since step 5",
        "  rank 0  b  step 7  transferring  stood 1.00 s in 1 switches",
        '    queued: leave a-1-x, layout {"tp": 2}',
        "  rank 1  c  has not told yet",
        "switch 4: transferring, of 2 processes 2 ready, 1 done",
        "  to b c",
        '  layout {"tp": 1}',
        "  at step 9",
    ]
    status["switch"] |= {"phase": "passed", "passes": True}
    status["switch"]["votes"]["begun"] = 2
    assert (
        "switch 4: passed, of 2 processes 2 ready, 2 begun, 1 done"
        in ctl.status_in_words(status)
    )
    status["switch"] |= {"phase": "preparing", "passes": False, "gone": True}
    assert (
        "  what the world held is gone: back to a snapshot"
        in ctl.status_in_words(status)
    )
    assert (
        samples_of(
            prometheus_text({**status, "job": "dynatrain", "members": []})
        )["world_gone", ""]
        == 1
    )


def test_a_trace_of_no_switch_is_refused(tmp_path):
    with pytest.raises(dynatrain.InvalidError, match="no trace of a switch"):
        merged(tmp_path)
    SwitchTrace().write(tmp_path, 3, 0, "rank 0 -> rank 0 (a)", "committed")
    assert merged(tmp_path)["otherData"]["switch"] == 3
    with pytest.raises(dynatrain.InvalidError, match="no trace of switch 2"):
        merged(tmp_path, 2)


def test_the_tool_of_the_build():
    """It has its examples, and says what it does not know."""
    tool = BUILD / "bin" / "dt-ctl"
    told = subprocess.check_output([tool, "--help"], text=True)
    _, _, examples = told.partition("Examples:\n")
    assert [line.split()[0] for line in examples.splitlines()] == ["dt-ctl"] * 3
    version = subprocess.check_output([tool, "--version"], text=True)
    assert version.strip() == dynatrain.__version__
    done = subprocess.run(
        [tool, "status", "--store", "nowhere"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "store is 'nowhere', expected 'HOST:PORT'" in done.stderr
