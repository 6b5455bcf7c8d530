"""The forms in which a trainer may hand in its tensors."""

import os
import subprocess
import sys

import dynatrain
from conftest import BUILD, HANGS, PATHS, ROOT
from processes import dist, make_tensors, run_ranks, torch

PLAN = "adamw-mlp-4-rows-to-columns"


def _forms(rank, store, path, folder):
    """Nested dicts, DTensors and parameters; user data reaches all."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/pg", rank=rank, world_size=4
    )
    mesh = init_device_mesh("cpu", (4,))
    plan = dynatrain.Plan.load(path)
    source, target = make_tensors(plan, rank)
    nested = {}
    for (name, state), (tensor,) in source.items():
        tensor.fill_(rank + 1)
        if name == "2.weight":
            tensor = DTensor.from_local(tensor, mesh, [Shard(0)])
        elif state == "param":
            tensor = torch.nn.Parameter(tensor)
        nested.setdefault(state, {})[name] = tensor
    note = {"step": 7} if rank == 2 else None
    with plan.prepare(
        dynatrain.World(timeout=60), nested, target, user_data=note
    ) as switch:
        switch.transfer()
        switch.commit()
    assert switch.user_data == {"step": 7}
    moved = target["2.weight", "param"][0]
    rows = torch.arange(256).div(64, rounding_mode="floor") + 1.0
    assert torch.equal(moved, rows.unsqueeze(1).expand(256, 128))
    return nested is not None


def test_forms_of_tensors(compile_plan, tmp_path):
    path = compile_plan(PLAN)
    outcomes = run_ranks(4, _forms, tmp_path, path, str(tmp_path))
    assert outcomes == [True] * 4


def test_what_stays_in_place(compile_plan):
    plan = dynatrain.Plan.load(compile_plan(PLAN))
    stays = {
        entry.tensor
        for entry in plan.expected(1)
        if entry.in_place and entry.state == "param"
    }
    assert stays == {"0.weight", "0.bias", "2.bias"}
    # Other dtypes, but for one state: of that, layers whose ranges stay.
    moves = dynatrain.Plan.load(compile_plan("llama-tiny-8-change-dtypes"))
    stays = {
        (entry.tensor, entry.state)
        for entry in moves.expected(0)
        if entry.in_place and entry.side == "destination"
    }
    attention = "decoder.layers.{}.self_attention.linear_qkv.layer_norm_weight"
    assert stays == {
        (attention.format(1), "exp_avg_sq"),
        (attention.format(2), "exp_avg_sq"),
        ("decoder.layers.2.mlp.linear_fc1.layer_norm_weight", "exp_avg_sq"),
    }


def _environment():
    return {
        **os.environ,
        "PYTHONPATH": PATHS,
        "OMP_NUM_THREADS": "1",
    }


def test_example_under_torchrun(compile_plan):
    script = ROOT / "examples" / "reshape_adamw.py"
    assert len(script.read_text().splitlines()) < 60
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        + ["--nproc-per-node=4", script, compile_plan(PLAN)],
        capture_output=True,
        text=True,
        env=_environment(),
        timeout=HANGS,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("791040 bytes compared, all right") == 4


def _dt_run(*arguments, **options):
    return subprocess.run(
        [BUILD / "bin" / "dt-run", "--transport=gloo", *arguments],
        capture_output=True,
        timeout=HANGS,
        **options,
    )


def test_dt_run_starts_processes(compile_plan):
    path = compile_plan(PLAN)
    with open(path, "rb") as plan:
        run = _dt_run(
            "--check", "--json", "--python", sys.executable, "-", stdin=plan
        )
    assert run.returncode == 0, run.stderr
    found = dynatrain.compiler.json.loads(run.stdout)
    assert found["ok"] and found["bytes_checked"] == 4 * 791040
    assert {"ok", "bytes_checked", "mismatches", "seconds", "GBps"} < set(found)


def test_dt_run_without_torch(compile_plan):
    path = compile_plan(PLAN)
    run = _dt_run("--python", "/no/such/python", path)
    assert run.returncode == 1
    assert b"cannot run '/no/such/python': no such program" in run.stderr
