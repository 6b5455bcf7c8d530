"""An elastic job in which one thing goes wrong: of each kind, to each process,
in each phase of a switch.

    python test/Python/job_faults.py [--runs 40] [--seed N] [--results FILE]
    python test/Python/job_faults.py --slice 0/4 --results FILE [--flat]
    python test/Python/job_faults.py --table docs/ElasticJobs.md FILE...

Three processes train; a fourth one joins, one leaves, and the layout changes,
in one switch. The fault is there where the job's log says that a part of the
switch begins, so it hits the phase that it names. Whatever happens:

- the job goes on in its old world, in the new one, or in one without the lost
  process; or it ends with an error that says what is lost;
- the state is right after every step, bit for bit, in every process;
- no two processes are in different worlds of one number;
- nobody waits for ever, and who is not hurt does not end by itself;
- where the job goes on it can switch again, to another layout;
- nothing is left: no key in the store, no process, no shared memory.

There is no coordinator in the protocol. The part of one is taken by the process
that asks for the switch: the first of the world, which compiles the plan and
chooses what to go back to after a loss.

--slice I/N takes every Nth run of the whole matrix, from the Ith. With --flat
the job's plans are flat: a switch gives back what it has read, and can fail
past its point of no return. Prints a line per failure, with what repeats it,
and a JSON line of counts.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import logging
import multiprocessing.connection
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "python"))
# A TCPStore looks up the name of every process that connects.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")

from processes import dist, dynatrain, fork, torch  # noqa: E402
from test_recovery import Weights  # noqa: E402

FAULTS = ["kill", "stop", "stop and continue", "exception", "segfault"]
FAULTS += ["abort", "network cut", "slow network", "full staging"]
FAULTS += ["store slow", "store cut off", "store lost", "late"]
ROLES = ["asking", "staying", "leaving", "joining"]
PHASES = ["steady", "preparing", "transferring", "voting", "decided"]

#: After these nobody hears of the process, or not until it is healed.
GONE = {"kill", "stop", "segfault", "abort", "network cut"}
#: What needs a network of namespaces, and what a store's proxy.
NETWORK, PROXIED = {"network cut", "slow network"}, {"store slow"}
PROXIED |= {"store cut off"}
#: What stops without the process's doing, so that others may give it up.
SLOW = {"stop and continue", "slow network", "store slow", "late"}

TIMEOUT, EVERY = 20.0, 2
#: Of flat plans: all that is read goes, whatever memory it lies in.
FLAT = {"mode": "flat", "granularity": "tensor", "staging": "1MiB"}
#: A member's fault while nothing is under way comes in this step.
STEADY_STEP = 5
#: So many steps of one world, and the job has come to rest.
REST = 6
#: Seconds after which a run has failed: far more than any takes.
LIMIT = 12 * TIMEOUT


class Boom(Exception):
    """What a trainer may raise."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run. where: the part of the switch at whose beginning it is hit;
    share: of the timeout, how long what passes lasts."""

    seed: int
    fault: str
    role: str
    phase: str
    flat: bool = False

    @property
    def where(self) -> str:
        draw = random.Random(f"{self.seed} where")
        ways = ["prepare", "plan", "connect"]
        if self.role != "leaving":
            ways.append("build")
        return {
            "steady": "",
            "preparing": draw.choice(ways),
            "transferring": "transfer",
            "voting": "vote",
            "decided": "adopt",
        }[self.phase]

    @property
    def share(self) -> float:
        """Shorter than what the others wait, or longer."""
        draw = random.Random(f"{self.seed} share")
        return draw.choice(
            {
                "stop and continue": [0.03, 0.3],
                "late": [0.1, 0.8],
                "store slow": [0.01, 0.3],
            }.get(self.fault, [0.0])
        )

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        lasts = f" for {self.share:g} T" if self.share else ""
        return (
            f"--seed {self.seed} --fault '{self.fault}' --role {self.role} "
            f"--phase {self.phase}{' --flat' * self.flat}{where}{lasts}"
        )


# ---------------------------------------------------------------------------
# What goes wrong
# ---------------------------------------------------------------------------


@dataclasses.dataclass
class Surroundings:
    """What of a run is outside of its processes."""

    store_pid: int = 0
    proxy_pid: int = 0
    network: Network | None = None
    #: A folder for what each process logs.
    logs: str | None = None


class Fault(logging.Handler):
    """Of the process that it happens to; it listens to the job's log."""

    def __init__(self, run: Run, around: Surroundings, tell) -> None:
        super().__init__(logging.DEBUG)
        self.run, self.around, self.tell = run, around, tell
        self.job = None
        self._attempt = None
        self._is_over = False

    def emit(self, record: logging.LogRecord) -> None:
        told = getattr(record, "job", None)
        if told is None or told["process"] != self.job.name:
            return
        if told["what"] == "prepare":
            self._look()
        if told["switch"] == self._attempt and told["what"] == self.run.where:
            self.strike()

    def _look(self) -> None:
        """Whether the attempt is that of which one joins and one leaves."""
        status = self.job.status()
        roles = {name.split("-")[0] for name in status["target"]}
        if "joining" in roles and "leaving" not in roles:
            self._attempt = status["attempt"]

    def steady(self) -> None:
        """Nothing is under way."""
        if self.run.phase == "steady":
            self.strike()

    def strike(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self.tell(struck=True)
        getattr(self, "_" + self.run.fault.replace(" ", "_"))()

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _stop(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def _stop_and_continue(self) -> None:
        seconds, pid = self.run.share * TIMEOUT, os.getpid()
        subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {pid}"])
        os.kill(pid, signal.SIGSTOP)

    def _exception(self) -> None:
        raise Boom("what a trainer raises")

    def _segfault(self) -> None:
        ctypes.string_at(0)

    def _abort(self) -> None:
        os.abort()

    def _network_cut(self) -> None:
        self.around.network.cut(self.run.role)

    def _slow_network(self) -> None:
        self.around.network.slow(self.run.role)

    def _full_staging(self) -> None:
        """No file grows any more, nor memory that processes share."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def _store_slow(self) -> None:
        os.kill(self.around.proxy_pid, signal.SIGUSR1)

    def _store_cut_off(self) -> None:
        os.kill(self.around.proxy_pid, signal.SIGKILL)

    def _store_lost(self) -> None:
        os.kill(self.around.store_pid, signal.SIGKILL)

    def _late(self) -> None:
        time.sleep(self.run.share * TIMEOUT)


def heal(run: Run, around: Surroundings, pid: int) -> None:
    """What can be: who has been given up hears of it then."""
    if run.fault in NETWORK:
        around.network.restore()
    with contextlib.suppress(ProcessLookupError):
        if run.fault == "stop":
            os.kill(pid, signal.SIGKILL)
        elif run.fault == "full staging":
            free = resource.RLIM_INFINITY
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (free, free))
        elif run.fault == "store slow":
            os.kill(around.proxy_pid, signal.SIGUSR2)


# ---------------------------------------------------------------------------
# Networks and stores
# ---------------------------------------------------------------------------


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """A namespace for each process, and one that has the store and the bridge
    between all of them."""

    def __init__(self) -> None:
        self.mark = f"dt{os.getpid() % 10000}"
        self.hub = f"{self.mark}hub"
        self.places = dict(enumerate(ROLES))

    def __enter__(self) -> Network:
        ip("netns", "add", self.hub)
        hub = ("-n", self.hub)
        ip(*hub, "link", "add", "bridge", "type", "bridge")
        ip(*hub, "addr", "add", "10.78.0.100/24", "dev", "bridge")
        ip(*hub, "link", "set", "bridge", "up")
        ip(*hub, "link", "set", "lo", "up")
        for place, role in self.places.items():
            inside = f"{self.mark}{role}"
            ip("netns", "add", inside)
            ip(*hub, "link", "add", role, "type", "veth", "peer", "name",
               "eth0", "netns", inside)  # fmt: skip
            ip(*hub, "link", "set", role, "master", "bridge", "up")
            address = f"10.78.0.{place + 1}/24"
            ip("-n", inside, "addr", "add", address, "dev", "eth0")
            ip("-n", inside, "link", "set", "eth0", "up")
            ip("-n", inside, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_) -> None:
        for name in (self.hub, *(f"{self.mark}{role}" for role in ROLES)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def enter(self, role: str | None) -> None:
        """This process, for good; no role: the hub."""
        name = f"{self.mark}{role}" if role else self.hub
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{name}") as file:
            if libc.setns(file.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"

    def cut(self, role: str) -> None:
        """Nothing is said any more, and nobody is told."""
        ip("-n", self.hub, "link", "set", role, "down")

    def slow(self, role: str) -> None:
        for name, device in (self.hub, role), (f"{self.mark}{role}", "eth0"):
            subprocess.run(
                ["tc", "-n", name, "qdisc", "add", "dev", device, "root"]
                + ["tbf", "rate", "512kbit", "burst", "2kb"]
                + ["latency", "500ms"],
                check=True,
                capture_output=True,
            )

    def restore(self) -> None:
        """As at first; what was said meanwhile has arrived, or never will."""
        for role in ROLES:
            ip("-n", self.hub, "link", "set", role, "up")
            for name, device in (
                (self.hub, role),
                (f"{self.mark}{role}", "eth0"),
            ):
                subprocess.run(
                    ["tc", "-n", name, "qdisc", "del", "dev", device, "root"],
                    capture_output=True,
                )

    def has_unsent(self, role: str, port: int) -> bool:
        """Whether a process that has ended has left connections to the store on
        which the system sends yet."""
        told = subprocess.run(
            ["ip", "netns", "exec", f"{self.mark}{role}"]
            # c10d's are of the newer kind, whatever the address.
            + ["cat", "/proc/net/tcp", "/proc/net/tcp6"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        rows = [line.split() for line in told.splitlines()]
        states = {row[3] for row in rows if row[2].endswith(f":{port:04X}")}
        return bool(states - {"06"})  # TIME_WAIT


def serve_store(pipe, network: Network | None) -> None:
    if network is not None:
        network.enter(None)
    hosted = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    pipe.send(hosted.port)
    while True:
        time.sleep(LIMIT)


def serve_proxy(pipe, port: int, delay: float) -> None:
    """What goes to the store takes so long from SIGUSR1 to SIGUSR2."""
    state = {"delay": 0.0}
    signal.signal(signal.SIGUSR1, lambda *_: state.update(delay=delay))
    signal.signal(signal.SIGUSR2, lambda *_: state.update(delay=0.0))

    def pump(here: socket.socket, there: socket.socket, is_slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 16):
                if is_slow:
                    time.sleep(state["delay"])
                there.sendall(data)
        for one in (here, there):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        while True:
            here, _ = server.accept()
            there = socket.create_connection(("127.0.0.1", port))
            for pair in (here, there, True), (there, here, False):
                threading.Thread(target=pump, args=pair, daemon=True).start()


def start_server(body, *arguments):
    """A process, and the port that it says."""
    pipe, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=body, args=(theirs, *arguments), daemon=True)
    process.start()
    return process, pipe.recv()


def list_keys(pipe, address: str, network: Network | None) -> None:
    if network is not None:
        network.enter(None)
    host, port = address.split(":")
    store = dist.TCPStore(
        host, int(port), None, False, timedelta(seconds=TIMEOUT), False
    )
    pipe.send(
        sorted(
            re.sub(r"/world/.*", "/world", name) for name in store.list_keys()
        )
    )
    os._exit(0)


# ---------------------------------------------------------------------------
# One process
# ---------------------------------------------------------------------------


class Wishes:
    """What the test wants, in memory that all processes share."""

    def __init__(self) -> None:
        self.stop = fork.Value("b", 0)
        self.switch = fork.Value("b", 0)


class Member:
    """A process of the job."""

    def __init__(self, run, role, address, around, wishes, pipe) -> None:
        self.run, self.role, self.address = run, role, address
        self.around, self.wishes = around, wishes
        self.pipe, self.lock = pipe, threading.Lock()
        self.fault = None
        if role == run.role:
            self.fault = Fault(run, around, self.tell)
        self.has_asked = False
        self.told = None

    def tell(self, **what) -> None:
        with self.lock:
            self.pipe.send(what)

    def live(self) -> None:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        if self.around.network is not None:
            self.around.network.enter(self.role)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)  # c10d tells there what it has lost
        try:
            end = [self.train(), ""]
        except (dynatrain.Error, Boom) as error:
            end = [type(error).__name__, str(error)]
        except RuntimeError as error:
            notes = " ".join(getattr(error, "__notes__", []))
            end = ["raised", f"{error} {notes}"]
        except BaseException:
            end = ["crash", traceback.format_exc()]
        self.tell(end=end)
        os._exit(0)

    def train(self) -> str:
        joins = self.role == "joining"
        self.job = job = dynatrain.Job(
            self.address,
            self.build,
            layout=int(joins),
            processes=1 if joins else len(ROLES) - 1,
            launch="more" if joins else "start",
            rank=None if joins else ROLES.index(self.role),
            node=self.role,
            timeout=TIMEOUT,
            snapshots=EVERY,
            memory=FLAT if self.run.flat else {},
        )
        self.tell(name=job.name)
        self.listen()
        if self.fault is not None and joins:
            self.fault.steady()
        with job:
            return self.loop()

    def listen(self) -> None:
        """To the job's log."""
        logger = logging.getLogger("dynatrain.job")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        if self.around.logs:
            lines = logging.FileHandler(f"{self.around.logs}/{self.role}.jsonl")
            lines.setFormatter(dynatrain.job_log.JsonLines())
            logger.addHandler(lines)
        if self.fault is not None:
            self.fault.job = self.job
            logger.addHandler(self.fault)

    def build(self, world) -> dynatrain.State:
        """Who is first asks for the leaving too, once one joins."""
        roles = {name.split("-")[0]: name for name in world.members}
        if world.rank == 0 and {"joining", "leaving"} <= roles.keys():
            self.job.request(leave=[roles["leaving"]])
        return dynatrain.State(weights=Weights(world), step=0)

    def loop(self) -> str:
        job = self.job
        while True:
            state, world = job.state, job.world
            assert state.weights.is_right(state.step), (world, state.step)
            self.report()
            try:
                is_member = self.fault is not None and self.role != "joining"
                if is_member and state.step == STEADY_STEP:
                    self.fault.steady()
                if self.is_to_stop():
                    return "stopped"
                state.weights.step(state.step + 1, world.group)
                state.step += 1
            except RuntimeError as error:
                if not job.recover(error):
                    return "left"
                continue
            time.sleep(0.005)
            if not job.boundary(job.state.step):
                return "left"

    def is_to_stop(self) -> bool:
        """The same on all; the first one asks for another layout first."""
        world, wishes = self.job.world, self.wishes
        told = torch.zeros(1)
        if world.rank == 0:
            told[0] = wishes.stop.value
            if wishes.switch.value and not self.has_asked:
                self.has_asked = True
                self.job.request(layout=1 - world.layout)
        dist.all_reduce(told, group=world.group)
        return bool(told[0])

    def report(self) -> None:
        job = self.job
        status = job.status()
        told = {
            "epoch": job.world.epoch,
            "members": job.world.members,
            "phase": status["phase"],
            "idle": status["state"] == "idle"
            and status["phase"] in ("released", "aborted", "committed"),
            "failure": job.failure and str(job.failure),
            "recoveries": job.counters.recoveries,
        }
        if told != self.told or job.state.step % REST == 0:
            self.told = told
            self.tell(at={**told, "step": job.state.step})


def live(*arguments) -> None:
    Member(*arguments).live()


# ---------------------------------------------------------------------------
# All processes
# ---------------------------------------------------------------------------


class Watched:
    """A process as the test sees it: what it has told."""

    def __init__(self, role, *arguments) -> None:
        self.role = role
        self.pipe, theirs = fork.Pipe(duplex=False)
        self.process = fork.Process(
            target=live, args=(arguments[0], role, *arguments[1:], theirs)
        )
        self.process.start()
        theirs.close()
        self.name, self.at, self.end = None, None, None
        self.worlds, self.has_struck, self.rested = {}, False, 0

    def hear(self) -> None:
        """All that has come; one that has gone without a word was killed."""
        try:
            while self.end is None and self.pipe.poll():
                self._note(self.pipe.recv())
        except (EOFError, OSError):
            self.process.join()
            self.end = ["killed", f"exit code {self.process.exitcode}"]

    def _note(self, told) -> None:
        self.name = told.get("name", self.name)
        self.has_struck = self.has_struck or "struck" in told
        self.end = told.get("end", self.end)
        if "at" in told:
            before, self.at = self.at, told["at"]
            epoch, members = self.at["epoch"], self.at["members"]
            self.worlds[epoch] = members
            same = before and before["epoch"] == epoch and self.at["idle"]
            self.rested = self.rested + 1 if same else 0

    def finish(self) -> bool:
        """Whether its process has ended, with all that it has started."""
        self.process.join(10)
        ended = not self.process.is_alive()
        self.process.kill()
        self.process.join()
        with contextlib.suppress(ProcessLookupError):
            # What waits to continue it.
            os.killpg(self.process.pid, signal.SIGKILL)
        return ended


class Stage:
    """A run's processes, from the beginning to the end."""

    def __init__(
        self, run: Run, network: Network | None, logs: str | None
    ) -> None:
        self.run, self.logs = run, logs
        self.network = network if run.fault in NETWORK else None
        self.wishes, self.all = Wishes(), []
        self.until_end = time.monotonic() + LIMIT

    def __enter__(self) -> Stage:
        self.store, port = start_server(serve_store, self.network)
        host = "10.78.0.100" if self.network else "127.0.0.1"
        self.address = f"{host}:{port}"
        self.around = Surroundings(self.store.pid, 0, self.network, self.logs)
        self.own_address = self.address
        if self.run.fault in PROXIED:
            delay = self.run.share * TIMEOUT
            self.proxy, own = start_server(serve_proxy, port, delay)
            self.around.proxy_pid = self.proxy.pid
            self.own_address = f"127.0.0.1:{own}"
        return self

    def __exit__(self, *_) -> None:
        for one in self.all:
            one.process.kill()
            one.process.join()
        servers = [self.store]
        if self.run.fault in PROXIED:
            servers.append(self.proxy)
        for one in servers:
            one.kill()
            one.join()

    def start(self, *roles: str) -> None:
        for role in roles:
            mine = role == self.run.role
            address = self.own_address if mine else self.address
            self.all.append(
                Watched(role, self.run, address, self.around, self.wishes)
            )

    @property
    def victim(self) -> Watched | None:
        roles = {one.role: one for one in self.all}
        return roles.get(self.run.role)

    def until(self, holds) -> bool:
        """Hears what all tell until it holds; not where that takes too long."""
        while True:
            for one in self.all:
                one.hear()
            if holds():
                return True
            if time.monotonic() > self.until_end:
                return False
            open_pipes = [one.pipe for one in self.all if one.end is None]
            multiprocessing.connection.wait(open_pipes, 0.05)

    def is_at_rest(self, healed: bool) -> bool:
        """All that count have ended, or train together, and nothing goes on."""
        there = [one for one in self.all if one.end is None]
        if not healed and self.run.fault in GONE:
            there = [one for one in there if one is not self.victim]
        names = {one.name for one in there}
        return all(
            one.at is not None
            and one.rested >= 2
            and set(one.at["members"]) <= names
            for one in there
        )

    def keys(self) -> list[str]:
        process, keys = start_server(list_keys, self.address, self.network)
        process.join()
        return keys


def has_begun(stage: Stage) -> bool:
    """The founders train, or one has been hit while they did."""
    return (
        stage.victim is not None
        and stage.victim.has_struck
        or all(one.at and one.at["step"] >= 3 for one in stage.all)
    )


def play(stage: Stage) -> str:
    """What takes too long; nothing where the run comes to its end."""
    run = stage.run
    stage.start(*ROLES[:-1])
    if not stage.until(lambda: has_begun(stage)):
        return "to begin"
    if run.phase != "steady" or run.role == "joining":
        stage.start("joining")
    if not stage.until(lambda: stage.victim.has_struck):
        return "to be hit"
    if run.phase == "steady" and run.role != "joining":
        stage.start("joining")
    if not stage.until(lambda: stage.is_at_rest(False)):
        return "to come to rest"
    heal(run, stage.around, stage.victim.process.pid)
    if not stage.until(lambda: stage.is_at_rest(True)):
        return "to come to rest when healed"
    if run.fault == "network cut" and stage.victim.end is not None:
        port = int(stage.address.split(":")[1])
        network = stage.network
        if not stage.until(lambda: not network.has_unsent(run.role, port)):
            return "to send what was unsent"
    if run.fault == "store slow":
        time.sleep(run.share * TIMEOUT)  # what is on its way in the proxy
    return go_on(stage)


def go_on(stage: Stage) -> str:
    """Where there is a world yet, it switches once more, and stops."""
    there = [one for one in stage.all if one.end is None]
    if not there:
        return ""
    stage.outcome_at = dict(there[0].at)
    epoch = there[0].at["epoch"]
    stage.wishes.switch.value = 1

    def has_switched() -> bool:
        alive = [one for one in stage.all if one.end is None]
        return stage.is_at_rest(True) and all(
            one.at["epoch"] > epoch and one.at["phase"] == "released"
            for one in alive
        )

    if not stage.until(has_switched):
        return "to switch again"
    stage.wishes.stop.value = 1
    if not stage.until(lambda: all(one.end is not None for one in stage.all)):
        return "to stop"
    return ""


# ---------------------------------------------------------------------------
# What must hold
# ---------------------------------------------------------------------------

#: How a run has ended.
OLD, NEW, RECOVERED, LOST = "old", "new", "recovered", "error"


def outcome_of(stage: Stage) -> str:
    there = [one for one in stage.all if one.end[0] == "stopped"]
    if not there:
        return LOST
    at = stage.outcome_at
    if any(one.at["recoveries"] for one in there):
        return RECOVERED
    return OLD if at["epoch"] == 1 else NEW


def is_expected(stage: Stage, one: Watched, outcome: str) -> bool:
    """Whether a process may have ended so."""
    kind, text = one.end
    fault = stage.run.fault
    if kind in ("left", "stopped"):
        return True
    if one is stage.victim:
        return kind != "crash"
    if kind in ("killed", "crash"):
        return False
    if fault == "store lost":
        return "store" in text
    if kind == "LostStateError":
        return outcome == LOST and "nobody else" in text
    # Nobody has a world for it: it was about to join.
    return one.role == "joining" and not one.worlds and bool(text)


def judge(stage: Stage, late: str) -> tuple[str, list[str]]:
    """How it has ended, and what is wrong with that."""
    if late:
        told = {one.role: one.end or one.at for one in stage.all}
        return LOST, [f"it takes too long {late}: {told}"]
    outcome, wrong = outcome_of(stage), []
    worlds: dict[int, set] = {}
    for one in stage.all:
        for epoch, members in one.worlds.items():
            worlds.setdefault(epoch, set()).add(tuple(members))
        if not is_expected(stage, one, outcome):
            wrong.append(f"{one.role} has ended: {one.end}")
    for epoch, several in worlds.items():
        if len(several) > 1:
            wrong.append(f"world {epoch} is split: {several}")
    there = {one.name for one in stage.all if one.end[0] == "stopped"}
    for one in stage.all:
        if one.name in there and set(one.at["members"]) != there:
            wrong.append(f"{one.role} is in a world of {one.at['members']}")
    if outcome == LOST:
        wrong += why_lost(stage)
    if stage.store.is_alive() and outcome != LOST:
        keys = stage.keys()
        if keys != ["dynatrain/job", "dynatrain/world"]:
            wrong.append(f"the store has {keys}")
    return outcome, wrong


def why_lost(stage: Stage) -> list[str]:
    """A job ends only where that says what is lost."""
    texts = [one.end for one in stage.all if one is not stage.victim]
    if stage.run.fault == "store lost":
        return []
    if any(kind == "LostStateError" for kind, _ in texts):
        return []
    return [f"nobody goes on, and nobody says what is lost: {texts}"]


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


def execute(
    run: Run, network: Network | None, logs: str | None = None
) -> tuple[str, list[str], float]:
    before, begin = shared_memory(), time.monotonic()
    with Stage(run, network, logs) as stage:
        late = play(stage)
        outcome, wrong = judge(stage, late)
        if not late:
            wrong += [
                f"{one.role}'s process does not end"
                for one in stage.all
                if not one.finish()
            ]
    if wrong:
        seen = {one.role: [one.worlds, one.at, one.end] for one in stage.all}
        wrong.append(f"seen: {seen}")
    if shared_memory() - before:
        wrong.append(f"in /dev/shm there is {shared_memory() - before}")
    return outcome, wrong, time.monotonic() - begin


# ---------------------------------------------------------------------------
# The matrix
# ---------------------------------------------------------------------------


def matrix(seed: int) -> list[Run]:
    """Each once, in an order of no account."""
    runs = [
        Run(seed, fault, role, phase)
        for fault in FAULTS
        for role in ROLES
        for phase in PHASES
    ]
    runs = [
        dataclasses.replace(run, seed=seed + number)
        for number, run in enumerate(runs)
    ]
    random.Random(seed).shuffle(runs)
    return runs


def table(paths: list[str]) -> str:
    """Of what several calls have written: how each fault has ended."""
    told: dict[tuple, Counter] = {}
    for path in paths:
        for line in Path(path).read_text().splitlines():
            one = json.loads(line)
            key = one["fault"], one["role"], one["phase"]
            told.setdefault(key, Counter())[
                "WRONG" if one["wrong"] else one["outcome"]
            ] += 1
    lines = []
    for role in ROLES:
        lines.append(f"| {role} | " + " | ".join(PHASES) + " |")
        lines.append("|---" * (len(PHASES) + 1) + "|")
        for fault in FAULTS:
            cells = [
                ", ".join(sorted(told.get((fault, role, phase), {"-": 0})))
                for phase in PHASES
            ]
            lines.append(f"| {fault} | " + " | ".join(cells) + " |")
        lines.append("")
    count = sum(sum(one.values()) for one in told.values())
    wrong = sum(one["WRONG"] for one in told.values())
    lines.append(f"{count} runs, {wrong} of them wrong.")
    return "\n".join(lines)


BEGIN, END = "<!-- job_faults.py: begin -->", "<!-- job_faults.py: end -->"


def write_table(page: Path, paths: list[str]) -> None:
    """Between two marks of a page."""
    head, _, rest = page.read_text().partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page} has no '{BEGIN}' and '{END}'")
    page.write_text(f"{head}{BEGIN}\n{table(paths)}\n{END}{tail}")


def can_make_networks() -> bool:
    try:
        with Network():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def chosen(options) -> list[Run]:
    runs = matrix(options.seed)
    for name in ("fault", "role", "phase"):
        wanted = getattr(options, name)
        if wanted:
            runs = [run for run in runs if getattr(run, name) == wanted]
    if options.fault and options.role and options.phase:
        runs = [dataclasses.replace(runs[0], seed=options.seed)]
    runs = [dataclasses.replace(run, flat=options.flat) for run in runs]
    if options.slice:
        first, step = map(int, options.slice.split("/"))
        runs = runs[first::step]
    return runs[: options.runs]


def play_all(runs: list[Run], options) -> Counter:
    counts = Counter()
    with contextlib.ExitStack() as stack:
        network = None
        if any(run.fault in NETWORK for run in runs):
            if not can_make_networks():
                runs = [run for run in runs if run.fault not in NETWORK]
                print("no network of namespaces can be made here: left out")
            else:
                network = stack.enter_context(Network())
        for run in runs:
            outcome, wrong, seconds = execute(run, network, options.logs)
            counts[outcome] += 1
            counts["runs"] += 1
            counts["wrong"] += bool(wrong)
            for line in wrong:
                print(f"wrong: {run}: {line}", flush=True)
            if options.verbose:
                print(f"{run}: {outcome}, {seconds:.1f} s", flush=True)
            if options.results:
                with open(options.results, "a") as file:
                    told = dataclasses.asdict(run)
                    told |= {"outcome": outcome, "wrong": wrong}
                    told |= {"seconds": round(seconds, 1)}
                    file.write(json.dumps(told) + "\n")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="at most; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slice", metavar="I/N")
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("--phase", choices=PHASES)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--results", help="file that gets a line per run")
    parser.add_argument("--logs", help="folder for the jobs' logs, of one run")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--table", type=Path, metavar="PAGE")
    parser.add_argument("told", nargs="*", help="results, for --table")
    options = parser.parse_args()
    if options.table:
        write_table(options.table, options.told)
        return 0
    counts = play_all(chosen(options), options)
    print(json.dumps(counts))
    return 1 if counts["wrong"] or not counts["runs"] else 0


if __name__ == "__main__":
    sys.exit(main())
