"""What a running job's layers, experts and links take, smoothed.

    profile = dynatrain.Profile()
    profile.attach({3: model.layers[3], 4: model.layers[4]})
    ...                                # train
    profile.end_step()                 # after each step
    everyones = [None] * world
    dist.all_gather_object(everyones, profile.export())
    measured = dynatrain.merge_profiles(everyones)

`measured` is the `profile` of a job for dt-advise (docs/Advise.md), and its
``layer_seconds`` are what `dynatrain.advise.rebalance` takes.

The clock is the caller's. `time.perf_counter` is right where layers run when
they are called; on a GPU give one that waits for it, and measure now and then
(`every`): ``lambda: (torch.cuda.synchronize(), time.perf_counter())[1]``. A
count of work, such as the floating-point operations of torch's
FlopCounterMode, serves as well: only ratios count.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .errors import Error

#: What `Profile.export` gives: JSON, of one rank.
Export = dict[str, Any]


class _Smoothed:
    """Averages of keys that forget: the newest counts `share`."""

    def __init__(self, share: float) -> None:
        self._share = share
        self.values: dict[Any, float] = {}

    def add(self, key: Any, value: float) -> None:
        before = self.values.get(key, value)
        self.values[key] = before + self._share * (value - before)


class Profile:
    """One rank's measurements.

    share: how much the newest step counts, in (0, 1]; 1 forgets all others.
    every: only each so many steps are measured, the first among them.
    clock: a function that gives seconds, or any other measure of work.
    """

    def __init__(
        self,
        *,
        share: float = 0.3,
        every: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not 0 < share <= 1:
            raise Error(f"share is {share}, expected more than 0, at most 1")
        if every < 1:
            raise Error(f"every is {every}, expected at least 1")
        self._clock = clock
        self._every = every
        self._steps = 0
        self._began: dict[tuple[Any, str], float] = {}
        self._step: dict[tuple[Any, str], float] = defaultdict(float)
        self._calls: dict[Any, int] = defaultdict(int)
        self._seconds = _Smoothed(share)
        self._links = _Smoothed(share)
        self._loads: dict[int, list[float]] = {}
        self._share = share
        self._hooks: list[Any] = []

    def _measures(self) -> bool:
        return self._steps % self._every == 0

    def _begin(self, what: Any, part: str) -> None:
        if self._measures():
            self._began[what, part] = self._clock()

    def _end(self, what: Any, part: str) -> None:
        began = self._began.pop((what, part), None)
        if began is None:
            return
        self._step[what, part] += self._clock() - began
        if part == "forward":
            self._calls[what] += 1

    def attach(self, modules: Mapping[Any, torch.nn.Module]) -> None:
        """Measures forward and backward of modules, until `detach`.

        Keys are numbers of layers in the full model, or "first" and "last" for
        what comes before and after all layers. The backward of a module is seen
        where one of its inputs needs a gradient.
        """
        for what, module in modules.items():
            if what not in ("first", "last") and not isinstance(what, int):
                raise Error(
                    f"{what!r} names no layer, expected a number, 'first' or "
                    "'last'"
                )
            self._hooks += [
                module.register_forward_pre_hook(
                    lambda *_, w=what: self._begin(w, "forward")
                ),
                module.register_forward_hook(
                    lambda *_, w=what: self._end(w, "forward")
                ),
                module.register_full_backward_pre_hook(
                    lambda *_, w=what: self._begin(w, "backward")
                ),
                module.register_full_backward_hook(
                    lambda *_, w=what: self._end(w, "backward")
                ),
            ]

    def detach(self) -> None:
        """Takes all hooks off, and forgets what was measured of layers: they
        may be another rank's from now on."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._began.clear()
        self._step.clear()
        self._calls.clear()
        self._seconds.values.clear()

    @contextmanager
    def measure(self, what: Any) -> Iterator[None]:
        """Measures a block as a part of layer `what`, where that is no module.
        Counts as one call."""
        self._begin(what, "forward")
        yield
        self._end(what, "forward")

    def expert_load(self, layer: int, tokens: Sequence[float]) -> None:
        """Tokens that each expert of a layer got in this step."""
        before = self._loads.get(layer, list(tokens))
        if len(before) != len(tokens):
            raise Error(
                f"layer {layer} has loads of {len(tokens)} experts, expected "
                f"{len(before)} as before"
            )
        self._loads[layer] = [
            b + self._share * (t - b) for b, t in zip(before, tokens)
        ]

    def link(
        self, source: int, destination: int, nbytes: int, seconds: float
    ) -> None:
        """A message from one device to another: how long it was on its way."""
        if nbytes <= 0 or seconds <= 0:
            raise Error(
                f"a message of {nbytes} bytes in {seconds} s gives no rate, "
                "expected more than 0 of both"
            )
        self._links.add((source, destination), nbytes / seconds / 1e9)

    def end_step(self) -> None:
        """Ends a step: what was measured in it goes into the averages."""
        totals: dict[Any, float] = defaultdict(float)
        for (what, _), seconds in self._step.items():
            totals[what] += seconds
        for what, seconds in totals.items():
            self._seconds.add(what, seconds / max(1, self._calls[what]))
        self._step.clear()
        self._calls.clear()
        self._began.clear()
        self._steps += 1

    def export(self, device: int | None = None) -> Export:
        """All averages, as JSON: seconds per call (a micro-batch) of each
        layer, loads, rates. `device` is this rank's, where devices may differ
        in speed."""
        return {
            "device": device,
            "seconds": [[w, s] for w, s in self._seconds.values.items()],
            "expert_load": [[w, load] for w, load in self._loads.items()],
            "links_GBps": [
                [*pair, r] for pair, r in self._links.values.items()
            ],
        }


def _layer_seconds(
    exports: Sequence[Export], slow: dict[int, float]
) -> dict[Any, float]:
    """The fastest rank's time of each layer; how much slower each device was
    than that goes to `slow`."""
    fastest: dict[Any, float] = {}
    for export in exports:
        for what, seconds in export["seconds"]:
            fastest[what] = min(seconds, fastest.get(what, seconds))
    for export in exports:
        own = sum(seconds for _, seconds in export["seconds"])
        best = sum(fastest[what] for what, _ in export["seconds"])
        if export["device"] is not None and best > 0:
            slow[export["device"]] = own / best
    return fastest


def _link_rows(
    exports: Sequence[Export], devices: int | None
) -> list[list[float]] | None:
    """All rates as rows, or None while some pair is not known. One way stands
    in for the other."""
    known: dict[tuple[int, int], float] = {}
    for export in exports:
        for source, destination, rate in export["links_GBps"]:
            known[source, destination] = rate
    n = devices or 1 + max((max(pair) for pair in known), default=-1)
    rows = [
        [
            1.0 if a == b else known.get((a, b), known.get((b, a), 0.0))
            for b in range(n)
        ]
        for a in range(n)
    ]
    return rows if n > 1 and all(map(all, rows)) else None


def merge_profiles(
    exports: Sequence[Export], *, devices: int | None = None
) -> dict[str, Any]:
    """The job's profile out of all ranks' exports, as dt-advise takes it.

    Layers must be known from 0 without gaps, or none. Where several replicas
    run a layer, the fastest counts, and how much slower others are becomes
    `device_slowdown` (when all of `devices` are known).
    """
    slow: dict[int, float] = {}
    seconds = _layer_seconds(exports, slow)
    out: dict[str, Any] = {}
    layers = [what for what in seconds if isinstance(what, int)]
    if layers:
        missing = sorted(set(range(max(layers) + 1)) - set(layers))
        if missing:
            raise Error(
                f"layer {missing[0]} was measured on no rank, expected all of "
                f"{max(layers) + 1} layers"
            )
        out["layer_seconds"] = [seconds[i] for i in range(max(layers) + 1)]
    for what in ("first", "last"):
        if seconds.get(what, 0) > 0:
            out[f"{what}_seconds"] = seconds[what]
    loads: dict[int, list[float]] = {}
    for export in exports:
        for layer, load in export["expert_load"]:
            known = loads.setdefault(layer, [0.0] * len(load))
            loads[layer] = [k + t for k, t in zip(known, load)]
    if loads:
        out["expert_load"] = [
            [round(tokens) for tokens in loads[i]] for i in sorted(loads)
        ]
    rows = _link_rows(exports, devices)
    if rows is not None:
        out["links_GBps"] = rows
    if devices is not None and slow.keys() == set(range(devices)):
        out["device_slowdown"] = [slow[i] for i in range(devices)]
    return out
