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


def pair(level, channels, rate, small):
    return {
        "bench": "pair-rate",
        "level": level,
        "channels": channels,
        "bytes": 256 << 20,
        "GBps": rate,
        "small_us": small,
        "versions": {"nccl": "2.28.9"},
    }


def write(folder, **stages_rows):
    for stage, lines in stages_rows.items():
        about = {"stage": stage, "gpu": "made up", "host": "here"}
        text = "".join(json.dumps({**about, **line}) + "\n" for line in lines)
        (folder / f"{stage}.jsonl").write_text(text)


def wave(way, us):
    return {
        "bench": "nccl-wave",
        "way": way,
        "waves": 1000,
        "bytes": 65536,
        "wave_us": us,
    }


def calibrate(folder):
    out = folder / "calibration.json"
    done = subprocess.run(
        [sys.executable, GPU / "report.py", folder, "--calibration", out],
        capture_output=True,
        text=True,
    )
    return done, json.loads(out.read_text()) if out.exists() else None


def test_a_calibration_is_what_was_measured(tmp_path):
    write(
        tmp_path,
        waves=[wave("one graph", 3), wave(report.OUR_WAY, 6.504)],
        rates=[
            pair("intra", 1, 21.3, 20),
            pair("intra", 8, 168.0, 12.25),
            pair("inter", 1, 18.3, 25),
            pair("inter", 8, 24.2, 16),
        ],
    )
    done, found = calibrate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert found["machine"] == {"gpu": "made up", "host": "here"}
    assert found["versions"] == {"nccl": "2.28.9"}
    assert found["cluster"] == {
        "intra_node_GBps": 168.0,
        "intra_channel_GBps": 21.3,
        "inter_node_GBps": 24.2,
        "inter_channel_GBps": 18.3,
        "channels_per_peer": 8,
        "launch_us": 6.5,
        "latency_us": 9.5,
    }


def test_a_calibration_has_nothing_that_was_not_measured(tmp_path):
    write(tmp_path, waves=[wave(report.OUR_WAY, 6.5)])
    assert calibrate(tmp_path)[1]["cluster"] == {"launch_us": 6.5}
    write(tmp_path, waves=[{"skipped": "no GPU"}])
    (tmp_path / "calibration.json").unlink()
    done, found = calibrate(tmp_path)
    assert done.returncode == 1
    assert "neither waves nor rates were measured" in done.stderr
    assert found is None


def test_pairs_are_timed(tmp_path):
    """By Gloo, as there need be no GPU."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        + ["--nproc-per-node=2", GPU / "pair_rates.py", "--backend=gloo"]
        + ["--bytes=65536", "--repeat=3"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    [row] = stages.rows(done.stdout)
    assert (row["bench"], row["level"]) == ("pair-rate", "intra")
    assert row["GBps"] > 0
    assert row["small_us"] > 0


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
        "waves": [wave("one graph", 12.34)],
        "kill": [
            {
                "bench": "kill",
                "seconds": 3.2,
                "limit_s": 5.0,
                "name_it": 7,
                "others": 7,
            }
        ],
        "rates": [pair("intra", 8, 380.04, 12.0)],
        "live": [{"failed": "torchrun ended with 1"}],
    }
    write(tmp_path, **rows)
    text = report.report(tmp_path)
    assert "| tp-dim1 | 1.07 GB | 2.000 ms | 1.000 ms | 0.50 |" in text
    assert "| one graph | 1000 | 65536 | 12.3 us |" in text
    assert "| 3.2 s | 5.0 s | 7 of 7 |" in text
    assert "| intra | 8 | 268435456 | 380.0 | 12.0 us |" in text
    assert "ncu: skipped: no ncu on PATH" in text
    assert "live: failed: torchrun ended with 1" in text
    assert "plans: skipped: not run" in text
    assert "`bench/gpu/run_all.sh kernels`, made up." in text
