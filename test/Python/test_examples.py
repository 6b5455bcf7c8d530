"""The trainers of examples/ train, and switch live through several layouts; all
their state is right, and the losses are those of runs without switches."""

import importlib.util
import os
import re
import subprocess
import sys

import example_runs
import pytest
from conftest import HANGS, HERE, PATHS, ROOT

EXAMPLES = ROOT / "examples"
MOST_GLUE = 10

for name in ("torch", "dynatrain"):
    pytest.importorskip(name)


def needs(*packages):
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"{', '.join(missing)} is not installed"
    )


def run_example(path, *runs, torchrun=False):
    """What the example prints in four processes: a text for each of the runs,
    which are given as their options."""
    environment = os.environ | {
        "PYTHONPATH": PATHS,
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable]
    if torchrun:
        command += ["-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node=4"]
    command += [HERE / "example_runs.py", EXAMPLES / path, *runs]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True
    ) as agent:
        try:
            printed, errors = agent.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            agent.terminate()  # torchrun then ends its workers; killed, not
            raise
    assert agent.returncode == 0, printed[-2000:] + errors[-6000:]
    *texts, rest = printed.split(example_runs.END)
    assert len(texts) == len(runs) and not rest.strip(), printed
    return texts


LEAVES = """
import atexit, os, sys, tempfile
import cpu, torch, torch.distributed as dist


class Freed:
    def __del__(self, write=os.write):
        write(1, b"Python has ended\\n")


kept = Freed()
atexit.register(print, "exit handlers", flush=True)
store = dist.FileStore(tempfile.mktemp(), 1)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
if len(sys.argv) > 1:
    raise ZeroDivisionError
cpu.leave()
"""


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        ([], 0, ["exit handlers"]),
        (["wrong"], 1, ["exit handlers", "Python has ended"]),
    ],
)
def test_a_process_leaves_before_gloo_lets_go(arguments, code, printed):
    """Of a collective's tensors, for which its threads need Python."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEAVES, *arguments],
        env=os.environ | {"PYTHONPATH": f"{EXAMPLES}:{PATHS}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == code
    assert done.stdout.splitlines() == printed


def glue(path):
    """The lines that a trainer needs beside the registration of its state."""
    text = (EXAMPLES / path).read_text()
    between = re.search(r"# glue begins\n(.*?)# glue ends", text, re.S)[1]
    return [line for line in between.splitlines() if line.strip()]


MEGATRON = "megatron/switching.py"
TORCHTITAN = "torchtitan/switching.py"
HUGGINGFACE = "huggingface/switching.py"
RL = "rl/switching.py"


def check_losses(printed, layouts):
    """They were held against a run without switches in every layout."""
    found = re.search(
        r"losses differ by (\S+) from the nearest of (\d+) runs .* is (\S+)",
        printed,
    )
    assert found and int(found[2]) == layouts, printed
    assert float(found[1]) <= float(found[3]), printed


def noise():
    """examples/noise.py as a module."""
    spec = importlib.util.spec_from_file_location(
        "noise", EXAMPLES / "noise.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNS = [[4.0, 3.0, 2.0], [4.0, 3.125, 2.25], [4.0, 2.875, 2.125]]


@pytest.mark.parametrize(
    ("losses", "within"),
    [
        (RUNS[1], True),
        ([4.0, 3.125, 2.5], True),
        ([4.0, 3.125, 2.5625], False),
        ([4.0, 3.5, 2.125], False),
        ([4.0, 3.0, 4.0], False),
    ],
    ids=["one-of-them", "within", "beyond", "for-a-step", "no-fall"],
)
def test_noise_is_what_runs_without_switches_differ_by(losses, within):
    if within:
        assert "differ by" in noise().compare(losses, RUNS)
    else:
        with pytest.raises(AssertionError, match="of 3 runs"):
            noise().compare(losses, RUNS)


def test_runs_that_are_equal_have_the_noise_of_one_place():
    place = 2.0**-22  # of a float32 between 2 and 4
    assert " 0.00e+00 from" in noise().compare([2.0, 1.0], [[2.0, 1.0]] * 2)
    assert "differ by" in noise().compare([2.0, 1.0 + place], [[2.0, 1.0]] * 2)
    with pytest.raises(AssertionError):
        noise().compare([2.0, 1.0 + 2 * place], [[2.0, 1.0]] * 2)


@needs("megatron.core")
def test_megatron():
    *checked, single = run_example(
        MEGATRON,
        "--steps 1 --check",
        "--steps 1 --check --experts",
        "--steps 1 --single --without-zero",
    )
    for printed in checked:
        assert printed.count("values are right") == 4, printed
        check_losses(printed, 4)
    assert len(single.splitlines()) > 4, single


@needs("torchtitan")
def test_torchtitan():
    (printed,) = run_example(TORCHTITAN, "--steps 1 --check")
    assert printed.count("values are right") == 3, printed
    check_losses(printed, 3)


@needs("transformers", "peft")
def test_huggingface():
    for printed in run_example(
        HUGGINGFACE, "--check --steps 1", "--check --lora --steps 1"
    ):
        assert printed.count("values are right") == 4, printed
        check_losses(printed, 4)


def test_rl():
    everything, changed = (
        [int(line.split()[0]) for line in printed.split("\n") if line]
        for printed in run_example(
            RL, "", "--disjoint --changed-only", torchrun=True
        )
    )
    assert len(everything) == 4 and len(set(everything)) == 1
    assert changed[0] * 2 == changed[1] * 3 == changed[3] * 3


def launch(path, *options, forked=True, **environment):
    """What a launcher of an elastic job prints. forked: its processes need not
    import what they have in common."""
    command = [HERE / "forked_launch.py"] if forked else []
    done = subprocess.run(
        [sys.executable, *command, EXAMPLES / path, *options],
        env=os.environ | environment | {"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    "options", [[], ["--moe"], ["--flat"]], ids=["dense", "moe", "flat"]
)
def test_elastic_gpt(options):
    """Its losses and every byte are checked by the example itself."""
    printed = launch("elastic_gpt/launch.py", *options, forked=bool(options))
    assert "worlds of 4 -> 6 -> 3 -> 4 processes" in printed
    assert re.search(r"all state is right: [1-9]\d+ bytes", printed)
    keys = re.search(r"keys left: (.*)", printed)[1].split()
    assert len(keys) == 2 and keys[0] == "dynatrain/job", keys


of_frameworks = pytest.mark.parametrize(
    "path",
    [
        pytest.param("elastic_megatron", marks=needs("megatron.core")),
        pytest.param("elastic_torchtitan", marks=needs("torchtitan")),
    ],
)


@of_frameworks
def test_elastic_frameworks(path):
    """Trainers of others, with joiners and leavers: every value is checked, and
    the losses, by the example itself."""
    printed = launch(f"{path}/launch.py", PYTHONWARNINGS="ignore")
    assert "worlds of 4 -> 6 -> 3 -> 4 processes" in printed
    assert re.search(r"all state is right: [1-9]\d+ (values|bytes)", printed)
    check_losses(printed, 2)
    keys = re.search(r"keys left: (.*)", printed)[1].split()
    assert len(keys) == 2 and keys[0] == "dynatrain/job", keys


@of_frameworks
def test_elastic_frameworks_lose_a_process(path):
    """Their groups are cut, and a layout is found for those that are left."""
    quiet = {"PYTHONWARNINGS": "ignore"}
    printed = launch(f"{path}/launch.py", "--lose", **quiet)
    assert "worlds of 4 -> 3 processes" in printed
    check_losses(printed, 2)


@pytest.mark.parametrize(
    ("option", "worlds"),
    [("--lose", "4 -> 3 -> 2"), ("--torchrun", "4 -> 3 -> 4")],
)
def test_elastic_gpt_loses_processes(option, worlds):
    """Losses after each are those of a run that has lost nothing."""
    printed = launch("elastic_gpt/launch.py", option)
    assert f"worlds of {worlds} processes" in printed
    assert "differ by" in printed


@needs("ray")
def test_elastic_ray(tmp_path):
    """Losses are those of a process that trains alone: the example checks."""
    # Ray keeps a token at home.
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)}
    printed = launch("elastic_ray.py", forked=False, **quiet)
    # Ray takes longer than the others need to go on without it, or not.
    assert re.search(r"worlds of 3 -> (2 -> )?3 processes", printed)
    assert "that of the process that came again: 3" in printed
    assert "differ by" in printed


def test_elastic_pipeline():
    """Layers move to where the partition's optimum has them, at the job's own
    request. State, order and losses are checked by the example itself."""
    printed = launch("elastic_pipeline/launch.py")
    assert ": layers [4, 4, 4, 4] -> [5, 3, 3, 5]\n" in printed
    assert "1.333 of the optimum before, 1.000 after" in printed
    assert re.search(r"all state is right, .*: [1-9]\d+ bytes", printed)


def write_sides(record, folder, *sides):
    """What two ranks hold of a tensor and of a counter, before and after."""
    import torch

    for side, parts in zip(("before", "after"), sides):
        at = folder / "2" / side
        at.mkdir(parents=True)
        for rank, (offset, values, steps) in enumerate(parts):
            piece = record.Piece(
                torch.tensor(values), (4,), (offset,), (len(values),)
            )
            rest = {"shared": {"step": 3}, "merged": {"counters": steps}}
            held = {("w", "param"): record.part_of(piece)}, rest
            torch.save(held, at / f"{rank}.pt")


BEFORE = [(0, [1.0, 0.0], {"w": 5}), (2, [3.0, 4.0], {"v": 6})]
WRONG = {
    "a-sign": [(0, [1.0, -0.0, 3.0], {"w": 5}), (3, [4.0], {"v": 6})],
    "another-place": [(0, [1.0, 3.0, 0.0], {"w": 5}), (3, [4.0], {"v": 6})],
    "a-hole": [(0, [1.0, 0.0], {"w": 5}), (3, [4.0], {"v": 6})],
    "a-counter": [(0, [1.0, 0.0, 3.0], {"w": 5}), (3, [4.0], {"v": 5})],
    "a-counter-too-few": [(0, [1.0, 0.0, 3.0], {"w": 5}), (3, [4.0], {})],
}


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_what_a_record_sees(tmp_path, wrong):
    """Of a switch after which something is not where or what it was."""
    sys.path.insert(0, str(EXAMPLES))
    import record

    right = [(0, [1.0, 0.0, 3.0], {"w": 5}), (3, [4.0], {"v": 6})]
    write_sides(record, tmp_path, BEFORE, WRONG.get(wrong, right))
    if wrong is None:
        assert record.check(tmp_path) == 4 * 4
        return
    with pytest.raises(AssertionError):
        record.check(tmp_path)


@pytest.mark.parametrize("path", [MEGATRON, TORCHTITAN, HUGGINGFACE, RL])
def test_glue_is_short(path):
    lines = glue(path)
    assert 0 < len(lines) <= MOST_GLUE, lines
    assert not re.findall(r"\._[a-z]\w*", "\n".join(lines))
