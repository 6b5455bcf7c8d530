"""How a job stands as Prometheus takes it, from `JobView.status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Metric(NamedTuple):
    """One number, or one for each member, by its labels."""

    name: str
    kind: str
    help: str
    samples: list[tuple[dict[str, str], float]]


#: Of each member: its name there, and where it is in what a process posts.
_GAUGES = [
    ("step", "Steps that the process has taken.", ("step",)),
    ("snapshot_bytes", "Host memory of its snapshots.", ("snapshots", "bytes")),
]
_COUNTERS = [
    ("switches_committed", "Switches that made a world.", "committed"),
    ("switches_aborted", "Attempts that came to nothing.", "aborted"),
    ("recoveries", "Switches after a loss.", "recoveries"),
    ("stood_seconds", "Time at the boundaries of switches.", "stood_s"),
    ("sent_bytes", "State that switches have sent.", "sent_bytes"),
    ("received_bytes", "State that they have received.", "received_bytes"),
]


def _of_job(status: Mapping[str, Any]) -> Iterator[Metric]:
    switch, kept = status["switch"], status["snapshots"]

    def one(name: str, text: str, value: float) -> Metric:
        return Metric(name, "gauge", text, [({}, value)])

    yield one("world", "The number of the job's world.", status["world"])
    yield one("processes", "Members of the world.", len(status["members"]))
    is_open = switch is not None and switch["is_open"]
    yield one("switch_open", "Whether a switch is under way.", int(is_open))
    is_gone = switch is not None and switch["gone"]
    text = "Whether a flat switch has failed past its point of no return."
    yield one("world_gone", text, int(is_gone))
    if kept is not None and kept["steps"]:
        text = "The newest step of which all copies are whole."
        yield one("snapshot_step", text, kept["steps"][-1])


def _of_members(status: Mapping[str, Any]) -> Iterator[Metric]:
    rows = [(name, "gauge", text, path) for name, text, path in _GAUGES]
    rows += [
        (f"{name}_total", "counter", text, ("counters", key))
        for name, text, key in _COUNTERS
    ]
    for name, kind, text, path in rows:
        samples = []
        for one in status["members"]:
            value: Any = one
            for key in path:
                value = value.get(key) if value is not None else None
            if value is not None:
                labels = {"rank": str(one["rank"]), "process": one["process"]}
                samples.append((labels, value))
        if samples:
            yield Metric(name, kind, text, samples)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n") + '"'


def prometheus_text(status: Mapping[str, Any]) -> str:
    """For a scrape, or a file of node_exporter's textfile collector."""
    lines = []
    for name, kind, text, samples in [*_of_job(status), *_of_members(status)]:
        lines += [
            f"# HELP dynatrain_{name} {text}",
            f"# TYPE dynatrain_{name} {kind}",
        ]
        for labels, value in samples:
            own = {"job": status["job"], **labels}
            said = ",".join(f"{k}={_quoted(v)}" for k, v in own.items())
            lines.append(f"dynatrain_{name}{{{said}}} {value}")
    return "\n".join([*lines, ""])
