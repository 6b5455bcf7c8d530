"""Elastic jobs whose plans are flat: a switch has no room for both worlds, and
what fails past its point of no return goes back to a snapshot, or says what is
lost."""

import ctypes
import logging
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from dynatrain import job_memory, job_world
from dynatrain.hollow import is_hollow
from dynatrain.job_trace import merged
from processes import KILLED, dist, dynatrain, fresh, torch
from test_job import LEFT, Jobs, Process, connect
from test_memory import status

TENSORS, SIDE = 16, 512
TIMEOUT = 60.0
STEPS = 4  # in each world
M_MMAP_THRESHOLD = -3  # of malloc.h


def memory(granularity):
    return {"mode": "flat", "granularity": granularity, "staging": "2MiB"}


def full(number, step):
    return torch.arange(float(SIDE * SIDE)).view(SIDE, SIDE) + 7 * number + step


class Matrices(dynatrain.Part):
    """Rows (layout 0) or columns (1) of each."""

    def __init__(self, world):
        self.dim, each = world.layout, SIDE // world.size
        self.offset, self.size = [0, 0], [SIDE, SIDE]
        self.offset[self.dim], self.size[self.dim] = world.rank * each, each
        with torch.device("cpu" if world.founded else "meta"):
            own = [torch.empty(self.size) for _ in range(TENSORS)]
        if world.founded:
            for number, one in enumerate(own):
                one.copy_(self.cut(full(number, 0)))
            own = list(map(dynatrain.paged, own))
        else:
            own = list(map(dynatrain.hollow, own))
        self.own = own

    def cut(self, tensor):
        return tensor.narrow(
            self.dim, self.offset[self.dim], self.size[self.dim]
        )

    def tensors(self):
        where = (SIDE, SIDE), tuple(self.offset), tuple(self.size)
        return {
            (f"layers.{at}.w", "param"): dynatrain.capture.Piece(one, *where)
            for at, one in enumerate(self.own)
        }

    def is_right(self, step):
        return all(
            torch.equal(one, self.cut(full(number, step)))
            for number, one in enumerate(self.own)
        )

    @property
    def bytes(self):
        return sum(one.numel() * one.element_size() for one in self.own)


def build(world):
    if world.layout == "unknown":
        raise ValueError("no such layout")
    return dynatrain.State(matrices=Matrices(world), step=0)


class Killed(logging.Handler):
    """Where the job's log says that a part of switch 2 begins."""

    def __init__(self, job, what):
        super().__init__(logging.DEBUG)
        self.job, self.what = job, what
        logger = logging.getLogger("dynatrain.job")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def emit(self, record):
        told = getattr(record, "job", {})
        if told.get("what") == self.what and told["switch"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def one_step(job):
    state = job.state
    dist.all_reduce(torch.ones(1), group=job.world.group)
    for one in state.matrices.own:
        one += 1
    state.step += 1


def until_switched(job):
    """Trains until it is in another world, in which all is right; how many
    steps have been taken in the one before."""
    epoch = job.world.epoch
    while job.world.epoch == epoch:
        try:
            one_step(job)
            taken = job.state.step
        except RuntimeError as error:
            assert job.recover(error)
            continue
        job.boundary()
    assert job.state.matrices.is_right(job.step)
    assert job.state.step == job.step
    return taken


def started(port, rank, options):
    return dynatrain.Job(
        connect(port),
        build,
        layout=0,
        processes=2,
        rank=rank,
        **{"timeout": TIMEOUT, **options},
    )


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.end()


def outcomes(jobs, body, *arguments, **more):
    running = [
        Process(body, jobs.port, rank, *arguments, **more) for rank in range(2)
    ]
    jobs.all += running
    return [one.outcome() for one in running]


# What works ------------------------------------------------------------------


def _peaks(port, rank, options):
    """Of each switch, what was held beyond the state, of the state."""
    # What malloc keeps of a world that has gone is in the way of no other.
    assert ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 64 << 10) == 1
    found = []
    with started(port, rank, options) as job:
        # What a first switch needs, beside memory, comes with it and stays.
        for number in range(4):
            old = job.state.matrices.own
            Path("/proc/self/clear_refs").write_text("5")
            before, state = status("self", "VmRSS"), job.state.matrices.bytes
            job.request(layout=1 - job.world.layout)
            until_switched(job)
            more = status("self", "VmHWM") - before
            if number > 0:
                found.append(more / state)
            if job_memory.is_flat(options):
                assert all(one.numel() == 0 for one in old)
            del old
    return min(found)


@pytest.mark.parametrize("granularity", ["page", "tensor", None])
def test_no_room_for_both_worlds(jobs, granularity, tmp_path):
    options = {"plans": tmp_path}
    if granularity is not None:
        options["memory"] = memory(granularity)
    peaks = outcomes(jobs, _peaks, options, context=fresh)
    assert all(isinstance(one, float) for one in peaks), peaks
    for peak in peaks:
        assert peak < 0.6 if granularity else peak > 0.9, peaks
    assert jobs.keys() == LEFT
    modes = {
        dynatrain.Plan.load(path).inspect()["memory"]["mode"]
        for path in tmp_path.iterdir()
    }
    assert modes == {"flat" if granularity else "rollback"}


def _fails_to_build(port, rank, options):
    with started(port, rank, options) as job:
        job.request(layout="unknown")
        while job.failure is None:
            one_step(job)
            job.boundary()
        assert job.state.matrices.is_right(job.step)
        assert job.status()["counters"]["recoveries"] == 0
        job.request(layout=1)
        until_switched(job)
        return job.world.epoch


def test_before_its_point_of_no_return_the_old_world_is_left(jobs, tmp_path):
    options = {"memory": memory("tensor"), "snapshots": 2, "trace": tmp_path}
    assert outcomes(jobs, _fails_to_build, options) == [2, 2]
    failed, told = (merged(tmp_path, at)["traceEvents"] for at in (2, 3))
    assert not any(one["name"] == "pass" for one in failed)
    for rank in range(2):
        parts = {one["name"]: one for one in told if one["pid"] == rank}
        passed, moved = parts["pass"], parts["transfer"]
        assert passed["ts"] + passed["dur"] <= moved["ts"]


# What is gone ----------------------------------------------------------------


def _is_killed(port, rank, options, what):
    job = started(port, rank, options)
    if rank == 1:
        Killed(job, what)
    try:
        with job:
            for _ in range(STEPS):
                one_step(job)
                job.boundary()
            old = job.state.matrices.own
            job.request(layout=1)
            taken = until_switched(job)
            assert all(one.numel() == 0 for one in old)
            assert taken - 4 <= job.step <= taken
            return job.world.size, job.counters.recoveries
    except dynatrain.Error as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("what", ["transfer", "vote"])
def test_what_is_gone_comes_from_a_snapshot(jobs, what):
    options = {"memory": memory("tensor"), "snapshots": 2}
    found = outcomes(jobs, _is_killed, options, what)
    assert found == [(1, 1), KILLED]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("transfer", ["waiting for rank 1"]),
        # It has all that it gets.
        ("verify", ["; lost with rank 1: ", " bytes: 'layers.", "{param} ["]),
    ],
)
def test_without_snapshots_it_says_what_is_lost(jobs, what, words):
    options = {"memory": memory("tensor"), "timeout": TIMEOUT / 2}
    found, killed = outcomes(jobs, _is_killed, options, what)
    assert killed == KILLED
    kind, text = found
    assert kind == "LostStateError", text
    words = ["the old world is gone", *words, "go on from a checkpoint"]
    assert all(one in text for one in words), text


def _raises(port, rank, options):
    """Nobody is lost: a process cannot install what has come."""
    job = started(port, rank, options)
    small, failed = Matrices.small, []

    def fails(part):
        if rank == 1 and not failed and job.status()["phase"] == "passed":
            failed.append(True)
            raise dynatrain.Error("this time only")
        return small(part)

    Matrices.small = fails
    with job:
        for _ in range(STEPS):
            one_step(job)
            job.boundary()
        job.request(layout=1)
        epochs = [job.world.epoch]
        until_switched(job)
        epochs.append(job.world.epoch)
        return epochs, job.world.layout, job.world.size, job.counters.recoveries


def test_a_world_that_is_gone_without_a_loss_comes_back(jobs):
    options = {"memory": memory("tensor"), "snapshots": 2}
    found = outcomes(jobs, _raises, options)
    assert found == [([1, 2], 0, 2, 1)] * 2
    assert jobs.keys() == LEFT


# The parts --------------------------------------------------------------------


def test_which_plans_are_flat():
    flat, plain = {"memory": memory("page")}, {"memory": {"staging": "1MiB"}}
    assert job_memory.request_for(flat, True)["memory"] == flat["memory"]
    assert job_memory.request_for(flat, False) == {
        "memory": {"staging": "2MiB"}
    }
    # By the record, whatever this process was told.
    assert job_memory.request_for({}, True) == {"memory": {"mode": "flat"}}
    assert job_memory.request_for(plain, False) == plain
    assert job_memory.is_by_page(flat) and not job_memory.is_by_page(plain)
    assert not job_memory.is_by_page({"memory": memory("tensor")})
    assert job_memory.is_by_page({"memory": {"mode": "flat"}})


def test_what_is_given_up_has_no_elements():
    own, other = torch.ones(3), torch.ones(2, 2)
    piece = dynatrain.capture.Piece(other, (2, 2), (0, 0), (2, 2))
    table = {("a", "param"): own, ("b", "param"): [piece]}

    class Part(dynatrain.Part):
        def tensors(self):
            return table

    job_memory.give_up(dynatrain.State(part=Part()))
    assert own.numel() == other.numel() == 0


@pytest.mark.parametrize("founded", [True, False])
@pytest.mark.parametrize("by_page", [True, False])
def test_the_first_world_is_made_of_pages(founded, by_page, monkeypatch):
    """Later ones are by the switch that fills them."""
    made = []
    monkeypatch.setattr(job_world, "paged", lambda one: made.append(one) or one)
    groups = SimpleNamespace(new=lambda *_: None)
    world = job_world.JobWorld(
        1, ["a"], "a", None, founded, groups, None, by_page
    )
    module = world.make(lambda: torch.nn.Linear(3, 2))
    assert made == ([module] if founded and by_page else [])
    assert is_hollow(module.weight) is not founded
