"""Processes that a trainer forks, as loaders do: what they do with a switch or
a job of their parent, and how they end, is nothing to that."""

import atexit
import gc

import pytest
from processes import dist, dynatrain, fork, run_ranks
from test_job import HANGS, builder
from test_switch import KEY, _tensors, _world, plan_of_two

__all__ = ["plan_of_two"]  # a fixture


def drops(held):
    """The last one to know it."""
    del held[0]
    gc.collect()


def ends(held):
    """As Python ends."""
    atexit._run_exitfuncs()


def goes_out(held):
    with held[0]:
        pass


def goes_on(held):
    for call in (held[0].transfer, held[0].commit, held[0].abort):
        with pytest.raises(dynatrain.InvalidError, match="was forked"):
            call()


def ends_well(do, held):
    """Whether a process that is forked here does so."""
    child = fork.Process(target=do, args=(held,))
    child.start()
    child.join(HANGS / 10)
    if child.exitcode is None:
        child.kill()
    return child.exitcode == 0


def _switches(rank, store, path, do):
    source, target = _tensors(rank + 1.0)
    plan = dynatrain.Plan.load(path)
    held = [plan.prepare(_world(store, rank), source, target)]
    held[0].wait()
    well = ends_well(do, held)
    held[0].transfer()
    held[0].commit()
    return well, target[KEY].sum().item()


@pytest.mark.parametrize("do", [drops, ends, goes_out, goes_on])
def test_a_switch_is_that_of_its_process(do, plan_of_two, tmp_path):
    found = run_ranks(2, _switches, tmp_path, plan_of_two, do, limit=HANGS)
    assert found == [(True, 48.0)] * 2


def _trains(rank, store, do):
    held = [dynatrain.Job(dist.HashStore(), builder(None), layout=0)]
    held[0].join()
    steps = []
    for step in range(1, 4):
        well = ends_well(do, held)
        held[0].state.step = step
        steps.append((well, held[0].boundary(step)))
    held[0].close()
    return steps


@pytest.mark.parametrize("do", [drops, ends])
def test_a_job_is_that_of_its_process(do, tmp_path):
    assert run_ranks(1, _trains, tmp_path, do, limit=HANGS) == [
        [(True, True)] * 3
    ]
