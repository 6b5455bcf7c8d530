"""A few of the runs that job_faults.py makes; it says what must hold."""

from types import SimpleNamespace

import job_faults
import pytest
from dynatrain.job_attempt import Attempt
from job_faults import LOST, NEW, OLD, RECOVERED, Run


@pytest.mark.parametrize(
    ("fault", "role", "phase", "outcome"),
    [
        ("kill", "staying", "transferring", RECOVERED),
        ("kill", "leaving", "decided", NEW),
        # What the leaving process had a copy of, others have by then.
        ("kill", "asking", "decided", RECOVERED),
        ("kill", "staying", "decided", RECOVERED),
        ("exception", "asking", "preparing", OLD),
        ("stop", "asking", "steady", RECOVERED),
        ("full staging", "joining", "preparing", OLD),
        ("store lost", "staying", "decided", LOST),
        ("store cut off", "joining", "decided", RECOVERED),
    ],
)
def test_a_fault(fault, role, phase, outcome):
    found, wrong, _ = job_faults.execute(Run(8, fault, role, phase), None)
    assert (found, wrong) == (outcome, [])


@pytest.mark.parametrize(
    ("fault", "role", "phase", "outcome"),
    [
        # Until its point of no return a flat switch leaves the old world.
        ("exception", "leaving", "preparing", OLD),
        ("kill", "joining", "preparing", OLD),
        # Past it, what nobody holds any more comes from snapshots.
        ("kill", "staying", "transferring", RECOVERED),
        ("kill", "joining", "voting", RECOVERED),
        ("exception", "joining", "transferring", RECOVERED),
        ("kill", "leaving", "voting", RECOVERED),
        # Nobody is lost: it has taken too long.
        ("late", "staying", "voting", RECOVERED),
        ("kill", "staying", "decided", RECOVERED),
    ],
)
def test_a_fault_in_a_flat_switch(fault, role, phase, outcome):
    run = Run(8, fault, role, phase, flat=True)
    found, wrong, _ = job_faults.execute(run, None)
    assert (found, wrong) == (outcome, [])


def test_a_network_that_is_cut():
    if not job_faults.can_make_networks():
        pytest.skip("no network of namespaces can be made here")
    with job_faults.Network() as network:
        run = Run(8, "network cut", "asking", "voting")
        found, wrong, _ = job_faults.execute(run, network)
    assert (found, wrong) == (RECOVERED, [])


def record(members, target, layout="", target_layout=""):
    return SimpleNamespace(
        members=list(members),
        target_members=list(target),
        layout=layout,
        target_layout=target_layout,
    )


@pytest.mark.parametrize(
    ("own", "then", "is_taken_over"),
    [
        # What a newer request has left as it was, and what it has not.
        (record("ab", "abc"), record("ab", "abcd"), True),
        (record("ab", "abc"), record("ab", "a"), False),
        (record("ab", "a"), record("ab", "ac"), True),
        (record("ab", "a"), record("ab", "abc"), False),
        (record("ab", "ab", "1", "2"), record("ab", "a", "1", "3"), True),
        (record("ab", "ab", "1", "2"), record("ab", "a", "1", "1"), False),
    ],
)
def test_whether_another_attempt_brings_the_same(own, then, is_taken_over):
    attempt = SimpleNamespace(_record=own)
    assert Attempt.is_taken_over_by(attempt, then) is is_taken_over


def test_the_table_is_of_the_runs(tmp_path):
    page, told = tmp_path / "page.md", tmp_path / "told.jsonl"
    page.write_text(f"a\n{job_faults.BEGIN}\nold\n{job_faults.END}\nb\n")
    told.write_text(
        '{"fault": "kill", "role": "leaving", "phase": "voting", '
        '"outcome": "recovered", "wrong": [], "seconds": 2}\n'
        '{"fault": "kill", "role": "leaving", "phase": "voting", '
        '"outcome": "old", "wrong": ["a"], "seconds": 3}\n'
    )
    job_faults.write_table(page, [str(told)])
    text = page.read_text()
    assert "| kill | - | - | - | WRONG, recovered | - |" in text
    assert "2 runs, 1 of them wrong" in text and "old\n" not in text
    assert text.startswith("a\n") and text.endswith("\nb\n")
