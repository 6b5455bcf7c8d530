"""A store in etcd: it does what c10d's stores do, once, whichever server ends;
and jobs go on with it when a server and a process are lost."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from datetime import timedelta

import pytest
from dynatrain import ctl
from dynatrain.etcd_store import EtcdStore
from processes import KILLED, dist, dynatrain, run_ranks
from test_job import LEFT
from test_recovery import TIMEOUT, builder, check, step

ETCD = shutil.which("etcd")
pytestmark = pytest.mark.skipif(ETCD is None, reason="etcd is not installed")

# Seconds until a test has failed.
HANGS = 120.0


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Servers of one etcd."""

    def __init__(self, folder, count):
        self.ports, peers = free_ports(count), free_ports(count)
        whole = [
            f"s{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers)
        ]
        self.servers = [
            subprocess.Popen(
                [
                    ETCD,
                    *("--name", f"s{n}", "--data-dir", str(folder / f"s{n}")),
                    *self._urls("client", self.ports[n]),
                    *self._urls("peer", peers[n]),
                    *("--initial-cluster", ",".join(whole)),
                    *("--logger", "zap", "--log-level", "error"),
                    # Of a machine with much else to do.
                    *("--heartbeat-interval", "200"),
                    *("--election-timeout", "2000"),
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for n in range(count)
        ]

    @staticmethod
    def _urls(kind, port):
        url = f"http://127.0.0.1:{port}"
        if kind == "peer":
            first = "--initial-advertise-peer-urls"
        else:
            first = "--advertise-client-urls"
        return first, url, f"--listen-{kind}-urls", url

    @property
    def addresses(self):
        return [f"127.0.0.1:{port}" for port in self.ports]

    def store(self, name="test", timeout=HANGS):
        return EtcdStore(self.addresses, name, timeout=timeout)

    def leads(self, number):
        """Whether a server says that it leads; one may not listen yet, while
        the others are enough for a store."""
        request = urllib.request.Request(
            f"http://{self.addresses[number]}/v3/maintenance/status", b"{}"
        )
        try:
            with urllib.request.urlopen(request, timeout=HANGS) as answer:
                said = json.load(answer)
        except urllib.error.URLError:
            return False
        return said["leader"] == said["header"]["member_id"]

    def leader(self):
        """Which server leads."""
        until = time.monotonic() + HANGS
        while time.monotonic() < until:
            for number in range(len(self.servers)):
                if self.leads(number):
                    return number
            time.sleep(0.1)
        raise AssertionError("nobody leads")

    def kill(self, number):
        self.servers[number].kill()
        self.servers[number].wait()

    def end(self):
        for server in self.servers:
            server.kill()
            server.wait()


@pytest.fixture
def etcd(tmp_path):
    made = []

    def make(count=1):
        made.append(Cluster(tmp_path / f"{len(made)}", count))
        made[-1].store().connect()
        return made[-1]

    yield make
    for one in made:
        one.end()


# As other stores --------------------------------------------------------------


def said_by(store):
    """What a store says to calls of all kinds."""
    said = [store.add("count", 3), store.add("count", -5), store.get("count")]
    store.set("binary", bytes(range(256)))
    said.append(store.get("binary"))
    said += [
        # Nothing there; made; as expected; not as expected.
        store.compare_set("decided", "never", "never"),
        store.compare_set("decided", "", "one"),
        store.compare_set("decided", "one", "two"),
        store.compare_set("decided", "one", "three"),
        store.compare_set("decided", "never", "never"),
    ]
    said += [store.check(["count", "binary"]), store.check(["count", "none"])]
    said += [store.delete_key("binary"), store.delete_key("binary")]
    said += [store.check(["binary"]), store.num_keys()]
    store.set("empty", "")
    said += [store.get("empty"), store.check(["empty"])]
    store.wait(["empty", "count"], timedelta(seconds=1))
    return said


def test_it_says_what_others_say(etcd):
    store = etcd().store()
    assert said_by(store) == said_by(dist.HashStore())
    # Through C++, and with a name of its own.
    other = etcd().store("other")
    through, hashed = dist.PrefixStore("p", other), dist.HashStore()
    for one in (through, dist.PrefixStore("p", hashed)):
        one.set("k", b"\xff\x00")
        assert one.get("k") == b"\xff\x00" and one.add("n", 2) == 2
        assert one.compare_set("c", "", b"\xfe") == b"\xfe"
        assert one.delete_key("n") and not one.check(["n"])
    assert other.num_keys() == hashed.num_keys() == 2
    assert other.get("p/k") == b"\xff\x00"


def test_who_waits_is_told(etcd):
    store = etcd().store()
    with pytest.raises(dist.DistStoreError, match="timed out .* key 'late'"):
        store.wait(["late"], timedelta(seconds=0.2))
    threading.Timer(0.3, lambda: store.set("late", "here")).start()
    assert store.get("late") == b"here"


def test_many_at_once(etcd):
    cluster = etcd()
    store, won = cluster.store(), []

    def work(number):
        own = cluster.store()
        for _ in range(10):
            own.add("count", 1)
        won.append(own.compare_set("first", "", str(number)) == b"%d" % number)

    threads = [threading.Thread(target=work, args=[n]) for n in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert store.get("count") == b"60" and won.count(True) == 1
    assert sorted(store.list_keys()) == ["count", "first"]


# Once -------------------------------------------------------------------------


def losing(store, what, count):
    """The answers to the first requests of a kind are lost. Gives what was
    asked, to ask again."""
    servers, asked = store._servers, []
    answer = servers._try

    def lose(server, kind, text, seconds):
        given = answer(server, kind, text, seconds)
        if kind == what and len(asked) < count:
            asked.append((server, kind, text, seconds))
            raise ConnectionResetError("lost")
        return given

    servers._try = lose
    return [lambda one=n: answer(*asked[one]) for n in range(count)]


def test_a_lost_answer_changes_nothing(etcd):
    store = etcd().store()
    losing(store, "kv/txn", 1)
    assert store.add("count", 5) == 5
    store.set("a", "old")
    losing(store, "kv/txn", 2)
    assert store.add("count", 5) == 10 and store.get("count") == b"10"
    losing(store, "kv/txn", 1)
    assert store.compare_set("a", "old", "new") == b"new"
    losing(store, "kv/txn", 1)
    store.set("a", "newer")
    losing(store, "kv/txn", 1)
    assert store.delete_key("a")
    assert store.num_keys() == 1


def test_a_late_request_changes_nothing(etcd):
    store = etcd().store()
    for change in (
        lambda: store.set("a", "old"),
        lambda: store.compare_set("a", "old", "older"),
        lambda: store.delete_key("a"),
    ):
        (again,) = losing(store, "kv/txn", 1)
        change()
        store.set("a", "now")
        again()
        assert store.get("a") == b"now"
        store.set("a", "old")
    (again,) = losing(store, "kv/txn", 1)
    assert store.add("count", 1) == 1 and store.add("count", 1) == 2
    again()
    assert store.get("count") == b"2"


# Servers that end -------------------------------------------------------------


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_any_server_may_end(etcd, end):
    cluster = etcd(3)
    store = cluster.store()
    assert store.add("count", 1) == 1
    first = cluster.leader()
    cluster.servers[first].send_signal(end)
    for number in range(2, 12):
        assert store.add("count", 1) == number
    cluster.kill((first + 1) % 3)
    # One of three decides nothing.
    store.set_timeout(timedelta(seconds=2))
    began = time.monotonic()
    with pytest.raises(dist.DistStoreError, match="etcd at 127.0.0.1"):
        store.add("count", 1)
    assert time.monotonic() - began < HANGS / 2


def one_at_a_time():
    """A lock: who holds it is in the middle of no `add` of this process. One
    that is killed in the middle leaves its note behind."""
    lock, add = threading.Lock(), EtcdStore.add

    def locked(self, key, amount):
        with lock:
            return add(self, key, amount)

    EtcdStore.add = locked
    return lock


def train(number, _, address, cluster):
    """A process of a job of three; in step 4 one ends the server that leads,
    in step 8 the first one ends itself."""
    adding = one_at_a_time()
    job = dynatrain.Job(
        address,
        builder(number),
        rank=number,
        processes=3,
        layout=0,
        timeout=TIMEOUT,
        snapshots=2,
    )
    went_back = []
    with job:
        while job.state.step < 14:
            check(job, number)
            here = job.world.epoch, job.state.step
            if here == (1, 4) and number == 1:
                os.kill(cluster.servers[cluster.leader()].pid, signal.SIGKILL)
            if here == (1, 8) and number == 0:
                job._terms.snapshots.wait()
                adding.acquire()
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                step(job)
            except RuntimeError as error:
                if not job.recover(error):
                    return "left"
                went_back.append(job.state.step)
                continue
            job.boundary(job.state.step)
        check(job, number)
        return [job.world.size, went_back]


def test_a_job_goes_on_without_a_server_and_a_process(etcd, tmp_path, capsys):
    cluster = etcd(3)
    address = f"etcd://{','.join(cluster.addresses)}/job"
    found = run_ranks(3, train, tmp_path, address, cluster, limit=600)
    assert found == [KILLED, [2, [8]], [2, [8]]]
    assert ctl.main(["status", "--store", address]) == 0
    said = capsys.readouterr().out
    assert "world 2 of 2 processes, since step 8" in said, said
    left = [key.split("/")[:2] for key in EtcdStore.of(address, 60).list_keys()]
    assert ["/".join(key) for key in sorted(left)] == LEFT


def test_what_cannot_be():
    for servers, why in (
        ([], "there is no server"),
        (["here"], "etcd's server is 'here', expected HOST:PORT"),
        (["h:0"], "etcd's server is 'h:0'"),
        (["h:x"], "etcd's server is 'h:x'"),
    ):
        with pytest.raises(dynatrain.InvalidError, match=why):
            EtcdStore(servers)
    with pytest.raises(dynatrain.InvalidError, match="expected 'etcd://HOST"):
        EtcdStore.of("etcd://", 1.0)
    (port,) = free_ports(1)
    with pytest.raises(dynatrain.StoreLostError, match="cannot be reached"):
        dynatrain.Job(
            f"etcd://127.0.0.1:{port}", builder(0), timeout=0.5
        ).__enter__()
