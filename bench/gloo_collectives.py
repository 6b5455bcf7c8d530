"""Collectives over Gloo: our lowerings and c10d's own, in one run.

    python bench/gloo_collectives.py [--processes 4 8] [--mib 1 16 64 256]
                                     [--repeats 9] [--check]

One tensor of so many MiB is broadcast, gathered by all, or exchanged by all, in
blocks that lie whole on both sides. Ours is a switch's `transfer`: `messages`
as processes of one host have them, `wire` as between hosts, `library` by calls
of c10d that the plan has. c10d's is the same bytes by one call. Prints a JSON
line per case: median seconds of the slowest process, and how many times as fast
as c10d each is. With --check exits with 1 where one of `messages` and `library`
is below 0.95. Figures count on an idle machine alone.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build" / "python"))

import dynatrain  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from compare_peers import timed  # noqa: E402

LEAST_RATIO = 0.95
#: A message waits for its receiver's turn on a core; so it takes longer, the
#: more processes share one.
HOP_US = 75
#: Layouts before and after, of a tensor [n, n, rest] whose first dimension
#: `fsdp` cuts, and whose second `tp` does.
KINDS = {
    "broadcast": (lambda n: {"world": 1}, lambda n: {"world": n, "dp": n}),
    "all_gather": (
        lambda n: {"world": n, "fsdp": n},
        lambda n: {"world": n, "dp": n},
    ),
    "all_to_all": (
        lambda n: {"world": n, "fsdp": n},
        lambda n: {"world": n, "tp": n},
    ),
}
#: What the cluster's `collectives` is, and whether processes share memory.
LOWERINGS = {
    "messages": ("messages", True),
    "wire": ("messages", False),
    "library": ("library", True),
}


def request(kind, processes, mib, collectives):
    before, after = KINDS[kind]
    rest = (mib << 18) // processes**2
    return {
        "model": {
            "tensors": [
                {
                    "name": "w",
                    "shape": [processes, processes, rest],
                    "dtype": "F32",
                }
            ]
        },
        "rules": [{"match": "*", "tp": 1, "fsdp": 0}],
        "source": before(processes),
        "destination": after(processes),
        "cluster": {
            "devices_per_node": processes,
            "intra_node_GBps": 4,
            "inter_node_GBps": 4,
            "latency_us": HOP_US * max(1, processes / (os.cpu_count() or 1)),
            "collectives": collectives,
        },
        "memory": {"staging": "1GiB", "mode": "rollback"},
    }


class Rank:
    """One process, with what it has of the tensor before and after."""

    def __init__(self, rank, processes, folder):
        torch.set_num_threads(1)
        self.rank, self.processes = rank, processes
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/rendezvous",
            rank=rank,
            world_size=processes,
            timeout=timedelta(minutes=10),
        )

    def start(self, kind, mib):
        """The source, the target and what the target shall be."""
        n = self.processes
        whole = torch.arange((mib << 18) // n**2 * n**2, dtype=torch.float32)
        whole = whole.view(n, n, -1)
        part = slice(self.rank, self.rank + 1)
        if kind == "broadcast":
            source = whole.clone() if self.rank == 0 else None
            # The root's is one tensor on both sides, as c10d has it.
            target = source if self.rank == 0 else torch.zeros_like(whole)
            return source, target, whole
        source = whole[part].clone()
        expected = whole if kind == "all_gather" else whole[:, part]
        return source, torch.zeros(expected.shape), expected

    def ours(self, plan, shares_memory, source, target):
        world = dynatrain.World(shared_memory=shares_memory)
        key = ("w", "param")
        before = {} if source is None else {key: source}
        switch = plan.prepare(world, before, {key: target})
        switch.wait()
        switch.warm_up()
        seconds = timed(switch.transfer)
        switch.commit()
        return seconds

    def theirs(self, kind, source, target):
        calls = {
            "broadcast": lambda: dist.broadcast(target, 0),
            "all_gather": lambda: dist.all_gather_single(
                target.view(-1), source.view(-1)
            ),
            "all_to_all": lambda: dist.all_to_all_single(
                target.view(-1), source.view(-1)
            ),
        }
        return timed(calls[kind])

    def seconds_of(self, kind, mib, plans, repeats):
        """By method; they take turns, so that the machine is the same."""
        found = {name: [] for name in [*plans, "c10d"]}
        for _ in range(repeats + 1):
            for name, seconds in found.items():
                source, target, expected = self.start(kind, mib)
                if name == "c10d":
                    seconds.append(self.theirs(kind, source, target))
                else:
                    plan, shares_memory = plans[name], LOWERINGS[name][1]
                    seconds.append(
                        self.ours(plan, shares_memory, source, target)
                    )
                assert torch.equal(target, expected), (kind, name)
        # The first of each makes connections.
        return {name: all_[1:] for name, all_ in found.items()}


def run_rank(rank, processes, folder, options, paths, out):
    own = Rank(rank, processes, folder)
    for (kind, mib), files in paths.items():
        plans = {
            name: dynatrain.Plan.load(path) for name, path in files.items()
        }
        seconds = own.seconds_of(kind, mib, plans, options.repeats)
        if rank == 0:
            out.put((kind, mib, seconds))
    dist.destroy_process_group()


def compiled(processes, sizes, folder):
    """Plan files, by kind and size, and lowering."""
    paths = {}
    for kind in KINDS:
        for mib in sizes:
            for name, (collectives, _) in LOWERINGS.items():
                path = Path(folder) / f"{kind}-{mib}-{name}.dtplan"
                dynatrain.compile(
                    request(kind, processes, mib, collectives), path
                )
                paths.setdefault((kind, mib), {})[name] = str(path)
    return paths


def row_of(processes, kind, mib, seconds):
    medians = {name: statistics.median(all_) for name, all_ in seconds.items()}
    return {
        "processes": processes,
        "kind": kind,
        "mib": mib,
        "seconds": {name: round(own, 6) for name, own in medians.items()},
        "over_c10d": {
            name: round(medians["c10d"] / own, 3)
            for name, own in medians.items()
            if name != "c10d"
        },
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
    }


def run_world(processes, options):
    """The rows of a number of processes."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = compiled(processes, options.mib, folder)
        spawn = multiprocessing.get_context("spawn")
        out = spawn.Queue()
        ranks = [
            spawn.Process(
                target=run_rank,
                args=(rank, processes, folder, options, paths, out),
            )
            for rank in range(processes)
        ]
        for one in ranks:
            one.start()
        for _ in paths:
            rows.append(row_of(processes, *out.get(timeout=600)))
            print(json.dumps(rows[-1]), flush=True)
        for one in ranks:
            one.join()
            if one.exitcode:
                sys.exit("a process failed")
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    slow = [
        f"{row['processes']} processes, {row['kind']}, {row['mib']} MiB: "
        f"{name} is {row['over_c10d'][name]} times as fast as c10d"
        for processes in options.processes
        for row in run_world(processes, options)
        for name in ("messages", "library")
        if row["over_c10d"][name] < LEAST_RATIO
    ]
    print("\n".join(slow), file=sys.stderr, end="\n" if slow else "")
    return 1 if slow and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
