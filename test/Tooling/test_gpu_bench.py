"""The stages of bench/gpu without a GPU, and the tables that they end in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GPU = Path(__file__).resolve().parents[2] / "bench" / "gpu"
sys.path.insert(0, str(GPU))

import report  # noqa: E402
import stages  # noqa: E402


@pytest.mark.parametrize("stage", stages.STAGES)
def test_a_stage_says_why_it_cannot_run(stage, tmp_path):
    """With an nvidia-smi that finds none, wherever this runs."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nexit 6\n")
    fake.chmod(0o755)
    done = subprocess.run(
        [GPU / "run_all.sh", stage],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "OUT": str(tmp_path / "out"),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
    )
    assert done.returncode == 0, done.stderr
    [row] = map(
        json.loads,
        (tmp_path / "out" / f"{stage}.jsonl").read_text().splitlines(),
    )
    assert row["stage"] == stage
    assert row["skipped"] == "nvidia-smi finds no GPU"
    assert f"{stage}: skipped: nvidia-smi" in report.report(tmp_path / "out")


def test_stages_and_their_names():
    done = subprocess.run(
        [GPU / "run_all.sh", "--help"], stdout=subprocess.PIPE
    )
    assert done.returncode == 0
    named = done.stdout.decode().split("below 9 minutes:")[1].split(".")[0]
    assert named.split() == list(stages.STAGES)
    assert set(report.STAGES) == set(stages.STAGES) == set(report.TABLES)
    assert "| `live` |" in (GPU / "README.md").read_text()
    failed = subprocess.run(
        [GPU / "run_all.sh", "nothing"], capture_output=True
    )
    assert failed.returncode != 0


def test_tables(tmp_path):
    rows = {
        "kernels": [
            {
                "bench": "gpu-bw",
                "case": "tp-dim1",
                "bytes": 1 << 30,
                "kernel": {"median_s": 0.002},
                "device_to_device": {"median_s": 0.001},
                "ratio": 0.5,
            },
            {"bench": "ncu", "skipped": "no ncu on PATH"},
        ],
        "waves": [
            {
                "bench": "nccl-wave",
                "way": "one graph",
                "waves": 1000,
                "bytes": 65536,
                "wave_us": 12.34,
            }
        ],
        "kill": [
            {
                "bench": "kill",
                "seconds": 3.2,
                "limit_s": 5.0,
                "name_it": 7,
                "others": 7,
            }
        ],
        "live": [{"failed": "torchrun ended with 1"}],
    }
    for stage, lines in rows.items():
        text = "".join(
            json.dumps({"stage": stage, "gpu": "made up", **line}) + "\n"
            for line in lines
        )
        (tmp_path / f"{stage}.jsonl").write_text(text)
    text = report.report(tmp_path)
    assert "| tp-dim1 | 1.07 GB | 2.000 ms | 1.000 ms | 0.50 |" in text
    assert "| one graph | 1000 | 65536 | 12.3 us |" in text
    assert "| 3.2 s | 5.0 s | 7 of 7 |" in text
    assert "ncu: skipped: no ncu on PATH" in text
    assert "live: failed: torchrun ended with 1" in text
    assert "plans: skipped: not run" in text
    assert "`bench/gpu/run_all.sh kernels`, made up." in text
