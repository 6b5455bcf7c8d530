"""Groups of an elastic job: what waits in them ends when they are cut, whatever
the other processes do, and they compute what groups over Gloo compute."""

import contextlib
import functools
import gc
import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from dynatrain import connections
from dynatrain.job_groups import Groups
from dynatrain.world import Place
from processes import KILLED, dist, meet, run_ranks, torch

# Seconds: of a group's operations, far more than a test has; and a moment, far
# more than an abort takes.
LONG, MOMENT = 600.0, 20.0
WHY = "the job has ended what this group does"


@pytest.fixture(autouse=True)
def _loopback(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


def groups_of(store):
    return Groups(dist.PrefixStore("groups", store), MOMENT, LONG)


def why_it_ends(wait):
    """What an operation raises, in a moment."""
    began = time.monotonic()
    with pytest.raises(RuntimeError) as raised:
        wait()
    assert time.monotonic() - began < MOMENT
    return str(raised.value)


def later(call):
    timer = threading.Timer(0.2, call)
    timer.start()
    return timer


# Cuts ------------------------------------------------------------------------


def _waits(rank, store, what):
    groups = groups_of(store)
    group = groups.new([0, 1], rank)
    if rank == 0:
        later(groups.cut)
        why = why_it_ends(lambda: what(group))
        again = why_it_ends(lambda: dist.barrier(group))
        store.set("over", "")
        return [why, again]
    # There, and in no operation.
    store.wait(["over"])
    return []


def reduces(group):
    dist.all_reduce(torch.ones(3), group=group)


def scatters(group):
    """An operation that Gloo carries out as the caller waits."""
    dist.reduce_scatter_tensor(torch.ones(3), torch.ones(6), group=group)


def receives(group):
    dist.recv(torch.ones(3), group_src=1, group=group)


def waits_for_future(group):
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    work.get_future().wait()


@pytest.mark.parametrize(
    "what", [reduces, scatters, receives, waits_for_future]
)
def test_a_cut_ends_what_waits(what, tmp_path):
    (why, again), _ = run_ranks(2, _waits, tmp_path, what)
    assert WHY in why and WHY in again


def _sends_into_nothing(rank, store):
    groups = groups_of(store)
    before = connections.open_sockets()
    group = groups.new([0, 1], rank)
    if rank == 1:
        group.recv([torch.zeros(4)], 0, 7)
        meet(store, "posted", rank, 2)
        os.kill(os.getpid(), signal.SIGSTOP)
    meet(store, "posted", rank, 2)
    time.sleep(0.2)  # until Gloo here knows of the receive
    places = connections.open_sockets() - before
    ends = [one for one in places if connections._ends(one)]
    # What is written breaks, and then what is read ends.
    for how in (socket.SHUT_WR, socket.SHUT_RD):
        if how == socket.SHUT_RD:
            work = group.send([torch.zeros(4)], 1, 7)
        for file, _ in ends:
            with connections._duplicate(file) as opened:
                opened.shutdown(how)
    later(groups.cut)
    why = why_it_ends(work.wait)
    os.kill(int(store.get("pid")), signal.SIGKILL)
    return why


def _with_pid(rank, store):
    if rank == 1:
        store.set("pid", str(os.getpid()))
    return _sends_into_nothing(rank, store)


def test_a_cut_ends_a_send_that_gloo_has_forgotten(tmp_path):
    why, other = run_ranks(2, _with_pid, tmp_path)
    assert WHY in why and other == KILLED


def _leaves_it_behind(rank, store):
    groups = groups_of(store)
    group = groups.new([0, 1], rank)
    if rank == 1:
        store.wait(["over"])
        return 0
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    for backend in groups._backends:
        backend.abort()
    assert WHY in why_it_ends(work.wait)
    began = time.monotonic()
    del group, groups, work, backend
    store.set("over", "")
    return time.monotonic() - began


def test_nobody_waits_for_a_group_that_goes(tmp_path):
    seconds, _ = run_ranks(2, _leaves_it_behind, tmp_path)
    assert seconds < MOMENT


def _is_cut_before(rank, store):
    groups = groups_of(store)
    groups.cut()
    return why_it_ends(lambda: groups.new([0], 0))


def test_groups_that_are_cut_are_not_made(tmp_path):
    (why,) = run_ranks(1, _is_cut_before, tmp_path)
    assert "have been cut" in why


# Connecting -------------------------------------------------------------------


def _of_a_job(store, seconds):
    connections.connect_gloo(store, 0, 2, seconds)


def _of_a_switch(store, seconds):
    place = Place(0, 2, 0, seconds, None, "gloo", True, False, False)
    place.connect(store, seconds)


def _says_where_it_is(rank, store, connect, seconds):
    """Rank 1 has an address, at which nobody connects with rank 0."""
    if rank == 1:
        store.set("here/1", "")
        there = dist.PrefixStore("there", store)
        pair = dist.PrefixStore("0", there)
        thread = threading.Thread(
            target=dist.ProcessGroupGloo, args=(there, 1, 2), daemon=True
        )
        thread.start()
        told = bytearray(pair.get("1"))
        # A host's name, and a sockaddr: the highest port waits for others.
        (length,) = struct.unpack_from("N", told)
        struct.pack_into("!H", told, length + 2 * 8 + 2, 65535)
        store.set("0/1", bytes(told))
        store.wait(["over"])
        return 0
    began, sockets = time.monotonic(), connections.open_sockets()
    with pytest.raises(RuntimeError):
        connect(store, seconds)
    seconds = time.monotonic() - began
    # Nothing listens any more to what comes late.
    assert connections.open_sockets() == sockets
    store.set("over", "")
    return seconds


@pytest.mark.parametrize("connect", [_of_a_job, _of_a_switch])
def test_who_is_gone_is_not_awaited_longer_than_asked(connect, tmp_path):
    seconds, _ = run_ranks(2, _says_where_it_is, tmp_path, connect, 2.0)
    assert 0.3 < seconds < 6


# Results ----------------------------------------------------------------------


def _computes(rank, store):
    group = groups_of(store).new([0, 1, 2], rank)
    own, found = torch.arange(3.0) + 10 * rank, {}

    def note(name, tensors):
        found[name] = [one.tolist() for one in tensors]

    total = own.clone()
    dist.all_reduce(total, group=group)
    note("all_reduce", [total])
    every = [torch.zeros(3) for _ in range(3)]
    dist.all_gather(every, own, group=group)
    note("all_gather", every)
    flat = torch.zeros(9)
    dist.all_gather_into_tensor(flat, own, group=group)
    note("all_gather_into_tensor", [flat])
    part = torch.zeros(1)
    dist.reduce_scatter_tensor(part, own, group=group)
    note("reduce_scatter_tensor", [part])
    turned = torch.zeros(3)
    dist.all_to_all_single(turned, own, group=group)
    note("all_to_all_single", [turned])
    word = own.clone()
    dist.broadcast(word, group_src=2, group=group)
    note("broadcast", [word])
    to, source = (rank + 1) % 3, (rank + 2) % 3
    got = torch.zeros(3)
    works = [
        dist.irecv(got, group_src=source, group=group),
        dist.isend(own, group_dst=to, group=group),
    ]
    for work in works:
        work.wait()
    note("ring", [got])
    work = dist.all_reduce(own.clone(), group=group, async_op=True)
    note("future", work.get_future().wait())
    return found


def test_they_compute_what_gloo_computes(tmp_path):
    told = run_ranks(3, _computes, tmp_path)
    of = [[10.0 * rank + at for at in range(3)] for rank in range(3)]
    total = [sum(column) for column in zip(*of)]
    for rank, found in enumerate(told):
        assert found == {
            "all_reduce": [total],
            "all_gather": of,
            "all_gather_into_tensor": [sum(of, [])],
            "reduce_scatter_tensor": [[total[rank]]],
            "all_to_all_single": [[one[rank] for one in of]],
            "broadcast": [of[2]],
            "ring": [of[(rank + 2) % 3]],
            "future": [total],
        }


def _loops():
    """Threads of Gloo's. Others may end meanwhile."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append((task / "comm").read_text().strip())
    return names.count("gloo_tcp_loop")


def _comes_to(count):
    end = time.monotonic() + MOMENT
    while _loops() != count and time.monotonic() < end:
        time.sleep(0.01)
    return _loops() == count


def _shares(rank, store):
    """Whether another world's group goes on when one is cut, and whether a
    thread of Gloo's serves all of a world, and goes with the last of them."""
    first, second = (
        groups_of(store),
        Groups(dist.PrefixStore("more", store), MOMENT, LONG),
    )
    cut, kept = first.new([0, 1], rank), second.new([0, 1], rank)
    also, pulse = first.new([0, 1], rank), second.new_pulse([0, 1], rank)
    served = [_loops() == 2]
    first.close(), second.close()
    meet(store, "made", rank, 2)
    first.cut()
    why_it_ends(functools.partial(reduces, cut))
    del first, cut, also
    gc.collect()  # what was raised knows the group
    served.append(_comes_to(1))
    told = torch.ones(1)
    dist.all_reduce(told, group=kept)
    meet(store, "told", rank, 2)
    pulse.close()
    del second, kept, pulse
    served.append(_comes_to(0))
    return told.item(), served


def test_all_groups_of_a_world_share_a_thread_of_gloos(tmp_path):
    assert run_ranks(2, _shares, tmp_path) == [(2.0, [True] * 3)] * 2
