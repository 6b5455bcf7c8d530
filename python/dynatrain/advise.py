"""Which layout a job should change to: dt-advise from Python.

    rows = dynatrain.advise.advise("job.json", lost=["node:3"], output="advice")
    cut = dynatrain.advise.partition([1.0, 2.0, 3.0], 2)

Every function runs the tool ``dt-advise`` and needs no extension. What is
wrong with a job or a problem is raised as `AdviseError` in the tool's words.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


class AdviseError(Exception):
    """The tool's own words, or that it was not found."""


def find_tool() -> str | None:
    """dt-advise on PATH, or in build/bin of the checkout with this file."""
    found = shutil.which("dt-advise")
    if found:
        return found
    for folder in Path(__file__).resolve().parents:
        candidate = folder / "build" / "bin" / "dt-advise"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def _run(arguments: Sequence[str], text: str | None = None) -> Any:
    tool = find_tool()
    if tool is None:
        raise AdviseError("dt-advise is neither on PATH nor in build/bin")
    done = subprocess.run(
        [tool, *arguments], input=text, capture_output=True, text=True
    )
    if done.returncode:
        words = done.stderr.strip() or f"exit code {done.returncode}"
        raise AdviseError(words.removeprefix("error: "))
    return json.loads(done.stdout)


def advise(
    job: str | os.PathLike[str] | Mapping[str, Any],
    *,
    lost: Iterable[str | int] = (),
    devices: Iterable[int] = (),
    profile: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    compile: int = 3,
    rows: int = 8,
    pack: float | None = None,
) -> list[dict[str, Any]]:
    """Ranked destinations of a job (a file, or the same as a dict), best first.

    `lost` names devices or nodes ("node:3"), `devices` what remains. With
    `output` the requests and a page are written there and the first `compile`
    transitions compiled. Paths in a dict are relative to the current folder.
    """
    inline = isinstance(job, Mapping)
    arguments = ["-" if inline else os.fspath(job), "--json"]
    arguments += ["--rows", str(rows), "--compile", str(compile)]
    for place in lost:
        arguments += ["--lost", str(place)]
    kept = ",".join(map(str, devices))
    if kept:
        arguments += ["--devices", kept]
    if profile is not None:
        arguments += ["--profile", os.fspath(profile)]
    if output is not None:
        arguments += ["-o", os.fspath(output)]
    if pack is not None:
        arguments += ["--pack", str(pack)]
    return _run(arguments, json.dumps(job) if inline else None)


class Layouts:
    """What dt-advise would have a job become, for `Job(layout_for=...)`::

        dynatrain.Job(store, build, layout=job["layout"],
                      layout_for=dynatrain.advise.Layouts(job))

    A layout whose ``world`` is the number of processes stays as it was asked
    for. For any other number it is the best row for as many devices, the first
    ones of the job's cluster: the row's ``layout``, in which ``world`` may be
    smaller, and its ``batch`` beside it. `job` is a dict, as `advise` takes it;
    what does not fit is an `AdviseError`. Equal calls have equal answers, on
    every process.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = dict(job)
        self._found: dict[str, dict[str, Any]] = {}

    def __call__(self, layout: Any, size: int) -> Any:
        today = layout if layout is not None else self.job["layout"]
        if today["world"] == size:
            return layout
        key = json.dumps([today, size], sort_keys=True)
        if key not in self._found:
            sizes = {name: today[name] for name in today if name != "batch"}
            rows = advise(
                {**self.job, "layout": sizes},
                devices=range(size),
                compile=0,
                rows=1,
            )
            best = rows[0]
            # Such as the size of ZeRO's buckets, which no row changes.
            kept = {k: v for k, v in sizes.items() if k != "devices"}
            self._found[key] = {
                **kept,
                **best["layout"],
                "batch": best["batch"],
            }
        return self._found[key]


def solve(problem: Mapping[str, Any]) -> dict[str, Any]:
    """One problem, as docs/Advise.md describes them under `--solve`."""
    return _run(["--solve", "-"], json.dumps(problem))


def partition(
    layer_seconds: Sequence[float],
    stages: int | Sequence[Mapping[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """Layers to pipeline stages with the fastest slowest stage.

    `stages` is a count, or limits per stage. `more` are further keys of the
    problem: layer_bytes, move_bytes, slack, chunks, pinned and others.
    """
    return solve(
        {
            "stages": {
                "layer_seconds": list(layer_seconds),
                "stages": stages if isinstance(stages, int) else list(stages),
                **more,
            }
        }
    )


def rebalance(
    layer_seconds: Sequence[float],
    today: Sequence[int],
    *,
    state_bytes: int | Sequence[int],
    micro_batches: int,
    horizon_steps: int = 1000,
    GBps: float = 25.0,
    switch_seconds: float = 0.0,
    least_gain: float = 0.01,
    **stages: Any,
) -> dict[str, Any]:
    """Whether layers should move between the stages of a running pipeline.

    `today` counts the layers of each stage, `state_bytes` is what moves with a
    layer. ``pays`` is true where ``pp_layers`` gain more within the horizon
    than the change costs, and at least `least_gain` of a step. `stages` are
    further keys of the stages: their limits as `stages`, layer_bytes and
    others.
    """
    return solve(
        {
            "rebalance": {
                "stages": {
                    "stages": len(today),
                    **stages,
                    "layer_seconds": list(layer_seconds),
                },
                "today": list(today),
                "state_bytes": state_bytes
                if isinstance(state_bytes, int)
                else list(state_bytes),
                "micro_batches": micro_batches,
                "horizon_steps": horizon_steps,
                "GBps": GBps,
                "switch_seconds": switch_seconds,
                "least_gain": least_gain,
            }
        }
    )


def place_experts(
    load: Sequence[int], ranks: int, **more: Any
) -> dict[str, Any]:
    """The experts of one layer to ranks by their loads (tokens)."""
    return solve({"experts": {"load": list(load), "ranks": ranks, **more}})


def deal_batches(total: int, replicas: int, **more: Any) -> dict[str, Any]:
    """Micro-batches and gradient weights of each replica; the sum is kept."""
    return solve({"batches": {"global": total, "replicas": replicas, **more}})


_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """SplitMix64's output function."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def random_stream(seed: int, sample: int, layer: int, tp: int = 0) -> int:
    """Seed of the numbers that one layer draws for one sample of the run (a
    micro-batch goes by its first), the same under every layout; 64 bits.
    `tp` only where dropout acts on what tensor parallelism cuts."""
    stream = _mix(seed & _MASK)
    for part in (sample, layer, tp):
        stream = _mix(stream ^ (part & _MASK))
    return stream


def cluster_links(
    gbps: Sequence[Sequence[float]], **more: Any
) -> dict[str, Any]:
    """Islands of devices by measured bandwidth, and an order of devices."""
    return solve({"links": {"GBps": [list(row) for row in gbps], **more}})


def _cost_model(options: Any) -> Any:
    """Energy between two frequencies, interpolated: lowtime's own model is a
    curve that needs many frequencies to fit."""
    import numpy
    from lowtime.cost_model import CostModel

    class Interpolated(CostModel):
        def __init__(self) -> None:
            chosen = sorted((o.quant_time, o.cost) for o in options.options)
            self.times, self.costs = zip(*chosen, strict=True)

        def __call__(self, quant_time: int) -> float:
            return float(numpy.interp(quant_time, self.times, self.costs))

    return Interpolated()


def _operations(
    graph: Mapping[str, Any],
    options: Sequence[Sequence[tuple[int, float, float]]],
    unit: float,
) -> list[Any]:
    """lowtime's operations; those of one kind, stage and chunk share a spec."""
    from lowtime.operation import (
        CandidateExecutionOptions,
        ExecutionOption,
        Operation,
        OperationSpec,
    )

    specs: dict[tuple[str, int, int], Any] = {}
    operations = []
    for kind, stage, chunk, _, seconds in graph["operations"]:
        key = (kind, stage, chunk)
        if key not in specs:
            chosen = CandidateExecutionOptions(
                options=[
                    ExecutionOption(
                        real_time=seconds * factor,
                        unit_time=unit,
                        cost=energy * seconds,
                        knob=frequency,
                    )
                    for frequency, factor, energy in options[stage]
                ]
            )
            specs[key] = OperationSpec(
                options=chosen, cost_model=_cost_model(chosen)
            )
        operations.append(Operation(spec=specs[key]))
    return operations


def energy_frontier(
    graph: Mapping[str, Any],
    options: Sequence[Sequence[tuple[int, float, float]]],
    *,
    unit: float,
) -> list[tuple[float, float]]:
    """(seconds, energy) of the frontier that lowtime finds for a stage graph.

    `graph` is the content of stages.json. `options[stage]` lists what that
    stage does at each frequency: (MHz, factor of the time in the graph, watts
    times that factor). `unit` is the resolution in seconds. Needs the package
    lowtime; advice only: nothing here sets a frequency. The delays of edges
    are left out.
    """
    import networkx
    from lowtime.graph_utils import add_sink_node, add_source_node
    from lowtime.solver import PhillipsDessouky

    operations = _operations(graph, options, unit)
    dag = networkx.DiGraph()
    for number, operation in enumerate(operations):
        dag.add_node(number, op=operation)
    dag.add_edges_from((edge[0], edge[1]) for edge in graph["edges"])
    source, sink = len(operations), len(operations) + 1
    add_source_node(dag, source)
    add_sink_node(dag, sink)
    dag.graph["source_node"] = source
    dag.graph["sink_node"] = sink
    return [
        (result.quant_time * unit, result.cost)
        for result in PhillipsDessouky(dag).run()
    ]
