"""Requests in words, and notices by signal or file: who leaves, and who is
given up."""

import os
import re
import signal

import pytest
from dynatrain.job_requests import Notice, Wish, wish_of
from dynatrain.job_status import JobView
from processes import dynatrain
from test_job import LEFT
from test_recovery import Recoveries

MEMBERS = [f"{node}-{number}-x" for number, node in enumerate("abacb")]


@pytest.fixture
def jobs():
    made = Recoveries()
    yield made
    made.end()


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("lost node b", Wish(lost=["b-1-x", "b-4-x"])),
        ("lost  node 2", Wish(lost=["c-3-x"])),
        ("leave node a", Wish(leave=["a-0-x", "a-2-x"])),
        ("leave rank 3", Wish(leave=["c-3-x"])),
        ("lost rank 0", Wish(lost=["a-0-x"])),
        ("-1 node", Wish(leave=["c-3-x"])),
        ("-2 nodes", Wish(leave=["b-1-x", "b-4-x", "c-3-x"])),
        ("+2 nodes", Wish(start=2)),
    ],
)
def test_words(text, wish):
    assert wish_of(text, MEMBERS) == wish


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lost node d", "no node 'd', expected one of a, b, c, or 0 to 2"),
        ("leave rank 5", "no rank '5', expected 0 to 4"),
        ("+0 nodes", "'+0 nodes', expected 'lost node NODE'"),
        ("grow", "'grow', expected 'lost node NODE'"),
    ],
)
def test_words_that_cannot_be(text, why):
    with pytest.raises(dynatrain.InvalidError, match=re.escape(why)):
        wish_of(text, MEMBERS)


def test_a_notice_comes_once(tmp_path):
    path, heard = tmp_path / "go", []
    before = signal.signal(signal.SIGUSR2, lambda *_: heard.append(True))
    try:
        notice = Notice([signal.SIGUSR2, path])
        notice.begin()
        assert not notice.is_news()
        os.kill(os.getpid(), signal.SIGUSR2)
        # What the trainer had for it is done too.
        assert [notice.is_news(), notice.is_news()] == [True, False]
        notice.end()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert heard == [True, True]
    finally:
        signal.signal(signal.SIGUSR2, before)
    path.touch()
    assert Notice([path]).is_news() and not Notice([path / "no"]).is_news()


def test_a_node_that_is_told_to_go_leaves(jobs):
    jobs.found(
        [None] * 4,
        snapshots=4,
        nodes=["one", "two", "one", "two"],
        notice=[int(signal.SIGUSR1)],
    )
    jobs.until_epoch(1)
    jobs.until_next_step()
    os.kill(jobs.all[1].process.pid, signal.SIGUSR1)
    assert jobs.until_epoch(2)["size"] == 2
    outcomes, keys = jobs.stop()
    # By a switch: nobody goes back.
    assert outcomes[1::2] == [["left", []]] * 2
    assert outcomes[::2] == [["stopped", []]] * 2 and keys == LEFT


def test_a_node_is_given_up(jobs):
    jobs.found([None] * 4, snapshots=2, nodes=["one", "two", "one", "two"])
    jobs.until(lambda at: at.get("step", 0) > 4)
    with JobView(jobs.store) as view:
        assert view.request("lost node two") is not None
        with pytest.raises(dynatrain.InvalidError, match="starts no processes"):
            view.request("+1 node")
    jobs.until(lambda at: at.get("size") == 2)
    outcomes, keys = jobs.stop()
    for kind, text in outcomes[1::2]:
        assert kind == "AbortedError" and "without this process" in text, text
    assert [kind for kind, _ in outcomes[::2]] == ["stopped"] * 2
    assert keys == LEFT


def _asks_for_more(port):
    from test_job import builder, connect

    asked = []
    for start in (asked.append, None):
        job = dynatrain.Job(
            connect(port), builder(None), layout=0, start=start, name=str(start)
        )
        with job:
            try:
                job.request("+2 nodes")
            except dynatrain.InvalidError as error:
                asked.append(str(error))
    return asked


def test_more_nodes_are_asked_of_who_starts_them(jobs):
    from test_job import Process

    started, refused = Process(_asks_for_more, jobs.port).outcome()
    assert started == 2 and "nobody starts processes here" in refused
