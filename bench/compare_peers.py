"""The same change of layout by DynaTrain and by its peers, in one run.

State: tensors of 4096 x 4096 with a bf16 parameter and f32 master weights and
two moments, cut by rows before and by columns after. Prints a JSON line per
method: the machine, median and spread of the seconds, and ratios.

    python bench/compare_peers.py --gb 4.93 --processes 4
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build" / "python"))

import dynatrain  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from dynatrain import _C  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402

EDGE = 4096
STATES = {
    "param": torch.bfloat16,
    "master": torch.float32,
    "exp_avg": torch.float32,
    "exp_avg_sq": torch.float32,
}
NAMES = {torch.bfloat16: "bf16", torch.float32: "f32"}
BYTES_PER_TENSOR = EDGE * EDGE * sum(d.itemsize for d in STATES.values())


def request(processes, tensors, staging):
    """Rows before, columns after."""
    return {
        "model": {
            "tensors": [
                {"name": f"w.{i}", "shape": [EDGE, EDGE], "dtype": "BF16"}
                for i in range(tensors)
            ]
        },
        "state": {state: NAMES[dtype] for state, dtype in STATES.items()},
        "rules": [{"match": "*", "tp": 1, "fsdp": 0, "stage": "first"}],
        "source": {"world": processes, "fsdp": processes},
        "destination": {"world": processes, "tp": processes},
        "cluster": {
            "devices_per_node": processes,
            "intra_node_GBps": 4,
            "inter_node_GBps": 4,
            "latency_us": 50,
        },
        "memory": {"staging": staging, "mode": "rollback"},
    }


def timed(act):
    """Seconds from when all start until the last ends."""
    dist.barrier()
    begin = time.monotonic()
    act()
    mine = time.monotonic() - begin
    slowest = torch.tensor([mine], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


class Rank:
    """One process, with its shards before and after."""

    def __init__(self, rank, processes, tensors, plan, folder):
        self.rank, self.processes, self.folder = rank, processes, folder
        self.plan = dynatrain.Plan.load(plan)
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/rendezvous",
            rank=rank,
            world_size=processes,
            timeout=timedelta(minutes=10),
        )
        self.mesh = init_device_mesh("cpu", (processes,))
        self.keys = [(f"w.{i}", s) for i in range(tensors) for s in STATES]
        rows, columns = (EDGE // processes, EDGE), (EDGE, EDGE // processes)
        self.source = {
            key: self.values(key).expand(EDGE, EDGE)[self.cut()].contiguous()
            for key in self.keys
        }
        self.target = {
            key: torch.zeros(columns, dtype=STATES[key[1]]) for key in self.keys
        }
        assert self.source[self.keys[0]].shape == rows

    def cut(self):
        size = EDGE // self.processes
        return slice(self.rank * size, (self.rank + 1) * size)

    def values(self, key):
        """A column of values; rows of a tensor differ, columns do not."""
        seed = self.keys.index(key)
        column = torch.arange(EDGE, dtype=torch.float32) * 7 + seed * 13
        return (column % 251).to(STATES[key[1]]).unsqueeze(1)

    def check(self, tensors):
        """Every element of every shard after the change."""
        for key in self.keys:
            expected = self.values(key).expand(EDGE, EDGE // self.processes)
            assert torch.equal(tensors[key], expected), key

    def memcpy(self):
        def act():
            for key in self.keys:
                self.target[key].view(-1).copy_(self.source[key].view(-1))

        return {"seconds": timed(act)}

    def gloo(self):
        """Processes of one host: staging is shared between them."""
        return self.switch(shared_memory=True)

    def gloo_pages(self):
        """The source in pages that processes of one host read: one copy."""
        if not hasattr(self, "pages"):
            self.pages = {
                key: dynatrain.paged(tensor, shared=True)
                for key, tensor in self.source.items()
            }
        return self.switch(shared_memory=True, source=self.pages)

    def gloo_wire(self):
        """As between hosts: every message goes over gloo."""
        return self.switch(shared_memory=False)

    def switch(self, shared_memory, source=None):
        for tensor in self.target.values():
            tensor.zero_()
        world = dynatrain.World(shared_memory=shared_memory)
        switch = self.plan.prepare(world, source or self.source, self.target)
        switch.wait()
        seconds = timed(switch.transfer)
        switch.commit()
        self.check(self.target)
        wire = torch.tensor([switch.stats["group_seconds"]])
        dist.all_reduce(wire, dist.ReduceOp.MAX)
        return {"seconds": seconds, "wire_seconds": wire.item()}

    def bare_c10d(self):
        """The bytes of each pair as one message, nothing packed."""
        total = sum(t.nbytes for t in self.source.values())
        share = total // self.processes
        if not hasattr(self, "buffers"):
            self.buffers = {
                peer: (torch.ones(share).byte(), torch.ones(share).byte())
                for peer in range(self.processes)
                if peer != self.rank
            }

        def act():
            work = [
                dist.irecv(to, peer) for peer, (to, _) in self.buffers.items()
            ]
            work += [
                dist.isend(out, peer) for peer, (_, out) in self.buffers.items()
            ]
            for one in work:
                one.wait()

        seconds = timed(act)
        return {"seconds": seconds}

    def wrapped(self, tensors, dim):
        return {
            key: DTensor.from_local(tensor, self.mesh, [Shard(dim)])
            for key, tensor in tensors.items()
        }

    def redistribute(self):
        source = self.wrapped(self.source, 0)
        moved = {}

        def act():
            for key, tensor in source.items():
                moved[key] = tensor.redistribute(
                    self.mesh, [Shard(1)]
                ).to_local()

        seconds = timed(act)
        self.check(moved)
        return {"seconds": seconds}

    def checkpoint(self):
        path = f"{self.folder}/checkpoint"
        before = {
            ".".join(k): t for k, t in self.wrapped(self.source, 0).items()
        }
        for tensor in self.target.values():
            tensor.zero_()
        after = {
            ".".join(k): t for k, t in self.wrapped(self.target, 1).items()
        }
        save = timed(
            lambda: dcp.save(
                before,
                storage_writer=dcp.FileSystemWriter(path, overwrite=True),
            )
        )
        load = timed(
            lambda: dcp.load(after, storage_reader=dcp.FileSystemReader(path))
        )
        self.check(self.target)
        return {"seconds": save + load, "save": save, "load": load}


def work(rank, pipe, arguments, methods, make):
    """All methods; rank 0 sends what they took."""
    torch.set_num_threads(1)
    here = make(rank, *arguments)
    found = {name: [] for name in methods}
    for turn in range(max(methods.values())):
        # In turns, so that other load on the machine falls on all alike.
        for name, repeats in methods.items():
            if turn < repeats:
                found[name].append(getattr(here, name)())
    if rank == 0:
        pipe.send(found)
    dist.barrier()
    os._exit(0)


def run_processes(arguments, methods, make=Rank):
    """The results of rank 0, of `make(rank, *arguments)` in each process."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    children = [
        context.Process(
            target=work, args=(rank, theirs, arguments, methods, make)
        )
        for rank in range(arguments[0])
    ]
    for child in children:
        child.start()
    theirs.close()
    results = ours.recv()
    for child in children:
        child.join()
    return results


def options_of(description, **more):
    """What the benches on this state have in common; `more`: an argument's
    name and its keywords."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "--gb", type=float, default=1.0, help="state, 1e9 bytes"
    )
    parser.add_argument("--staging", default="256MiB")
    for name, keywords in more.items():
        parser.add_argument(f"--{name}", **keywords)
    options = parser.parse_args()
    options.tensors = max(1, round(options.gb * 1e9 / BYTES_PER_TENSOR))
    return options


@contextlib.contextmanager
def compiled(shape):
    """(plan, folder in memory, seconds of compiling), gone afterwards."""
    folder = tempfile.mkdtemp(prefix="dynatrain-bench-", dir="/dev/shm")
    try:
        plan = f"{folder}/bench.dtplan"
        begin = time.monotonic()
        dynatrain.compile(shape, plan)
        yield plan, folder, time.monotonic() - begin
    finally:
        shutil.rmtree(folder)


def facts_of(processes, tensors):
    return {
        "processes": processes,
        "state_bytes": tensors * BYTES_PER_TENSOR,
        **machine(),
    }


def machine():
    with open("/proc/cpuinfo") as info:
        models = [x.split(":")[1].strip() for x in info if "model name" in x]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
    }


def spread(samples):
    return {
        "median_s": round(statistics.median(samples), 4),
        "min_s": round(min(samples), 4),
        "max_s": round(max(samples), 4),
        "runs": len(samples),
    }


def print_results(found, facts):
    """A line per method; ratios say how many times longer a peer took."""
    found["checkpoint-first"] = found["checkpoint"][:1]
    found["checkpoint-second"] = found.pop("checkpoint")[1:]
    medians = {}
    for name, results in found.items():
        samples = [result["seconds"] for result in results]
        medians[name] = statistics.median(samples)
        print(json.dumps({"method": name, **spread(samples), **facts}))
    wire = statistics.median(r["wire_seconds"] for r in found["gloo_wire"])
    all_ours = ("loopback", "gloo", "gloo_pages", "gloo_wire")
    ratios = {
        f"{ours}_over_{peer}": round(medians[peer] / medians[ours], 2)
        for ours in all_ours
        for peer in medians
        if peer not in all_ours
    }
    ratios["gloo_wire_seconds"] = round(wire, 4)
    ratios["gloo_wire_over_bare_c10d"] = round(medians["bare_c10d"] / wire, 2)
    print(json.dumps({"ratios": ratios, **machine()}))


def main():
    options = options_of(
        __doc__,
        processes={"type": int, "default": 4},
        repeats={"type": int, "default": 5},
    )
    shape = request(options.processes, options.tensors, options.staging)
    with compiled(shape) as (plan, folder, _):
        native = _C.Plan.open(plan)
        runs = range(options.repeats)
        found = {"loopback": [_C.loopback(native, False, False) for _ in runs]}
        arguments = (options.processes, options.tensors, plan, folder)
        methods = {
            "memcpy": options.repeats,
            "gloo": options.repeats,
            "gloo_pages": options.repeats,
            "gloo_wire": options.repeats,
            "bare_c10d": options.repeats,
            "redistribute": 2,
            "checkpoint": 2,
        }
        found.update(run_processes(arguments, methods))
    print_results(found, facts_of(options.processes, options.tensors))


if __name__ == "__main__":
    main()
