"""Plan files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from . import _C
from .state import State
from .state_switch import StateSwitch
from .switch import Switch, encode_user_data
from .tensors import (
    ExpectedTensor,
    TensorMap,
    bind,
    expected_tensors,
    given_tensors,
)
from .world import Tag, World


class Plan:
    """A compiled change of layout. Make one with `Plan.load`."""

    def __init__(self, native: _C.Plan) -> None:
        self._native = native
        self._info = native.info()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Opens a plan file; a damaged or unknown one is refused."""
        return cls(_C.Plan.open(os.fspath(path)))

    @property
    def digest(self) -> str:
        """Equal on two processes exactly when they have the same plan."""
        return self._info["digest"]

    @property
    def request_hash(self) -> str:
        """Identifies the request that the plan was compiled from."""
        return self._info["request_hash"]

    @property
    def devices(self) -> list[int]:
        """All devices that take part, ascending: by default those of the
        ranks 0, 1, ... of a world."""
        return list(self._info["devices"])

    @property
    def source_devices(self) -> list[int]:
        """The device of each rank of the source world."""
        return list(self._info["source_devices"])

    @property
    def destination_devices(self) -> list[int]:
        """The device of each rank of the destination world."""
        return list(self._info["destination_devices"])

    def inspect(self, device: int | None = None) -> dict[str, Any]:
        """What ``dt-plan inspect --json`` prints."""
        return json.loads(self._native.inspect(device))

    def deliveries(self) -> Iterator[dict[str, Any]]:
        """Every region that arrives, as ``dt-plan dump --deliveries``."""
        for line in self._native.deliveries().splitlines():
            yield json.loads(line)

    def verify(self) -> None:
        """Checks the plan as ``dt-plan verify`` does; raises `Error`."""
        self._native.verify()

    def expected(self, device: int) -> list[ExpectedTensor]:
        """The local tensors that a device holds before and after."""
        return expected_tensors(self._native, device)

    def prepare(
        self,
        world: World,
        source_tensors: TensorMap | State | None = None,
        destination_tensors: TensorMap | State | None = None,
        *,
        tag: Tag = None,
        user_data: Any = None,
        digests: bool = False,
    ) -> Switch:
        """Begins the change; every process of the world calls this.

        Checks this process's tensors now (`TensorError`), and does the rest in
        the background: all processes compare plan, layouts and tensors, connect
        and compute addresses. The tensors stay the caller's: they must live,
        where they are, until `commit` or `abort`.

        The plan is verified, as `verify` does it, before anything moves: once
        per host, where ``~/.cache/dynatrain/verified`` (``$XDG_CACHE_HOME``)
        remembers the digests of plans that were right. A plan that is wrong is
        an error on every process.

        `tag` says which switch this is: a step number, or a name. Processes
        with another tag, or another plan, are at another place of their work:
        both get an error at once. Without a tag the processes pair up as they
        come, and one that has left a switch out is taken for another's next.
        `World.meet` is where processes find each other again.

        `user_data`, any JSON value, reaches every process: `Switch.user_data`
        is that of the lowest rank that gave one. It is of now; what changes
        until the transfer (step counters, seeds) belongs to `Switch.transfer`.
        With `digests`, the receiver of every message compares each run of
        bytes of one tensor and state in it with the sender's digest, and an
        error names the tensor and state that differ.

        Destination tensors may have no memory yet (`hollow`). In mode flat they
        get it when it is due, and memory of source tensors goes when it has
        been read: by tensor that of all, by page that of `paged` ones. Once all
        have begun to transfer their state is gone, whatever comes, and these
        tensors have no elements any more. In mode rollback they get it here,
        and all must fit beside the source.

        A `State` may be given on either side. What it has beside tensors is
        read at `transfer` and installed by `commit`; then all processes give
        States, or None for a side that they do not have.

        Tensors on a GPU: `transfer` starts behind the thread's current stream
        there, and has ended when it returns.
        """
        place = world.join(self._native, tag)
        try:
            expected = expected_tensors(self._native, place.device)
            old, new = _tensors(expected, source_tensors, destination_tensors)
            bound = bind(expected, old, new, world.backend)
            note = encode_user_data(user_data)
        except Exception as error:
            _C.refuse(self._native, place.native, str(error))
            raise
        states = [
            side if isinstance(side, State) else None
            for side in (source_tensors, destination_tensors)
        ]
        if states == [None, None]:
            switch = Switch(self._native, place, bound, note, digests)
        else:
            switch = StateSwitch(self._native, place, bound, note, digests)
            switch.carry(*states)
        switch.watch(given_tensors(old))
        return switch


def _tensors(
    expected: list[ExpectedTensor],
    source: TensorMap | State | None,
    destination: TensorMap | State | None,
) -> tuple[TensorMap | None, TensorMap | None]:
    """Both sides as tensors; a new State keeps what the plan fills."""
    if isinstance(destination, State):
        destination.keep(
            {
                (entry.tensor, entry.state)
                for entry in expected
                if entry.side == "destination"
            }
        )
        destination = destination.destination_tensors()
    return (
        source.tensors if isinstance(source, State) else source
    ), destination
