"""Elastic jobs whose bytes travel by NCCL, with a stand-in for its
communicators: when they are made, used and released."""

import json
import os
import signal
import threading
from types import SimpleNamespace

import pytest
import test_job_flat as flat
from dynatrain import job, job_attempt, job_memory, job_nccl, job_world
from dynatrain.connections import connect_gloo
from dynatrain.switch import Switch
from processes import KILLED, dist, dynatrain, torch
from test_job import LEFT, TIMEOUT, Jobs, Process, connect
from test_job import builder as build_of

STEPS = 3


class StandIn(job_nccl.Communicators):
    """Backends of Gloo in place of NCCL's, and a list of what is done."""

    def __init__(self):
        self.device = torch.device("cpu")
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
    job.communicators_of = lambda backend: stand_in
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


def _full(port, rank, granularity, lacks):
    """Flat plans there and back; `lacks`: the process that has no pages for
    them, in the first of which all stay in their world."""
    stand_in, backends = StandIn(), set()
    armed(stand_in, backends)
    sure = []

    def make_sure(self):
        sure.append(len(sure))
        if lacks == rank and len(sure) == 1:
            raise dynatrain.OutOfMemoryError("no pages")
        make(self)

    make, Switch.make_sure = Switch.make_sure, make_sure
    with dynatrain.Job(
        connect(port),
        flat.build,
        layout=0,
        processes=2,
        rank=rank,
        timeout=TIMEOUT,
        backend="nccl",
        memory={**flat.memory(granularity), "staging": "32MiB"},
    ) as running:
        right, failures = [], 0
        while running.world.epoch < 3:
            epoch, failed = running.world.epoch, running.failure
            running.request(layout=epoch % 2)
            while running.world.epoch == epoch and running.failure is failed:
                for one in running.state.matrices.own:
                    one.add_(1)
                running.state.step += 1
                running.boundary(running.state.step)
            failures += running.failure is not failed
            right.append(running.state.matrices.is_right(running.state.step))
        return json.dumps([right, failures, len(sure)])


@pytest.mark.parametrize("lacks", [None, 1])
@pytest.mark.parametrize("granularity", ["tensor", "page"])
def test_flat_plans_have_their_pages_before_the_point_of_no_return(
    jobs, granularity, lacks
):
    jobs.all = [
        Process(_full, jobs.port, rank, granularity, lacks) for rank in range(2)
    ]
    failures = 0 if lacks is None else 1
    for told in [one.outcome() for one in jobs.all]:
        right, failed, sure = json.loads(told)
        assert right == [True] * (2 + failures)
        assert failed == failures
        assert sure == 2 + failures


def test_pages_of_a_gpu_are_no_smaller_than_the_drivers():
    given = {"memory": {"mode": "flat", "staging": "1GiB"}}
    on_gpus = job_memory.with_gpu_memory(given)["memory"]
    assert on_gpus == {
        **given["memory"],
        "page": "2MiB",
        "communicator": "nccl",
    }
    assert job_memory.with_gpu_memory({})["memory"] == {"communicator": "nccl"}
    for memory in (
        {"mode": "flat", "page": "4MiB"},
        {"mode": "flat", "granularity": "tensor"},
        {"mode": "rollback"},
    ):
        on_gpus = job_memory.with_gpu_memory({"memory": memory})["memory"]
        assert on_gpus == {**memory, "communicator": "nccl"}


def test_modules_are_made_where_the_worlds_tensors_are():
    """On the host where there is no GPU: the meta device stands for one."""
    groups = SimpleNamespace(new=lambda *_: None)
    device = torch.device("meta")
    world = job_world.JobWorld(
        1, ["a"], "a", None, True, groups, None, device=device
    )
    assert world.make(lambda: torch.nn.Linear(3, 2)).weight.device == device
