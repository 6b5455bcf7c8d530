"""The same losses as in job_recovery.py, survived in two other ways.

python bench/other_recoveries.py [--losses 5] [--steps 40]

- A restart: four processes save a checkpoint with torch.distributed.checkpoint
  every ten steps. When one is killed its launcher sees that at once, ends the
  others, and starts three new ones, which load the last checkpoint.
- torchft, where it is installed: four replica groups of one process each, all
  with a whole copy of the state, as torchft takes it. The others go on without
  the one that is killed, in its own defaults.

Seconds are from the kill until all the others can take their next step.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import job_recovery
from job_recovery import BETAS, EVERY, PROCESSES, TIMEOUT, dist, torch


class Chunked(job_recovery.Training):
    """Moments are cut as DTensors are; `checkpoint` has them so."""

    def range(self, weight):
        count, world = weight.numel(), self.world
        each = -(-count // world.size)
        first = min(each * world.rank, count)
        return first, min(first + each, count)

    def checkpoint(self, mesh):
        from torch.distributed.tensor import DTensor, Shard

        held = dict(self.weights)
        for name, moments in self.moments.items():
            count = self.weights[name].numel()
            for state, moment in zip(("m", "v"), moments):
                held[f"{name}.{state}"] = DTensor.from_local(
                    moment,
                    mesh,
                    [Shard(0)],
                    run_check=False,
                    shape=(count,),
                    stride=(1,),
                )
        return held


class Whole(job_recovery.Training):
    """Every process has all; what is exchanged goes through torchft."""

    def __init__(self, manager, *size):
        world = SimpleNamespace(rank=0, size=1, founded=True, group=None)
        super().__init__(world, *size)
        self.manager = manager

    def state(self):
        weights = {name: one.detach() for name, one in self.weights.items()}
        return {"weights": weights, "moments": self.moments}

    def load(self, state):
        """Of one that is ahead, while a step is taken."""
        for name, weight in self.weights.items():
            weight.detach().copy_(state["weights"][name])
            for own, came in zip(self.moments[name], state["moments"][name]):
                own.copy_(came)

    def step(self, number):
        """Whether it was taken by all."""
        held = [one.requires_grad_() for one in self.weights.values()]
        value = self.batch
        for weight in held:
            value = torch.tanh(value @ weight)
        gradients = torch.autograd.grad(value.square().mean(), held)
        works = [self.manager.allreduce(one) for one in gradients]
        for work in works:
            work.wait()
        for weight in held:
            weight.requires_grad_(False)
        if not self.manager.should_commit():
            return False
        for (name, weight), gradient in zip(self.weights.items(), gradients):
            mean, square = self.moments[name]
            mean.lerp_(gradient.flatten(), 1 - BETAS[0])
            square.lerp_(gradient.flatten().square(), 1 - BETAS[1])
            scale = job_recovery.RATE / (1 - BETAS[0] ** number)
            spread = square.sqrt() + job_recovery.EPSILON
            weight.sub_((scale * mean / spread).view_as(weight))
        return True


# One process -----------------------------------------------------------------


def tell(what):
    print(json.dumps({what: time.monotonic()}), flush=True)


def fail(options, step):
    """Where it is this process's turn."""
    if options.fate == step:
        tell("killed")
        os.kill(os.getpid(), signal.SIGKILL)


def checkpointed(options):
    """Trains and saves; from a checkpoint, where there is one."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.device_mesh import init_device_mesh

    host, port = options.store.rsplit(":", 1)
    os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": port}
    rank, size = options.rank, options.processes
    dist.init_process_group("gloo", rank=rank, world_size=size)
    world = SimpleNamespace(
        rank=rank, size=size, founded=True, group=dist.group.WORLD
    )
    training = Chunked(world, *options.size)
    held = training.checkpoint(init_device_mesh("cpu", (size,)))
    folder, first = Path(options.folder), 0
    saved = sorted(folder.glob("*/.metadata"))
    if saved:
        checkpoint.load(held, checkpoint_id=saved[-1].parent)
        first = int(saved[-1].parent.name)
        dist.barrier()
        tell("recovered")
    for step in range(first, options.steps):
        fail(options, step)
        training.step(step + 1)
        if (step + 1) % EVERY == 0:
            checkpoint.save(held, checkpoint_id=folder / f"{step + 1:06}")
    dist.destroy_process_group()


def under_torchft(options):
    from torchft import Manager, ProcessGroupGloo

    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    training = None
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=TIMEOUT)),
        load_state_dict=lambda state: training.load(state),
        state_dict=lambda: training.state(),
        min_replica_size=1,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=options.store,
        replica_id=f"replica-{options.rank}-",
        timeout=timedelta(seconds=TIMEOUT),
        quorum_timeout=timedelta(seconds=TIMEOUT),
    )
    training = Whole(manager, *options.size)
    size, end = 0, time.monotonic() + 5 * TIMEOUT
    while time.monotonic() < end:
        step = manager.current_step()
        # All have come; how many steps that takes nobody knows.
        if size == PROCESSES and step >= options.fate >= 0:
            fail(options, options.fate)
        manager.start_quorum()
        if training.step(step + 1):
            before, size = size, manager.num_participants()
            if size < before == PROCESSES:
                # It has taken one step already.
                tell("recovered")
                break
    sys.stdout.flush()
    os._exit(0)


# The launcher ----------------------------------------------------------------


class Processes:
    """Of one role, each with its output."""

    def __init__(self, options, role, store, fates, **more):
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        self.all = []
        for rank, fate in enumerate(fates):
            words = [sys.executable, __file__, "--role", role]
            words += ["--store", store, "--rank", rank, "--fate", fate]
            words += ["--processes", len(fates)]
            for name in ("steps", "width", "layers", "batch"):
                words += [f"--{name}", getattr(options, name)]
            for name, value in more.items():
                words += [f"--{name}", value]
            self.all.append(
                subprocess.Popen(
                    list(map(str, words)),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env=environment,
                )
            )

    def await_loss(self):
        while all(one.poll() is None for one in self.all):
            time.sleep(0.001)

    def told(self, kills=False):
        """{what: when, of the last one}; all have ended, or are killed."""
        found = {}
        for one in self.all:
            if kills:
                one.kill()
            for line in one.communicate()[0].splitlines():
                for what, when in json.loads(line).items():
                    found[what] = max(when, found.get(what, 0))
        return found


def served():
    return dist.TCPStore(
        "127.0.0.1",
        0,
        is_master=True,
        timeout=timedelta(seconds=TIMEOUT),
        wait_for_workers=False,
    )


def by_restart(options, fate):
    """Seconds to go on from a checkpoint."""
    fates = [-1, fate, -1, -1]
    with tempfile.TemporaryDirectory() as folder:
        store = served()
        address = f"127.0.0.1:{store.port}"
        first = Processes(options, "restart", address, fates, folder=folder)
        first.await_loss()
        killed = first.told(kills=True)["killed"]
        store = served()
        address = f"127.0.0.1:{store.port}"
        again = [-1] * (PROCESSES - 1)
        second = Processes(options, "restart", address, again, folder=folder)
        return second.told()["recovered"] - killed


def by_torchft(options, fate):
    """Seconds until the others have taken a step, and what that step takes."""
    os.environ.setdefault("RUST_LOG", "error")
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1)
    fates = [-1, fate, -1, -1]
    try:
        told = Processes(options, "torchft", lighthouse.address(), fates).told()
    finally:
        lighthouse.shutdown()
    return told["recovered"] - told["killed"]


def measure(options):
    """Seconds to recover, by way; those that cannot be taken here say why."""
    found = {}
    ways = {"restart from DCP": by_restart, "torchft": by_torchft}
    for name, way in ways.items():
        draw, times = random.Random(options.seed), []
        try:
            for _ in range(options.losses):
                fate = draw.randrange(EVERY + 1, options.steps)
                times.append(round(way(options, fate), 2))
        except ImportError as error:
            times = f"not here: {error}"
        found[name] = sorted(times) if isinstance(times, list) else times
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", type=int, default=5)
    job_recovery.add_size(parser)
    hidden = {"help": argparse.SUPPRESS}
    parser.add_argument("--role", choices=("restart", "torchft"), **hidden)
    parser.add_argument("--store", **hidden)
    parser.add_argument("--rank", type=int, **hidden)
    parser.add_argument("--fate", type=int, **hidden)
    parser.add_argument("--processes", type=int, **hidden)
    parser.add_argument("--folder", **hidden)
    options = parser.parse_args()
    options.size = options.width, options.layers, options.batch
    return options


def main():
    options = parse_arguments()
    torch.set_num_threads(1)
    if options.role == "restart":
        checkpointed(options)
    elif options.role == "torchft":
        under_torchft(options)
    else:
        print(json.dumps({"seconds to recover": measure(options)}, indent=2))


if __name__ == "__main__":
    main()
