"""Elastic jobs that lose processes: the others go on from the last snapshot,
bit for bit, or say what is gone."""

import functools
import json
import os
import random
import signal
from math import prod

import pytest
from dynatrain.job_recovery import choose
from dynatrain.job_snapshots import Version, held_alone, holders_of, node_of
from dynatrain.regions import Region, heard, holes, not_held, told
from dynatrain.snapshot import DIGEST_SIZE, Snapshot
from dynatrain.snapshot_memory import Memory
from dynatrain.state import MERGED, Small
from processes import KILLED, dist, dynatrain, torch
from test_job import LEFT, Jobs, Process, box_of, connect, cut

# A process that is starved for a tenth of it is taken for lost.
TIMEOUT = 60.0
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


def builder(number, fails_in=None):
    failed = []

    def build(world):
        if world.epoch == fails_in and not failed:
            failed.append(True)
            raise ValueError("this time only")
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
    # Who joins gets another's.
    assert number in (None, own.number) and own.steps == state.step


def step(job):
    state = job.state
    state.samples.next(0, 1)
    state.own.stateful.steps += 1
    state.weights.step(state.step + 1, job.world.group)
    state.step += 1


class Fate:
    """What becomes of a process: {"epoch": 1, "step": 7, "place": ..}, it dies
    there, and with "whole" only when all have their copies of the last
    snapshot; {"raises": 3}, its trainer fails in that step; {"damages": 3}, its
    newest copy is not what it was."""

    def __init__(self, fate, job):
        self.fate, self.job = fate or {}, job

    def meet(self, place):
        fate, job = self.fate, self.job
        step = job.state.step
        if fate.get("raises") == step:
            raise RuntimeError("a trainer's own error")
        if fate.get("damages") == step and place == "before":
            job._terms.snapshots.wait()
            newest = job._terms.snapshots.versions[-1]
            newest.copies[job.name].data.zero_()
        if place != fate.get("place"):
            return
        if (job.world.epoch, step) != (fate["epoch"], fate["step"]):
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


def member(port, number, fate=None, fails_in=None, **options):
    """A process of the job until it is told to stop."""
    words = dist.PrefixStore("test", connect(port))
    options.setdefault("timeout", TIMEOUT)
    job = dynatrain.Job(
        connect(port), builder(number, fails_in), rank=number, **options
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
    except RuntimeError as error:
        return ["raised", str(error)]


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


# What is recovered ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
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
    assert jobs.until_epoch(3)["size"] == 2
    jobs.until(lambda now: now["step"] > again + 2 * every)
    outcomes, keys = jobs.stop()
    for number, outcome in enumerate(outcomes):
        if number in victims:
            assert outcome == KILLED
        else:
            assert outcome[0] == "stopped", outcome
            # From the last snapshot, or where that had yet to arrive from the
            # one before.
            for before, after in outcome[1]:
                assert before - 2 * every <= after <= before, outcome
    assert keys == LEFT


def test_goes_back_to_the_last_snapshot_and_takes_another_in(jobs):
    jobs.found(
        [None, dies(1, 8, "between", whole=True), None, None],
        layout=1,
        snapshots=3,
    )
    assert jobs.until_epoch(2)["size"] == 3
    jobs.all.append(
        Process(member, jobs.port, None, launch="more", layout=1, snapshots=3)
    )
    assert jobs.until_epoch(3)["size"] == 4
    jobs.until_next_step()
    outcomes, keys = jobs.stop()
    assert outcomes[1] == KILLED
    assert [outcomes[at] for at in (0, 2, 3)] == [["stopped", [[8, 6]]]] * 3
    assert outcomes[4][0] == "stopped" and keys == LEFT


def test_a_whole_node_is_lost(jobs):
    fate = dies(1, 7, whole=True)
    jobs.found(
        [fate, None, fate, None],
        layout="flat",
        snapshots=2,
        nodes=["one", "two", "one", "two"],
    )
    jobs.until(lambda at: at.get("size") == 2 and at["step"] > 12)
    outcomes, keys = jobs.stop()
    assert outcomes[::2] == [KILLED, KILLED]
    assert outcomes[1::2] == [["stopped", [[7, 6]]]] * 2
    assert keys == LEFT


def test_a_process_that_hangs_is_left_behind(jobs):
    jobs.found(
        [None, None, dies(1, 5, signal=signal.SIGSTOP), None], snapshots=2
    )
    assert jobs.until_epoch(2)["size"] == 3
    jobs.until_next_step()
    os.kill(jobs.all[2].process.pid, signal.SIGCONT)
    kind, text = jobs.all[2].outcome()
    assert kind == "AbortedError" and "without this process" in text, text
    del jobs.all[2]
    outcomes, keys = jobs.stop()
    assert [kind for kind, _ in outcomes] == ["stopped"] * 3 and keys == LEFT


def test_a_recovery_that_fails_is_tried_again(jobs):
    jobs.found([None, dies(1, 5), None], snapshots=2, fails_in=2)
    jobs.until(lambda at: at.get("size") == 2)
    outcomes, keys = jobs.stop()
    assert [kind for kind, _ in outcomes[::2]] == ["stopped"] * 2
    assert keys == LEFT


# What is not ------------------------------------------------------------------


def test_a_process_is_lost_together_with_its_copy(jobs):
    fate = dies(1, 7, whole=True)
    jobs.found([None, fate, fate, None], snapshots=2)
    for survivor in (jobs.all[0], jobs.all[3]):
        kind, text = survivor.outcome()
        assert kind == "LostStateError", text
        for words in (
            "processes rank 1 (",
            "lost: of the newest snapshot, of step 6, there is no copy of "
            "process rank 1 (",
            "nobody else held tensor 'w' state 'param' [3:6)x[0:10); go on "
            "from a checkpoint",
        ):
            assert words in text, text


def test_without_snapshots_it_says_what_is_lost(jobs):
    jobs.found([None, None, None, dies(1, 7)], layout="flat")
    for survivor in jobs.all[:3]:
        kind, text = survivor.outcome()
        assert kind == "LostStateError", text
        for words in (
            "process rank 3 (",
            "lost: there is no snapshot, and nobody else holds tensor 'w' "
            "state 'param' elements [90:120) of [0:12)x[0:10); go on from a "
            "checkpoint",
        ):
            assert words in text, text


def test_without_a_loss_the_error_is_raised(jobs):
    jobs.found([{"raises": 3}, None], snapshots=2, timeout=30.0)
    for one in jobs.all:
        kind, text = one.outcome()
        assert kind == "raised", text
    assert "a trainer's own" in text or "onnection" in text, text


# The parts --------------------------------------------------------------------


def elements(region):
    """The numbers of a region's elements in the whole tensor."""
    numbers = torch.arange(prod(region.shape)).view(region.shape)
    for dim, (first, count) in enumerate(zip(region.offset, region.size)):
        numbers = numbers.narrow(dim, first, count)
    return set(numbers.flatten()[slice(*(region.range or (None,)))].tolist())


def random_region(draw):
    shape = tuple(draw.choice([(), (7,), (4, 6), (3, 4, 5)]))
    offset = tuple(draw.randrange(n) for n in shape)
    size = tuple(draw.randint(1, n - at) for n, at in zip(shape, offset))
    run = sorted(draw.sample(range(prod(size) + 1), 2))
    key = "x", str(len(shape))
    return Region(key, shape, offset, size, draw.choice([None, tuple(run)]))


def test_regions_are_what_their_elements_are():
    draw = random.Random(1)
    for _ in range(300):
        region = random_region(draw)
        lines = [set(range(lo, hi)) for lo, hi in region.lines()]
        assert sum(map(len, lines)) == len(elements(region)), region
        assert set().union(*lines) == elements(region), region
        assert heard(told([region])) == [region]


def test_what_is_missing_is_what_no_region_has():
    draw = random.Random(2)
    for _ in range(100):
        regions = [random_region(draw) for _ in range(8)]
        wanted, held = regions[:3], regions[3:]
        has = {(one.key, at) for one in held for at in elements(one)}
        expected = [
            one
            for one in dict.fromkeys(wanted)
            if any((one.key, at) not in has for at in elements(one))
        ]
        assert not_held(wanted, held) == expected
        found = {(one.key, at) for one in holes(held) for at in elements(one)}
        known = {one.key: prod(one.shape) for one in held}
        every = {(key, at) for key, n in known.items() for at in range(n)}
        assert found == every - has


@pytest.mark.parametrize("nodes", ["ab", "aabb", "abab", "aabbcc", "abcabcab"])
def test_a_copy_is_on_another_node(nodes):
    members = [f"{node}-{at}-x" for at, node in enumerate(nodes)]
    holders = holders_of(members)
    assert sorted(holders) == sorted(holders.values()) == sorted(members)
    assert all(node_of(k) != node_of(v) for k, v in holders.items())


@pytest.mark.parametrize("nodes", ["aa", "aaaa", "aaab"])
def test_nobody_keeps_its_own_copy(nodes):
    members = [f"{node}-{at}-x" for at, node in enumerate(nodes)]
    holders = holders_of(members)
    assert sorted(holders.values()) == sorted(members)
    assert all(one != holder for one, holder in holders.items())


def test_a_snapshot_that_has_changed_is_found():
    state = dynatrain.State(model={"w": torch.ones(3, 4)}, step=3)
    copy = Snapshot.of(state, [])
    copy.seal()
    ((key, piece),) = copy.pieces()
    assert key == ("w", "param") and torch.equal(piece.tensor, torch.ones(3, 4))
    assert copy.small()["step/"].value == 3 and copy.is_right()
    piece.tensor[0, 0] = 2
    assert not copy.is_right()


def region(name, first, end):
    return Region((name, "param"), (12,), (first,), (end - first,), None)


def test_what_another_node_holds_does_not_travel():
    shared, own = region("w", 0, 12), [region("m", i, i + 3) for i in range(4)]
    members = ["a-0-x", "a-1-x", "b-2-x", "b-3-x"]
    regions = {one: [shared, own[i]] for i, one in enumerate(members)}
    assert held_alone(regions, "a-0-x") == {own[0]}
    # On the same node is as good as not at all.
    regions["b-2-x"], regions["b-3-x"] = [own[2]], [own[3]]
    assert held_alone(regions, "a-0-x") == {shared, own[0]}
    # Of one node each process may be lost alone.
    regions = {"a-0-x": [shared, own[0]], "a-1-x": [shared], "a-2-x": [own[0]]}
    assert held_alone(regions, "a-0-x") == set()
    assert held_alone({"a-0-x": [shared]}, "a-0-x") == {shared}


def test_a_part_of_a_copy_travels():
    model = {name: torch.arange(float(n)) for name, n in zip("abc", (3, 5, 7))}
    state = dynatrain.State(model=model, step=4)
    copy = Snapshot.of(state, [])
    alone = {copy.regions()[1]}
    for first in ((), alone):
        copy = Snapshot.of(state, [], first)
        sent = copy.parted(alone)
        # No more memory where it is as it is to be.
        assert (sent.data.data_ptr() == copy.data.data_ptr()) == bool(first)
        sent.seal()
        digest = sent.digest[:DIGEST_SIZE]
        came = Memory(sent.data[: sent.cut])
        come = Snapshot.arrived(sent.head, came, digest)
        assert come.is_right() and come.small()["step/"].value == 4
        ((key, piece),) = come.pieces()
        assert key == ("b", "param") and torch.equal(piece.tensor, model["b"])
        held = {key[0]: piece.tensor for key, piece in sent.pieces()}
        assert held.keys() == model.keys()
        assert all(torch.equal(held[name], model[name]) for name in model)
        # Of its own copy a process finds all that has changed.
        held["c"][0] = -1
        assert not sent.is_right() and come.is_right()


def test_who_goes_with_all_that_hold_the_same():
    """Three processes of one node: the first two hold "w", each one its "m"."""
    members = ["a-0-x", "a-1-x", "a-2-x"]
    shared, own = region("w", 0, 12), [region("m", i, i + 4) for i in (0, 4, 8)]
    regions = dict(zip(members, ([shared, own[0]], [shared, own[1]], [own[2]])))
    version = Version(1, 6, tuple(members), regions=regions)

    def offer(*owners, whole=True):
        return {"versions": [[1, 6, members, owners, whole]]}

    def chosen(lost, offers, known=version):
        left = [one for one in members if one not in lost]
        return choose(left, members, lost, offers, [known])

    # A part of the copy is enough where another one holds the rest.
    offers = [offer("a-0-x"), offer("a-2-x", "a-1-x")]
    suppliers = {"a-0-x": 0, "a-2-x": 1, "a-1-x": 1}
    unknown = Version(1, 6, tuple(members))
    for known in (version, unknown):
        found = chosen(["a-1-x"], offers, known)
        assert found.number == (1, 6) and found.suppliers == suppliers
    # Nobody knows whether the rest was another's.
    offers = [offer("a-0-x", whole=False), offer("a-2-x", "a-1-x", whole=False)]
    with pytest.raises(dynatrain.LostStateError, match="not known here"):
        chosen(["a-1-x"], offers, unknown)
    # There are parts of the copies of both, of which no one has "w".
    words = "only a part of the copy of processes rank 0 .* and rank 1 "
    words += ".*nobody else held tensor 'w' state 'param' .0:12.; go on"
    with pytest.raises(dynatrain.LostStateError, match=words):
        chosen(members[:2], [offer("a-2-x", "a-1-x", "a-0-x")])


def test_a_damaged_copy_is_not_used(jobs):
    jobs.found(
        [{"damages": 8}, dies(1, 8, "between", whole=True), None], snapshots=2
    )
    assert jobs.until_epoch(2)["size"] == 2
    outcomes, _ = jobs.stop()
    # The version before is whole too, and right.
    assert outcomes[0] == outcomes[2] == ["stopped", [[8, 6]]]


def test_what_cannot_be():
    with pytest.raises(dynatrain.InvalidError, match="snapshots is -1"):
        dynatrain.Job(dist.HashStore(), builder(0), snapshots=-1)
