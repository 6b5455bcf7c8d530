"""Processes that end while their switch prepares, and what becomes of them.

Usage: python exits.py PLAN FOLDER slow|COUNT

Each is forked off and ends as Python ends: what is said on the way is printed.
The plan is of two ranks. Rank 0 ends, without an error or with one; rank 1
never comes, or compares and never connects. "slow": what connects takes its
time to come back.
"""

import os
import sys
import time

import dynatrain
from dynatrain import world as worlds
from dynatrain.tensors import bind
from processes import dist, make_tensors


def compare_as(rank, plan, store):
    """What a rank does up to the connections, and no more."""
    world = dynatrain.World(store=store, rank=rank, world_size=2, timeout=60)
    place = world.join(plan._native)
    switch = dynatrain._C.Switch(plan._native, place.native)
    sides = make_tensors(plan, rank)
    switch.compare(bind(plan.expected(rank), *sides, "gloo"), "")
    return switch, sides


def connect_slowly(place, store, seconds):
    """As gloo, but behind on a machine that has more to do."""
    try:
        store.get("never")
    finally:
        time.sleep(0.5)
        print("the thread has ended", flush=True)


def leave(plan, path, number, slow):
    """Of a process that is to end in a moment: it begins a switch."""
    store = dist.FileStore(path, 2)
    world = dynatrain.World(store=store, rank=0, world_size=2, timeout=60)
    if slow:
        worlds.Place.connect = connect_slowly
    held = [plan.prepare(world, *make_tensors(plan, 0))]
    if slow or number % 2:
        held.append(compare_as(1, plan, store))
    # Somewhere on the way of its preparation.
    time.sleep(0.1 if slow else 0.002 * number)
    # Objects that are there to the end are freed with the interpreter.
    sys.modules[__name__].held = held
    if number % 3 == 2:
        raise ZeroDivisionError("a trainer's error")


def main():
    path, folder, how = sys.argv[1:]
    plan, slow = dynatrain.Plan.load(path), how == "slow"
    for number in range(1 if slow else int(how)):
        child = os.fork()
        if not child:
            leave(plan, os.path.join(folder, f"store-{number}"), number, slow)
            return
        _, status = os.waitpid(child, 0)
        print("code", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
