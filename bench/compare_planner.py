"""Compiling a plan beside the planner of Megatron-Core's refit, in one run.

    python bench/compare_planner.py [--runs 5] [--world 128 ...]

Qwen3-235B, EP 16 x PP 4 to EP 32 x PP 2 (proof_cost.py): DynaTrain compiles its
weights, and its full state with ZeRO-1, the proof and the plan file included;
the planner makes its plan for the weights between the same layouts on 128
ranks. It needs no processes: what it would gather from the ranks, the metadata
of each parameter on each rank, is filled in here beforehand, and what it would
send to them it keeps. Runs take turns. Prints one line of JSON: seconds by the
clock and of CPU, and per case of ours how many times the planner's median it
takes. --world adds worlds of full state, such as 8192; the planner stays at
128 ranks.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import proof_cost
import torch

warnings.filterwarnings("ignore", message="Transformer Engine and Apex")
from megatron.core.resharding import planner  # noqa: E402
from megatron.core.resharding.utils import (  # noqa: E402
    ParameterMetadata,
    assign_resolved_name_inplace,
)

WORLD = 128
MODEL = json.loads(
    (proof_cost.ROOT / "examples/models/qwen3-235b-a22b.json").read_text()
)
HIDDEN, EXPERTS = MODEL["hidden_size"], MODEL["num_experts"]
HEAD = MODEL["head_dim"]
QUERIES = MODEL["num_attention_heads"] * HEAD
KEYS = MODEL["num_key_value_heads"] * HEAD
FFN = MODEL["moe_intermediate_size"]

# Name, shape and, where tensor parallelism cuts it, the dim and the stride.
LAYER = [
    ("self_attention.linear_proj.weight", (HIDDEN, QUERIES), 1, 1),
    ("self_attention.linear_qkv.layer_norm_weight", (HIDDEN,), None, 1),
    ("self_attention.linear_qkv.weight", (QUERIES + 2 * KEYS, HIDDEN), 0, 1),
    ("self_attention.q_layernorm.weight", (HEAD,), None, 1),
    ("self_attention.k_layernorm.weight", (HEAD,), None, 1),
    ("pre_mlp_layernorm.weight", (HIDDEN,), None, 1),
    ("mlp.router.weight", (EXPERTS, HIDDEN), None, 1),
]
EXPERT = [
    ("mlp.experts.linear_fc1.weight{}", (2 * FFN, HIDDEN), 0, 2),
    ("mlp.experts.linear_fc2.weight{}", (HIDDEN, FFN), 1, 1),
]
FIRST = [
    ("embedding.word_embeddings.weight", (MODEL["vocab_size"], HIDDEN), 0, 1)
]
LAST = [
    ("decoder.final_layernorm.weight", (HIDDEN,), None, 1),
    ("output_layer.weight", (MODEL["vocab_size"], HIDDEN), 0, 1),
]


# What Megatron-Core's ranks tell of themselves -------------------------------


def groups_of(rank, side):
    """Ranks of this rank's groups, TP 1, in Megatron-Core's order tp-dp-pp and,
    for experts, ep-edp-pp."""
    stage = side["world"] // side["pp"]
    first, place = rank // stage * stage, rank % stage
    expert = first + place // side["ep"] * side["ep"]
    return SimpleNamespace(
        tp=[rank],
        dp=list(range(first, first + stage)),
        ep=list(range(expert, expert + side["ep"])),
        pp=list(range(place, side["world"], stage)),
    )


def layers_of(side):
    """Per stage the numbers of its layers."""
    count, stages = MODEL["num_hidden_layers"], side["pp"]
    sizes = side.get("pp_layers", [count // stages] * stages)
    ends = [sum(sizes[: stage + 1]) for stage in range(stages)]
    return [
        range(end - size, end) for size, end in zip(sizes, ends, strict=True)
    ]


def metadata_of(rank, side):
    """Of each parameter of a rank."""
    groups, layers = groups_of(rank, side), layers_of(side)
    stage = rank // (side["world"] // side["pp"])
    prefixes, found = {}, []

    def add(name, shape, dim, stride, expert=False):
        found.append(
            ParameterMetadata(
                name=name,
                shape=shape,
                dtype=torch.bfloat16,
                element_size=2,
                is_tp=dim is not None,
                partition_dim=dim or 0,
                partition_stride=stride,
                is_ep=expert,
                num_experts=EXPERTS,
                owner_rank=rank,
                tensor_parallel_group_ranks=None if dim is None else groups.tp,
                expert_parallel_group_ranks=groups.ep if expert else None,
                data_parallel_group_ranks=groups.dp,
                pipeline_parallel_group_ranks=groups.pp,
            )
        )
        assign_resolved_name_inplace(
            found[-1], layer_module_prefix_map=prefixes
        )

    if stage == 0:
        for tensor in FIRST:
            add(*tensor)
    for local, number in enumerate(layers[stage]):
        prefix = f"decoder.layers.{local}"
        prefixes[prefix] = f"decoder.layers.{number}"
        for name, *tensor in LAYER:
            add(f"{prefix}.{name}", *tensor)
        for name, *tensor in EXPERT:
            for expert in range(EXPERTS // side["ep"]):
                add(f"{prefix}.{name.format(expert)}", *tensor, expert=True)
    if stage == side["pp"] - 1:
        for tensor in LAST:
            add(*tensor)
    return found


class OneProcess:
    """torch.distributed for the planner on rank 0: what the others would tell
    is there already."""

    def __init__(self, sides):
        self.gathered = [
            [metadata_of(rank, side) for rank in range(WORLD)] for side in sides
        ]

    def get_rank(self):
        return 0

    def get_world_size(self):
        return WORLD

    def all_gather_object(self, into, _):
        into[:] = self.gathered[self.turn]
        self.turn += 1

    def planned(self):
        """Seconds by the clock and of CPU, and the number of transfers."""
        self.turn = 0
        nothing = torch.nn.Module()
        nothing.pg_collection = SimpleNamespace()
        plans = []
        planner.dist, kept = self, planner.dist
        sent = torch.distributed.broadcast_object_list
        torch.distributed.broadcast_object_list = lambda all_plans, src: (
            plans.extend(all_plans)
        )
        try:
            start, worked = time.perf_counter(), time.process_time()
            planner.build_centralized_reshard_plan(nothing, nothing, EXPERTS)
            seconds = {
                "total": time.perf_counter() - start,
                "cpu": time.process_time() - worked,
            }
        finally:
            planner.dist = kept
            torch.distributed.broadcast_object_list = sent
        return seconds, sum(len(plan.recv_ops) for plan in plans)


# Ours ------------------------------------------------------------------------


def requests(worlds):
    """{case: request}."""
    weights = proof_cost.request(WORLD)
    weights["state"] = {"param": "bf16"}
    for side in ("source", "destination"):
        del weights[side]["zero"]
    found = {f"weights, {WORLD} ranks": weights}
    for world in [WORLD, *worlds]:
        found[f"full state, {world} ranks"] = proof_cost.request(world)
    return found


def spread(samples):
    return {
        what: proof_cost.spread([one[what] for one in samples])
        for what in ("total", "cpu")
    }


def measure(options, folder):
    shapes = requests(options.world)
    peer = OneProcess(
        [
            shapes[f"weights, {WORLD} ranks"][s]
            for s in ("source", "destination")
        ]
    )
    for number, shape in enumerate(shapes.values()):
        (folder / f"{number}.json").write_text(json.dumps(shape))
    samples = {name: [] for name in ["planner", *shapes]}
    sizes = {}
    for _ in range(options.runs):
        seconds, transfers = peer.planned()
        samples["planner"].append(seconds)
        for number, name in enumerate(shapes):
            plan = folder / f"{number}.dtplan"
            samples[name].append(
                proof_cost.compile_once(
                    options.bin, folder / f"{number}.json", plan
                )
            )
            sizes[name] = plan.stat().st_size
    line = {"planner": {**spread(samples["planner"]), "transfers": transfers}}
    for name in shapes:
        line[name] = {
            **spread(samples[name]),
            "plan bytes": sizes[name],
            "times the planner's": {
                what: round(
                    statistics.median(s[what] for s in samples[name])
                    / statistics.median(s[what] for s in samples["planner"]),
                    3,
                )
                for what in ("total", "cpu")
            },
        }
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--world", type=int, nargs="*", default=[])
    parser.add_argument(
        "--bin", type=Path, default=proof_cost.ROOT / "build/bin"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        line = measure(options, Path(folder))
    print(json.dumps({"load": os.getloadavg()[0], **line}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
