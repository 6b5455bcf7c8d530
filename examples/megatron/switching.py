"""Megatron-Core trains, and changes its layout live.

    torchrun --nproc-per-node=4 examples/megatron/switching.py [--experts]
        [--single] [--without-zero] [--steps N] [--check]

GPT goes through TP2 DP2 -> PP2 DP2, with stages of unequal length -> TP4 ->
PP4 -> TP2 DP2. With --experts the model is of experts and goes through EP2 ->
EP4 -> EP2 with expert tensor parallelism -> EP2 PP2 -> EP2. With --check every
byte of the state is compared with what an independent gather and slice gives,
and the losses with those of runs without switches.
"""

import argparse
import sys
from pathlib import Path

import dynatrain
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cpu  # noqa: E402

BACKEND = cpu.for_megatron()

import independent  # noqa: E402
import noise  # noqa: E402
from dynatrain import megatron  # noqa: E402
from trainer import Kind, Sizes, Trainer  # noqa: E402

DENSE = [
    Sizes(tp=2),
    Sizes(pp=2, stages=(3, 1)),
    Sizes(tp=4),
    Sizes(pp=4),
    Sizes(tp=2),
]
EXPERTS = [
    Sizes(ep=2),
    Sizes(ep=4),
    Sizes(ep=2, etp=2),
    Sizes(ep=2, pp=2),
    Sizes(ep=2),
]


def registered(trainer, globals=None):
    """The trainer's state."""
    return dynatrain.State(
        training=megatron.Training(
            trainer.chunks,
            trainer.optimizer,
            trainer.scheduler,
            globals=globals,
        ),
        iteration=trainer.iteration,
    )


def switched(trainer, build):
    """The trainer in another layout; `build` makes it in a world of its own."""
    # glue begins
    with megatron.Globals.aside() as aside:
        new = build()
        after = registered(new, aside)
    before, world = registered(trainer), dynatrain.World(timeout=60)
    plan = dynatrain.plan_between(before, after, world)
    switch = plan.prepare(world, before, after)
    switch.transfer()
    switch.commit()
    new.iteration = after.iteration
    # glue ends
    return new


def checked(trainer, build):
    """The same, and whether all is as it was."""
    rows = independent.rows_of(trainer, independent.place_of(trainer.sizes))
    full = independent.gathered(rows)
    generator, streams = torch.get_rng_state(), independent.streams()
    rate, schedule = trainer.scheduler.num_steps, trainer.scheduler.state_dict()
    new = switched(trainer, build)
    rows = independent.rows_of(new, independent.place_of(new.sizes))
    count = independent.check(rows, full)
    assert torch.equal(torch.get_rng_state(), generator)
    assert independent.check_streams(independent.streams(), streams)
    assert new.scheduler.state_dict() == schedule
    assert new.scheduler.num_steps == rate
    assert new.iteration == trainer.iteration
    groups = new.optimizer.param_groups
    assert {group["lr"] for group in groups} == {
        group["lr"] for group in trainer.optimizer.param_groups
    }
    total = torch.tensor(count)
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(
            f"{trainer.sizes} -> {new.sizes}: {total.item()} values are right"
        )
    return new


def run(layouts, options, stay=None, weights=None):
    """Losses of `steps` iterations in each layout, or of as many in one, and
    the weights that it began with."""
    trainer = Trainer(stay or layouts[0], options.kind)
    if weights:
        independent.load(trainer, weights)
    weights = weights or independent.full_weights(trainer)
    losses = []
    for number, sizes in enumerate(layouts):
        if number and stay is None:
            switch = checked if options.check else switched
            trainer = switch(
                trainer,
                lambda sizes=sizes, seed=number: Trainer(
                    sizes, options.kind, seed
                ),
            )
        losses += [trainer.step() for _ in range(options.steps)]
        if dist.get_rank() == 0:
            print(f"{trainer.sizes}: {losses[-1]:.6f}", flush=True)
    return losses, weights


def compare_losses(losses, weights, layouts, options):
    """With runs without switches, in every layout."""
    runs = []
    for stay in layouts[:-1]:
        with megatron.Globals.aside():
            runs.append(run(layouts, options, stay, weights)[0])
    found = noise.compare(losses, runs)
    if dist.get_rank() == 0:
        print(found, flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--experts", action="store_true")
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--without-zero", action="store_true")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    options.kind = Kind(
        options.experts, not options.single, not options.without_zero
    )
    if not dist.is_initialized():
        dist.init_process_group(BACKEND)
    layouts = EXPERTS if options.experts else DENSE
    with megatron.Globals.aside():
        losses, weights = run(layouts, options)
    if options.check:
        compare_losses(losses, weights, layouts, options)


if __name__ == "__main__":
    main()
    cpu.leave()
