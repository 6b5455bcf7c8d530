"""Switches of four processes that go wrong at random, and some that do not.

    python test/Python/switch_faults.py [--clean 60] [--faults 60] [--seed N]

Ranks are started plainly or by torchrun; the store is in rank 0, in a process
of its own, or torchrun's agent's. A faulted run has one fault at one place of
one rank. Whatever happens:

- no commit is split: no rank has committed where another one has aborted;
- every error names the cause: the rank, and the reason that it gave;
- nobody waits longer than the timeout in one phase;
- the source is as it was, and after a commit the destination is right;
- no key is left in the store, but for the record of the last attempt and, of a
  commit, what says that a dead rank has not read it.

Prints a line per failure, with what repeats it, and a JSON line of counts.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "python"))
# A TCPStore looks up the name of every process that connects, and answers
# nobody meanwhile: a query that is lost would take longer than ranks wait here.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")

import dynatrain  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)

RANKS = 4
SHAPE = (1024, 2048)
#: Seconds beyond the timeout that a loaded machine may take.
SLACK = 10.0
#: For processes to start.
START = 120.0

#: What may happen to a rank, and where.
PLACES = {
    "kill": ["before prepare", "in prepare", "before transfer"]
    + ["in transfer", "before commit", "in commit"],
    "stop": ["before prepare", "in prepare", "before transfer"]
    + ["in transfer", "before commit", "in commit"],
    "pause": ["before prepare", "in prepare", "before transfer"]
    + ["in transfer", "before commit", "in commit"],
    "exception": ["before prepare", "in prepare", "before transfer"]
    + ["before commit"],
    "abort": ["in prepare", "before transfer", "in transfer", "before commit"]
    + ["in commit"],
    "interrupt": ["in prepare", "in transfer", "in commit"],
    "late": ["before prepare", "before transfer", "before commit"],
    "store": ["before prepare", "in prepare", "before transfer"]
    + ["in transfer", "before commit", "in commit"],
}


class Boom(Exception):
    """What a trainer may raise."""


@dataclasses.dataclass
class Run:
    """One run; a worker reads it as JSON."""

    seed: int
    folder: str
    plan: str
    launcher: str = "plain"
    store: str = "own"
    port: int = 0
    store_pid: int = 0
    shared_memory: bool = True
    timeout: float = 8.0
    fault: str = ""
    place: str = ""
    victim: int = -1
    delay: float = 0.0
    length: float = 0.0

    @property
    def reason(self) -> str:
        return f"boom {self.seed}"

    def file(self, name: str) -> Path:
        return Path(self.folder) / name

    def __str__(self) -> str:
        how = f"{self.launcher}, store {self.store}"
        if not self.shared_memory:
            how += ", by wire"
        if not self.fault:
            return f"seed {self.seed}: {how}, no fault"
        return (
            f"seed {self.seed}: {how}, {self.fault} {self.place} of rank "
            f"{self.victim} (after {self.delay:.4f} s, for {self.length:.1f} s)"
        )


def make_run(seed: int, folder: str, plan: str, faulted: bool, **fixed) -> Run:
    """The same for the same seed; `fixed`: fields that are not drawn."""
    draw = random.Random(seed)
    run = Run(seed, folder, plan, timeout=fixed.pop("timeout", 8.0))

    def choose(field: str, choices: list) -> None:
        # Drawn in any case, so that what follows stays the same.
        setattr(run, field, draw.choice(choices))
        setattr(run, field, fixed.get(field, getattr(run, field)))

    choose("launcher", ["plain", "plain", "torchrun"])
    choose("shared_memory", [True, True, False])
    agent = ["agent"] if run.launcher == "torchrun" else []
    choose("store", ["rank0", "own", *agent])
    if not faulted:
        return run
    choose("fault", list(PLACES))
    choose("place", PLACES[run.fault])
    choose("victim", list(range(RANKS)))
    run.delay = 10 ** draw.uniform(-4, -1.5)
    # Shorter than the others wait, or longer.
    run.length = run.timeout * draw.choice([0.2, 2.0])
    if run.fault == "store":
        run.store, run.victim = "own", -1
    return run


# ---------------------------------------------------------------------------
# One rank
# ---------------------------------------------------------------------------


class Fault:
    """What happens at this rank."""

    def __init__(self, run: Run, rank: int) -> None:
        self.run = run
        # Any rank may end the store.
        self.mine = rank == run.victim or (run.fault == "store" and rank == 1)
        self.switch = None

    def at(self, place: str) -> None:
        """Here, now; or, for a place within, a little later."""
        if not self.mine or place != self.run.place:
            return
        if place.startswith("in ") and self.run.fault != "exception":
            threading.Timer(self.run.delay, self.strike).start()
        else:
            self.strike()

    def strike(self) -> None:
        fault = self.run.fault
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "pause":
            self.wake_in(self.run.length)
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "exception":
            raise Boom(self.run.reason)
        elif fault == "abort":
            with contextlib.suppress(dynatrain.Error):
                self.switch.abort(self.run.reason)
        elif fault == "interrupt":
            os.kill(os.getpid(), signal.SIGUSR1)
        elif fault == "late":
            time.sleep(self.run.length)
        elif fault == "store":
            os.kill(self.run.store_pid, signal.SIGKILL)

    @staticmethod
    def wake_in(seconds: float) -> None:
        pid = os.getpid()
        subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {pid}"])


def tensors(rank: int) -> tuple[dict, dict, torch.Tensor]:
    full = torch.arange(SHAPE[0] * SHAPE[1], dtype=torch.float32).view(SHAPE)
    source = full.chunk(RANKS, 0)[rank].clone()
    right = full.chunk(RANKS, 1)[rank].contiguous()
    key = ("w", "param")
    return {key: source}, {key: torch.zeros_like(right)}, right


def open_store(run: Run, rank: int) -> dist.Store:
    limit = timedelta(seconds=START)
    if run.store == "agent":
        return next(dist.rendezvous("env://", timeout=limit))[0]
    host = run.store == "rank0" and rank == 0
    port = run.port
    if run.store == "rank0" and not host:
        port = int(await_file(run.file("port")))
    store = dist.TCPStore(
        "127.0.0.1", port, RANKS, host, limit, wait_for_workers=False
    )
    if host:
        write_file(run.file("port"), str(store.port))
    return store


def write_file(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.rename(path)


def await_file(path: Path) -> str:
    deadline = time.monotonic() + START
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {path}")
        time.sleep(0.01)
    return path.read_text()


class Recorder:
    """What became of a rank, and how long each call took."""

    def __init__(self) -> None:
        self.found = {"error": "", "kind": "", "outcome": "none", "seconds": {}}
        self.closed = False

    def on_signal(self, *_) -> None:
        """A handler that raises while there is a switch to interrupt. One that
        is late must not interrupt the writing of the record."""
        if not self.closed:
            raise Boom("a signal handler of the trainer")

    @contextlib.contextmanager
    def timed(self, name: str):
        begin = time.monotonic()
        try:
            yield
        finally:
            self.found["seconds"][name] = time.monotonic() - begin


def take_switch(run: Run, rank: int, store, recorder: Recorder) -> None:
    """Prepares, transfers and commits, with the fault in between."""
    fault = Fault(run, rank)
    source, target, right = tensors(rank)
    before = {key: tensor.clone() for key, tensor in source.items()}
    plan = dynatrain.Plan.load(run.plan)
    world = dynatrain.World(
        store=store,
        rank=rank,
        world_size=RANKS,
        timeout=run.timeout,
        shared_memory=run.shared_memory,
    )
    # By files: the store may stop, or go, with the first fault.
    write_file(run.file(f"ready{rank}"), "")
    for other in range(RANKS):
        await_file(run.file(f"ready{other}"))
    found = recorder.found
    switch = None
    try:
        fault.at("before prepare")
        switch = plan.prepare(world, source, target, tag=run.seed)
        fault.switch = switch
        fault.at("in prepare")
        with recorder.timed("prepare"):
            switch.wait()
        fault.at("before transfer")
        fault.at("in transfer")
        with recorder.timed("transfer"):
            switch.transfer(user_data={"from": rank})
        fault.at("before commit")
        fault.at("in commit")
        with recorder.timed("commit"):
            switch.commit()
        assert switch.user_data == {"from": 0}
    finally:
        recorder.closed = True
        if switch is not None:
            found["outcome"] = switch.outcome
        found["intact"] = all(
            torch.equal(before[key], source[key]) for key in source
        )
        found["right"] = torch.equal(target["w", "param"], right)


def work(run: Run, rank: int) -> None:
    """A rank's life; what its trainer raises ends its process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's
    recorder = Recorder()
    found = recorder.found
    signal.signal(signal.SIGUSR1, recorder.on_signal)
    write_file(run.file(f"pid{rank}"), str(os.getpid()))
    try:
        take_switch(run, rank, open_store(run, rank), recorder)
    except dynatrain.Error as error:
        found["error"], found["kind"] = str(error), type(error).__name__
    except Boom as error:
        found["error"], found["kind"] = str(error), "Boom"
        raise
    except BaseException:
        found["error"], found["kind"] = traceback.format_exc(), "crash"
        raise
    finally:
        write_file(run.file(f"rank{rank}.json"), json.dumps(found))


# ---------------------------------------------------------------------------
# All ranks
# ---------------------------------------------------------------------------


def fork(body) -> int:
    """A child that ends as a process of its own would."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)  # c10d tells there what it has lost
        body()
    except BaseException as error:
        sys.last_value = error
        code = 1
    atexit._run_exitfuncs()
    os._exit(code)


def serve_store(port_file: Path) -> None:
    store = dist.TCPStore(
        "127.0.0.1", 0, RANKS, True, timedelta(hours=1), wait_for_workers=False
    )
    write_file(port_file, str(store.port))
    time.sleep(3600)


def start_ranks(run: Run) -> list[int]:
    """The processes to wait for."""
    if run.launcher == "plain":
        return [
            fork(lambda rank=rank: work(run, rank)) for rank in range(RANKS)
        ]
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--standalone", f"--nproc-per-node={RANKS}", __file__]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    agent = subprocess.Popen(
        [*command, "--worker", str(run.file("run.json"))],
        env=environment,
        stdout=quiet,
        stderr=quiet,
    )
    return [agent.pid]


def await_records(run: Run, ranks: list[int]) -> list[int]:
    """Those of the ranks that did not end in time."""
    for rank in range(RANKS):
        await_file(run.file(f"pid{rank}"))
    # Three phases, of which one is two.
    deadline = time.monotonic() + START + 4 * run.timeout + run.length + SLACK
    missing = ranks
    while missing and time.monotonic() < deadline:
        time.sleep(0.02)
        missing = [r for r in missing if not run.file(f"rank{r}.json").exists()]
    return missing


def fate(run: Run, rank: int) -> str:
    """Of a rank that has left no record."""
    pid = int(run.file(f"pid{rank}").read_text())
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return "has ended without a record"
    return "has ended without a record" if state[0] == "Z" else "hangs"


def reap(pids: list[int], seconds: float) -> bool:
    """Whether all have ended by themselves; those that have not are killed."""
    deadline = time.monotonic() + seconds
    in_time = True
    for pid in pids:
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                in_time = False
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
            time.sleep(0.02)
    return in_time


def keys_left(run: Run) -> list[str]:
    if run.store != "own" or run.fault == "store":
        return []
    limit = timedelta(seconds=30)
    store = dist.TCPStore("127.0.0.1", run.port, None, False, limit)
    names = [name.lstrip("/") for name in store.list_keys()]
    return [
        name
        for name in names
        if name.startswith("dynatrain/") and name != "dynatrain/attempt"
    ]


@contextlib.contextmanager
def store_of(run: Run) -> Iterator[None]:
    """A process that hosts the store, where that is none of the ranks."""
    if run.store != "own":
        yield
        return
    store = fork(lambda: serve_store(run.file("port")))
    try:
        run.port, run.store_pid = int(await_file(run.file("port"))), store
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(store, signal.SIGKILL)
        os.waitpid(store, 0)


def execute(run: Run) -> list[str]:
    """What is wrong with the run."""
    with store_of(run):
        return faults_of(run)


def faults_of(run: Run) -> list[str]:
    write_file(run.file("run.json"), json.dumps(dataclasses.asdict(run)))
    pids = start_ranks(run)
    ends = [
        rank
        for rank in range(RANKS)
        if rank != run.victim or run.fault not in ("kill", "stop")
    ]
    late = await_records(run, ends)
    faults = [f"rank {rank} {fate(run, rank)}" for rank in late]
    for rank in [*late, *{run.victim} - set(ends) - {-1}]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(run.file(f"pid{rank}").read_text()), signal.SIGKILL)
    if not reap(pids, 2 * run.timeout + 60):
        faults.append("a process does not end")
    records = {
        rank: json.loads(run.file(f"rank{rank}.json").read_text())
        for rank in ends
        if rank not in late
    }
    return faults + judge(run, records, keys_left(run))


# ---------------------------------------------------------------------------
# What must hold
# ---------------------------------------------------------------------------


def names_cause(run: Run, rank: int, found: dict) -> bool:
    """Whether a rank's error says what was done to which rank."""
    text = found["error"]
    if rank == run.victim and found["kind"] == "Boom":
        return True
    if run.fault == "store":
        return "store" in text
    hosts = run.store == "rank0" and run.victim == 0
    if hosts and run.fault in ("kill", "stop", "pause", "late"):
        return "rank 0" in text
    if run.fault == "interrupt":
        return "Boom: a signal handler" in text
    if run.fault == "abort":
        return run.reason in text and f"rank {run.victim}" in text
    if run.fault == "exception" and run.place != "before prepare":
        return run.reason in text and f"rank {run.victim} stopped" in text
    # The victim itself may have been given up by the others.
    return f"rank {run.victim}" in text


def judge(run: Run, records: dict[int, dict], left: list[str]) -> list[str]:
    faults = []
    outcomes = {found["outcome"] for found in records.values()}
    if {"committed", "aborted"} <= outcomes:
        faults.append("the commit is split")
    if not run.fault and outcomes != {"committed"}:
        faults.append("not all have committed")
    for rank, found in records.items():
        who = f"rank {rank} ({found['outcome']}, {found['error']!r})"
        if found["kind"] == "crash":
            faults.append(f"{who} has crashed")
        elif found["error"] and not names_cause(run, rank, found):
            faults.append(f"{who} does not name the cause")
        if not found.get("intact", True):
            faults.append(f"{who}: the source has changed")
        # Who is interrupted while it looks has not found out.
        if found["outcome"] == "committed" and not found.get("right", True):
            faults.append(f"{who}: the destination is wrong")
        if found["outcome"] == "undecided" and "cannot learn" not in who:
            faults.append(f"{who} does not say that it is undecided")
        faults += too_slow(run, rank, found)
    dead = run.fault in ("kill", "stop")
    unread = dead and "committed" in outcomes
    allowed = re.compile(r"dynatrain/[0-9a-f]+/(read|committed)")
    faults += [
        f"the store still has {name}"
        for name in left
        if not (unread and allowed.fullmatch(name))
    ]
    return faults


def too_slow(run: Run, rank: int, found: dict) -> list[str]:
    if run.fault == "pause" and rank == run.victim:
        return []
    limits = {"prepare": 2 * run.timeout}
    return [
        f"rank {rank} was in {phase} for {seconds:.1f} s"
        for phase, seconds in found["seconds"].items()
        if seconds > limits.get(phase, run.timeout) + SLACK
    ]


def compile_plan(folder: str) -> str:
    def shards(dim):
        size = [n // (RANKS if d == dim else 1) for d, n in enumerate(SHAPE)]
        return [
            {
                "tensor": "w",
                "rank": rank,
                "offset": [rank * size[d] * (d == dim) for d in range(2)],
                "size": size,
            }
            for rank in range(RANKS)
        ]

    path = os.path.join(folder, "rows-to-columns.dtplan")
    tensor = {"name": "w", "shape": list(SHAPE), "dtype": "f32"}
    dynatrain.compile(
        {
            "model": {"tensors": [tensor]},
            "source": {"world": RANKS, "shards": shards(0)},
            "destination": {"world": RANKS, "shards": shards(1)},
        },
        path,
    )
    return path


def run_all(
    runs: list[Run], verbose: bool = False
) -> tuple[list[str], Counter]:
    """What is wrong, by run; and how the runs have ended."""
    wrong, counts = [], Counter()
    for run in runs:
        os.makedirs(run.folder)
        if verbose:
            print(run, flush=True)
        faults = execute(run)
        wrong += [f"{run}: {fault}" for fault in faults]
        counts[run.fault or "none"] += 1
    return wrong, counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clean", type=int, default=60)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--timeout", type=float, default=8.0)
    fixed = parser.add_argument_group("instead of what is drawn")
    fixed.add_argument("--fault", choices=list(PLACES))
    fixed.add_argument("--place")
    fixed.add_argument("--victim", type=int)
    fixed.add_argument("--launcher", choices=["plain", "torchrun"])
    fixed.add_argument("--store", choices=["own", "rank0", "agent"])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.worker:
        run = Run(**json.loads(Path(options.worker).read_text()))
        work(run, int(os.environ["RANK"]))
        return 0
    seed = options.seed
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    # No TemporaryDirectory: every child would remove it at its end.
    folder = tempfile.mkdtemp()
    try:
        plan = compile_plan(folder)
        names = ("fault", "place", "victim", "launcher", "store", "timeout")
        given = {name: getattr(options, name) for name in names}
        given = {name: v for name, v in given.items() if v is not None}
        runs = [
            make_run(
                seed + i, f"{folder}/{i}", plan, i >= options.clean, **given
            )
            for i in range(options.clean + options.faults)
        ]
        wrong, counts = run_all(runs, options.verbose)
    finally:
        shutil.rmtree(folder)
    for line in wrong:
        print(f"wrong: {line}")
    print(json.dumps({"runs": len(runs), "wrong": len(wrong), **counts}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
