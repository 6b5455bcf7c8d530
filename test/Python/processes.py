"""Ranks as real processes, and what became of each."""

import faulthandler
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("dynatrain", reason="the extension is not built")

import dynatrain  # noqa: E402
import torch.distributed as dist  # noqa: E402
from dynatrain.hollow import warm_up  # noqa: E402

torch.set_num_threads(1)
warm_up()

# Children share what is imported already, and start at once.
fork = multiprocessing.get_context("fork")

#: Of a process that has only imported all this: children of `fork` have the
#: heaps that the threads of earlier tests have left, and grow in their gaps.
#: What they run is found by name, in a module.
fresh = multiprocessing.get_context("forkserver")
fresh.set_forkserver_preload(["processes"])

#: What a rank that was killed gives.
KILLED = "killed"


def _child(pipe, body, rank, store_path, size, arguments):
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
        store = dist.FileStore(store_path, size)
        pipe.send(("value", body(rank, store, *arguments)))
    except dynatrain.Error as error:
        pipe.send(("error", str(error)))
    except BaseException:
        pipe.send(("crash", traceback.format_exc()))
    pipe.close()
    os._exit(0)


def _tell_where(process):
    """On stderr: the frames of Python, and all others where gdb is there."""
    os.kill(process.pid, signal.SIGUSR1)
    process.join(1)
    gdb = shutil.which("gdb")
    if not gdb:
        return
    frames = subprocess.run(
        [gdb, "-p", str(process.pid), "-batch", "-ex", "thread apply all bt"],
        capture_output=True,
        text=True,
    )
    print(frames.stdout, file=sys.stderr)


def _take(pipe, process, deadline):
    """One rank's outcome; a rank that hangs is killed and fails the test."""
    if not pipe.poll(max(0, deadline - time.monotonic())):
        _tell_where(process)
        process.kill()
        process.join()
        return ("crash", "hangs")
    try:
        outcome = pipe.recv()
    except EOFError:
        outcome = ("value", KILLED)
    process.join()
    return outcome


def stop(child):
    """Stops the process, a child of this one: it does nothing more, once this
    returns. A signal alone takes effect some time after it was sent."""
    os.kill(child, signal.SIGSTOP)
    os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOWAIT)


def run_ranks(size, body, folder, *arguments, limit=90, context=fork):
    """body(rank, store, *arguments) in `size` processes: for each rank its
    value, or its error as "error: TEXT"."""
    store_path = str(folder / f"store-{time.monotonic_ns()}")
    running = []
    for rank in range(size):
        ours, theirs = fork.Pipe(duplex=False)
        process = context.Process(
            target=_child,
            args=(theirs, body, rank, store_path, size, arguments),
        )
        process.start()
        theirs.close()
        running.append((ours, process))
    deadline = time.monotonic() + limit
    outcomes = [_take(pipe, process, deadline) for pipe, process in running]
    crashes = [text for kind, text in outcomes if kind == "crash"]
    assert not crashes, "\n".join(crashes)
    assert not multiprocessing.active_children()
    return [
        f"error: {value}" if kind == "error" else value
        for kind, value in outcomes
    ]


def meet(store, name, rank, others):
    """Until all of `others` (ranks, or how many) have come here too."""
    if isinstance(others, int):
        others = range(others)
    store.set(f"{name}/{rank}", "here")
    store.wait([f"{name}/{other}" for other in others], timedelta(seconds=60))


def store_of_rank_0(rank, store, size):
    """A store whose host is the process of rank 0, as without torchrun."""
    limit = timedelta(seconds=60)
    if rank == 0:
        hosted = dist.TCPStore("127.0.0.1", 0, size, True, limit, False)
        store.set("port", str(hosted.port))
        return hosted
    port = int(store.get("port"))
    return dist.TCPStore("127.0.0.1", port, size, False, limit)


def hollow_tensors(plan, device):
    """Destination tensors of one shard each, without memory."""
    return {
        (entry.tensor, entry.state): dynatrain.hollow(
            torch.empty(entry.shape, dtype=entry.dtype, device="meta")
        )
        for entry in plan.expected(device)
        if entry.side == "destination"
    }


def make_tensors(plan, device, fill=0):
    """Tensors of all shards that a device holds: (source, destination)."""
    sides = {"source": {}, "destination": {}}
    for entry in plan.expected(device):
        shards = sides[entry.side].setdefault((entry.tensor, entry.state), [])
        shards.append(torch.full(entry.shape, fill, dtype=entry.dtype))
    return sides["source"], sides["destination"]
