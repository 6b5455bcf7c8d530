"""Stores whose calls end in time: what the parts of a job speak through."""

import os
import signal
import threading
import time

import pytest
from conftest import HANGS
from processes import dynatrain, fork, stop
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


def bounded(port):
    store = connect(port)
    return dynatrain._C.bounded_store(store, 60.0, ANSWER), store


def _ask_both(pipe, ports):
    """What the store that hangs said, what the other one answered, and in how
    many seconds. The call that hangs keeps its thread, which ends with this
    process: the tests' own forks others."""
    (hung, _kept), (other, _also) = map(bounded, ports)
    pipe.send("connected")
    pipe.recv()
    told = []

    def ask():
        try:
            hung.check(["key"])
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    other.set("key", "value")
    value = other.get("key")
    took = time.monotonic() - began
    thread.join()
    pipe.send((told, value, took))
    os._exit(0)


def test_a_store_that_hangs_holds_up_no_other(hosts):
    """Nor while it is being connected with, which nothing can end."""
    pipe, theirs = fork.Pipe()
    ports = [host.port for host in hosts]
    process = fork.Process(target=_ask_both, args=(theirs, ports))
    process.start()
    theirs.close()
    try:
        assert pipe.poll(HANGS) and pipe.recv() == "connected"
        stop(hosts[0].host.pid)
        pipe.send("stopped")
        assert pipe.poll(HANGS), "hangs"
        told, value, took = pipe.recv()
    finally:
        process.kill()
        process.join()
    assert len(told) == 1 and "does not answer" in told[0]
    assert value == b"value"
    assert took < ANSWER / 2
