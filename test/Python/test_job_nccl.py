"""Elastic jobs whose bytes travel by NCCL, with a stand-in for its
communicators: when they are made, used and released."""

import json
import os
import signal
import threading

import pytest
from dynatrain import job, job_attempt, job_nccl
from dynatrain.connections import connect_gloo
from processes import KILLED, dist, dynatrain, torch
from test_job import LEFT, TIMEOUT, Jobs, Process, connect
from test_job import builder as build_of

STEPS = 3


class StandIn(job_nccl.Communicators):
    """Backends of Gloo in place of NCCL's, and a list of what is done."""

    def __init__(self):
        self.told, self.made = [], []

    def tell(self, what, backend):
        is_beside = threading.current_thread() is not threading.main_thread()
        self.told.append((what, self.made.index(backend), is_beside))

    def connect(self, store, rank, size, seconds):
        made = connect_gloo(store, rank, size, TIMEOUT)
        self.made.append(made)
        self.tell("made", made)
        return made

    def warm_up(self, group):
        backend = group._get_backend(self.place)
        self.tell("warmed up", backend)
        backend.allreduce([torch.ones(1)]).wait()

    def abort(self, backend):
        self.tell("aborted", backend)


def armed(stand_in, backends):
    """As if this package and torch had NCCL."""
    job.communicators_of = lambda backend, is_flat: stand_in
    world = job_attempt.World

    def made(backend, **more):
        backends.add(backend)
        return world(backend="gloo", **more)

    job_attempt.World = made


def builder():
    inner = build_of(None)

    def build(world):
        state = inner(world)
        world.new_group(range(world.size))
        return state

    return build


def _member(port, rank, dies):
    stand_in, backends = StandIn(), set()
    armed(stand_in, backends)
    with dynatrain.Job(
        connect(port),
        builder(),
        layout=0,
        processes=2,
        rank=rank,
        timeout=TIMEOUT,
        snapshots=2,
        backend="nccl",
    ) as running:
        epochs = 2 if dies else 4
        while running.world.epoch < epochs:
            epoch = running.world.epoch
            running.request(layout=epoch % 2)
            while running.world.epoch == epoch:
                try:
                    dist.all_reduce(torch.ones(1), group=running.world.group)
                except RuntimeError as error:
                    assert running.recover(error)
                    continue
                running.state.table.own += 1
                running.state.step += 1
                if dies and rank == 1 and running.state.step == STEPS:
                    os.kill(os.getpid(), signal.SIGKILL)
                running.boundary(running.state.step)
        # At its end a job cuts the world that it is in.
        return json.dumps([sorted(backends), stand_in.told])


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.end()


def ends(jobs, dies):
    jobs.all = [Process(_member, jobs.port, rank, dies) for rank in range(2)]
    return [one.outcome() for one in jobs.all]


def test_communicators_come_and_go_with_worlds(jobs):
    for told in ends(jobs, dies=False):
        backends, events = json.loads(told)
        assert backends == ["nccl"]
        # Of each of four worlds: its own group, and the trainer's. Neither
        # snapshots nor what watches for losses has one.
        made = [at for what, at, _ in events if what == "made"]
        assert made == list(range(8))
        # They are connected beside training, and warmed up at the boundary,
        # on a thread that ends with the attempt.
        assert all(beside for what, _, beside in events if what == "made")
        warm = [at for what, at, _ in events if what == "warmed up"]
        assert warm == list(range(8))
        # Of the worlds that all have left; never anything else.
        gone = {at for what, at, _ in events if what == "aborted"}
        assert {0, 1} <= gone <= {0, 1, 2, 3}
    assert jobs.keys() == LEFT


def test_those_of_a_lost_world_are_aborted_alone(jobs):
    told, killed = ends(jobs, dies=True)
    assert killed == KILLED
    _, events = json.loads(told)
    gone = [at for what, at, _ in events if what == "aborted"]
    assert gone[:2] == [0, 1]
    last = [at for what, at, _ in events if what == "made"][-2:]
    assert not set(last) & set(gone)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"backend": "mpi"}, "backend is 'mpi', expected 'gloo' or 'nccl'"),
        ({"backend": "nccl"}, "not built into|this torch has no NCCL"),
    ],
)
def test_what_cannot_be(options, why):
    if torch.distributed.is_nccl_available():
        pytest.skip("this torch has NCCL")
    with pytest.raises(dynatrain.InvalidError, match=why):
        dynatrain.Job(dist.HashStore(), build_of(None), **options)


def test_flat_plans_are_the_hosts(monkeypatch):
    monkeypatch.setattr(job_nccl._C, "features", lambda: ["nccl"])
    monkeypatch.setattr(job_nccl.dist, "is_nccl_available", lambda: True)
    with pytest.raises(dynatrain.InvalidError, match="mode rollback"):
        job_nccl.communicators_of("nccl", True)
