"""torchtitan's own trainer changes its layout while its train() runs.

    torchrun --nproc-per-node=4 examples/torchtitan/switching.py [--steps N]
        [--check]

The llama debug model goes through FSDP4 -> TP2 x FSDP2 -> HSDP 2x2 -> FSDP4.
With --check every byte of the state is compared with what an independent gather
and slice gives, and the losses with those of runs without switches.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cpu  # noqa: E402

cpu.for_torchtitan()

import dynatrain.torchtitan  # noqa: E402
import independent  # noqa: E402
import noise  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from config import LAYOUTS, configured, start  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402


class Recording(Trainer):
    """Keeps the losses; the trainer itself writes them to its log only."""

    losses = ()

    def forward_backward_step(self, **more):
        loss = super().forward_backward_step(**more)
        # Every process of a tensor group has the same loss.
        self.losses[-1] += loss.detach().item() / self.parallel_dims.tp
        return loss

    def train_step(self, batches):
        self.losses.append(0.0)
        return super().train_step(batches)


def run(layouts, options, switches):
    """The losses of `steps` steps in each layout, or of all in the first."""
    total = options.steps * len(layouts)
    trainer = Recording(configured(layouts[0], total))
    start(trainer)
    trainer.losses = []
    todo = list(layouts[1:]) if switches else []

    def after_step(live):
        if not todo or live.trainer.step % options.steps:
            return
        config = configured(todo.pop(0), total)
        check = independent.Check(live.trainer) if options.check else None
        # glue begins
        live.switch(config)
        # glue ends
        if check:
            check.compare(live.trainer)

    dynatrain.torchtitan.Live(trainer, after_step)
    trainer.train()
    assert trainer.step == total
    trainer.close()
    told = torch.tensor(trainer.losses, dtype=torch.float64)
    dist.all_reduce(told)
    if dist.get_rank() == 0:
        print(" ".join(f"{loss:.6f}" for loss in told), flush=True)
    return told


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    losses = run(LAYOUTS, options, switches=True)
    if options.check:
        runs = [
            run([stay, *LAYOUTS[1:]], options, switches=False)
            for stay in LAYOUTS[:-1]
        ]
        found = noise.compare(losses, runs)
        if dist.get_rank() == 0:
            print(found, flush=True)


if __name__ == "__main__":
    main()
    cpu.leave()
