"""A mixture of experts in place of the GPT's layers, with expert parallelism: a
replica of the model has its experts on `world.layout["ep"]` processes, each of
which takes samples of its own. All else is the GPT's: gpt.py, trainer.py.
"""

import torch
import torch.distributed as dist
import trainer
from gpt import HIDDEN, WIDTH, Cut, Gpt
from torch.nn import functional

EXPERTS = 12


class _Exchange(torch.autograd.Function):
    """Rows to the processes that want them: `given` of them to each, `taken`
    from each. Their gradients go back."""

    @staticmethod
    def forward(context, rows, given, taken, group):
        context.way = given, taken, group
        out = rows.new_empty(sum(taken), *rows.shape[1:])
        dist.all_to_all_single(
            out, rows.contiguous(), taken, given, group=group
        )
        return out

    @staticmethod
    def backward(context, gradient):
        given, taken, group = context.way
        back = _Exchange.apply(gradient, taken, given, group)
        return back, None, None, None


class MixtureOfExperts(Gpt):
    """Each token goes to the expert that its router has for it, wherever that
    is; none is dropped. experts: how they are cut."""

    def __init__(self, experts):
        self.experts = experts
        super().__init__(Cut())

    def _add_mlp(self, at):
        self._add(at + "router", (EXPERTS, WIDTH))
        for name, shape in ("up", (HIDDEN, WIDTH)), ("down", (WIDTH, HIDDEN)):
            self._add(at + name, (EXPERTS, *shape), 0, self.experts)

    def _mlp(self, y, weights):
        rows = y.flatten(0, 1)
        scores = functional.linear(rows, weights["router"]).softmax(-1)
        score, expert = scores.max(-1)
        order = expert.argsort(stable=True)
        given = self._count(expert)
        taken = self._exchanged(given)
        moved = self._exchange(rows[order], given, taken)
        chosen = self._exchange(expert[order], given, taken)
        done = self._exchange(
            self._expert(moved, chosen, weights), taken, given
        )
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return (done[back] * score[:, None]).view_as(y)

    def _count(self, expert):
        """Of how many rows each process has the expert."""
        each = EXPERTS // self.experts.parts
        return torch.bincount(
            expert // each, minlength=self.experts.parts
        ).tolist()

    def _exchanged(self, counts):
        if self.experts.group is None:
            return counts
        told = torch.tensor(counts)
        heard = torch.empty_like(told)
        dist.all_to_all_single(heard, told, group=self.experts.group)
        return heard.tolist()

    def _exchange(self, rows, given, taken):
        if self.experts.group is None:
            return rows
        return _Exchange.apply(rows, given, taken, self.experts.group)

    def _expert(self, rows, chosen, weights):
        """What this process's experts make of rows, each of its own."""
        first = self.experts.part * len(weights["up"])
        out = torch.zeros_like(rows)
        for number, (up, down) in enumerate(
            zip(weights["up"], weights["down"]), first
        ):
            at = (chosen == number).nonzero()[:, 0]
            made = functional.gelu(functional.linear(rows[at], up))
            out = out.index_add(0, at, functional.linear(made, down))
        return out


class Training(trainer.Training):
    """All processes take samples; what is no expert's all of them hold."""

    def make(self, world):
        self.replicas, _ = trainer.grid(world, 1)
        self.alike, experts = trainer.grid(world, world.layout["ep"])
        if EXPERTS % experts.parts:
            raise ValueError(f"{EXPERTS} experts on {experts.parts} processes")
        return world.make(lambda: MixtureOfExperts(experts))

    def replicas_of(self, name):
        is_experts = name.endswith(("_up", "_down"))
        return self.alike if is_experts else self.replicas


def build(world):
    """All that a process holds in a world of the job."""
    return trainer.build(world, Training)
