"""The stages of run_all.sh: each appends lines of JSON to OUT/STAGE.jsonl."""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-gpu"
DEPS = ROOT / ".deps"
PLANS = ["qwen3-30b-slice", "gpt3-1.3b-full"]
#: Of a pair: NcclOptions::channelsPerNetPeer.
CHANNELS = 8
#: Until all others have ended when a rank is killed.
SOON = 5.0


class Skip(Exception):
    """Why a stage cannot run here."""


def run(command, **options):
    """Prints and runs; fails with the end of what it wrote."""
    command = [str(part) for part in command]
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, **options)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def rows(text):
    """The lines of JSON in what a program printed."""
    return [json.loads(line) for line in text.splitlines() if line[:1] == "{"]


def gpu_name():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv"]
    try:
        done = subprocess.run(query, capture_output=True, text=True)
    except FileNotFoundError:
        raise Skip("no nvidia-smi: this machine has no GPU") from None
    if done.returncode or len(done.stdout.splitlines()) < 2:
        raise Skip("nvidia-smi finds no GPU")
    return done.stdout.splitlines()[1]


def nccl_root():
    """PyTorch's own NCCL, unless DT_NCCL_ROOT names another."""
    given = os.environ.get("DT_NCCL_ROOT")
    if given:
        return Path(given)
    find = "import nvidia.nccl as n; print(list(n.__path__)[0])"
    done = subprocess.run(
        ["python3", "-c", find], capture_output=True, text=True
    )
    if done.returncode:
        raise Skip("no NCCL beside torch; DT_NCCL_ROOT may name one")
    return Path(done.stdout.strip())


def environment(**more):
    """Ranks that share the GPU find its NCCL, and each other by loopback."""
    library = str(nccl_root() / "lib")
    paths = [library, os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
        "NCCL_SOCKET_IFNAME": "lo",
        **more,
    }


def tool(name):
    path = BUILD / "bin" / name
    if not path.exists():
        raise Skip(f"{path} is missing: run the stage build first")
    return path


def plan(name):
    path = DEPS / "plans" / f"{name}.dtplan"
    if not path.exists():
        raise Skip(f"{path} is missing: bench/gpu/pack.sh makes it")
    return path


# ---- Stages ----


def build():
    """Builds everything there, and runs the tests that need a GPU."""
    if not DEPS.exists():
        raise Skip(f"{DEPS} is missing: bench/gpu/pack.sh makes it")
    gtest = BUILD / "googletest"
    run(
        ["cmake", "-S", DEPS / "googletest", "-B", gtest, "-DBUILD_GMOCK=OFF"]
        + [f"-DCMAKE_INSTALL_PREFIX={BUILD / 'prefix'}"]
    )
    run(["cmake", "--build", gtest, "-j", "--target", "install"])
    start = time.monotonic()
    prefix = f"{DEPS};{BUILD / 'prefix'}"
    run(
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD]
        + ["-DCMAKE_BUILD_TYPE=Release", "-DDT_BUILD_COMPILER=OFF"]
        + ["-DDT_BUILD_TORCH=AUTO", f"-DCMAKE_PREFIX_PATH={prefix}"]
        + [f"-DDT_PLAN_HEADER={DEPS / 'include' / 'plan_generated.h'}"]
        + ["-DCMAKE_CUDA_ARCHITECTURES=native"]
        + [f"-DDT_NCCL_ROOT={nccl_root()}"]
    )
    run(["cmake", "--build", BUILD])
    yield {"bench": "build", "seconds": round(time.monotonic() - start, 1)}
    tests = tool("dt-gpu-tests")
    for name, checker in {
        "plain": [],
        "memcheck": ["compute-sanitizer", "--error-exitcode=9"],
        "racecheck": [
            "compute-sanitizer",
            "--error-exitcode=9",
            "--tool=racecheck",
        ],
    }.items():
        if checker and not shutil.which(checker[0]):
            yield {"bench": "gpu-tests", "case": name, "skipped": "not there"}
            continue
        start = time.monotonic()
        run([*checker, tests, "--gtest_brief=1"])
        seconds = round(time.monotonic() - start, 1)
        yield {"bench": "gpu-tests", "case": name, "seconds": seconds}


def kernels():
    """Shapes against a device-to-device copy; counters of the kernel."""
    yield from rows(run([tool("gpu-bw")]))
    if not shutil.which("ncu"):
        yield {"bench": "ncu", "skipped": "no ncu on PATH"}
        return
    metrics = [
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "launch__registers_per_thread",
    ]
    text = run(
        ["ncu", "--csv", "--metrics", ",".join(metrics), "-k"]
        + ["regex:copyBoxes", "-c", "14", tool("gpu-bw"), "--repeat", "1"]
    )
    yield {
        "bench": "ncu",
        "csv": [x for x in text.splitlines() if x[:1] == '"'],
    }


def plans():
    """Whole plans on one GPU, a thread per device."""
    for name in PLANS:
        yield from rows(run([tool("gpu-bw"), plan(name)]))


def flat():
    """A full state that is replaced in its own size and 1 GiB more."""
    yield from rows(run([tool("gpu-flat"), plan("gpt3-1.3b-flat")]))


def processes():
    """NCCL between processes that share the GPU, all bytes checked."""
    for name in ["small-waves", *PLANS]:
        for way in [[], ["--graph"], ["--one-sided"]]:
            command = [tool("dt-run"), "--transport=nccl", "--check", "--json"]
            [row] = rows(run([*command, *way, plan(name)], env=environment()))
            yield {"bench": "nccl-run", "case": name, "way": way, **row}


def kill():
    """One rank is killed; how long the others take to end, and whom they
    name."""
    with tempfile.TemporaryDirectory() as store:
        command = [str(tool("dt-run")), "--transport=nccl", "--check"]
        command += [f"--store={store}", str(plan("gpt3-1.3b-full"))]
        ranks = [
            subprocess.Popen(
                command,
                env=environment(
                    RANK=str(rank),
                    LOCAL_RANK=str(rank),
                    WORLD_SIZE="8",
                    NCCL_HOSTID=f"h{rank}",
                ),
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(8)
        ]
        # All alive, and connecting or further.
        alive = Path(store)
        while sum("alive" in str(p) for p in alive.rglob("*")) < 8:
            if any(rank.poll() is not None for rank in ranks):
                raise RuntimeError(ranks[0].communicate()[1])
            time.sleep(0.05)
        os.kill(ranks[1].pid, signal.SIGKILL)
        start = time.monotonic()
        words = [rank.communicate(timeout=120)[1] for rank in ranks]
        seconds = time.monotonic() - start
    print("\n".join(words))
    others = words[:1] + words[2:]
    yield {
        "bench": "kill",
        "seconds": round(seconds, 2),
        "limit_s": SOON,
        "name_it": sum("rank 1" in text for text in others),
        "others": len(others),
    }


def waves():
    """What a wave costs beside its bytes, by the way that it is enqueued."""
    yield from rows(run([tool("nccl-wave")], env=environment()))


def rates():
    """What a pair carries by one channel, and by as many as `dt-run` asks
    for."""
    listed = run(["nvidia-smi", "-L"])
    if len(listed.splitlines()) < 2:
        raise Skip("a pair needs two GPUs, and there is one")
    for channels in (1, CHANNELS):
        text = run(
            ["python3", "-m", "torch.distributed.run", "--standalone"]
            + ["--nproc-per-node=2", ROOT / "bench" / "gpu" / "pair_rates.py"],
            env=environment(
                NCCL_MAX_P2P_NCHANNELS=str(channels),
                NCCL_NCHANNELS_PER_NET_PEER=str(channels),
            ),
        )
        for row in rows(text):
            yield {**row, "channels": channels}


def live():
    """A switch beside a training loop with a captured step."""
    for segments in ("False", "True"):
        text = run(
            ["python3", "-m", "torch.distributed.run", "--standalone"]
            + ["--nproc-per-node=2", ROOT / "bench" / "gpu" / "live_gpu.py"]
            + [plan("small-waves")],
            env=environment(
                PYTHONPATH=str(BUILD / "python"),
                PYTORCH_CUDA_ALLOC_CONF=f"expandable_segments:{segments}",
            ),
        )
        for row in rows(text):
            yield {**row, "expandable_segments": segments == "True"}


STAGES = {
    stage.__name__: stage
    for stage in (
        build,
        kernels,
        plans,
        flat,
        processes,
        kill,
        waves,
        rates,
        live,
    )
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    path = options.out / f"{options.stage}.jsonl"
    about = {"stage": options.stage, "host": platform.node()}
    try:
        about["gpu"] = gpu_name()
        with path.open("w") as file:
            for row in STAGES[options.stage]():
                file.write(json.dumps({**about, **row}) + "\n")
                file.flush()
    except Skip as why:
        path.write_text(json.dumps({**about, "skipped": str(why)}) + "\n")
        print(f"skipped: {why}")
    except RuntimeError as error:
        with path.open("a") as file:
            file.write(json.dumps({**about, "failed": str(error)}) + "\n")
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
