"""One process of a run without a trainer: what dt-run starts.

Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them::

    torchrun --nproc-per-node=4 -m dynatrain.worker shrink.dtplan --check
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import _C
from .errors import Error
from .plan import Plan
from .world import World


def run(
    plan: Plan,
    world: World,
    check: bool,
    digests: bool,
    place: str | torch.device = "cpu",
    in_place: bool = False,
) -> dict[str, Any]:
    """Allocates this process's tensors, moves and, if asked to, checks them.

    in_place: what the change leaves as it is becomes one tensor for both sides.
    """
    device = plan.devices[world.rank]
    sides: dict[str, dict] = {"source": {}, "destination": {}}
    bound = []
    for entry in plan.expected(device):
        tensor = torch.empty(entry.shape, dtype=entry.dtype, device=place)
        shards = sides[entry.side].setdefault((entry.tensor, entry.state), [])
        shards.append(tensor)
        bound.append(
            _C.Tensor(
                entry.tensor,
                entry.state,
                entry.side == "source",
                entry.ordinal,
                tensor,
            )
        )
    if check:
        _C.fill_pattern(plan._native, device, bound)
    if in_place:
        bound = _share(plan, device, sides, bound)
    switch = plan.prepare(
        world,
        source_tensors=sides["source"],
        destination_tensors=sides["destination"],
        digests=digests,
    )
    switch.transfer()
    switch.commit()
    result = dict(switch.stats)
    result["bytes_checked"], result["mismatches"], result["first"] = 0, 0, []
    if check:
        result.update(_C.check_pattern(plan._native, device, bound))
    return result


def _share(
    plan: Plan, device: int, sides: dict[str, dict], bound: list[_C.Tensor]
) -> list[_C.Tensor]:
    """Gives source tensors for destination tensors that stay in place."""
    shared = []
    for entry, own in zip(plan.expected(device), bound):
        if entry.side == "destination" and entry.in_place:
            key = (entry.tensor, entry.state)
            tensor = sides["source"][key][entry.ordinal]
            sides["destination"][key][entry.ordinal] = tensor
            own = _C.Tensor(*key, False, entry.ordinal, tensor)
        shared.append(own)
    return shared


def local_device(kind: str) -> torch.device:
    """Of GPUs the local rank's, in turn where there are fewer."""
    if kind == "cpu":
        return torch.device(kind)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    count = torch.cuda.device_count()
    if count == 0:
        raise Error("torch finds no GPU")
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > count:
        # Before NCCL reads its environment.
        version = torch.cuda.nccl.version()
        for name, value in shared_gpu_settings(local, version).items():
            os.environ.setdefault(name, value)
    torch.cuda.set_device(local % count)
    return torch.device(kind, local % count)


def shared_gpu_settings(rank: int, version: tuple[int, ...]) -> dict[str, str]:
    """What lets several ranks of a communicator use one GPU, which NCCL
    refuses: from 2.30.3 on a switch, before that a host of its own for each
    rank, so that all bytes go through sockets."""
    if tuple(version) >= (2, 30, 3):
        return {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    return {"NCCL_HOSTID": f"dynatrain-rank-{rank}"}


def combine(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The run as a whole, with the keys of dt-run --json."""
    moved = sum(r["bytes_received"] + r["bytes_copied"] for r in results)
    seconds = max(r["seconds"] for r in results)
    mismatches = sum(r["mismatches"] for r in results)
    return {
        "ok": mismatches == 0,
        "bytes_checked": sum(r["bytes_checked"] for r in results),
        "mismatches": mismatches,
        "seconds": seconds,
        "GBps": moved / seconds / 1e9 if seconds > 0 else 0,
        "staging_peak": max(r["staging_peak"] for r in results),
    }


def gather(
    store: dist.Store, rank: int, size: int, mine: dict[str, Any]
) -> list[dict[str, Any]]:
    """All results on rank 0, the last to leave: its process may hold the
    store, so the others only send and never wait for an answer."""
    store.set(f"result/{rank}", json.dumps(mine))
    if rank != 0:
        return [mine]
    return [json.loads(store.get(f"result/{r}")) for r in range(size)]


def report(results: list[dict[str, Any]], check: bool, as_json: bool) -> bool:
    """Prints the run; True when all bytes are right."""
    total = combine(results)
    for result in results:
        for line in result["first"]:
            print(f"mismatch: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps(total, separators=(",", ":")))
        return total["ok"]
    moved = round(total["GBps"] * total["seconds"] * 1e9)
    print(
        f"moved {moved} bytes in {total['seconds']:.3f} s "
        f"({total['GBps']:.2f} GB/s), "
        f"staging peak {total['staging_peak']} bytes"
    )
    if check:
        print(
            f"checked {total['bytes_checked']} bytes: "
            f"{total['mismatches']} mismatches"
        )
    return total["ok"]


def main() -> int:
    """Exit code 0 only when every byte is where the plan promises."""
    parser = argparse.ArgumentParser(prog="python -m dynatrain.worker")
    parser.add_argument("plan")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("--no-shared-memory", action="store_true")
    parser.add_argument("--one-sided", action="store_true")
    options = parser.parse_args()
    try:
        plan = Plan.load(options.plan)
        size = int(os.environ["WORLD_SIZE"])
        limit = timedelta(seconds=options.timeout)
        store, rank, size = next(dist.rendezvous("env://", timeout=limit))
        prefix = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"dynatrain-worker/{prefix}", store)
        world = World(
            store=store,
            rank=rank,
            world_size=size,
            backend=options.backend,
            timeout=options.timeout,
            shared_memory=not options.no_shared_memory,
            one_sided=options.one_sided,
        )
        place = local_device(options.device)
        mine = run(plan, world, options.check, options.digests, place)
        results = gather(store, rank, size, mine)
    except KeyError as error:
        print(f"error: {error} is not set, expected torchrun", file=sys.stderr)
        return 1
    except (Error, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if rank != 0:
        return 0
    return 0 if report(results, options.check, options.json) else 1


if __name__ == "__main__":
    sys.exit(main())
