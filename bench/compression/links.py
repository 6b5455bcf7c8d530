"""Moves the state of a trained model over slow links, as it is and compressed.

A small language model is trained (trained.py), and all its state goes from one
host to another: two network namespaces whose link is shaped to each rate. Three
plans do it: one as it is, one that compresses, and one that compresses and
leaves out the parameters, which the receiver makes of their masters. Every byte
is compared. Prints a JSON line per rate: seconds of each, the best of several
runs, how much faster the compressed ones are, and what each state became.

    python bench/compression/links.py [--megabits 100 1000 10000] [--runs 3]

Needs root, for the namespaces. --check: exit code 1 where a byte differs, where
compression gains less than 1.15 at 100 Mb/s and 1 Gb/s, or is used at 10 Gb/s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import network  # noqa: E402
import trained  # noqa: E402

BUILD = Path(os.environ.get("DT_BUILD", HERE.parents[1] / "build"))
PORT = 29517
PLANS = ("as it is", "compressed", "rebuilt")
LEAST_GAIN, FAST = 1.15, 10_000


def request_of(state: dict, plan: str, megabits: float) -> dict:
    """All of it on device 0, then all on device 1, each on its own host."""
    tensors = [
        {
            "name": name,
            "shape": list(states["param"].shape),
            "state": {"param": "bf16"}
            | {other: "f32" for other in states if other != "param"},
        }
        for name, states in state.items()
    ]
    request = {
        "model": {"tensors": tensors},
        "rules": [{"match": "*", "replicate": True}],
        "source": {"world": 1, "devices": [0]},
        "destination": {"world": 1, "devices": [1]},
        "cluster": {
            "devices_per_node": 1,
            "inter_node_GBps": megabits / 8000,
            "latency_us": 100,
        },
        "memory": {"staging": "64MiB"},
    }
    if plan != "as it is":
        # Above all rates here: the rule is what decides.
        request["compression"] = {"below_GBps": 100}
    if plan == "rebuilt":
        request["derive"] = {"param": "master"}
    return request


def compile_plan(request: dict, path: Path) -> None:
    asked = path.with_suffix(".json")
    asked.write_text(json.dumps(request))
    tool = BUILD / "bin" / "dt-opt"
    subprocess.run([tool, asked, "-o", path], check=True)
    tool = BUILD / "bin" / "dt-plan"
    subprocess.run([tool, "verify", path], check=True, capture_output=True)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def run_rank(rank: int, plans: list[str], path: str, runs: int) -> None:
    """One process, started in its namespace: all plans in turn, so that what
    else the machine does meets all; prints what it found of each run."""
    import dynatrain

    state = torch.load(path)
    flat = {
        (name, kind): tensor
        for name, states in state.items()
        for kind, tensor in states.items()
    }
    store = dist.TCPStore(
        "10.77.0.1", PORT, is_master=rank == 0, timeout=timedelta(seconds=600)
    )
    found: list[dict] = []
    for number, plan in enumerate(plans * runs):
        world = dynatrain.World(
            store=dist.PrefixStore(f"run/{number}", store),
            rank=rank,
            world_size=2,
        )
        here = {key: torch.zeros_like(value) for key, value in flat.items()}
        sides = [flat, {}] if rank == 0 else [{}, here]
        switch = dynatrain.Plan.load(plan).prepare(world, *sides)
        switch.transfer()
        switch.commit()
        found.append(dict(switch.stats))
        if rank == 1:
            found[-1]["differ"] = sum(
                int((bits(here[key]) != bits(flat[key])).sum()) for key in flat
            )
    # The process with the store is the last to leave.
    store.set(f"over/{rank}", "1")
    store.wait(["over/0", "over/1"])
    print(json.dumps(found))


def run(
    hosts: list[str], plans: list[Path], state: Path, runs: int
) -> list[list[dict]]:
    """What each rank has found of each run."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(BUILD / "python"),
        "OMP_NUM_THREADS": "1",
    }
    workers = [
        network.start(
            host,
            sys.executable,
            __file__,
            *("--rank", str(rank), "--plans", *map(str, plans)),
            *("--state", str(state), "--runs", str(runs)),
            env={**environment, "GLOO_SOCKET_IFNAME": host},
            stdout=subprocess.PIPE,
        )
        for rank, host in enumerate(hosts)
    ]
    outputs = [worker.communicate()[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        raise SystemExit("a rank has failed")
    return [json.loads(output) for output in outputs]


def row_of(sender: dict, receiver: dict) -> dict:
    states = sender["compressed"]
    return {
        "seconds": max(sender["seconds"], receiver["seconds"]),
        "bytes": sender["bytes_sent"],
        "differ": receiver["differ"],
        "ratios": {
            kind: round(raw / sent, 3) for kind, (raw, sent) in states.items()
        },
    }


def measure(megabits: float, state: dict, folder: Path, runs: int) -> dict:
    """The best run of each plan."""
    paths = [folder / f"{plan.split()[0]}.dtplan" for plan in PLANS]
    for plan, path in zip(PLANS, paths):
        compile_plan(request_of(state, plan, megabits), path)
    with network.two_hosts(megabits) as hosts:
        ends = run(hosts, paths, folder / "state.pt", runs)
    best = {}
    for number, plan in enumerate(PLANS):
        rows = [
            row_of(*both) for both in list(zip(*ends))[number :: len(PLANS)]
        ]
        best[plan] = min(rows, key=lambda row: row["seconds"])
        best[plan]["differ"] = sum(row["differ"] for row in rows)
    plain = best["as it is"]["seconds"]
    for plan in PLANS[1:]:
        best[plan]["faster"] = round(plain / best[plan]["seconds"], 3)
    return {"megabits": megabits, **best}


def is_right(found: dict) -> bool:
    if any(found[plan]["differ"] for plan in PLANS):
        return False
    packed = found["compressed"]
    if found["megabits"] >= FAST:
        return all(ratio == 1 for ratio in packed["ratios"].values())
    return found["rebuilt"]["faster"] >= LEAST_GAIN


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--megabits", type=float, nargs="+", default=[100, 1000, 10000]
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--plans", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--state", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    given = options()
    if given.rank is not None:
        run_rank(given.rank, given.plans, given.state, given.runs)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        state, losses = trained.train(given.width, given.layers, given.steps)
        torch.save(state, folder / "state.pt")
        nbytes = sum(t.nbytes for s in state.values() for t in s.values())
        print(
            json.dumps(
                {
                    "state_bytes": nbytes,
                    "steps": given.steps,
                    "loss": [round(losses[0], 2), round(losses[-1], 2)],
                }
            ),
            flush=True,
        )
        right = True
        for megabits in given.megabits:
            found = measure(megabits, state, folder, given.runs)
            right &= is_right(found)
            print(json.dumps(found), flush=True)
    return 0 if right or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
