"""TP 4 to TP 2 x DP 2 by DynaTrain and by Megatron-Core's refit, in one run.

State and checks are those of compare_peers.py, all tensors cut by rows. That
bench's own change, rows to columns, is none that the refit does: its planner
cuts a parameter along one dimension, the same before and after. Its Gloo copy
service runs here without the CUDA stream that it makes. Its plan is made
before its first run and not timed with the others. Prints a JSON line per
method.

    python bench/compare_refit.py --gb 2
"""

import json
import statistics
import time
import warnings
from types import SimpleNamespace

import compare_peers
import torch
import torch.distributed as dist
from compare_peers import EDGE, STATES

warnings.filterwarnings("ignore", message="Transformer Engine and Apex")
from megatron.core.resharding import (  # noqa: E402
    build_centralized_reshard_plan,
    execute_reshard_plan,
)
from megatron.core.resharding.copy_services.gloo_copy_service import (  # noqa: E402
    GlooCopyService,
)

PROCESSES = 4


def request(tensors, staging):
    shape = compare_peers.request(PROCESSES, tensors, staging)
    shape["rules"] = [{"match": "*", "tp": 0, "stage": "first"}]
    shape["source"] = {"world": PROCESSES, "tp": 4}
    shape["destination"] = {"world": PROCESSES, "tp": 2, "dp": 2}
    return shape


class HostCopies(GlooCopyService):
    """Without the stream, which orders copies on a GPU."""

    def __init__(self):
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.gloo_pg = dist.new_group(backend="gloo")
        self.send_ops, self.recv_ops = [], []
        self._copy_stream = None


class Holder(torch.nn.Module):
    """Tensors as parameters that Megatron-Core takes for parallel ones."""

    def __init__(self, tensors, groups):
        super().__init__()
        self.pg_collection = groups
        for (name, state), tensor in tensors.items():
            held = torch.nn.Parameter(tensor, requires_grad=False)
            held.tensor_model_parallel, held.partition_dim = True, 0
            held.partition_stride = 1
            self.register_parameter(f"{name}.{state}".replace(".", "_"), held)


def group_of(rank, all_ranks):
    """Of several groups, made by all processes, the one with this rank."""
    groups = {tuple(ranks): dist.new_group(ranks) for ranks in all_ranks}
    return next(group for ranks, group in groups.items() if rank in ranks)


class Rank(compare_peers.Rank):
    """One process, with its rows before and after."""

    def cut(self):
        size = EDGE // 4
        return slice(self.rank * size, (self.rank + 1) * size)

    def __init__(self, rank, processes, tensors, plan, folder):
        super().__init__(rank, processes, tensors, plan, folder)
        self.target = {
            key: torch.zeros((EDGE // 2, EDGE), dtype=STATES[key[1]])
            for key in self.keys
        }
        pairs = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
        alone = group_of(rank, [[r] for r in range(processes)])
        before = SimpleNamespace(tp=dist.group.WORLD, dp=alone, pp=alone)
        after = SimpleNamespace(
            tp=group_of(rank, pairs[0]), dp=group_of(rank, pairs[1]), pp=alone
        )
        self.before = Holder(self.source, before)
        self.after = Holder(self.target, after)
        self.service = HostCopies()
        begin = time.monotonic()
        self.refit_plan = build_centralized_reshard_plan(
            self.before, self.after
        )
        self.refit_plan_seconds = time.monotonic() - begin

    def check(self, tensors):
        half = EDGE // 2
        first = self.rank % 2 * half
        for key in self.keys:
            rows = self.values(key)[first : first + half]
            assert torch.equal(tensors[key], rows.expand(half, EDGE)), key

    def refit(self):
        for tensor in self.target.values():
            tensor.zero_()
        seconds = compare_peers.timed(
            lambda: execute_reshard_plan(
                self.refit_plan, self.before, self.after, self.service
            )
        )
        self.check(self.target)
        return {"seconds": seconds, "plan": self.refit_plan_seconds}


def main():
    options = compare_peers.options_of(
        __doc__, repeats={"type": int, "default": 5}
    )
    shape = request(options.tensors, options.staging)
    with compare_peers.compiled(shape) as (plan, folder, seconds):
        plan_seconds = {"gloo": seconds, "gloo_wire": seconds}
        methods = dict.fromkeys(["gloo", "gloo_wire", "refit"], options.repeats)
        arguments = (PROCESSES, options.tensors, plan, folder)
        found = compare_peers.run_processes(arguments, methods, Rank)
    plan_seconds["refit"] = found["refit"][0]["plan"]
    facts = compare_peers.facts_of(PROCESSES, options.tensors)
    medians = {}
    for name, results in found.items():
        samples = [result["seconds"] for result in results]
        medians[name] = statistics.median(samples)
        line = {"method": name, **compare_peers.spread(samples), **facts}
        line["plan_s"] = round(plan_seconds[name], 4)
        print(json.dumps(line))
    ratios = {
        f"{name}_over_refit": round(medians["refit"] / medians[name], 2)
        for name in ("gloo", "gloo_wire")
    }
    print(json.dumps({"ratios": ratios}))


if __name__ == "__main__":
    main()
