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


def test_random_streams_are_those_of_the_library():
    assert advise.random_stream(0, 0, 0) == 0x2130748AAAC80268
    assert advise.random_stream(17, 5, 3, 1) == 0xF48782ACC4A85A4E
    assert advise.random_stream(2**64 - 1, 10**9, 95, 7) == 0x85C3C6B03B153E6


def test_rebalance_moves_what_pays_and_no_more():
    work = [1, 1, 3, 3, 3, 3, 1, 1]
    change = advise.rebalance(
        work, [2, 2, 2, 2], state_bytes=10**9, micro_batches=4, GBps=1
    )
    assert change["pays"] and change["pp_layers"] == [3, 1, 1, 3]
    assert change["slowest_s"] == change["best_slowest_s"]
    assert change["moved_bytes"] == 2 * 10**9
    assert abs(change["transition_s"] - 1) < 1e-9
    assert change["pays_after_steps"] == 1
    dear = advise.rebalance(
        work, [2, 2, 2, 2], state_bytes=10**9, micro_batches=4,
        switch_seconds=400, horizon_steps=100,
    )  # fmt: skip
    assert not dear["pays"] and dear["pp_layers"] == [2, 2, 2, 2]
    with pytest.raises(advise.AdviseError, match="today's stages have 7"):
        advise.rebalance(work, [2, 2, 2, 1], state_bytes=1, micro_batches=4)


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


def test_a_job_becomes_the_best_row_for_its_processes():
    job = json.loads((JOBS / "llama-tiny-8.json").read_text())
    job["model"] = str(JOBS / job["model"])
    layouts = advise.Layouts(job)
    today = job["layout"]
    assert layouts(today, 8) is today
    four = layouts(today, 4)
    best = advise.advise(job, devices=range(4), compile=0, rows=1)[0]
    assert four["batch"] == best["batch"]
    assert four["bucket_size"] == today["bucket_size"]
    assert best["layout"].items() <= four.items() and four["world"] == 4
    # A layout that it gave is one to start from.
    assert layouts(four, 4) is four
    eight = layouts(four, 8)
    del four["batch"]
    job["layout"] = four
    best = advise.advise(job, devices=range(8), compile=0, rows=1)[0]
    assert best["layout"].items() <= eight.items()
