"""A process is lost just after the decision of a switch with which another one
has left: the others go on from the first step of the new world."""

import logging
import math
import os
import signal
import time

from processes import dist, dynatrain, fork, torch

LIMIT = 100
#: After this step one is to leave; the job ends so many steps after the loss.
LEAVE_AT, MORE = 7, 5


def made():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model, optimizer, number):
    draw = torch.Generator().manual_seed(number)
    optimizer.zero_grad()
    (model(torch.randn(3, 8, generator=draw)) ** 2).sum().backward()
    optimizer.step()


def build(world):
    model = world.make(lambda: torch.nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return dynatrain.State(model=model, optimizer=optimizer, rng=True)


class Killed(logging.Handler):
    """When its process has read a decision, and has done nothing yet."""

    def __init__(self, job):
        super().__init__(logging.DEBUG)
        self.job = job

    def emit(self, record):
        what = getattr(record, "job", {}).get("what")
        if what == "adopt" and self.job.world is not None:
            os.kill(os.getpid(), signal.SIGKILL)


def is_as_undisturbed(job):
    model, optimizer = made()
    for number in range(job.step):
        train(model, optimizer, number)
    state = job.state
    return all(
        map(torch.equal, model.parameters(), state.model.parameters())
    ) and all(
        torch.equal(one[name], other[name])
        for one, other in zip(
            optimizer.state.values(), state.optimizer.state.values()
        )
        for name in one
    )


def trained_in(job):
    """The steps that it has taken, until the loss and some more."""
    taken, last = [], math.inf
    while job.step < last:
        try:
            dist.all_reduce(torch.ones(1), group=job.world.group)
        except RuntimeError as error:
            assert job.recover(error)
            continue
        train(job.state.model, job.state.optimizer, job.step)
        taken.append(job.step)
        time.sleep(0.003)
        if job.step == LEAVE_AT:
            job.request(leave=[2])
        if job.boundary() and job.world.size == 1:
            last = min(last, job.step + MORE)
    return taken


def member(rank, port, pipe):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    model, optimizer = made()
    job = dynatrain.Job(
        dynatrain.State(model=model, optimizer=optimizer, rng=True),
        build=build,
        store=f"127.0.0.1:{port}",
        processes=3,
        rank=rank,
        node=f"node{rank}",
        timeout=60,
        snapshots=2,
    )
    if rank == 1:
        logger = logging.getLogger("dynatrain.job")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Killed(job))
        logger.propagate = False
    with job:
        taken = trained_in(job)
        if job.world is None:
            pipe.send("left")
        else:
            pipe.send([taken, job.counters.recoveries, is_as_undisturbed(job)])
    os._exit(0)


def test_what_was_kept_leaves_with_nobody():
    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    ends, started = [], []
    for rank in range(3):
        pipe, theirs = fork.Pipe(duplex=False)
        started.append(
            fork.Process(target=member, args=(rank, store.port, theirs))
        )
        started[-1].start()
        theirs.close()
        ends.append(pipe)
    try:
        assert ends[2].poll(LIMIT) and ends[2].recv() == "left"
        assert ends[0].poll(LIMIT)
        taken, recoveries, is_right = ends[0].recv()
        started[1].join(LIMIT)
    finally:
        for process in started:
            process.kill()
            process.join()
    assert started[1].exitcode == -signal.SIGKILL
    # None is taken again: the world that was lost had begun with the last one.
    assert taken == list(range(len(taken))) and recoveries == 1 and is_right
