"""What a prepared switch costs a job that trains on, and how long it stops.

Processes with the state of compare_peers.py step a small model on one thread
each: alone, while a switch prepares in the background, and with the prepared
switch waiting; then they take the switch. Prints a JSON line: of the CPU time
of a step how much other threads took (which other load on the machine does not
change), and by how much transfer and commit together take longer than the
bytes do. Both are the largest over the processes.

    python bench/live_job.py --gb 1 --seconds 10
"""

import json
import time

import compare_peers
import dynatrain
import torch
import torch.distributed as dist

WIDTH = 512


class Trainer:
    """Steps of a small model, and the CPU time beside them."""

    def __init__(self):
        self.model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH),
            torch.nn.GELU(),
            torch.nn.Linear(4 * WIDTH, WIDTH),
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.batch = torch.randn(64, WIDTH)

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()

    def train(self, goes_on):
        """Steps while `goes_on()`; CPU time of other threads over its own."""
        process, own, steps = time.process_time(), time.thread_time(), 0
        while goes_on():
            self.step()
            steps += 1
        own = time.thread_time() - own
        other = time.process_time() - process - own
        return {"steps": steps, "other_cpu": max(0.0, other), "own_cpu": own}

    def train_for(self, seconds):
        end = time.monotonic() + seconds
        return self.train(lambda: time.monotonic() < end)


def share(phase):
    return phase["other_cpu"] / phase["own_cpu"] if phase["own_cpu"] else 0.0


class Rank(compare_peers.Rank):
    """One process of the job."""

    def __init__(self, rank, processes, tensors, plan, folder, seconds):
        super().__init__(rank, processes, tensors, plan, folder)
        self.seconds = seconds
        self.trainer = Trainer()

    def live(self):
        # Backward passes run on a thread of their own, which steps need.
        torch.autograd.set_multithreading_enabled(False)
        self.trainer.train_for(1)
        alone = self.trainer.train_for(self.seconds)
        switch = self.plan.prepare(dynatrain.World(), self.source, self.target)
        preparing = self.trainer.train(lambda: not switch.ready())
        prepared = self.trainer.train_for(self.seconds)
        dist.barrier()
        begin = time.monotonic()
        switch.transfer()
        switch.commit()
        stop = time.monotonic() - begin
        self.check(self.target)
        return self.slowest(
            {
                "steady_share": share(prepared) - share(alone),
                "prepare_cpu_s": preparing["other_cpu"],
                "stop_s": stop,
                "bytes_s": switch.stats["seconds"],
            }
        )

    def slowest(self, found):
        values = torch.tensor(list(found.values()), dtype=torch.float64)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return dict(zip(found, values.tolist(), strict=True))


def main():
    options = compare_peers.options_of(
        __doc__,
        processes={"type": int, "default": 4},
        seconds={"type": float, "default": 10.0, "help": "of each phase"},
    )
    processes, tensors = options.processes, options.tensors
    shape = compare_peers.request(processes, tensors, options.staging)
    with compare_peers.compiled(shape) as (plan, folder, _):
        arguments = (processes, tensors, plan, folder, options.seconds)
        found = compare_peers.run_processes(arguments, {"live": 1}, Rank)
    result = found["live"][0]
    line = {name: round(value, 5) for name, value in result.items()}
    line["stop_beyond_bytes_s"] = round(result["stop_s"] - result["bytes_s"], 5)
    print(json.dumps({**line, **compare_peers.facts_of(processes, tensors)}))


if __name__ == "__main__":
    main()
