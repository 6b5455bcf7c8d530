"""Plans that a job has made ahead: a switch that needs one compiles nothing."""

import signal
import time

import pytest
from dynatrain import planning
from dynatrain.job_status import JobView
from processes import KILLED, dynatrain
from test_job import HANGS, Jobs, Process
from test_recovery import Fate, check, connect, dist, step, tell, told_to_stop
from test_recovery import builder as recovery_builder


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.end()


#: Of a job whose switches are flat: a loss is survived by copies, which stay.
FLAT = {"mode": "flat", "granularity": "tensor", "staging": "1MiB"}


def refuse(*_):
    raise dynatrain.CompileError("nothing is to be compiled any more")


def member(port, number, fate=None, **options):
    """Trains; asks for what the test wants when all plans are there, and
    compiles nothing from then on."""
    words = dist.PrefixStore("test", connect(port))
    job = dynatrain.Job(
        connect(port),
        recovery_builder(number),
        rank=number,
        timeout=HANGS / 10,
        snapshots=2,
        plans_ahead=True,
        **options,
    )
    went_back, compiles = [], planning.compile
    with job:
        while True:
            check(job, number)
            ahead = job.status()["plans_ahead"]
            words.set(f"made/{number}", ",".join(ahead["made"]))
            is_closed = words.check(["closed"])
            if ahead["fault"] and not is_closed:
                return ["fault", ahead["fault"]]
            planning.compile = refuse if is_closed else compiles
            if job.world.rank == 0:
                tell(job, words, went_back)
                if words.check(["leave"]) and job.world.epoch == 1:
                    job.request(leave=[int(words.get("leave"))])
            try:
                if told_to_stop(job, words):
                    return ["stopped", went_back]
                if is_closed and fate is not None:
                    fate_of(job, fate).meet("before")
                step(job)
            except RuntimeError as error:
                before = job.state.step
                if not job.recover(error):
                    return ["left", went_back]
                went_back.append([before, job.state.step])
                continue
            if not job.boundary(job.state.step):
                return ["left", went_back]


def fate_of(job, number):
    at = {"epoch": number, "step": job.state.step, "place": "before"}
    return Fate({**at, "signal": signal.SIGKILL}, job)


def found(jobs, fates, **options):
    options = {"processes": len(fates), "layout": 0, **options}
    jobs.all = [
        Process(member, jobs.port, number, fate, **options)
        for number, fate in enumerate(fates)
    ]


def until_made(jobs, of):
    """Until each process has all the plans that it would need."""
    end = time.monotonic() + HANGS
    for number, cases in of.items():
        made = []
        while sorted(made) != sorted(cases):
            assert time.monotonic() < end, (number, made)
            assert jobs.all[number].process.is_alive()
            time.sleep(0.05)
            if jobs.words.check([f"made/{number}"]):
                made = jobs.words.get(f"made/{number}").decode().split(",")


def cases_of(size):
    """By process: any may leave, and any other one may be lost."""
    return {
        own: [f"leaves-{rank}" for rank in range(size)]
        + [f"lost-{rank}" for rank in range(size) if rank != own]
        for own in range(size)
    }


@pytest.mark.parametrize("memory", [{}, FLAT], ids=["rollback", "flat"])
def test_a_loss_compiles_nothing(memory, jobs):
    found(jobs, [None, 1, None], memory=memory)
    until_made(jobs, cases_of(3))
    jobs.words.set("closed", "now")
    at = jobs.until(lambda at: at.get("size") == 2)
    assert at["failure"] is None
    jobs.until_next_step()
    outcomes, _ = jobs.stop()
    assert outcomes[1] == KILLED
    assert [one[0] for one in outcomes[::2]] == ["stopped"] * 2, outcomes


@pytest.mark.parametrize("memory", [{}, FLAT], ids=["rollback", "flat"])
def test_who_leaves_compiles_nothing(memory, jobs):
    found(jobs, [None, None, None], memory=memory)
    until_made(jobs, cases_of(3))
    jobs.words.set("closed", "now")
    jobs.words.set("leave", "2")
    at = jobs.until(lambda at: at.get("size") == 2)
    assert at["failure"] is None
    outcomes, keys = jobs.stop()
    assert [one[0] for one in outcomes] == ["stopped", "stopped", "left"]
    assert keys == ["dynatrain/job", "dynatrain/world"]


def test_what_is_not_there_is_compiled(jobs):
    """Or refused here: the plan for another layout is not made ahead."""
    found(jobs, [None, None])
    until_made(jobs, cases_of(2))
    jobs.words.set("closed", "now")
    with JobView(f"127.0.0.1:{jobs.port}") as view:
        begun = view.request(layout=1)
        record = view.wait(begun, HANGS)
    assert record.epoch == begun.epoch
    assert "nothing is to be compiled any more" in record.why
    outcomes, _ = jobs.stop()
    assert [one[0] for one in outcomes] == ["stopped"] * 2


def cut_otherwise(layout, size):
    """Three processes cut by rows, any other number by columns."""
    return layout if size == 3 else 1 - layout


def test_what_a_loss_makes_of_the_job_is_planned_ahead(jobs):
    """The layout is not what was asked for, and nothing is compiled for it."""
    found(jobs, [None, 1, None], layout_for=cut_otherwise)
    until_made(jobs, cases_of(3))
    jobs.words.set("closed", "now")
    at = jobs.until(lambda at: at.get("size") == 2)
    assert at["failure"] is None and at["layout"] == 1, at
    jobs.until_next_step()
    outcomes, _ = jobs.stop()
    assert outcomes[1] == KILLED
    assert [one[0] for one in outcomes[::2]] == ["stopped"] * 2, outcomes
