"""Ranks that pair up, part, and find each other again.

Where an error must come at once, the timeouts are an hour: a rank that waits
for one hangs, and fails the test.
"""

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import dynatrain
import pytest
import switch_faults
from conftest import PATHS
from dynatrain import world as world_module
from processes import (
    dist,
    make_tensors,
    meet,
    run_ranks,
    store_of_rank_0,
    torch,
)

EXITS = Path(__file__).with_name("exits.py")
PLAN = "adamw-mlp-4-rows-to-columns"
HOUR = 3600.0
KEY = ("w", "param")


@pytest.fixture(scope="module")
def plan_of_two(tmp_path_factory):
    """[8, 8], from rows to columns, on two ranks."""

    def shards(dim):
        return [
            {
                "tensor": "w",
                "rank": rank,
                "offset": [rank * 4 * (d == dim) for d in range(2)],
                "size": [4 if d == dim else 8 for d in range(2)],
            }
            for rank in range(2)
        ]

    path = tmp_path_factory.mktemp("plan") / "two.dtplan"
    tensor = {"name": "w", "shape": [8, 8], "dtype": "f32"}
    dynatrain.compile(
        {
            "model": {"tensors": [tensor]},
            "source": {"world": 2, "shards": shards(0)},
            "destination": {"world": 2, "shards": shards(1)},
        },
        path,
    )
    return str(path)


def _world(store, rank, **options):
    options.setdefault("timeout", HOUR)
    return dynatrain.World(store=store, rank=rank, world_size=2, **options)


def _tensors(value=1.0):
    return {KEY: torch.full((4, 8), value)}, {KEY: torch.zeros(8, 4)}


# ---------------------------------------------------------------------------
# Pairing
# ---------------------------------------------------------------------------


def _iterations(rank, store, path):
    """Rank 1 fails in iteration 1 before it comes to its switch."""
    world = _world(store, rank)
    found, met, step = [], [], 0
    while step < 5:
        source, target = _tensors(float(step))
        try:
            wrong = (rank, step) == (1, 1)
            plan = dynatrain.Plan.load("/nonexistent" if wrong else path)
            switch = plan.prepare(world, source, target, tag=step)
            switch.transfer()
            switch.commit()
            found.append((step, target[KEY].unique().tolist()))
        except dynatrain.Error as error:
            met.append(str(error))
            step = max(world.meet(step))
        step += 1
    return found, met


def test_ranks_meet_after_an_error(plan_of_two, tmp_path):
    """No two iterations are ever mixed, whoever has failed where."""
    outcomes = run_ranks(2, _iterations, tmp_path, plan_of_two)
    right = [(step, [float(step)]) for step in (0, 2, 3, 4)]
    assert [found for found, _ in outcomes] == [right, right]
    assert "/nonexistent" in outcomes[1][1][0]
    assert "rank 1 stopped: it waits in a meeting" in outcomes[0][1][0] or (
        "rank 1 waits in a meeting" in outcomes[0][1][0]
    )


def _other_tag(rank, store, path, tags):
    plan = dynatrain.Plan.load(path)
    try:
        plan.prepare(_world(store, rank), *_tensors(), tag=tags[rank]).wait()
    except dynatrain.MismatchError as error:
        return str(error)


@pytest.mark.parametrize("tags", [(7, 8), (7, "7"), (None, 7)])
def test_another_tag_is_an_error_at_once(tags, plan_of_two, tmp_path):
    words = ["null" if t is None else f'"{t}"' if t == "7" else t for t in tags]
    for text in run_ranks(2, _other_tag, tmp_path, plan_of_two, tags):
        assert "prepare: the ranks do not have the same tag: " in text
        assert f"rank 0 has {words[0]}" in text
        assert f"rank 1 has {words[1]}" in text


def _let_go(rank, store, path):
    """Both ranks keep nothing of what they hand in."""
    plan = dynatrain.Plan.load(path)
    switch = plan.prepare(_world(store, rank), *_tensors(), tag=1)
    switch.wait()
    meet(store, "ready", rank, 2)  # else the first error ends the other's wait
    try:
        switch.transfer()
    except dynatrain.Error as error:
        return str(error)


def test_tensors_that_are_let_go_are_told_by_transfer(plan_of_two, tmp_path):
    for text in run_ranks(2, _let_go, tmp_path, plan_of_two):
        assert "transfer: " in text and "was freed after prepare" in text


def test_wrong_tags(plan_of_two):
    plan = dynatrain.Plan.load(plan_of_two)
    for tag in (1.5, True, [1]):
        with pytest.raises(dynatrain.InvalidError, match="expected an int or"):
            plan.prepare(_world(dist.HashStore(), 0), tag=tag)


def _retried(rank, store, path):
    """The first try of both is ended by rank 1, before and after."""
    plan = dynatrain.Plan.load(path)
    texts = []
    for attempt in range(3):
        source, target = _tensors(float(attempt))
        switch = plan.prepare(_world(store, rank), source, target, tag=4)
        try:
            if rank == 1 and attempt < 2:
                if attempt == 1:
                    switch.wait()
                switch.abort(f"try {attempt}")
            switch.transfer()
            switch.commit()
            texts.append(target[KEY].unique().tolist())
        except dynatrain.AbortedError as error:
            texts.append(str(error))
        meet(store, f"tried{attempt}", rank, 2)
    return texts


def test_the_same_tag_may_be_tried_again(plan_of_two, tmp_path):
    for texts in run_ranks(2, _retried, tmp_path, plan_of_two):
        assert "rank 1: try 0" in texts[0]
        assert "rank 1: try 1" in texts[1]
        assert texts[2] == [2.0]


# ---------------------------------------------------------------------------
# Ends
# ---------------------------------------------------------------------------


def _late(rank, store, path):
    plan = dynatrain.Plan.load(path)
    if rank == 0:
        store.wait(["aborted"], timedelta(seconds=60))
    switch = plan.prepare(_world(store, rank), *_tensors())
    if rank == 1:
        switch.abort("preempted by the scheduler")
        store.set("aborted", "")
    with pytest.raises(dynatrain.AbortedError) as error:
        switch.transfer()
    assert switch.outcome == "aborted"
    return str(error.value)


def test_a_rank_that_comes_later_reads_of_the_abort(plan_of_two, tmp_path):
    outcomes = run_ranks(2, _late, tmp_path, plan_of_two)
    assert outcomes == [
        "rank 0, prepare: rank 1 stopped: rank 1: preempted by the scheduler",
        outcomes[1],
    ]
    assert "rank 1: preempted by the scheduler" in outcomes[1]


def _interrupted(rank, store, path, where):
    """Rank 1 is late for as long as rank 0 has not been interrupted."""
    plan = dynatrain.Plan.load(path)
    source, target = _tensors()
    switch = plan.prepare(_world(store, rank), source, target)
    switch.wait()
    meet(store, "prepared", rank, 2)
    if rank == 1 and where == "transfer":
        store.wait(["interrupted"], timedelta(seconds=60))
    if rank == 0 and where == "transfer":
        _interrupt_soon()
    try:
        switch.transfer()
        if rank == 1:
            store.wait(["interrupted"], timedelta(seconds=60))
        else:
            _interrupt_soon()
        switch.commit()
    except KeyboardInterrupt:
        store.set("interrupted", "")
        assert switch.outcome == "aborted"
        return bool(source[KEY].eq(1).all())
    except dynatrain.AbortedError as error:
        return str(error)


def _interrupt_soon():
    # A process started in the background of a shell ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pid = os.getpid()
    threading.Timer(0.3, lambda: os.kill(pid, signal.SIGINT)).start()


@pytest.mark.parametrize("where", ["transfer", "commit"])
def test_signals_reach_a_rank_that_waits(where, plan_of_two, tmp_path):
    outcomes = run_ranks(2, _interrupted, tmp_path, plan_of_two, where)
    assert outcomes[0] is True
    assert f"rank 1, {where}: rank 0 stopped: " in outcomes[1]
    assert "interrupted by KeyboardInterrupt" in outcomes[1]


def _interrupted_meeting(rank, store):
    if rank == 0:
        _interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            _world(store, rank).meet(3)
        store.set("interrupted", "")
        return None
    store.wait(["interrupted"], timedelta(seconds=60))
    with pytest.raises(
        dynatrain.AbortedError, match="rank 0 stopped: interrupted by Keyboard"
    ):
        _world(store, rank).meet(4)
    return None


def test_signals_reach_a_meeting(tmp_path):
    assert run_ranks(2, _interrupted_meeting, tmp_path) == [None, None]


def _broken_prepare(rank, store, path, error):
    if rank == 1:

        def connect(*_):
            raise error

        world_module.Place.connect = connect
    plan = dynatrain.Plan.load(path)
    tensors = _tensors()
    switch = plan.prepare(_world(store, rank), *tensors)
    with pytest.raises(BaseException) as first:
        switch.wait()
    with pytest.raises(type(first.value)):
        switch.transfer()
    return type(first.value).__name__, str(first.value)


@pytest.mark.parametrize(
    "error",
    [RuntimeError(""), RuntimeError("no\nport"), SystemExit(3)],
    ids=str,
)
def test_an_exception_while_it_prepares_is_raised(error, plan_of_two, tmp_path):
    """Whatever it is, on that rank and on the others."""
    outcomes = run_ranks(2, _broken_prepare, tmp_path, plan_of_two, error)
    kind, text = outcomes[1]
    if isinstance(error, SystemExit):
        assert (kind, text) == ("SystemExit", "3")
        assert outcomes[0][1].endswith("rank 1 stopped: SystemExit: 3")
    else:
        words = "RuntimeError: no" if str(error) else "RuntimeError"
        assert text == f"rank 1, prepare: cannot connect: {words}"
        assert outcomes[0][0] == "PeerLostError"
        assert outcomes[0][1].endswith(f"stopped: cannot connect: {words}")


def _dropped(rank, store, path, how):
    plan = dynatrain.Plan.load(path)
    tensors = _tensors()
    switch = plan.prepare(_world(store, rank), *tensors)
    switch.wait()
    meet(store, "prepared", rank, 2)
    if rank == 0:
        with pytest.raises(dynatrain.AbortedError) as error:
            switch.transfer()
            switch.commit()
        return str(error.value)
    if how == "left":
        with switch:
            switch.transfer()
    elif how == "raised":
        with pytest.raises(ZeroDivisionError), switch:
            switch.transfer()
            _ = 1 // 0
    del switch
    return None


@pytest.mark.parametrize(
    "how, why",
    [
        ("dropped", "it has dropped the switch"),
        ("left", "left without a commit"),
        ("raised", "ZeroDivisionError: integer division"),
    ],
)
def test_a_switch_that_is_given_up_is_aborted(how, why, plan_of_two, tmp_path):
    text = run_ranks(2, _dropped, tmp_path, plan_of_two, how)[0]
    assert f"rank 1 stopped: {why}" in text


def _committed(rank, store, path):
    plan = dynatrain.Plan.load(path)
    tensors = _tensors()
    with plan.prepare(_world(store, rank), *tensors) as switch:
        assert switch.outcome == "open"
        switch.transfer()
        switch.commit()
        assert switch.outcome == "committed"
        with pytest.raises(dynatrain.Error, match="the switch is committed"):
            switch.abort("too late")
        with pytest.raises(dynatrain.Error, match="each once"):
            switch.transfer()
    return switch.outcome


def test_a_commit_stands(plan_of_two, tmp_path):
    outcomes = run_ranks(2, _committed, tmp_path, plan_of_two)
    assert outcomes == ["committed", "committed"]


def _host_leaves(rank, store, path):
    """Rank 0 hosts the store, and its process ends with the commit."""
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    world = dynatrain.World(
        store=store_of_rank_0(rank, store, 4), rank=rank, timeout=60
    )
    switch = plan.prepare(world, source, target)
    switch.transfer()
    switch.commit()
    return switch.outcome


@pytest.mark.parametrize("attempt", range(5))
def test_the_stores_host_leaves_last(attempt, compile_plan, tmp_path):
    outcomes = run_ranks(4, _host_leaves, tmp_path, compile_plan(PLAN))
    assert outcomes == ["committed"] * 4


def _exits(plan, folder, how):
    """(what is printed, what is complained about) by exits.py."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", EXITS, plan, folder, how],
        env=os.environ | {"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_a_process_ends_after_its_threads(plan_of_two, tmp_path):
    """A thread of the extension that outlives Python ends the process by
    "terminate called without an active exception"."""
    printed, _ = _exits(plan_of_two, tmp_path, "slow")
    assert printed == ["the thread has ended", "code 0"]


def test_processes_end_while_they_prepare(plan_of_two, tmp_path):
    printed, said = _exits(plan_of_two, tmp_path, "6")
    assert printed == ["code 0", "code 0", "code 1"] * 2
    lines = [one for one in said.splitlines() if not one.startswith(" ")]
    assert (
        lines
        == [
            "Traceback (most recent call last):",
            "ZeroDivisionError: a trainer's error",
        ]
        * 2
    )


# ---------------------------------------------------------------------------
# What goes with the tensors
# ---------------------------------------------------------------------------


def _trains_on(rank, store, path):
    """Five steps of training between prepare and transfer."""
    torch.manual_seed(0)
    full = torch.randn(8, 8)
    old = {"w": torch.nn.Parameter(full.chunk(2, 0)[rank].clone())}
    adamw = torch.optim.AdamW(old.values())

    def step():
        old["w"].grad = torch.ones_like(old["w"])
        adamw.step()

    for _ in range(3):
        step()
    new = {"w": torch.nn.Parameter(torch.zeros(8, 4))}
    optimizer = torch.optim.AdamW(new.values())
    fresh = dynatrain.fresh_state(new, optimizer)
    source = {KEY: dynatrain.training_state(old, adamw)[KEY]}
    switch = dynatrain.Plan.load(path).prepare(
        _world(store, rank),
        source,
        {KEY: fresh.tensors[KEY]},
        user_data=dynatrain.counters(old, adamw),
    )
    for _ in range(5):
        step()
    assert switch.user_data["w"]["step"] == 3.0
    switch.transfer(user_data=dynatrain.counters(old, adamw))
    switch.commit()
    fresh.install(switch.user_data)
    return optimizer.state[new["w"]]["step"].item()


def test_counters_are_those_of_the_transfer(plan_of_two, tmp_path):
    assert run_ranks(2, _trains_on, tmp_path, plan_of_two) == [8.0, 8.0]


def _gives(rank, store, path, prepared, transferred):
    plan = dynatrain.Plan.load(path)
    tensors = _tensors()
    switch = plan.prepare(
        _world(store, rank), *tensors, user_data=prepared[rank]
    )
    switch.transfer(transferred[rank])
    switch.commit()
    return switch.user_data


@pytest.mark.parametrize(
    "prepared, transferred, right",
    [
        ((None, None), (None, None), None),
        (("a", "b"), (None, None), "a"),
        ((None, "b"), (None, None), "b"),
        (("a", "b"), (None, 0), 0),
        (("a", "b"), ("c", "d"), "c"),
        ((None, None), ("ü\n", None), "ü\n"),
    ],
)
def test_user_data(prepared, transferred, right, plan_of_two, tmp_path):
    outcomes = run_ranks(
        2, _gives, tmp_path, plan_of_two, prepared, transferred
    )
    assert outcomes == [right, right]


# ---------------------------------------------------------------------------
# The store
# ---------------------------------------------------------------------------


@pytest.fixture
def port(tmp_path):
    """Of a store in a process of its own."""
    file = tmp_path / "port"
    server = switch_faults.fork(lambda: switch_faults.serve_store(file))
    yield int(switch_faults.await_file(file))
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)


def _client(port):
    limit = timedelta(seconds=60)
    return dist.TCPStore("127.0.0.1", port, None, False, limit)


def _switches(rank, store, path, port, ends):
    """One switch for each of `ends`; the store's keys after each."""
    tcp = _client(port)
    plan = dynatrain.Plan.load(path)
    keys = []
    for step, end in enumerate(ends):
        world = _world(tcp, rank)
        try:
            tag = rank if end == "mismatch" else step
            source, target = _tensors()
            if end == "tensors" and rank == 0:
                del source[KEY]
            switch = plan.prepare(world, source, target, tag=tag)
            switch.wait()
            if end == "abort" and rank == 1:
                switch.abort()
            switch.transfer()
            switch.commit()
        except dynatrain.Error:
            pass
        meet(store, f"ended{step}", rank, 2)
        keys.append(sorted(name.lstrip("/") for name in tcp.list_keys()))
        meet(store, f"counted{step}", rank, 2)
    return keys


def test_switches_leave_one_key(plan_of_two, port, tmp_path):
    ends = ["commit", "commit", "abort", "commit", "mismatch", "commit"]
    ends += ["tensors", "commit"] * 2
    for keys in run_ranks(2, _switches, tmp_path, plan_of_two, port, ends):
        assert keys == [["dynatrain/attempt"]] * len(ends)


def _uses_the_store(rank, store, path, port):
    """A thread of the trainer waits in the store, with its only connection."""
    tcp = _client(port)
    waits = threading.Thread(
        target=lambda: tcp.wait(["end"], timedelta(seconds=60)), daemon=True
    )
    waits.start()
    plan = dynatrain.Plan.load(path)
    tensors = _tensors()
    switch = plan.prepare(_world(tcp, rank), *tensors)
    switch.transfer()
    switch.commit()
    alive = waits.is_alive()
    _client(port).set("end", "")
    waits.join()
    return alive


def test_the_trainer_may_wait_in_its_store(plan_of_two, port, tmp_path):
    outcomes = run_ranks(2, _uses_the_store, tmp_path, plan_of_two, port)
    assert outcomes[0] or outcomes[1]


def _meets(rank, store, size):
    world = dynatrain.World(
        store=store, rank=rank, world_size=size, timeout=HOUR
    )
    return [world.meet({"step": rank * i}) for i in range(3)]


def test_meeting(tmp_path):
    right = [[{"step": r * i} for r in range(3)] for i in range(3)]
    assert run_ranks(3, _meets, tmp_path, 3) == [right] * 3


def test_a_meeting_needs_a_size():
    with pytest.raises(dynatrain.InvalidError, match="needs its world_size"):
        dynatrain.World(store=dist.HashStore(), rank=0).meet()
