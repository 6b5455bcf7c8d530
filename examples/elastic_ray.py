"""An elastic job whose processes are actors of Ray: one is killed, Ray starts
it again, and it joins the running job.

python examples/elastic_ray.py

Three actors train a small model on equal shares of each batch. The store is
this process's, so it outlives them. At the end the losses of all steps are held
against those of one process that trains alone.
"""

import os
import signal
import time
from datetime import timedelta

import dynatrain
import ray
import torch
import torch.distributed as dist

PROCESSES, BATCH, WIDTH = 3, 12, 8
#: Seconds of any wait in the job: far more than any takes.
TIMEOUT = 300.0
# Before which the process is killed, and after which all have trained together
# for long enough.
STEPS = 4
MOST = 1e-9  # of the difference between losses


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        start = torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
        self.weight = torch.nn.Parameter(start)

    def forward(self, rows):
        return torch.tanh(rows @ self.weight)


def build(world):
    model = world.make(Model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return dynatrain.State(model=model, optimizer=optimizer)


def train_step(state, number, rank, size, group=None):
    """The loss of the whole batch, of which each process takes some rows."""
    rows = torch.arange(BATCH * WIDTH, dtype=torch.float64)
    rows = torch.sin(rows + number).view(BATCH, WIDTH)[rank::size]
    loss = state.model(rows).sub(0.5).square().sum() / BATCH
    state.optimizer.zero_grad()
    loss.backward()
    told = torch.cat([loss.detach().view(1), state.model.weight.grad])
    if group is not None:
        dist.all_reduce(told, group=group)
    state.model.weight.grad.copy_(told[1:])
    state.optimizer.step()
    return told[0].item()


@ray.remote(max_restarts=1, max_task_retries=1)
class Member:
    """A process of the job. What Ray has started again joins as any other: its
    method is called anew."""

    def train(self, place, address):
        """{step: loss}, and the worlds that this process was in."""
        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        again = ray.get_runtime_context().was_current_actor_reconstructed
        words = connected(address)
        words.set(f"pid/{place}", str(os.getpid()))
        losses, worlds = {}, {}
        with dynatrain.Job(
            address,
            build,
            processes=1 if again else PROCESSES,
            rank=None if again else place,
            timeout=TIMEOUT,
            snapshots=2,
        ) as job:
            while not is_over(job, worlds):
                number, world = job.step, job.world
                try:
                    loss = train_step(
                        job.state, number, world.rank, world.size, world.group
                    )
                except RuntimeError as error:
                    job.recover(error)
                    continue
                losses[number] = loss
                job.boundary()
                words.add(f"steps/{place}", 1)
                time.sleep(0.05)  # a model that takes longer
        return losses, [size for size, _ in worlds.values()]


def connected(address):
    host, port = address.rsplit(":", 1)
    patience = timedelta(seconds=TIMEOUT)
    return dist.TCPStore(host, int(port), timeout=patience)


def is_over(job, worlds):
    """The same on all processes. worlds: {epoch: (size, first step)}."""
    world = job.world
    _, first = worlds.setdefault(world.epoch, (world.size, job.step))
    is_last = world.epoch > 1 and world.size == PROCESSES
    return is_last and job.step >= first + STEPS


def alone(steps):
    """Losses of one process."""
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    state = dynatrain.State(model=model, optimizer=optimizer)
    return [train_step(state, number, 0, 1) for number in range(steps)]


def lose(store, place):
    """Kills a process once it has taken some steps."""
    while store.add(f"steps/{place}", 0) <= STEPS:
        time.sleep(0.05)
    os.kill(int(store.get(f"pid/{place}")), signal.SIGKILL)


def main():
    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    address = f"127.0.0.1:{store.port}"
    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False)
    members = [Member.options(num_cpus=1).remote() for _ in range(PROCESSES)]
    ends = [one.train.remote(at, address) for at, one in enumerate(members)]
    lose(store, 1)
    told = ray.get(ends)
    ray.shutdown()
    losses = {number: loss for one, _ in told for number, loss in one.items()}
    plain = alone(len(losses))
    assert sorted(losses) == list(range(len(plain))), losses
    far = max(abs(losses[number] - plain[number]) for number in losses)
    print("worlds of", " -> ".join(map(str, told[0][1])), "processes")
    print("that of the process that came again:", *told[1][1])
    print(f"{len(plain)} losses differ by {far:.1e} from those of one process")
    assert far < MOST


if __name__ == "__main__":
    main()
