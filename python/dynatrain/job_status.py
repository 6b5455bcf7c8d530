"""How a job stands, for who is not in it.

Each process posts how it stands beside training; the rest is in the job's
record. `JobView` reads both, and asks the job for another world.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Callable

import torch.distributed as dist

from . import _C
from .errors import InvalidError, PeerTimeoutError, StoreLostError, error_of
from .etcd_store import SCHEME, EtcdStore
from .farewell import describe
from .job_requests import Wish, wish_of

# Seconds between two looks for how a request has ended.
_LOOK = 0.1
# How many times the seconds of a call one who only looks would wait itself: it
# never ends an attempt of others.
_OUTSIDE_SHARE = 1000


def connected(store: dist.Store | str, timeout: float) -> dist.Store:
    """Connections of one's own: the store's owner may be waiting."""
    if not isinstance(store, str):
        return store.clone()
    if store == "env://":
        # torchrun's agent hosts one.
        here = [os.environ.get(f"MASTER_{what}") for what in ("ADDR", "PORT")]
        if not all(here):
            raise InvalidError(
                "no store is given, and the environment has no MASTER_ADDR and "
                "MASTER_PORT: start the processes with torchrun, or give "
                "store='HOST:PORT'"
            )
        store = ":".join(map(str, here))
    try:
        if store.startswith(SCHEME):
            return EtcdStore.of(store, timeout).connect()
        return _tcp_store(store, timeout)
    except dist.DistError as error:
        why = f"the store {store} cannot be reached: {describe(error)}"
        raise StoreLostError(why) from error


def _tcp_store(text: str, timeout: float) -> dist.Store:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidError(
            f"store is '{text}', expected 'HOST:PORT', or "
            f"'{SCHEME}HOST:PORT,...'"
        )
    return dist.TCPStore(
        host,
        int(port),
        is_master=False,
        timeout=timedelta(seconds=timeout),
        wait_for_workers=False,
    )


def layout_of(text: str) -> Any:
    """What a request asked for; no text: nothing was asked for."""
    return json.loads(text) if text else None


def text_of(layout: Any) -> str:
    """The other way round; equal layouts have equal texts."""
    return "" if layout is None else json.dumps(layout, sort_keys=True)


def name_of(member: int | str, members: Sequence[str]) -> str:
    """The name of a member, who is given by it or by rank."""
    if member in members:
        return str(member)
    if isinstance(member, int) and 0 <= member < len(members):
        return members[member]
    raise InvalidError(
        f"request: {member!r} is no member of the world, which has ranks "
        f"0 to {len(members) - 1}"
    )


def queued_of(native: _C.Job) -> dict[str, Any] | None:
    """What a process has asked for and the job has yet to begin with."""
    request = native.queued()
    if request is None:
        return None
    return {
        "join": request.join,
        "leave": request.leave,
        "lost": request.lost,
        "layout": layout_of(request.layout),
    }


def sweep(store: dist.Store, root: str, attempt: int) -> None:
    """Removes what those who have died have left of an attempt, and those who
    were slow of one before; and of who has left the job what it would have
    taken away itself."""
    # Not every store can tell its keys; one that is gone keeps none.
    with contextlib.suppress(RuntimeError, AttributeError):
        keys = store.list_keys()
        of_attempt = re.compile(f"{re.escape(root)}/(ahead/|)([0-9]+)/")
        for key in keys:
            found = of_attempt.match(key)
            # In the world that it has made plans are made under its number.
            if found and int(found[2]) + bool(found[1]) <= attempt:
                store.delete_key(key)
        worlds = _sweep_worlds(store, root, attempt, keys)
        if worlds and store.check(worlds):
            _sweep_processes(store, root, worlds, keys)


def _sweep_worlds(
    store: dist.Store, root: str, attempt: int, keys: Sequence[str]
) -> list[str]:
    """Those of attempts that came to nothing, as another was there before, and
    whose processes did not live to take them away; gives what is left."""
    of_world = re.compile(f"{re.escape(root)}/world/(([0-9]+)\\..+)")
    record = store.get(f"{root}/job").decode()
    left = []
    for key in keys:
        if found := of_world.fullmatch(key):
            if int(found[2]) <= attempt and json.dumps(found[1]) not in record:
                store.delete_key(key)
            else:
                left.append(key)
    return left


def _sweep_processes(
    store: dist.Store, root: str, worlds: Sequence[str], keys: Sequence[str]
) -> None:
    """Who has a sign of life has been in one of the worlds, or has left."""
    of_process = re.compile(f"{re.escape(root)}/(alive|status)/(.+)")
    members = [store.get(name).decode() for name in worlds]
    for key in keys:
        found = of_process.fullmatch(key)
        if found and not any(json.dumps(found[2]) in one for one in members):
            store.delete_key(key)


# What a process posts ---------------------------------------------------------


@dataclass
class Counters:
    """Of one process since it began; none of them ever falls."""

    committed: int = 0
    aborted: int = 0
    recoveries: int = 0
    #: That the trainer has stood at the boundaries of switches.
    stood_s: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0

    def plain(self) -> dict[str, float]:
        return asdict(self)


class StatusPost:
    """A thread that writes how this process stands to the job's store, as
    often as it gives a sign of life, while that changes."""

    def __init__(
        self,
        store: dist.Store,
        key: str,
        status: Callable[[], Mapping[str, Any]],
        seconds: float,
    ) -> None:
        self._store, self._key, self._status = store, key, status
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """From now on; a second call does nothing."""
        if self._thread is None and not self._is_over.is_set():
            self._thread = threading.Thread(
                target=self._run, name="dynatrain-status", daemon=True
            )
            self._thread.start()

    def end(self, seconds: float) -> None:
        """Takes away what was written; a store that is slow gets so long."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        before = ""
        # A store that is gone keeps nothing.
        with contextlib.suppress(RuntimeError):
            while True:
                text = json.dumps(self._status())
                if text != before:
                    self._store.set(self._key, text)
                before = text
                if self._is_over.wait(self._seconds):
                    break
            self._store.delete_key(self._key)


# Who looks from outside -------------------------------------------------------


class JobView:
    """A job, for a process that is in none of its worlds.

    store, name: as for `Job`. timeout: seconds that the store has to answer.
    """

    def __init__(
        self,
        store: dist.Store | str,
        name: str = "dynatrain",
        timeout: float = 30.0,
    ) -> None:
        self._root, self._timeout = name, timeout
        self._store = connected(store, timeout)
        self._keys = _C.bounded_store(self._store, timeout, timeout)
        own = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._native = _C.Job(
            self._store, own, _OUTSIDE_SHARE * timeout, name, 1
        )

    def close(self) -> None:
        self._native.close("it has looked", self._timeout)

    def __enter__(self) -> JobView:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def record(self) -> _C.JobRecord:
        """The job's, as it is now."""
        self._native.listen(self._timeout)
        while (task := self._native.next(0)) is not None:
            if task.what == "swept":
                sweep(self._store, self._root, task.attempt)
            elif task.what in ("refused", "stopped"):
                raise error_of(task.code, task.why)
        return self._native.record()

    def status(self) -> dict[str, Any]:
        """Worlds, members, the switch under way, requests, snapshots."""
        record = self.record()
        members = [
            {"rank": rank, "process": name, **self._posted(name)}
            for rank, name in enumerate(record.members)
        ]
        return {
            "job": self._root,
            "world": record.epoch,
            "layout": layout_of(record.layout),
            "first_step": record.first_step,
            "members": members,
            "switch": self._switch(record),
            "snapshots": _snapshots(members),
        }

    def _switch(self, record: _C.JobRecord) -> dict[str, Any] | None:
        """The one that is under way, or was the last."""
        if record.attempt == 0:
            return None
        votes = {
            vote: int(self._find(f"{record.attempt}/{vote}") or 0)
            for vote in ("ready", "begun", "done", "read")
        }
        return {
            "attempt": record.attempt,
            "phase": record.phase,
            "is_open": record.is_open,
            "parties": record.parties,
            "votes": votes,
            "target": record.target_members,
            "layout": layout_of(record.target_layout),
            "lost": record.lost,
            "horizon": record.horizon,
            "passes": record.passes,
            "gone": record.gone,
            "by": record.by,
            "why": record.why,
        }

    def _posted(self, name: str) -> dict[str, Any]:
        """Nothing of one that has yet to post, or that is gone."""
        text = self._find(f"status/{name}")
        return json.loads(text) if text else {}

    def _find(self, key: str) -> bytes | None:
        """What a key has, if it is there."""
        whole = f"{self._root}/{key}"
        if not self._keys.check([whole]):
            return None
        # It may go between the two.
        with contextlib.suppress(dist.DistError):
            return self._keys.get(whole)
        return None

    def request(
        self,
        words: str | None = None,
        *,
        layout: Any = None,
        leave: Sequence[int | str] = (),
    ) -> _C.JobRecord | None:
        """Asks for another world, as `Job.request` does, and returns when the
        job has begun with it: its record then; None where it would change
        nothing. A job that has another one under way, which cannot be
        put off, begins with it later: `PeerTimeoutError` where that takes
        longer than the timeout."""
        record = self.record()
        if record.epoch == 0:
            raise InvalidError(f"job '{self._root}' has no world yet")
        before = record.attempt
        names = [name_of(one, record.members) for one in leave]
        wish = wish_of(words, record.members) if words else Wish()
        if wish.start:
            raise InvalidError(
                f"request: '{words}', but dt-ctl starts no processes: start "
                "them; they join by themselves"
            )
        names += wish.leave
        self._native.ask([], names, text_of(layout), wish.lost)
        until = time.monotonic() + self._timeout
        while (record := self.record()) and self._native.queued() is not None:
            if time.monotonic() > until:
                raise PeerTimeoutError(
                    f"switch {record.attempt} of the job is under way, and is "
                    f"not over within {self._timeout:g} s: the request is "
                    "withdrawn"
                )
        return record if record.attempt > before else None

    def wait(self, begun: _C.JobRecord, seconds: float) -> _C.JobRecord:
        """Until the switch that `request` has given is decided, or one that
        has taken its place: the job is in a later world then, or the record
        says why not."""
        until = time.monotonic() + seconds
        while (record := self.record()).is_open and record.epoch == begun.epoch:
            if time.monotonic() > until:
                raise PeerTimeoutError(
                    f"switch {record.attempt} is {record.phase}, and not "
                    f"decided within {seconds:g} s"
                )
            time.sleep(_LOOK)
        return record


def _snapshots(members: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Of which steps all members have whole copies, and what they take."""
    told = [one.get("snapshots") for one in members]
    if not told or None in told:
        return None
    steps = set.intersection(*(set(one["steps"]) for one in told))
    return {
        "every": told[0]["every"],
        "steps": sorted(steps),
        "bytes": sum(one["bytes"] for one in told),
    }
