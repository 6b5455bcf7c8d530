"""What an elastic job costs a trainer, beside a restart from a checkpoint.

Usage: bench/elastic_job.py [--processes 4] [--megabytes 256] [--switches 6]
       [--steps 40]
       bench/elastic_job.py --of FOLDER

A trainer holds a matrix and its two moments, cut by rows or by columns. Under a
`dynatrain.Job` it goes from one cut to the other and back, again and again,
while it trains. Then the same trainer is stopped, saved by
torch.distributed.checkpoint, started again in the other cut, and loaded. All
processes are of this machine, over Gloo.

Prints one line of JSON. downtime_s and restart_s: seconds that training stands
still for a switch (median, of the slowest process) and for a restart, from the
end of a step to the beginning of the next one. copy_s: of a copy of the same
bytes, all processes at once. By the traces of the switches, medians, each of
the process that takes longest: stands_s, transfer_s, beside_transfer_s (what of
the first is not the second), phases_s (what that is).
boundary_us: microseconds of `boundary` where
there is nothing to do, and step_us of a step. connections_after: that the steps
after all switches have made first, in all processes. driver_cpu: CPU seconds
per second that an idle process's part in the job takes, without Gloo's own
threads.

With --of: what stands_s and the others are in the traces of another job, such
as one of examples/elastic_gpt/launch.py --trace FOLDER.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/python"))

import dynatrain  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from dynatrain.connections import open_sockets  # noqa: E402
from dynatrain.job_trace import merged  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402

STATES = ("param", "exp_avg", "exp_avg_sq")
COLUMNS = 4096
TIMEOUT = 120.0
IDLE_SECONDS = 5.0
# What a trainer that stands waits for, beside the transfer, by its trace.
PHASES = ("build", "plan", "verify", "decide", "adopt")


class Matrix(dynatrain.Part):
    """An equal share of the rows (dim 0) or columns (dim 1) of each state."""

    def __init__(self, rows, dim, rank, size, device="cpu"):
        self.shape, self.dim = (rows, COLUMNS), dim
        self.offset, self.size = [0, 0], list(self.shape)
        self.size[dim] //= size
        self.offset[dim] = rank * self.size[dim]
        self.own = {
            state: torch.full(self.size, 1.0, device=device) for state in STATES
        }
        if device == "meta":
            self.own = {k: dynatrain.hollow(v) for k, v in self.own.items()}

    def tensors(self):
        where = self.shape, tuple(self.offset), tuple(self.size)
        return {
            ("w", state): dynatrain.capture.Piece(own, *where)
            for state, own in self.own.items()
        }

    def distributed(self, mesh):
        """The same storage, as torch's checkpoints take it."""
        return {
            state: DTensor.from_local(own, mesh, [Shard(self.dim)])
            for state, own in self.own.items()
        }


def train(matrix, group, work):
    """A step: some arithmetic, and an exchange that all wait for."""
    torch.mm(work, work)
    matrix.own["exp_avg"][:64].mul_(0.999)
    told = torch.ones(1)
    dist.all_reduce(told, group=group)


def slowest(seconds, group):
    told = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(told, op=dist.ReduceOp.MAX, group=group)
    return told.item()


def timed_copy(matrix, group):
    """Each process copies what it holds to memory that it has touched."""
    there = {state: torch.zeros_like(own) for state, own in matrix.own.items()}
    dist.barrier(group=group)
    start = time.perf_counter()
    for state, own in matrix.own.items():
        there[state].copy_(own)
    return slowest(time.perf_counter() - start, group)


def under_job(options):
    """The trainer; rank 0 prints what it has measured."""
    work = torch.rand(512, 512)
    found = {"downtime_s": [], "boundary_us": [], "step_us": []}
    made = 0

    def build(world):
        device = "cpu" if world.founded else "meta"
        place = world.layout, world.rank, world.size
        matrix = Matrix(options.rows, *place, device)
        return dynatrain.State(matrix=matrix, step=0)

    job = dynatrain.Job(
        options.store,
        build,
        layout=0,
        processes=options.processes,
        timeout=TIMEOUT,
        trace=options.trace,
    )
    with job:
        found["driver_cpu"] = idle_cost()
        for number in range(options.switches):
            measure_steps(job, work, options.steps, found)
            job.request(layout=1 - number % 2)
            found["downtime_s"].append(until_switched(job, work))
            made += connections_made(job, work)
        found["copy_s"] = timed_copy(job.state.matrix, job.world.group)
        cost = slowest(found["driver_cpu"], job.world.group)
        made = total(made, job.world.group)
        rank = job.world.rank
        dist.barrier(group=job.world.group)
    if rank == 0:
        told = {
            k: statistics.median(v) if isinstance(v, list) else v
            for k, v in found.items()
        }
        told |= {"driver_cpu": cost, "connections_after": made}
        print(json.dumps(told), flush=True)


def connections_made(job, work):
    """By this process, in the first steps of a world."""
    before = open_sockets()
    for _ in range(3):
        one_step(job, work)
        job.boundary(job.state.step)
    return len(open_sockets() - before)


def total(count, group):
    told = torch.tensor([count])
    dist.all_reduce(told, group=group)
    return told.item()


def cpu_of_threads():
    """(name, CPU seconds) of this process's threads; one may end meanwhile."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            used = int((task / "schedstat").read_text().split()[0])
            yield (task / "comm").read_text().strip(), used / 1e9


def cpu_seconds():
    """Of all threads but Gloo's, which look for messages in every trainer."""
    return sum(used for name, used in cpu_of_threads() if "gloo" not in name)


def idle_cost():
    """CPU seconds per second of a process that does nothing but be a member."""
    cpu, start = cpu_seconds(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds() - cpu) / (time.perf_counter() - start)


def one_step(job, work):
    train(job.state.matrix, job.world.group, work)
    job.state.step += 1


def measure_steps(job, work, steps, found):
    for _ in range(steps):
        start = time.perf_counter()
        one_step(job, work)
        stepped = time.perf_counter()
        job.boundary(job.state.step)
        found["boundary_us"].append(1e6 * (time.perf_counter() - stepped))
        found["step_us"].append(1e6 * (stepped - start))


def until_switched(job, work):
    """Seconds that the slowest process stood at the boundary of the switch."""
    epoch = job.world.epoch
    while job.world.epoch == epoch:
        one_step(job, work)
        start = time.perf_counter()
        job.boundary(job.state.step)
        stood = time.perf_counter() - start
    return slowest(stood, job.world.group)


def by_checkpoint(options):
    """Half of a restart: trains and saves, or loads and trains. Rank 0 prints
    when the last step before had ended, or the first one is to begin."""
    host, port = options.store.rsplit(":", 1)
    os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": port}
    dist.init_process_group(
        "gloo", rank=options.rank, world_size=options.processes
    )
    mesh = init_device_mesh("cpu", (options.processes,))
    loads = options.role == "load"
    place = int(loads), options.rank, options.processes
    matrix = Matrix(options.rows, *place)
    work = torch.rand(512, 512)
    if loads:
        checkpoint.load(matrix.distributed(mesh), checkpoint_id=options.folder)
        dist.barrier()
        when = time.time()
    for _ in range(3):
        train(matrix, None, work)
    if not loads:
        when = time.time()
        checkpoint.save(matrix.distributed(mesh), checkpoint_id=options.folder)
        dist.barrier()
    if options.rank == 0:
        print(json.dumps({"when": when}), flush=True)
    dist.destroy_process_group()


# The launcher ----------------------------------------------------------------


def run(options, role, **more):
    """What rank 0 of so many processes with a role has printed."""
    store = dist.TCPStore(
        "127.0.0.1",
        0,
        is_master=True,
        timeout=timedelta(seconds=TIMEOUT),
        wait_for_workers=False,
    )
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    command = [sys.executable, __file__, "--role", role]
    command += ["--store", f"127.0.0.1:{store.port}"]
    for name in ("processes", "megabytes", "switches", "steps"):
        command += [f"--{name}", str(getattr(options, name))]
    for name, value in more.items():
        command += [f"--{name}", str(value)]
    processes = [
        subprocess.Popen(
            [*command, "--rank", str(rank)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(options.processes)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"a process of the role {role} has failed")
    return json.loads("".join(outputs))


def in_seconds(events, name):
    """Of all spans of that name, by process; those alone that begin while its
    trainer stands: a world is mostly built and planned before."""
    since = {one["pid"]: one["ts"] for one in events if one["name"] == "stands"}
    found = {}
    for event in events:
        process = event["pid"]
        if event["name"] == name and event["ts"] >= since.get(process, 0):
            found[process] = found.get(process, 0) + event["dur"] / 1e6
    return found


def of_traces(folder):
    """Of the switches of a job, what the trainers have stood for: medians of
    the slowest process."""
    numbers = {int(one.name.split("-")[1][:-5]) for one in folder.iterdir()}
    switches = []
    for number in sorted(numbers):
        events = merged(folder, number)["traceEvents"]
        stands = in_seconds(events, "stands")
        if not stands:
            continue  # that has founded the job
        parts = {one: in_seconds(events, one) for one in ("transfer", *PHASES)}
        parts = {
            part: {p: seconds.get(p, 0) for p in stands}
            for part, seconds in parts.items()
        }
        beside = {p: stands[p] - parts["transfer"][p] for p in stands}
        named = {p: sum(parts[one][p] for one in PHASES) for p in stands}
        slowest = {one: max(values.values()) for one, values in parts.items()}
        slowest["no name"] = max(beside[p] - named[p] for p in stands)
        switches.append(
            {"stands": max(stands.values()), "beside": max(beside.values())}
            | slowest
        )
    return {
        name: statistics.median(one[name] for one in switches)
        for name in switches[0]
    }


def as_told(traced):
    """What `of_traces` has found, by the names of the output."""
    traced = {name: float(f"{value:.3g}") for name, value in traced.items()}
    return {
        "stands_s": traced["stands"],
        "transfer_s": traced["transfer"],
        "beside_transfer_s": traced["beside"],
        "phases_s": {name: traced[name] for name in (*PHASES, "no name")},
    }


def main(options):
    if options.of:
        print(json.dumps(as_told(of_traces(options.of))))
        return
    with tempfile.TemporaryDirectory() as folder:
        told = run(options, "job", trace=folder)
        traced = of_traces(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        stopped = run(options, "save", folder=folder)["when"]
        went_on = run(options, "load", folder=folder)["when"]
    told["restart_s"] = went_on - stopped
    told["restart_over_downtime"] = told["restart_s"] / told["downtime_s"]
    told["boundary_over_step"] = told["boundary_us"] / told["step_us"]
    told = {name: float(f"{value:.3g}") for name, value in told.items()}
    told |= as_told(traced)
    told |= {"processes": options.processes, "megabytes": options.megabytes}
    print(json.dumps(told | {"cores": os.cpu_count()}))


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--of", type=Path, metavar="FOLDER")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--switches", type=int, default=6)
    parser.add_argument("--steps", type=int, default=40)
    hidden = {"help": argparse.SUPPRESS}
    parser.add_argument("--role", choices=("job", "save", "load"), **hidden)
    parser.add_argument("--store", **hidden)
    parser.add_argument("--rank", type=int, **hidden)
    parser.add_argument("--folder", **hidden)
    parser.add_argument("--trace", **hidden)
    options = parser.parse_args()
    row = len(STATES) * 4 * COLUMNS
    # As torch's checkpoints cut: all parts of the same size.
    rows = max(64, options.megabytes * 2**20 // row)
    options.rows = rows - rows % options.processes
    if COLUMNS % options.processes:
        parser.error(f"--processes has to divide {COLUMNS}")
    return options


if __name__ == "__main__":
    options = parse_arguments()
    torch.set_num_threads(1)
    if options.role is None:
        main(options)
    elif options.role == "job":
        under_job(options)
    else:
        by_checkpoint(options)
