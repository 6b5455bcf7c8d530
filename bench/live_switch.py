"""A trainer's state through a live switch, beside torch's checkpoints.

Usage: torchrun --nproc-per-node=4 bench/live_switch.py [--megabytes N]
       [--repeat N]

A model under FSDP2 with AdamW goes to FSDP2 and back to rows cut otherwise
(HSDP), as a `dynatrain.State`. The same state is saved and loaded by
torch.distributed.checkpoint into the same new objects. Prints one line of JSON:
seconds of each phase (median over the repetitions, of the slowest process), CPU
seconds of `prepare` per process, and what 4 processes had of memory, files,
threads before and after.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import threading
import time

import dynatrain
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STATES = 3  # param, exp_avg, exp_avg_sq, in f32
WIDTH = 1024


def trainer(shape, names, megabytes):
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    layers = max(1, megabytes * 2**20 // (STATES * 4 * WIDTH * WIDTH))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            *(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))
        )
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters())


def step(model, optimizer):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.01)
    optimizer.step()
    optimizer.zero_grad()


def slowest(seconds):
    told = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return told.item()


def timed(work):
    dist.barrier()
    start = time.perf_counter()
    found = work()
    return slowest(time.perf_counter() - start), found


def live(old, new, world):
    """Seconds of (plan, prepare, transfer and commit), CPU of prepare."""
    planning, plan = timed(lambda: dynatrain.plan_between(old, new, world))
    cpu = time.process_time()
    preparing, switch = timed(lambda: plan.prepare(world, old, new))
    waiting, _ = timed(switch.wait)
    cpu = slowest(time.process_time() - cpu)

    def move():
        switch.transfer()
        switch.commit()

    moving, _ = timed(move)
    return planning, preparing + waiting, moving, cpu


def by_checkpoint(old, new, folder):
    """Seconds of a save and a load."""
    model, optimizer = get_state_dict(*old)
    saving, _ = timed(
        lambda: checkpoint.save(
            {"model": model, "optim": optimizer}, checkpoint_id=folder
        )
    )
    model, optimizer = get_state_dict(*new)
    loading, _ = timed(
        lambda: checkpoint.load(
            {"model": model, "optim": optimizer}, checkpoint_id=folder
        )
    )
    return saving + loading


def resources():
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "peak_rss_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        // 1024,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    old = trainer((4,), ("shard",), options.megabytes)
    step(*old)
    new = trainer((2, 2), ("replicate", "shard"), options.megabytes)
    world, rows, checkpoints = dynatrain.World(timeout=120), [], []
    before = resources()
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    for number in range(options.repeat):
        states = (
            dynatrain.State(model=model, optimizer=optimizer)
            for model, optimizer in (old, new)
        )
        rows.append(live(*states, world))
        where = os.path.join(folder[0], str(number))
        checkpoints.append(by_checkpoint(old, new, where))
    names = ("plan_s", "prepare_s", "transfer_commit_s", "prepare_cpu_s")
    medians = map(statistics.median, zip(*rows))
    told = dict(zip(names, (round(one, 4) for one in medians)))
    told["dcp_save_load_s"] = round(statistics.median(checkpoints), 4)
    told |= {"megabytes": options.megabytes, "processes": 4}
    told |= {"cores": os.cpu_count(), "before": before, "after": resources()}
    if dist.get_rank() == 0:
        print(json.dumps(told), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
