"""Live switches whose ranks read each other's shards: the source lies in pages
that processes of one host share.

Four ranks change a tensor from rows to columns, and back.
"""

import json
import os
import signal
import subprocess
import threading
import time

import dynatrain
import pytest
from conftest import BUILD
from processes import fork, hollow_tensors, meet, run_ranks, torch

RANKS = 4
SIDE = 512  # of the square tensors, of 1 MiB
NAMES = ["w.0", "w.1"]


def request(source, destination, **memory):
    def layout(placement):
        return {"world": RANKS, "tp": RANKS, "rules": [placement]}

    return {
        "model": {
            "tensors": [
                {"name": name, "shape": [SIDE, SIDE], "dtype": "f32"}
                for name in NAMES
            ]
        },
        "source": layout(source),
        "destination": layout(destination),
        "memory": memory or {"mode": "rollback"},
    }


ROWS = {"match": "w.*", "tp": 0}
COLUMNS = {"match": "w.*", "tp": 1}


def compile_plan(path, source, destination, **memory):
    subprocess.run(
        [BUILD / "bin" / "dt-opt", "-", "-o", path],
        input=json.dumps(request(source, destination, **memory)),
        text=True,
        check=True,
    )
    return str(path)


@pytest.fixture
def plans(tmp_path):
    """plans(**memory): the paths of both directions."""

    def compile_both(**memory):
        return [
            compile_plan(tmp_path / "there.dtplan", ROWS, COLUMNS, **memory),
            compile_plan(tmp_path / "back.dtplan", COLUMNS, ROWS, **memory),
        ]

    return compile_both


def content(name):
    values = torch.arange(SIDE * SIDE, dtype=torch.float32)
    return (values + NAMES.index(name)).view(SIDE, SIDE)


def first_state(plan, rank, make):
    return {
        (entry.tensor, entry.state): make(entry.cut(content(entry.tensor)))
        for entry in plan.expected(rank)
        if entry.side == "source"
    }


def wrong(plan, rank, state, side="destination"):
    return [
        entry.tensor
        for entry in plan.expected(rank)
        if entry.side == side
        and not torch.equal(
            state[entry.tensor, entry.state], entry.cut(content(entry.tensor))
        )
    ]


def shared(tensor):
    return dynatrain.paged(tensor, shared=True)


def _there_and_back(rank, store, paths, sharing):
    """Of each switch, what was sent without being packed, and all that was."""
    told = []
    for number, path in enumerate(paths):
        plan = dynatrain.Plan.load(path)
        if number == 0:
            state = first_state(
                plan, rank, shared if rank in sharing else torch.clone
            )
        made = hollow_tensors(plan, rank)
        world = dynatrain.World(store=store, rank=rank, timeout=60)
        switch = plan.prepare(world, state, made)
        switch.transfer()
        stats = switch.stats
        told.append((stats["bytes_read_by_peers"], stats["bytes_sent"]))
        switch.commit()
        assert wrong(plan, rank, made) == []
        state = made
    return told


#: What a rank sends: of each tensor, its shard less what stays.
SENT = len(NAMES) * 4 * SIDE * SIDE // RANKS * (RANKS - 1) // RANKS


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"mode": "flat", "granularity": "page", "staging": "1MiB"},
        {"mode": "flat", "granularity": "tensor", "staging": "4MiB"},
    ],
    ids=["rollback", "page", "tensor"],
)
def test_nothing_is_packed(plans, memory, tmp_path):
    """Back, rows of columns are sent from where they lie in any case."""
    paths = plans(**memory)
    told = run_ranks(RANKS, _there_and_back, tmp_path, paths, [])
    assert told == [[(0, SENT), (0, SENT)]] * RANKS
    told = run_ranks(RANKS, _there_and_back, tmp_path, paths, range(RANKS))
    assert [there for there, _ in told] == [(SENT, SENT)] * RANKS
    assert all(back in [(0, SENT), (SENT, SENT)] for _, back in told)


def test_some_may_share(plans, tmp_path):
    """What the others have is packed as before."""
    told = run_ranks(RANKS, _there_and_back, tmp_path, plans(), [0, 2])
    assert [there for there, _ in told] == [(SENT, SENT), (0, SENT)] * 2


def _stands_still(rank, store, paths):
    """Rank 1 is stopped on its way through the transfer; the others give up and
    train on; then it goes on."""
    plan = dynatrain.Plan.load(paths[0])
    state = first_state(plan, rank, shared)
    made = hollow_tensors(plan, rank)
    world = dynatrain.World(
        store=store, rank=rank, timeout=3 if rank != 1 else 60
    )
    switch = plan.prepare(world, state, made)
    switch.wait()
    meet(store, "ready", rank, RANKS)
    if rank == 1:
        store.set("pid", str(os.getpid()))
        threading.Timer(0, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    with pytest.raises(dynatrain.Error):
        switch.transfer()
        switch.commit()
    assert wrong(plan, rank, state, "source") == []
    if rank == 1:
        return []
    for tensor in state.values():
        tensor.fill_(7)
    meet(store, "trained", rank, [0, 2, 3])
    if rank == 0:
        os.kill(int(store.get("pid")), signal.SIGCONT)
    time.sleep(1)
    return [
        key for key, tensor in state.items() if not bool((tensor == 7).all())
    ]


def test_who_stands_still_reaches_nobodys_memory(plans, tmp_path):
    told = run_ranks(RANKS, _stands_still, tmp_path, plans())
    assert told == [[]] * RANKS


def _forks(rank, store, paths):
    """A worker that was forked ends, and the pages stay."""
    plan = dynatrain.Plan.load(paths[0])
    state = first_state(plan, rank, shared)
    worker = fork.Process(target=state.clear)
    worker.start()
    worker.join()
    made = hollow_tensors(plan, rank)
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch = plan.prepare(world, state, made)
    switch.transfer()
    switch.commit()
    return worker.exitcode, wrong(plan, rank, made)


def test_a_forked_process_takes_nothing_with_it(plans, tmp_path):
    told = run_ranks(RANKS, _forks, tmp_path, plans())
    assert told == [(0, [])] * RANKS


def test_pages_of_a_module():
    module = dynatrain.paged(torch.nn.Linear(300, 300), shared=True)
    assert all(parameter.numel() for parameter in module.parameters())
    assert torch.isfinite(module(torch.ones(300))).all()


def test_gpus_share_no_pages():
    with pytest.raises(dynatrain.Error, match="not on meta"):
        dynatrain.paged(torch.empty(8, device="meta"), shared=True)
