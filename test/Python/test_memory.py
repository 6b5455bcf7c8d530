"""Switches on full processes: the kernel allows no second copy of the state.

Four processes, each of which may have its source and 15 % more, change between
rows and columns ten times. What they hold is measured from outside.
"""

import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import dynatrain
import pytest
from conftest import BUILD, HANGS
from processes import fork, fresh, hollow_tensors, run_ranks, torch

RANKS = 4
MIB = 2**20
SIDE = 1024  # of a square tensor of 4 MiB
TENSORS = 72
STATE = TENSORS * SIDE * SIDE * 4 // RANKS  # bytes of each process
MARGIN = 0.15
SWITCHES = 10  # both ways
SHARED = 4  # of the tensors, where some lie in one buffer


def shards(by_rows):
    """The rows, or the columns, of every tensor."""
    part = SIDE // RANKS
    return [
        {
            "tensor": f"layers.{i}.w",
            "rank": rank,
            "offset": [part * rank, 0] if by_rows else [0, part * rank],
            "size": [part, SIDE] if by_rows else [SIDE, part],
        }
        for i in range(TENSORS)
        for rank in range(RANKS)
    ]


def request(to_columns, memory, storage=None):
    sides = [
        {"world": RANKS, "shards": shards(by_rows=rows)}
        for rows in (to_columns, not to_columns)
    ]
    return {
        "model": {
            "tensors": [
                {"name": f"layers.{i}.w", "shape": [SIDE, SIDE], "dtype": "f32"}
                | ({"storage": storage} if storage and i < SHARED else {})
                for i in range(TENSORS)
            ]
        },
        "source": sides[0],
        "destination": sides[1],
        "memory": {"staging": "4MiB", **memory},
    }


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """plans(memory) are the paths of the way there and the way back."""
    folder = tmp_path_factory.mktemp("full")

    def compiled(**memory):
        name = "-".join(memory.values())
        paths = []
        for to_columns in (True, False):
            path = folder / f"{name}-{to_columns}.dtplan"
            paths.append(str(path))
            if path.exists():
                continue
            text = json.dumps(request(to_columns, memory))
            subprocess.run(
                [BUILD / "bin" / "dt-opt", "-", "-o", path],
                input=text,
                text=True,
                check=True,
            )
        return paths

    return compiled


def status(pid, key):
    """Bytes, as the kernel counts them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def base():
    return torch.arange(SIDE * SIDE, dtype=torch.float32).view(SIDE, SIDE)


def number_of(entry):
    return float(entry.tensor.split(".")[1])


def fill(plan, rank, full, paged=False):
    """The source, whose tensors each have their own values."""
    made = {}
    for entry in plan.expected(rank):
        if entry.side == "source":
            tensor = entry.cut(full) + number_of(entry)
            key = entry.tensor, entry.state
            made[key] = dynatrain.paged(tensor) if paged else tensor
    return made


def wrong(plan, rank, full, state, side="destination"):
    """The tensors that do not have the values of their place."""
    return [
        entry.tensor
        for entry in plan.expected(rank)
        if entry.side == side
        and not torch.equal(
            state[entry.tensor, entry.state],
            entry.cut(full) + number_of(entry),
        )
    ]


def switch_over(plan, world, source, destination):
    switch = plan.prepare(world, source, destination)
    switch.transfer()
    switch.commit()


def limit_memory():
    """Beyond what this process has now, its state and the margin."""
    limit = status("self", "VmData") + int(STATE * (1 + MARGIN))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def warm_up(plan, rank, full, world):
    """Threads, buffers and what reading a plan takes come with the first switch
    and stay. This one goes both ways before the state is there."""
    switch_over(plan, world, fill(plan, rank, full), hollow_tensors(plan, rank))


def limit_what_is_not_state():
    """Beside its state a process has the lists of its plans, as large as there
    are instructions, from one switch to the next. They are of malloc's heap,
    which keeps what it has: so an empty process has all of it, as one in a
    switch does. The heap is one: which threads get one of their own, that keeps
    what it has, too, depends on which are at work at once. A tensor is never of
    the heap. Of the stacks of threads nobody uses most."""
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_threshold, arena_max = -1, -3, -8
    libc.mallopt(trim_threshold, 2**30)
    libc.mallopt(arena_max, 1)
    libc.mallopt(mmap_threshold, SIDE * SIDE * 4 // RANKS)
    attributes = ctypes.create_string_buffer(64)  # pthread_attr_t
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(MIB))
    libc.pthread_setattr_default_np(attributes)


def empty_process(rank, store, paths, pipe, shared_memory):
    """One that has all but its state: warm, limited and known to the watch."""
    limit_what_is_not_state()
    full = base()
    world = dynatrain.World(
        store=store, rank=rank, timeout=60, shared_memory=shared_memory
    )
    plans = [dynatrain.Plan.load(path) for path in paths]
    for plan in plans:
        warm_up(plan, rank, full, world)
    limit_memory()
    pipe.send(os.getpid())
    pipe.recv()
    return full, world, plans


def _job(rank, store, pipes, paths, shared_memory, switches):
    full, world, plans = empty_process(
        rank, store, paths, pipes[rank], shared_memory
    )
    by_page = "granularity" not in plans[0].inspect()["memory"]
    state = fill(plans[0], rank, full, paged=by_page)
    for number in range(2 * switches):
        plan = plans[number % 2]
        new = hollow_tensors(plan, rank)
        old = list(state.values())
        switch_over(plan, world, state, new)
        assert all(tensor.numel() == 0 for tensor in old)
        state = new
        assert wrong(plan, rank, full, state) == [], number
    pipes[rank].send("full")
    pipes[rank].recv()
    return number


class Watch:
    """Most bytes that each process holds beyond what it has when it is empty,
    as seen from outside."""

    def __init__(self):
        ends = [fork.Pipe() for _ in range(RANKS)]
        self.ours, self.theirs = zip(*ends)
        self.held = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        pids = [pipe.recv() for pipe in self.ours]
        before = [status(pid, "VmRSS") for pid in pids]
        for pid, pipe in zip(pids, self.ours):
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            pipe.send("go")
        for pid, pipe, empty in zip(pids, self.ours, before):
            pipe.recv()
            self.held.append(status(pid, "VmHWM") - empty)
        for pipe in self.ours:
            pipe.send("go")


# In either granularity, by shared memory and by wire, one of them for long.
@pytest.mark.parametrize(
    ("granularity", "shared_memory", "switches"),
    [
        ("tensor", True, SWITCHES),
        ("tensor", False, 2),
        ("page", True, 2),
        ("page", False, SWITCHES),
    ],
)
def test_full_processes(plans, granularity, shared_memory, switches, tmp_path):
    paths = plans(mode="flat", granularity=granularity)
    watch = Watch()
    numbers = run_ranks(
        RANKS, _job, tmp_path, watch.theirs, paths, shared_memory, switches,
        limit=600, context=fresh,
    )  # fmt: skip
    assert numbers == [2 * switches - 1] * RANKS, numbers
    watch.thread.join()
    loaded = [dynatrain.Plan.load(path) for path in paths]
    for rank, held in enumerate(watch.held):
        ranks = [[p.inspect(r)["rank"] for r in range(RANKS)] for p in loaded]
        planned = max(plan[rank]["peak_bytes"] for plan in ranks)
        assert planned < STATE * (1 + MARGIN)
        # The kernel counts memory of others in each process that maps it.
        others = shared_memory * max(
            sum(own["staging_bytes"] for own in plan)
            - plan[rank]["staging_bytes"]
            for plan in ranks
        )
        print(
            f"rank {rank}: {held / MIB:.1f} MiB, planned {planned / MIB:.1f} "
            f"and {others / MIB:.1f} of others"
        )
        assert abs(held - others - planned) <= 0.03 * planned, (rank, held)


def _refused(rank, store, pipes, paths, flat):
    full, world, _ = empty_process(rank, store, flat, pipes[rank], True)
    plan = dynatrain.Plan.load(paths[0])
    state = fill(plan, rank, full)
    coming = hollow_tensors(plan, rank)
    switch = plan.prepare(world, state, coming)
    with pytest.raises(dynatrain.Error) as error:
        switch.wait()
    assert wrong(plan, rank, full, state, side="source") == []
    pipes[rank].send("full")
    pipes[rank].recv()
    return str(error.value)


def test_rollback_is_refused(plans, tmp_path):
    """There is no memory for both sides: all processes know before a byte
    moves, and their state is what it was."""
    paths = plans(mode="rollback")
    watch = Watch()
    flat = plans(mode="flat", granularity="tensor")
    errors = run_ranks(
        RANKS, _refused, tmp_path, watch.theirs, paths, flat, context=fresh
    )
    for text in errors:
        assert "prepare" in text and "cannot allocate" in text, text


def _tell_what_goes(rank, store, state):
    """Tells that a tensor here has gone; rank 1 dies when all have told."""
    while all(tensor.untyped_storage().nbytes() for tensor in state.values()):
        time.sleep(0.001)
    store.set(f"gone{rank}", "")
    if rank == 1:
        store.wait([f"gone{other}" for other in range(RANKS)])
        os.kill(os.getpid(), signal.SIGKILL)


def _killed(rank, store, path, late):
    """Rank 1 dies before it transfers, or when there is no way back."""
    plan = dynatrain.Plan.load(path)
    full = base()
    state = fill(plan, rank, full)
    coming = hollow_tensors(plan, rank)
    world = dynatrain.World(store=store, rank=rank, timeout=10)
    switch = plan.prepare(world, state, coming)
    switch.wait()
    if rank == 1 and not late:
        os.kill(os.getpid(), signal.SIGKILL)
    if late:
        threading.Thread(
            target=_tell_what_goes, args=(rank, store, state), daemon=True
        ).start()
    try:
        switch.transfer()
        if rank == 1:
            time.sleep(HANGS)
        switch.commit()
    except dynatrain.Error as error:
        if not late:
            assert wrong(plan, rank, full, state, side="source") == []
        return str(error)
    return "committed"


def test_killed_before_the_point_of_no_return(plans, tmp_path):
    """Nothing of the others has gone."""
    path = plans(mode="flat", granularity="tensor")[0]
    told = run_ranks(RANKS, _killed, tmp_path, path, False)
    for rank, text in enumerate(told):
        assert rank == 1 or "transfer" in text, told
        assert "the old state is gone" not in text, text


def test_killed_behind_the_point_of_no_return(plans, tmp_path):
    """The others say that there is no way back, and what is gone with rank 1:
    no rank has what another has."""
    path = plans(mode="flat", granularity="tensor")[0]
    told = run_ranks(RANKS, _killed, tmp_path, path, True)
    others = told[:1] + told[2:]
    assert all("rank" in text for text in others), told
    assert any(
        "the old state is gone" in text or "commit" in text for text in others
    ), told
    for text in others:
        lost = re.search(r"lost with rank 1: (\d+) bytes: 'layers\.", text)
        assert lost and 0 < int(lost[1]) <= 2 * STATE, text


def _one_buffer(rank, store, path):
    """The first tensors of both sides lie in one buffer each."""
    plan = dynatrain.Plan.load(path)
    full = base()
    state, coming = fill(plan, rank, full), hollow_tensors(plan, rank)
    first = [(f"layers.{i}.w", "param") for i in range(SHARED)]
    buffer = torch.cat([state[key].flatten() for key in first])
    new_buffer = torch.empty_like(buffer)
    for key, old, new in zip(
        first, buffer.chunk(SHARED), new_buffer.chunk(SHARED)
    ):
        state[key] = old.view(state[key].shape)
        coming[key] = new.view(coming[key].shape)
    new_buffer.untyped_storage().resize_(0)  # torch makes no views of nothing
    world = dynatrain.World(store=store, rank=rank, timeout=60)
    switch_over(plan, world, state, coming)
    assert wrong(plan, rank, full, coming) == []
    assert buffer.untyped_storage().nbytes() == 0
    assert new_buffer.untyped_storage().nbytes() == new_buffer.nbytes
    return "committed"


@pytest.mark.parametrize("storage", ["buffer", None])
def test_tensors_of_one_buffer(storage, tmp_path):
    """They come and go together, as the request has to say."""
    path = str(tmp_path / "buffer.dtplan")
    memory = {"mode": "flat", "granularity": "tensor", "staging": "16MiB"}
    subprocess.run(
        [BUILD / "bin" / "dt-opt", "-", "-o", path],
        input=json.dumps(request(True, memory, storage)),
        text=True,
        check=True,
    )
    told = run_ranks(RANKS, _one_buffer, tmp_path, path)
    if storage:
        assert told == ["committed"] * RANKS, told
    else:
        assert all("share a storage" in text for text in told), told
