"""A process that is killed: every other one gets an error, none hangs."""

import os
import signal
import threading
import time
from pathlib import Path

import dynatrain
import pytest
from dynatrain import world as world_module
from processes import (
    KILLED,
    make_tensors,
    meet,
    run_ranks,
    store_of_rank_0,
    torch,
)

PLAN = "llama-tiny-8-to-4-shrink"
# Seconds. Waits start when all that will come are there, so that load only has
# to leave every process a turn within this time.
TIMEOUT = 10
VICTIM = 5


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _die_during(switch):
    """While the bytes move, or soon after: the others see one or the other."""
    threading.Timer(0.005, _die).start()
    switch.transfer()
    time.sleep(1)


def _rank(rank, store, path, phase, victim, shared_memory):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    dies = rank == victim
    if dies and phase == "prepare":
        _die()
    if dies and phase == "connect":
        world_module.Place.connect = lambda *_: _die()
    present = set(range(8)) - ({victim} if phase == "prepare" else set())
    meet(store, "start", rank, present)
    world = dynatrain.World(
        store=store, rank=rank, timeout=TIMEOUT, shared_memory=shared_memory
    )
    begin = time.monotonic()
    try:
        switch = plan.prepare(world, source, target)
        switch.wait()
        if dies and phase == "transfer":
            _die()
        if dies and phase == "midway":
            _die_during(switch)
        switch.transfer()
        if dies and phase == "commit":
            _die()
        switch.commit()
    except dynatrain.Error as error:
        assert time.monotonic() - begin < 2 * TIMEOUT + 20
        return str(error)
    return "committed"


# What the others may be in when they learn of it.
PHASES = {
    "prepare": {"prepare"},
    "connect": {"prepare"},
    "transfer": {"transfer", "commit"},
    "midway": {"transfer", "commit"},
    "commit": {"commit"},
}


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("victim", [0, VICTIM])
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in(phase, victim, shared_memory, compile_plan, tmp_path):
    shared = set(os.listdir("/dev/shm"))
    path = compile_plan(PLAN)
    outcomes = run_ranks(8, _rank, tmp_path, path, phase, victim, shared_memory)
    for rank, text in enumerate(outcomes):
        if rank == victim:
            assert text == KILLED
            continue
        assert any(
            text.startswith(f"rank {rank}, {p}: ") for p in PHASES[phase]
        )
        assert f"rank {victim}" in text, text
    assert set(os.listdir("/dev/shm")) <= shared


def _store_host(rank, store, path, wait_for_death):
    """Rank 0 hosts the store and dies when all have their bytes."""
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    world = dynatrain.World(
        store=store_of_rank_0(rank, store, 4), rank=rank, timeout=60
    )
    switch = plan.prepare(world, source, target)
    switch.transfer()
    if rank == 0:
        store.set("pid", str(os.getpid()))
    meet(store, "transferred", rank, range(4) if rank == 0 else [])
    if rank == 0:
        _die()
    if wait_for_death:
        _wait_until_dead(int(store.get("pid")))
    switch.commit()


def _wait_until_dead(pid):
    """Its connections are closed by then, also where nobody has reaped it."""
    while True:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        if stat.rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.001)


LOST = (
    "lost the store (the process that hosts it, often rank 0, may have ended)"
)


def test_store_dead_before_commit(compile_plan, tmp_path):
    path = compile_plan("adamw-mlp-4-rows-to-columns")
    outcomes = run_ranks(4, _store_host, tmp_path, path, True)
    for rank, text in enumerate(outcomes[1:], start=1):
        assert text.startswith(f"error: rank {rank}, commit: {LOST}")
        assert "keep what both sides hold" not in text


def test_store_dies_with_rank_0(compile_plan, tmp_path):
    path = compile_plan("adamw-mlp-4-rows-to-columns")
    outcomes = run_ranks(4, _store_host, tmp_path, path, False)
    for rank, text in enumerate(outcomes[1:], start=1):
        open_end = "cannot learn whether this was committed or aborted: "
        start = f"error: rank {rank}, commit: "
        # One that comes after the end has not said that it is done, and knows.
        assert text.startswith((start + LOST, start + open_end + LOST))
        assert (open_end in text) == ("keep what both sides hold" in text)


def _stopped_by_trainer(rank, store, path):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    before = {key: [t.clone() for t in ts] for key, ts in source.items()}
    world = dynatrain.World(store=store, rank=rank, timeout=TIMEOUT)
    switch = plan.prepare(world, source, target)
    switch.wait()
    meet(store, "ready", rank, range(4))
    if rank == 1:
        switch.abort("loss is not finite")
        return "aborted"
    with pytest.raises(dynatrain.Error, match="rank 1: loss is not finite"):
        switch.transfer()
        switch.commit()
    same = all(
        old.equal(new)
        for key in source
        for old, new in zip(before[key], source[key], strict=True)
    )
    again = plan.prepare(world, source, target)  # the world is still of use
    return same and again is not None


def test_abort_leaves_the_source(compile_plan, tmp_path):
    path = compile_plan("adamw-mlp-4-rows-to-columns")
    outcomes = run_ranks(4, _stopped_by_trainer, tmp_path, path)
    assert outcomes == [True, "aborted", True, True]


def _slow(rank, store, path):
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    world = dynatrain.World(store=store, rank=rank, timeout=TIMEOUT)
    switch = plan.prepare(world, source, target)
    switch.wait()
    if rank == 3:
        meet(store, "gave up", rank, range(3))
        return "slow"
    try:
        switch.transfer()
        switch.commit()
    except dynatrain.Error as error:
        return str(error)
    finally:
        store.set(f"gave up/{rank}", "here")


def test_rank_that_never_transfers(compile_plan, tmp_path):
    """A rank that lives but does not come is named after the timeout."""
    path = compile_plan("adamw-mlp-4-rows-to-columns")
    outcomes = run_ranks(4, _slow, tmp_path, path)
    assert outcomes[3] == "slow"
    for text in outcomes[:3]:
        assert f"timeout of {TIMEOUT} s waiting for rank 3" in text


class _Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("answers, waits", [([], 2), (["name"], 12)])
def test_waits_for_process_0(answers, waits, monkeypatch):
    """Twice the timeout for its word; ten times more while it compiles."""
    timeout, store, clock = 30.0, torch.distributed.HashStore(), _Clock()
    first, second = (
        dynatrain.World(store=store, rank=rank, world_size=2, timeout=timeout)
        for rank in range(2)
    )
    board = first.exchange("plan_between")
    for key in answers:
        board.post_result(key, lambda: b"a plan's name")
    monkeypatch.setattr("dynatrain.board.time", clock)
    held = {("w", "param"): torch.zeros(2)}
    with pytest.raises(dynatrain.PeerTimeoutError) as raised:
        dynatrain.plan_between(held, held, second)
    assert f"no answer within {waits * timeout:g} s from rank 0" in str(
        raised.value
    )
    assert waits * timeout <= clock.now < waits * timeout + 1
