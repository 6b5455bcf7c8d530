"""Every stage of bench/gpu from run_all.sh to its table, without a GPU.

The benches are the real ones, on the stand-ins for CUDA and NCCL that tests
have (test/Gpu/FakeBench.cpp); dt-run moves its bytes in this process. What is
printed means nothing but that a stage finds its files, reads what its programs
print, and ends in a table.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
sys.path.insert(0, str(ROOT / "bench" / "gpu"))

import report  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin" / "fake-nccl-wave").exists(),
    reason="this build has no CUDA and NCCL",
)

#: dt-run as a rank that one of its peers is killed beside: alive, and then it
#: waits for the one that is killed, by a lock that goes with its process.
KILLED = r"""
import fcntl, os, pathlib, sys, time
rank = int(os.environ["RANK"])
assert os.environ["NCCL_HOSTID"] == f"h{rank}"
store = pathlib.Path(next(a for a in sys.argv if "--store=" in a)[8:])
lock = (store / "lock").open("w")
if rank == 1:
    fcntl.flock(lock, fcntl.LOCK_EX)
    (store / "locked").touch()
while not (store / "locked").exists():
    time.sleep(0.01)
(store / f"nccl+1+shared+nccl+alive+{rank}").touch()
if rank == 1:
    time.sleep(600)
fcntl.flock(lock, fcntl.LOCK_EX)
print("error: device 5: rank 1 (device 1) does not respond", file=sys.stderr)
sys.exit(1)
"""

LIVE_TIMES = ["alone", "beside", "after", "warm_up", "transfer", "commit"]
LIVE = {
    "bench": "live-gpu",
    "plan": "small-waves.dtplan",
    **{f"{name}_s": 0.001 for name in LIVE_TIMES},
    "mismatches": 0,
}


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\nset -e\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A checkout's bench/gpu, where stand-ins are all of a GPU machine."""
    root = tmp_path_factory.mktemp("machine")
    for folder in ("bench/gpu", "examples/models"):
        shutil.copytree(ROOT / folder, root / folder)
    packed = subprocess.run(
        [root / "bench" / "gpu" / "pack.sh"],
        capture_output=True,
        text=True,
        env={**os.environ, "DT_BUILD": str(BUILD)},
    )
    assert packed.returncode == 0, packed.stderr
    plans = root / ".deps" / "plans"
    for name in ("qwen3-30b-slice", "gpt3-1.3b-full"):
        assert (plans / f"{name}.dtplan").exists()
        # Too large for a CPU that plays a GPU.
        shutil.copy(plans / "small-waves.dtplan", plans / f"{name}.dtplan")
    assert (plans / "gpt3-1.3b-flat.dtplan").exists()
    small = json.loads(
        (root / "bench" / "gpu" / "small-waves.json").read_text()
    )
    # Pages of the stand-in.
    small["memory"] = {"mode": "flat", "staging": "64KiB", "page": "4KiB"}
    (root / "bench" / "gpu" / "flat.json").write_text(json.dumps(small))
    subprocess.run(
        [BUILD / "bin" / "dt-opt", root / "bench" / "gpu" / "flat.json"]
        + ["-o", plans / "gpt3-1.3b-flat.dtplan"],
        check=True,
    )
    fake, ours, real = root / "path", root / "build-gpu" / "bin", BUILD / "bin"
    # Two lines: to one query a head and a GPU, to another two GPUs.
    script(fake / "nvidia-smi", 'echo "name, driver"; echo "none, made up"')
    script(
        ours / "gpu-bw",
        f'exec {real}/fake-gpu-bw --bytes=65536 --repeat=1 "$@"',
    )
    driver = BUILD / "test" / "Gpu" / "driver"
    script(
        ours / "gpu-flat",
        f"LD_LIBRARY_PATH={driver} exec {real}/fake-gpu-flat"
        ' --room=128KiB --repeat=1 "$@"',
    )
    script(ours / "nccl-wave", f"exec {real}/fake-nccl-wave --waves=20")
    killed = root / "killed.py"
    killed.write_text(KILLED)
    # Without the options of NCCL's.
    script(
        ours / "dt-run",
        f'[ -z "$RANK" ] || exec {sys.executable} {killed} "$@"\n'
        "arguments=()\n"
        'for one in "$@"; do case $one in\n'
        "  --transport=nccl | --graph | --one-sided) ;;\n"
        '  *) arguments+=("$one") ;;\n'
        f'esac; done\nexec {real}/dt-run "${{arguments[@]}}"',
    )
    # A compiler is not looked for; what would be built is there.
    script(fake / "cmake", f'echo "cmake $*" >>{root}/cmake.log')
    script(ours / "dt-gpu-tests", f"echo tests >>{root}/cmake.log")
    script(
        fake / "compute-sanitizer",
        'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    )
    script(fake / "ncu", 'echo \'"ID","Metric Value"\'; echo \'"0","1"\'')
    # Of two processes with a GPU each, those of Gloo; a live job is not run.
    live = json.dumps(LIVE)
    script(
        fake / "python3",
        f"case \"$*\" in\n*live_gpu.py*) echo '{live}';;\n"
        f"*pair_rates.py*) exec {sys.executable}"
        ' "$@" --backend=gloo --bytes=1048576 --repeat=3;;\n'
        f'*) exec {sys.executable} "$@";;\nesac',
    )
    library = root / "nccl" / "lib"
    library.mkdir(parents=True)
    (library / "libnccl.so.2").symlink_to(
        BUILD / "test" / "Gpu" / "nccl" / "libnccl.so.2"
    )
    return root


def run(machine, stage):
    """The rows and the table of a stage."""
    out = machine / "out"
    done = subprocess.run(
        [machine / "bench" / "gpu" / "run_all.sh", stage],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "OUT": str(out),
            "DT_NCCL_ROOT": str(machine / "nccl"),
            "PATH": f"{machine}/path:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [
        json.loads(line)
        for line in (out / f"{stage}.jsonl").read_text().splitlines()
    ]
    assert {row["gpu"] for row in rows} == {"none, made up"}
    assert not [row for row in rows if "skipped" in row or "failed" in row]
    table = report.report(out).split(f"### {stage}\n")[1].split("\n###")[0]
    return rows, table


def test_build_takes_what_was_packed(machine):
    rows, table = run(machine, "build")
    assert [row.get("case") for row in rows] == [
        None,
        "plain",
        "memcheck",
        "racecheck",
    ]
    assert "| racecheck |" in table
    deps = machine / ".deps"
    for name in ("flatbuffers", "nlohmann", "CLI", "xxhash.h"):
        assert (deps / "include" / name).exists()
    assert (deps / "googletest" / "CMakeLists.txt").exists()
    log = (machine / "cmake.log").read_text()
    assert log.count("tests") == 3
    assert "-DDT_BUILD_COMPILER=OFF" in log
    header = log.split("-DDT_PLAN_HEADER=")[1].split()[0]
    assert "namespace" in Path(header).read_text()


def test_kernels(machine):
    rows, table = run(machine, "kernels")
    shapes = [row["case"] for row in rows if row["bench"] == "gpu-bw"]
    assert {"contiguous", "thin-16B", "misaligned-2B"} <= set(shapes)
    assert rows[-1]["bench"] == "ncu"
    assert len(rows[-1]["csv"]) == 2
    assert all(f"| {shape} |" in table for shape in shapes)


def test_plans(machine):
    rows, table = run(machine, "plans")
    assert [row["devices"] for row in rows] == [2, 2]
    assert all(row["bytes"] > 0 for row in rows)
    assert "| qwen3-30b-slice |" in table


def test_flat(machine):
    [row], table = run(machine, "flat")
    assert row["bytes_checked"] > 0
    assert 0 < row["state_bytes"] <= row["pages_bytes"]
    assert row["pages_bytes"] + row["staging_bytes"] <= row["limit_bytes"]
    # By the stand-in's own count, which has no staging in it.
    assert row["taken_bytes"] == row["pages_bytes"]
    assert "| gpt3-1.3b-flat |" in table


def test_processes(machine):
    rows, table = run(machine, "processes")
    assert [row["way"] for row in rows] == 3 * [
        [],
        ["--graph"],
        ["--one-sided"],
    ]
    assert all(row["bytes_checked"] > 0 for row in rows)
    assert "| small-waves | --one-sided |" in table


def test_kill(machine):
    [row], table = run(machine, "kill")
    assert (row["name_it"], row["others"]) == (7, 7)
    assert "| 7 of 7 |" in table


def test_waves(machine):
    """Six ways to put a wave on a GPU, each of which runs here."""
    rows, table = run(machine, "waves")
    ways = [row["way"] for row in rows]
    assert len(ways) == 6
    assert {report.OUR_WAY, "one graph", "one-sided"} <= set(ways)
    assert all(row["wave_us"] > 0 for row in rows)
    assert "| one-sided | 20 |" in table


def test_rates(machine):
    rows, table = run(machine, "rates")
    assert [row["channels"] for row in rows] == [1, 8]
    assert "| intra | 8 |" in table


def test_live(machine):
    rows, table = run(machine, "live")
    assert [row["expandable_segments"] for row in rows] == [False, True]
    assert "| on | 1.00 ms |" in table


def test_a_calibration_of_what_was_found_is_one_that_a_request_may_name(
    machine,
):
    """The round trip: measured, reported, named by a request, in the plan."""
    for stage in ("waves", "rates"):
        if not (machine / "out" / f"{stage}.jsonl").exists():
            run(machine, stage)
    measured = machine / "out" / "calibration.json"
    done = subprocess.run(
        [machine / "bench" / "gpu" / "report.py", machine / "out"]
        + ["--calibration", measured],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    request = json.loads(
        (machine / "bench" / "gpu" / "small-waves.json").read_text()
    )
    request["cluster"] = {"calibration": str(measured)}
    plan, path = machine / "one.dtplan", machine / "one.json"
    path.write_text(json.dumps(request))
    subprocess.run(
        [BUILD / "bin" / "dt-opt", path, "-o", plan], check=True, cwd=machine
    )
    shown = json.loads(
        subprocess.run(
            [BUILD / "bin" / "dt-plan", "inspect", plan, "--json"],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
    )
    cluster = json.loads(measured.read_text())["cluster"]
    assert shown["time"]["launch_us"] == cluster["launch_us"]
    assert shown["time"]["channels"]["per_peer"] == 8
