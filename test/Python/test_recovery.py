"""Elastic jobs that lose processes: the others go on from the last snapshot,
bit for bit, or say what is gone."""

import functools
import json
import os
import random
import signal

import pytest
from dynatrain.state import MERGED, Small
from processes import KILLED, dist, dynatrain, torch
from test_job import LEFT, Jobs, Process, box_of, connect, cut

# A process that is starved for a tenth of it is taken for lost.
TIMEOUT = 30.0
ROWS, COLUMNS, BATCH = 12, 10, 6
#: Where in a step a process is killed.
PLACES = ["before", "between", "after"]


# A trainer whose state is known at every step --------------------------------


def first_half(tensor):
    return tensor.mul_(1.0009765625)


def second_half(tensor, step):
    return tensor.add_(step).remainder_(7.0)


@functools.cache
def full(step):
    """The whole tensor, computed by itself."""
    if step == 0:
        return torch.arange(float(ROWS * COLUMNS)).view(ROWS, COLUMNS) / 16
    return second_half(first_half(full(step - 1).clone()), step)


class Weights(dynatrain.Part):
    """A part of a tensor, a whole one, and a count of each row's steps."""

    def __init__(self, world):
        self.box = box_of(world)
        own, whole = cut(full(0), *self.box).clone(), full(0).clone()
        if not world.founded:
            own = dynatrain.hollow(own.to("meta"))
            whole = dynatrain.hollow(whole.to("meta"))
        self.own, self.whole = own, whole
        self.counts = dict.fromkeys(map(str, self.rows()), 0)

    def rows(self):
        """Those that it counts; each by one process only."""
        offset, size, run = self.box
        if run is not None:
            return range(-(-run[0] // COLUMNS), -(-run[1] // COLUMNS))
        return range(offset[0], offset[0] + size[0])

    def tensors(self):
        offset, size, run = self.box
        piece = dynatrain.capture.Piece(
            self.own, (ROWS, COLUMNS), offset, size, run
        )
        return {("w", "param"): piece, ("whole", "param"): self.whole}

    def small(self):
        return {"counts": Small(MERGED, dict(self.counts))}

    def install(self, arrived):
        counts = arrived["counts"].value
        assert sorted(map(int, counts)) == list(range(ROWS)), counts
        self.counts = {str(row): counts[str(row)] for row in self.rows()}

    def step(self, step, group):
        """In two halves, with a collective between."""
        first_half(self.own), first_half(self.whole)
        word = torch.ones(1)
        dist.all_reduce(word, group=group)
        second_half(self.own, step), second_half(self.whole, step)
        self.counts = {row: count + 1 for row, count in self.counts.items()}

    def is_right(self, step):
        return (
            torch.equal(self.own, cut(full(step), *self.box))
            and torch.equal(self.whole, full(step))
            and set(self.counts.values()) <= {step}
        )


class Own:
    """What a process has for itself, whatever world it is in."""

    def __init__(self, number):
        self.number, self.steps = number, 0

    def state_dict(self):
        return {"number": self.number, "steps": self.steps}

    def load_state_dict(self, state):
        self.number, self.steps = state["number"], state["steps"]


def builder(number):
    def build(world):
        if world.layout == "unknown":
            raise ValueError(f"no layout {world.layout!r}")
        return dynatrain.State(
            weights=Weights(world),
            samples=dynatrain.Samples(1000, BATCH, 2),
            own=dynatrain.PerRank(Own(number)),
            step=0,
        )

    return build


def check(job, number):
    state = job.state
    assert state.weights.is_right(state.step), (job.world, state.step)
    assert state.samples.taken == BATCH * state.step
    own = state.own.stateful
    assert (own.number, own.steps) == (number, state.step)


def step(job):
    state = job.state
    state.samples.next(0, 1)
    state.own.stateful.steps += 1
    state.weights.step(state.step + 1, job.world.group)
    state.step += 1


class Fate:
    """When a process dies: {"epoch": 1, "step": 7, "place": ..}, and with
    "whole": only when all have their copies of the last snapshot."""

    def __init__(self, fate, job):
        self.fate, self.job = fate, job

    def meet(self, place):
        fate, job = self.fate, self.job
        if fate is None or place != fate["place"]:
            return
        if (job.world.epoch, job.state.step) != (fate["epoch"], fate["step"]):
            return
        if fate.get("whole"):
            job._terms.snapshots.wait()
        os.kill(os.getpid(), fate.get("signal", signal.SIGKILL))


def told_to_stop(job, words):
    """The same on all."""
    told = torch.tensor([float(job.world.rank == 0 and words.check(["stop"]))])
    dist.all_reduce(told, group=job.world.group)
    return bool(told[0])


def tell(job, words, went_back):
    at = {
        "epoch": job.world.epoch,
        "size": job.world.size,
        "layout": job.world.layout,
        "step": job.state.step,
        "went_back": went_back,
        "failure": job.failure and str(job.failure),
    }
    words.set("at", json.dumps(at))


def member(port, number, fate=None, recovers=True, **options):
    """A process of the job until it is told to stop."""
    words = dist.PrefixStore("test", connect(port))
    job = dynatrain.Job(
        connect(port), builder(number), rank=number, timeout=TIMEOUT, **options
    )
    fate, went_back = Fate(fate, job), []
    try:
        with job:
            while True:
                check(job, number)
                if job.world.rank == 0:
                    tell(job, words, went_back)
                try:
                    fate.meet("before")
                    if told_to_stop(job, words):
                        return ["stopped", went_back]
                    fate.meet("between")
                    step(job)
                    fate.meet("after")
                except RuntimeError as error:
                    before = job.state.step
                    if not job.recover(error):
                        return ["left", went_back]
                    went_back.append([before, job.state.step])
                    continue
                if not job.boundary(job.state.step):
                    return ["left", went_back]
    except dynatrain.Error as error:
        return [type(error).__name__, str(error)]


class Recoveries(Jobs):
    def at(self):
        """None of them can tell any more when all have ended."""
        told = super().at()
        if not any(one.process.is_alive() for one in self.all):
            pytest.fail(f"{[one.outcome() for one in self.all]} after {told}")
        return told

    def found(self, fates, layout=0, nodes=None, **options):
        """Processes by rank, and what becomes of each."""
        self.all = [
            Process(
                member,
                self.port,
                number,
                fate,
                processes=len(fates),
                layout=layout,
                node=nodes and nodes[number],
                **options,
            )
            for number, fate in enumerate(fates)
        ]


@pytest.fixture
def jobs():
    made = Recoveries()
    yield made
    made.end()


def dies(epoch, step, place="before", **more):
    return {"epoch": epoch, "step": step, "place": place, **more}


@pytest.mark.parametrize("seed", range(3))
def test_any_process_at_any_step(jobs, seed):
    draw = random.Random(seed)
    every = draw.randint(1, 4)
    victims = draw.sample(range(4), 2)
    fates = [None] * 4
    at = draw.randint(1, 12)
    fates[victims[0]] = dies(1, at, draw.choice(PLACES))
    again = at + draw.randint(0, 9)
    fates[victims[1]] = dies(2, again, draw.choice(PLACES))
    jobs.found(fates, layout=draw.choice([0, 1, "flat"]), snapshots=every)
    told = jobs.until_epoch(3)
    assert told["size"] == 2
    jobs.until(lambda now: now["step"] > again + 2 * every)
    outcomes, keys = jobs.stop()
    for number, outcome in enumerate(outcomes):
        if number in victims:
            assert outcome == KILLED
        else:
            assert outcome[0] == "stopped", outcome
            assert len(outcome[1]) == 2, outcome
    assert keys == LEFT
