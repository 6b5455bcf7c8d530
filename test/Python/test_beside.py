"""The thread that does one thing after the other beside training."""

import os
import threading

import pytest
from dynatrain.beside import Beside


def threads(name):
    return [one for one in threading.enumerate() if one.name == name]


def test_one_thread_does_all():
    beside, told = Beside("test-one"), []
    assert beside.wait(0) and not threads("test-one")
    for number in range(3):
        beside.begin(lambda: told.append(threading.current_thread()))
        assert beside.wait()
        assert len(told) == number + 1
    assert set(told) == set(threads("test-one"))
    beside.end()
    told[0].join()
    beside.end()


def test_a_wait_may_end_before():
    beside, go = Beside("test-wait"), threading.Event()
    beside.begin(go.wait)
    assert not beside.wait(0.01)
    # It ends when that is done, and not before.
    (thread,) = threads("test-wait")
    beside.end()
    assert thread.is_alive()
    go.set()
    thread.join()
    assert beside.wait(0)


def test_what_is_done_is_let_go():
    class Held:
        pass

    import weakref

    beside, held = Beside("test-held"), Held()
    seen = weakref.ref(held)
    beside.begin(lambda held=held: None)
    del held
    assert beside.wait()
    (thread,) = threads("test-held")
    beside.end()
    thread.join()
    assert seen() is None


@pytest.mark.skipif(
    not hasattr(os, "SCHED_BATCH"), reason="this system has no SCHED_BATCH"
)
def test_others_go_first():
    """The thread alone is scheduled in another way."""
    beside, told = Beside("test-batch"), []
    beside.begin(lambda: told.append(os.sched_getscheduler(0)))
    beside.wait()
    beside.end()
    assert told == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
