"""dt-advise from Python: ranked rows, single problems, errors."""

import json
from pathlib import Path

import pytest
from dynatrain import advise

JOBS = Path(__file__).resolve().parents[2] / "examples" / "jobs"


def test_rows_of_a_job_file(tmp_path):
    rows = advise.advise(
        JOBS / "llama-tiny-8.json", lost=["node:1"], output=tmp_path, compile=1
    )
    assert rows[0]["layout"]["world"] <= 4
    request = json.loads((tmp_path / rows[0]["request"]).read_text())
    assert request["destination"]["world"] == rows[0]["layout"]["world"]
    assert any(row["compiled"] for row in rows)


def test_a_job_may_be_a_dict():
    job = json.loads((JOBS / "llama-tiny-8.json").read_text())
    job["model"] = str(JOBS / job["model"])
    rows = advise.advise(job, devices=[0, 1, 2])
    used = [device for row in rows for device in row["give_back"]]
    assert rows and set(used) <= {0, 1, 2}


def test_errors_are_the_tools_words():
    with pytest.raises(advise.AdviseError, match='job needs the key "cluster"'):
        advise.advise({"model": "x"})


def test_partition_minds_bytes_and_slack():
    seconds = [1e-6] * 8
    today = [[0 if layer < 6 else 9 for layer in range(8)],
             [9 if layer < 6 else 0 for layer in range(8)]]  # fmt: skip
    exact = advise.partition(seconds, 2, move_bytes=today)
    near = advise.partition(seconds, 2, move_bytes=today, slack=0.5)
    assert exact["pp_layers"] == [4, 4] and exact["moved_bytes"] == 18
    assert near["pp_layers"] == [6, 2] and near["moved_bytes"] == 0


def test_experts_batches_and_links():
    placed = advise.place_experts([9, 8, 1, 1], 2)
    assert placed["heaviest"] == 10
    deal = advise.deal_batches(8, 3)
    assert sum(deal["micro_batches"]) == 8
    assert abs(sum(deal["gradient_weights"]) - 1) < 1e-12
    islands = advise.cluster_links([[0, 9, 1], [9, 0, 1], [1, 1, 0]])
    assert islands["levels"][0]["island_of"] == [0, 0, 2]


def test_energy_frontier_of_a_stage_graph(tmp_path):
    pytest.importorskip("lowtime")
    advise.advise(
        JOBS / "llama-tiny-8.json", lost=["node:1"], output=tmp_path, compile=0
    )
    graph = json.loads((tmp_path / "stages.json").read_text())
    stages = 1 + max(operation[1] for operation in graph["operations"])
    options = [[(1410, 1.0, 300.0), (1200, 1.15, 250.0), (1000, 1.4, 220.0)]]
    frontier = advise.energy_frontier(
        graph, options * stages, unit=graph["seconds"] / 2000
    )
    assert len(frontier) > 1
    assert min(seconds for seconds, _ in frontier) <= graph["seconds"] * 1.01
