"""Two hosts on one machine: network namespaces with a shaped link between."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextlib.contextmanager
def two_hosts(megabits: float) -> Iterator[list[str]]:
    """Names of two namespaces, 10.77.0.1 and .2; each sends at most so much.

    An OSError or a CalledProcessError where the machine does not let us.
    """
    mark = uuid.uuid4().hex[:6]
    names = [f"dt{mark}{end}" for end in "ab"]
    # As much as ten milliseconds take, so that the clock of the shaper is not
    # what limits a fast link.
    burst = max(64_000, round(megabits * 1e6 / 8 * 0.01))
    try:
        for name in names:
            _run("ip", "netns", "add", name)
        _run("ip", "link", "add", names[0], "type", "veth", "peer", names[1])
        for end, name in enumerate(names):
            _run("ip", "link", "set", name, "netns", name)
            inside = ("ip", "-n", name)
            address = f"10.77.0.{end + 1}/24"
            _run(*inside, "addr", "add", address, "dev", name)
            _run(*inside, "link", "set", name, "up")
            _run(*inside, "link", "set", "lo", "up")
            shape = ["root", "tbf", "rate", f"{megabits:g}mbit"]
            shape += ["burst", str(burst), "latency", "50ms"]
            _run(*_in(name), "tc", "qdisc", "add", "dev", name, *shape)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _in(name: str) -> list[str]:
    return ["ip", "netns", "exec", name]


def start(name: str, *words: str, **more) -> subprocess.Popen:
    """A process in a namespace."""
    return subprocess.Popen([*_in(name), *words], text=True, **more)
