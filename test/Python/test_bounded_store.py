"""Stores whose calls end in time: what the parts of a job speak through."""

import os
import signal
import threading
import time

import pytest
from processes import dynatrain, stop
from test_job import Jobs, connect

ANSWER = 5.0


@pytest.fixture
def hosts():
    """Two stores, each in a process of its own."""
    made = [Jobs(), Jobs()]
    yield made
    for one in made:
        os.kill(one.host.pid, signal.SIGCONT)
        one.end()


def bounded(host):
    store = connect(host.port)
    return dynatrain._C.bounded_store(store, 60.0, ANSWER), store


def test_a_store_that_hangs_holds_up_no_other(hosts):
    """Nor while it is being connected with, which nothing can end."""
    (hung, _kept), (other, _also) = map(bounded, hosts)
    stop(hosts[0].host.pid)
    told = []

    def ask():
        with pytest.raises(RuntimeError, match="does not answer"):
            hung.check(["key"])
        told.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    other.set("key", "value")
    assert other.get("key") == b"value"
    assert time.monotonic() - began < ANSWER / 2
    thread.join()
    assert told
