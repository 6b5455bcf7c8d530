"""What a process takes for the end of another one."""

import os
import socket
import threading
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("dynatrain", reason="the extension is not built")

import torch.distributed as dist  # noqa: E402
from conftest import HANGS  # noqa: E402
from dynatrain.connections import Pulse  # noqa: E402
from dynatrain.job_losses import LossWatch  # noqa: E402


class Native:
    """A job of two processes, in its world 1, that asks for nothing."""

    def __init__(self):
        self.looks, self.lost = threading.Semaphore(0), []
        self.told = threading.Event()

    def record(self):
        self.looks.release()
        return SimpleNamespace(
            attempt=2, epoch=1, members=["this", "that"], lost=[], is_open=False
        )

    def state(self):
        return "idle"

    def ask(self, join, leave, layout, lost):
        self.lost += lost
        self.told.set()

    def notify(self, file):
        self.file = file

    def await_looks(self):
        """Of which the last began after this was called."""
        while self.looks.acquire(blocking=False):
            pass
        for _ in range(2):
            os.write(self.file, b"w")
            for _ in range(2):
                assert self.looks.acquire(timeout=HANGS)


def world_of(epoch):
    members = ["this", "that"]
    return SimpleNamespace(
        epoch=epoch,
        members=members,
        rank=0,
        cut=lambda: None,
        release=lambda: None,
    )


def pulse_to_that():
    """And the other end of its connection."""
    ours, theirs = socket.socketpair()
    number = os.fstat(ours.fileno()).st_ino
    return Pulse(ours, {(ours.fileno(), number): 1}), theirs


@pytest.fixture
def watched():
    native, store = Native(), dist.HashStore()
    watch = LossWatch(native, store, "alive")
    world = world_of(epoch=1)
    pulse, theirs = pulse_to_that()
    store.add("alive/that", 1)
    watch.enter(world, pulse)
    yield native, watch, theirs
    watch.close()
    theirs.close()


def test_who_ends_in_the_world_is_lost(watched):
    native, _, theirs = watched
    theirs.close()
    assert native.told.wait(HANGS)
    assert native.lost == ["that"]


def test_who_discards_a_world_is_not(watched):
    """The others may not have heard yet that the attempt has failed."""
    native, watch, _ = watched
    pulse, theirs = pulse_to_that()
    watch.expect(2, world_of(epoch=2), pulse)
    theirs.close()
    native.await_looks()
    assert native.lost == []


def test_who_ended_before_the_world_was_entered_is_lost(watched):
    native, watch, _ = watched
    world = world_of(epoch=1)
    pulse, theirs = pulse_to_that()
    watch.expect(2, world, pulse)
    theirs.close()
    native.await_looks()
    assert native.lost == []
    watch.enter(world, pulse)
    assert native.told.wait(HANGS)
    assert native.lost == ["that"]
