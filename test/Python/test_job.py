"""Elastic jobs: processes come, go and die while they train; what they hold is
right after every step."""

import contextlib
import json
import os
import random
import re
import signal
import time
import traceback
from datetime import timedelta

import pytest
from dynatrain.connections import open_sockets
from processes import KILLED, dist, dynatrain, fork, torch

# A process that is starved for a tenth of it is taken for lost.
TIMEOUT = 60.0
# Seconds after which a test has failed: far more than anything takes.
HANGS = 600.0
ROWS, COLUMNS = 12, 10


# A trainer whose state is known at every step --------------------------------


def full(step):
    return torch.arange(float(ROWS * COLUMNS)).view(ROWS, COLUMNS) + step


def box_of(world):
    """What a rank holds: rows or columns, as even as can be; "flat": a range of
    all elements."""
    shape, dim = (ROWS, COLUMNS), world.layout
    ends = [
        (n * world.rank // world.size, n * (world.rank + 1) // world.size)
        for n in (*shape, ROWS * COLUMNS)
    ]
    if dim == "flat":
        return (0, 0), shape, ends[2]
    offset, size = [0, 0], list(shape)
    offset[dim], size[dim] = ends[dim][0], ends[dim][1] - ends[dim][0]
    return tuple(offset), tuple(size), None


def cut(tensor, offset, size, run):
    for dim, (first, count) in enumerate(zip(offset, size)):
        tensor = tensor.narrow(dim, first, count)
    return tensor.flatten()[slice(*run)] if run else tensor


class Table(dynatrain.Part):
    def __init__(self, world, fault=None):
        self.box, self.fault = box_of(world), fault
        own = cut(full(0), *self.box).clone()
        if not world.founded:
            own = dynatrain.hollow(own.to("meta"))
        self.own = own

    def tensors(self):
        offset, size, run = self.box
        piece = dynatrain.capture.Piece(
            self.own, (ROWS, COLUMNS), offset, size, run
        )
        return {("w", "param"): piece}

    def small(self):
        if self.fault == "killed in transfer":
            os.kill(os.getpid(), signal.SIGKILL)
        return {}

    def is_right(self, step):
        return torch.equal(self.own, cut(full(step), *self.box))


def builder(fault):
    def build(world):
        if fault == "killed in build":
            os.kill(os.getpid(), signal.SIGKILL)
        if world.layout == "unknown":
            raise ValueError(f"no layout {world.layout!r}")
        table = Table(world, fault)
        return dynatrain.State(table=table, step=0)

    return build


def told_to_stop(words):
    with contextlib.suppress(dist.DistError):
        return words.check(["stop"])
    return False


def one_step(job, words):
    """Whether the first process has been told to stop, after a step of all."""
    world, stop = job.world, False
    if world.rank == 0:
        stop = told_to_stop(words)
    told = torch.tensor([1.0, stop])
    dist.all_reduce(told, group=world.group)
    if told[1]:
        return True
    job.state.table.own += told[0] / world.size
    job.state.step += 1
    if world.rank == 0:
        report(job, words)
    time.sleep(0.005)
    return False


def report(job, words):
    """The store that is lost is the test's too; only the job is to say so."""
    with contextlib.suppress(dist.DistError):
        tell(job, words)


def tell(job, words):
    if words.check(["wish"]):
        wish = json.loads(words.get("wish"))
        words.delete_key("wish")
        job.request(**wish)
    words.set(
        "at",
        json.dumps(
            {
                "epoch": job.world.epoch,
                "size": job.world.size,
                "layout": job.world.layout,
                "step": job.state.step,
                "failure": job.failure and str(job.failure),
            }
        ),
    )


def connect(port):
    return dist.TCPStore(
        "127.0.0.1",
        port,
        is_master=False,
        timeout=timedelta(seconds=TIMEOUT),
        wait_for_workers=False,
    )


def member(port, fault=None, **options):
    """A process of the job until it leaves or is told to stop."""
    store = connect(port)
    words = dist.PrefixStore("test", store)
    options.setdefault("timeout", TIMEOUT)
    job = dynatrain.Job(store, builder(fault), **options)
    kept = None
    try:
        with job:
            while True:
                assert job.state.table.is_right(job.state.step)
                kept = job.state
                if one_step(job, words):
                    return "stopped"
                if fault == "raises" and job.status()["state"] != "idle":
                    raise ZeroDivisionError("a trainer's error")
                if not job.boundary(job.state.step):
                    return "left"
    except (RuntimeError, ZeroDivisionError) as error:
        # What it held is still what it was.
        if kept is not None:
            assert kept.table.is_right(kept.step)
        notes = " ".join(getattr(error, "__notes__", []))
        return f"{type(error).__name__}: {error} {notes}"


# Processes -------------------------------------------------------------------


def _child(pipe, body, arguments, options):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        value = body(*arguments, **options)
    except BaseException:
        value = "crash: " + traceback.format_exc()
    pipe.send(value)
    pipe.close()
    os._exit(0)


class Process:
    def __init__(self, body, *arguments, context=fork, **options):
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_child, args=(theirs, body, arguments, options)
        )
        self.process.start()
        theirs.close()

    def outcome(self):
        """What it has returned; a process that hangs fails the test."""
        try:
            assert self.pipe.poll(HANGS), "a process hangs"
            return self.pipe.recv()
        except EOFError:
            return KILLED
        finally:
            self.process.kill()
            self.process.join()


def _host(pipe):
    hosted = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    pipe.send(hosted.port)
    while True:
        time.sleep(60)


class Jobs:
    """A store in a process of its own, and the processes of a job."""

    def __init__(self):
        pipe, theirs = fork.Pipe(duplex=False)
        self.host = fork.Process(target=_host, args=(theirs,), daemon=True)
        self.host.start()
        self.port = pipe.recv()
        self.store = connect(self.port)
        self.words = dist.PrefixStore("test", self.store)
        self.all = []

    def start(self, count=1, **options):
        """So many processes that come together."""
        started = [
            Process(member, self.port, processes=count, **options)
            for _ in range(count)
        ]
        self.all += started
        return started

    def at(self):
        if not self.words.check(["at"]):
            return {"epoch": 0}
        return json.loads(self.words.get("at"))

    def until(self, what):
        """Waits until the first process tells that `what(at)` holds."""
        end = time.monotonic() + HANGS
        while not what(self.at()):
            assert time.monotonic() < end, self.at()
            time.sleep(0.02)
        return self.at()

    def until_epoch(self, epoch):
        return self.until(lambda at: at["epoch"] == epoch)

    def until_failure(self, after=None):
        return self.until(lambda at: at["failure"] not in (None, after))

    def until_next_step(self):
        step = self.at()["step"]
        self.until(lambda at: at["step"] > step)

    def wish(self, **wanted):
        self.words.set("wish", json.dumps(wanted))

    def stop(self):
        """The outcomes of all, and the keys that the job has left."""
        self.words.set("stop", "now")
        outcomes = [one.outcome() for one in self.all]
        return outcomes, self.keys()

    def keys(self):
        """What the job has in the store, without names of its own."""
        return sorted(
            re.sub(r"/(world|alive)/.*", r"/\1", key)
            for key in self.store.list_keys()
            if not key.startswith("test/")
        )

    def end(self):
        for one in self.all:
            one.process.kill()
            one.process.join()
        self.host.kill()
        self.host.join()


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.end()


#: The keys of a job that has no switch under way.
LEFT = ["dynatrain/job", "dynatrain/world"]


# What works ------------------------------------------------------------------


def random_change(draw, size):
    """(processes that join, what is asked for, the size then)."""
    join = draw.choice([0, 0, 1, 2]) if size < 5 else 0
    leave = draw.sample(
        range(size), draw.randint(0, size - 1) if not join else 0
    )
    wish = {"layout": draw.choice([0, 1, "flat"])}
    if leave:
        wish["leave"] = leave
    return join, wish, size + join - len(leave)


def test_random_worlds(jobs):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    size, epoch, layout = 3, 1, 0
    jobs.start(3, layout=layout)
    jobs.until_epoch(1)
    for number in range(6):
        join, wish, then = random_change(draw, size)
        if join:
            wanted = wish["layout"]
            jobs.start(join, layout=wanted, launch=f"more-{number}")
        elif then == size and wish["layout"] == layout:
            continue  # nothing would change
        else:
            jobs.wish(**wish)
        epoch, size, layout = epoch + 1, then, wish["layout"]
        at = jobs.until_epoch(epoch)
        assert (at["size"], at["layout"]) == (size, layout), (at, wish)
        assert at["failure"] is None
        jobs.until_next_step()
    outcomes, keys = jobs.stop()
    assert set(outcomes) <= {"left", "stopped"}, outcomes
    assert outcomes.count("stopped") == size
    assert keys == LEFT


def test_who_comes_alone_joins_alone(jobs):
    jobs.start(1, layout="flat")
    jobs.until_epoch(1)
    jobs.start(1)
    at = jobs.until_epoch(2)
    assert (at["size"], at["layout"]) == (2, "flat")
    outcomes, keys = jobs.stop()
    assert outcomes == ["stopped"] * 2 and keys == LEFT


def _connects(port, rank):
    """Connections that a world's first steps make, by epoch."""
    job = dynatrain.Job(
        connect(port),
        builder(None),
        processes=3,
        rank=rank,
        layout=0,
        timeout=TIMEOUT,
        snapshots=2,
    )
    made = {}
    with job:
        while job.world.epoch < 4:
            before, epoch = open_sockets(), job.world.epoch
            for place in range(job.world.size):
                told = torch.ones(5)
                dist.broadcast(told, group=job.world.group, group_src=place)
                dist.all_reduce(told, group=job.world.group)
            made[epoch] = len(open_sockets() - before)
            job.request(layout=epoch % 2)
            while job.world.epoch == epoch:
                dist.all_reduce(torch.ones(1), group=job.world.group)
                job.state.step += 1
                job.boundary(job.state.step)
    return made


def test_steps_after_a_switch_make_no_connection(jobs):
    processes = [Process(_connects, jobs.port, rank) for rank in range(3)]
    for one in processes:
        assert one.outcome() == {1: 0, 2: 0, 3: 0}


# What fails ------------------------------------------------------------------


def test_an_error_in_build_leaves_the_old_world(jobs):
    jobs.start(2, layout=0)
    jobs.until_epoch(1)
    jobs.wish(layout="unknown")
    failure = jobs.until_failure()["failure"]
    assert "ValueError: no layout 'unknown'" in failure, failure
    jobs.until_next_step()
    assert jobs.at()["epoch"] == 1
    jobs.wish(layout=1)
    jobs.until_epoch(2)
    outcomes, keys = jobs.stop()
    assert outcomes == ["stopped"] * 2 and keys == LEFT


def test_a_joiner_is_killed_while_it_prepares(jobs):
    jobs.start(2, layout=0)
    jobs.until_epoch(1)
    killed, *_ = jobs.start(1, fault="killed in build")
    assert killed.outcome() == KILLED
    jobs.all.remove(killed)
    failure = jobs.until_failure()["failure"]
    assert "rank 2" in failure or "timeout" in failure, failure
    jobs.until_next_step()
    # Another one is taken in, and what the dead one has left is removed.
    jobs.start(1)
    assert jobs.until_epoch(2)["size"] == 3
    outcomes, keys = jobs.stop()
    assert outcomes == ["stopped"] * 3
    assert keys == LEFT


def test_a_member_is_killed_while_bytes_move(jobs):
    jobs.start(2, layout=0)
    jobs.until_epoch(1)
    jobs.start(1, layout=0, fault="killed in transfer")
    jobs.until_epoch(2)
    jobs.wish(layout=1)
    # What the survivors hold is checked where they end: in their next
    # collective, which misses the dead one.
    first, second, killed = [one.outcome() for one in jobs.all]
    assert killed == KILLED
    for outcome in (first, second):
        assert "the last switch of the job failed" in outcome, outcome
        assert "rank 2" in outcome, outcome


def test_a_trainer_that_ends_is_told_to_the_others(jobs):
    jobs.start(2, layout=0)
    jobs.until_epoch(1)
    joiner, *_ = jobs.start(1, fault="raises", layout=0)
    jobs.until_epoch(2)
    jobs.wish(layout=1)
    assert "a trainer's error" in joiner.outcome()
    for one in jobs.all[:2]:
        assert "a trainer's error" in one.outcome()


def test_a_store_that_is_lost_ends_the_job(jobs):
    jobs.start(2, layout=0)
    jobs.until_epoch(1)
    jobs.host.kill()
    # At a boundary, or in a collective that ends then. On a busy machine
    # torch's own error may take so long that it comes too late.
    for one in jobs.all:
        outcome = one.outcome()
        told = "lost the store", "the store does not answer"
        assert any(words in outcome for words in told), outcome


def test_who_never_comes_is_counted(jobs):
    process = Process(
        member, jobs.port, processes=3, layout=0, timeout=TIMEOUT / 10
    )
    outcome = process.outcome()
    assert "no world within 6 s, 2 processes have not come" in outcome
    assert jobs.keys() == []


def _interrupted(port):
    job = dynatrain.Job(
        connect(port), builder(None), processes=2, layout=0, timeout=HANGS
    )
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        job.join()
    except KeyboardInterrupt:
        return "interrupted"


def test_waits_can_be_interrupted(jobs):
    assert Process(_interrupted, jobs.port).outcome() == "interrupted"
    assert jobs.keys() == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"processes": 0}, "processes is 0, expected 1 or more"),
        ({"processes": 2, "rank": 2}, "rank is 2, expected 0 to 1"),
        ({"timeout": 0.5}, "the timeout of a job is 0.5 s, expected 1 s"),
        ({"store": "here"}, "store is 'here', expected 'HOST:PORT'"),
    ],
)
def test_what_cannot_be(options, why):
    store = options.pop("store", None) or dist.HashStore()
    with pytest.raises(dynatrain.InvalidError, match=re.escape(why)):
        dynatrain.Job(store, builder(None), **options)
