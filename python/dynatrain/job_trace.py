"""When what of a switch happened on one process: for people, by Perfetto or
chrome://tracing, and for counters.

A process writes a file of its own for each switch that it takes part in;
`merged` makes one of them, with a track for each rank. Files of several hosts
are as far apart as their clocks.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from .errors import InvalidError

_FILE = re.compile(r"switch-(\d+)\.rank-(\d+)\.json")
#: Threads of a process, as lines of its track.
_TRAINER, _BESIDE = "between two steps", "beside training"


@dataclass(frozen=True)
class Span:
    """Seconds are of the monotonic clock."""

    name: str
    begin: float
    end: float
    line: str
    more: Mapping[str, Any] = field(default_factory=dict)


class SwitchTrace:
    """One process's part in one attempt. Any thread may add to it; that which
    has made it is the trainer's. tell: is told what begins."""

    def __init__(self, tell: Callable[..., None] | None = None) -> None:
        self._tell = tell
        self.spans: list[Span] = []
        self._trainer = threading.get_ident()
        self._since_epoch = time.time() - time.monotonic()

    @contextlib.contextmanager
    def span(self, name: str, **more: Any) -> Iterator[dict[str, Any]]:
        """Around something that takes time; what it gives takes more words on
        it."""
        if self._tell is not None:
            self._tell(name, **more)
        begin = time.monotonic()
        try:
            yield more
        finally:
            self.add(name, begin, time.monotonic(), **more)

    def add(self, name: str, begin: float, end: float, **more: Any) -> None:
        """Something that is over."""
        is_trainer = threading.get_ident() == self._trainer
        line = _TRAINER if is_trainer else _BESIDE
        self.spans.append(Span(name, begin, end, line, more))

    def add_steps(
        self, steps: Iterable[tuple[str, int, int, float, float]]
    ) -> None:
        """What a switch's instructions have taken, as the extension has it."""
        for what, wave, size, begin, end in steps:
            name = f"wave {wave}" if what == "group" else what
            kind = "wire" if what == "group" else what
            self.add(name, begin, end, wave=wave, bytes=size, kind=kind)

    def end_of(self, name: str) -> float | None:
        """When the last one of this name was over."""
        ends = [one.end for one in self.spans if one.name == name]
        return ends[-1] if ends else None

    def _event(self, span: Span, rank: int) -> dict[str, Any]:
        more = dict(span.more)
        return {
            "name": span.name,
            "cat": more.pop("kind", span.name),
            "ph": "X",
            "pid": rank,
            "tid": span.line,
            "ts": round(1e6 * (span.begin + self._since_epoch), 1),
            "dur": round(1e6 * (span.end - span.begin), 1),
            "args": more,
        }

    def write(
        self, folder: Path, attempt: int, rank: int, title: str, outcome: str
    ) -> Path:
        """A file that is there whole, or not at all. rank: among all that take
        part; title: of this process's track."""
        lines = {_TRAINER: 0, _BESIDE: 1}
        events: list[dict[str, Any]] = [
            _about(rank, "process_name", 0, name=title),
            _about(rank, "process_sort_index", 0, sort_index=rank),
        ]
        events += [
            _about(rank, "thread_name", number, name=line)
            for line, number in lines.items()
        ]
        for span in sorted(self.spans, key=lambda one: (one.begin, -one.end)):
            event = self._event(span, rank)
            events.append({**event, "tid": lines[span.line]})
        data = {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"switch": attempt, "outcome": outcome},
        }
        path = folder / f"switch-{attempt}.rank-{rank}.json"
        folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
        with os.fdopen(handle, "w") as file:
            json.dump(data, file)
        os.replace(part, path)
        return path


def _about(rank: int, what: str, line: int, **more: Any) -> dict[str, Any]:
    """A word on a track or a line of it."""
    return {"name": what, "ph": "M", "pid": rank, "tid": line, "args": more}


def merged(
    folder: str | os.PathLike[str], switch: int | None = None
) -> dict[str, Any]:
    """One trace of what all ranks have written of a switch: of the newest one
    unless it is said."""
    found: dict[int, list[Path]] = {}
    for path in sorted(Path(folder).iterdir()):
        if name := _FILE.fullmatch(path.name):
            found.setdefault(int(name[1]), []).append(path)
    if not found or switch not in (None, *found):
        which = "a switch" if switch is None else f"switch {switch}"
        raise InvalidError(f"'{os.fspath(folder)}' has no trace of {which}")
    number = max(found) if switch is None else switch
    events: list[dict[str, Any]] = []
    outcomes = {}
    for path in found[number]:
        data = json.loads(path.read_text())
        events += data["traceEvents"]
        rank = _FILE.fullmatch(path.name)[2]
        outcomes[rank] = data["otherData"]["outcome"]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"switch": number, "outcomes": outcomes},
    }
