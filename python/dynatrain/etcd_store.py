"""A store of torch.distributed in etcd, for jobs of which any node may be lost.

etcd (https://etcd.io) is a key-value store of several servers, one of which may
end at any time: a majority goes on, with every answer that was given. `Job` and
`dt-ctl` take "etcd://HOST:PORT,HOST:PORT/NAME" for a store.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import os
import ssl
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist

from .errors import InvalidError

#: What the name of such a store begins with.
SCHEME = "etcd://"
# Of the seconds for a call, what one server has for its answer: a job waits for
# its store a fifth of them, in which two servers may hang.
_SHARE = 0.02
# Seconds between two looks at what others do, the first and the longest.
_FIRST, _LONGEST = 0.001, 0.05
# gRPC's codes of an answer that another server, or a later one, may have:
# DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE.
_PASSING = (4, 8, 14)


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _code(data: str | bytes) -> str:
    """As etcd's JSON has keys and values."""
    return base64.b64encode(_bytes(data)).decode()


def _pauses() -> Iterator[float]:
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)


class _Servers:
    """Requests to whichever server answers, over connections that stay open."""

    def __init__(
        self, servers: Sequence[tuple[str, int]], context: ssl.SSLContext | None
    ) -> None:
        self._servers, self._context = servers, context
        self._lock = threading.Lock()  # of what follows
        self._process = os.getpid()
        # That nobody uses, each with its server.
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        self._first = 0  # the server that answered last

    def ask(
        self, what: str, body: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        """The answer of the first that has one; may be carried out twice, or
        be carried out though it fails."""
        deadline = time.monotonic() + seconds
        text = json.dumps(body).encode()
        pauses = _pauses()
        for number in itertools.count(self._first):
            left = deadline - time.monotonic()
            server = number % len(self._servers)
            try:
                answer = self._try(server, what, text, seconds * _SHARE)
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}"
            else:
                code = answer.get("code", 0)
                if not code:
                    self._first = server
                    return answer
                why = str(answer.get("message") or answer.get("error"))
                if code not in _PASSING:
                    left = 0
            if left <= 0:
                host, port = self._servers[server]
                raise dist.DistStoreError(f"etcd at {host}:{port}: {why}")
            time.sleep(min(next(pauses), max(left, 0)))
        raise AssertionError  # count does not end

    def _try(
        self, server: int, what: str, text: bytes, seconds: float
    ) -> dict[str, Any]:
        connection = self._take(server, seconds)
        try:
            connection.request(
                "POST",
                f"/v3/{what}",
                text,
                {"Content-Type": "application/json"},
            )
            answer = json.loads(connection.getresponse().read())
        except ValueError as error:
            connection.close()
            raise http.client.HTTPException(f"no JSON: {error}") from error
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append((server, connection))
        return answer

    def _take(self, server: int, seconds: float) -> http.client.HTTPConnection:
        with self._lock:
            if self._process != os.getpid():
                # Those of the process that this one was forked off.
                self._process, self._idle = os.getpid(), []
            for at, (known, connection) in enumerate(self._idle):
                if known == server:
                    del self._idle[at]
                    return connection
        host, port = self._servers[server]
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(
            host, port, timeout=seconds, context=self._context
        )


# A Store of Python has to live as long as C++ uses it, which Python cannot see.
_alive: list[EtcdStore] = []


class EtcdStore(dist.Store):
    """Keys of a job in etcd 3.4 or later.

    servers: "HOST:PORT" of each that clients may ask. name: where the keys are,
    `NAME/KEY`; jobs that run at once need different ones. context: of
    connections by TLS; default: none. A call that no server answers within
    `timeout` seconds raises torch.distributed.DistStoreError. It stays until
    the process ends.
    """

    def __init__(
        self,
        servers: Sequence[str],
        name: str = "dynatrain",
        *,
        timeout: float = 300.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        if not servers:
            raise InvalidError("EtcdStore: there is no server")
        self.set_timeout(timedelta(seconds=timeout))
        self._servers = _Servers([_server(one) for one in servers], context)
        self._name = name
        _alive.append(self)

    @classmethod
    def of(cls, text: str, timeout: float) -> EtcdStore:
        """That which "etcd://HOST:PORT,HOST:PORT/NAME" says."""
        servers, _, name = text.removeprefix(SCHEME).partition("/")
        if not servers:
            raise InvalidError(
                f"store is '{text}', expected 'etcd://HOST:PORT,...'"
            )
        return cls(servers.split(","), name or "dynatrain", timeout=timeout)

    def clone(self) -> EtcdStore:
        """The same: threads may share it."""
        return self

    def connect(self) -> EtcdStore:
        """Itself, once a server has answered."""
        self.num_keys()
        return self

    # As c10d means them (torch/csrc/distributed/c10d/Store.hpp) ---------------

    def set(self, key: str, value: str | bytes) -> None:
        wanted = _bytes(value)
        found = self._find(key)
        for pause in _pauses():
            done, found = self._replace(key, found, [self._put(key, wanted)])
            if done or (found and found.value == wanted):
                return
            time.sleep(pause)

    def get(self, key: str) -> bytes:
        """Waits for it."""
        self.wait([key], self.timeout)
        found = self._find(key)
        if found is None:
            raise dist.DistStoreError(f"key '{key}' has been deleted")
        return found.value

    def compare_set(
        self, key: str, expected: str | bytes, desired: str | bytes
    ) -> bytes:
        """What the key has then; `expected` where it has and had nothing."""
        wanted, given = _bytes(expected), _bytes(desired)
        found = self._find(key)
        while (found.value if found else b"") == wanted:
            done, found = self._replace(key, found, [self._put(key, given)])
            if done:
                return given
        return found.value if found else wanted

    def add(self, key: str, amount: int) -> int:
        """Once, also where a server has ended before it said so: the same
        transaction notes what has come of it. A process that is killed before
        it has removed the note leaves it."""
        note = f"added/{uuid.uuid4().hex}"
        found = self._find(key)
        for pause in _pauses():
            value = int(found.value) + amount if found else amount
            text = str(value).encode()
            done, found = self._replace(
                key, found, [self._put(key, text), self._put(note, text)]
            )
            noted = None if done else self._find(note)
            if done or noted:
                self.delete_key(note)
                return int(noted.value) if noted else value
            time.sleep(pause)
        raise AssertionError  # pauses do not end

    def delete_key(self, key: str) -> bool:
        was, found = False, self._find(key)
        remove = {"request_delete_range": {"key": self._key(key)}}
        while found:
            was = True
            done, found = self._replace(key, found, [remove])
            if done:
                break
        return was

    #: As C++ calls it.
    deleteKey = delete_key

    def num_keys(self) -> int:
        return int(self._all(count_only=True).get("count", 0))

    getNumKeys = num_keys

    def list_keys(self) -> list[str]:
        found = self._all(keys_only=True).get("kvs", [])
        keys = [base64.b64decode(one["key"]).decode() for one in found]
        return [key.removeprefix(f"{self._name}/") for key in keys]

    def check(self, keys: Sequence[str]) -> bool:
        return all(self._find(key) is not None for key in keys)

    def wait(
        self, keys: Sequence[str], timeout: timedelta | None = None
    ) -> None:
        limit = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + limit.total_seconds()
        left, pauses = list(keys), _pauses()
        while left := [key for key in left if self._find(key) is None]:
            if time.monotonic() > deadline:
                raise dist.DistStoreError(
                    f"timed out waiting for key '{left[0]}' in etcd"
                )
            time.sleep(next(pauses))

    # Requests -----------------------------------------------------------------

    def _key(self, key: str) -> str:
        return _code(f"{self._name}/{key}")

    def _ask(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._servers.ask(what, body, self.timeout.total_seconds())

    def _all(self, **how: bool) -> dict[str, Any]:
        """What there is of this name."""
        first, behind = f"{self._name}/", f"{self._name}0"  # "0" follows "/"
        return self._ask(
            "kv/range",
            {"key": _code(first), "range_end": _code(behind), **how},
        )

    def _put(self, key: str, value: bytes) -> dict[str, Any]:
        return {"request_put": {"key": self._key(key), "value": _code(value)}}

    def _find(self, key: str) -> _Found | None:
        return _found(self._ask("kv/range", {"key": self._key(key)}))

    def _replace(
        self, key: str, before: _Found | None, change: list[dict[str, Any]]
    ) -> tuple[bool, _Found | None]:
        """Changes a key if it is as it was found before. Whether that is so,
        and else what it has now. So a request that comes late, after another
        change, does nothing, and one that was carried out and then is sent
        again finds what it has done itself. But for a key that was made and
        removed meanwhile: etcd does not know that it was there."""
        is_as_before = {
            "target": "MOD",
            "result": "EQUAL",
            "key": self._key(key),
            "mod_revision": before.revision if before else "0",
        }
        look = {"request_range": {"key": self._key(key)}}
        said = self._ask(
            "kv/txn",
            {"compare": [is_as_before], "success": change, "failure": [look]},
        )
        if said.get("succeeded"):
            return True, None
        return False, _found(said["responses"][0]["response_range"])


class _Found(NamedTuple):
    value: bytes
    revision: str  # of its last change


def _found(answer: dict[str, Any]) -> _Found | None:
    """Of a range of one key; an empty value is left out there."""
    for one in answer.get("kvs", []):
        value = base64.b64decode(one.get("value", ""))
        return _Found(value, one["mod_revision"])
    return None


def _server(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    with contextlib.suppress(ValueError):
        if host and 0 < int(port) < 1 << 16:
            return host, int(port)
    raise InvalidError(f"etcd's server is '{text}', expected HOST:PORT")
