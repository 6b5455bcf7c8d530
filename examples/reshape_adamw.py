"""Reshapes a model and its AdamW state, held by 4 processes, over Gloo.

dt-opt examples/requests/adamw-mlp-4-rows-to-columns.json -o mlp.dtplan
torchrun --nproc-per-node=4 examples/reshape_adamw.py mlp.dtplan
"""

import sys

import dynatrain
import torch
import torch.distributed as dist

# The dimension that each layout cuts in four; None: every process has it all.
ROWS = {"0.weight": 0, "0.bias": 0, "2.weight": 0, "2.bias": None}
COLUMNS = {"0.weight": 0, "0.bias": 0, "2.weight": 1, "2.bias": None}


def train():
    """A small model after three steps, the same on every process."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 256)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def shard(tensor, dim, rank):
    part = tensor if dim is None else tensor.chunk(4, dim)[rank]
    return part.detach().contiguous()


dist.init_process_group("gloo")
rank = dist.get_rank()
model, optimizer = train()
full = dynatrain.training_state(model, optimizer)
old = {(n, s): shard(t, ROWS[n], rank) for (n, s), t in full.items()}
right = {(n, s): shard(t, COLUMNS[n], rank) for (n, s), t in full.items()}
# The new shards; their optimizer gets its state when the switch is over.
sizes = {n: t.shape for (n, s), t in right.items() if s == "param"}
new = {n: torch.nn.Parameter(torch.zeros(size)) for n, size in sizes.items()}
adamw = torch.optim.AdamW(new.values())
fresh = dynatrain.fresh_state(new, adamw)

plan = dynatrain.Plan.load(sys.argv[1])
switch = plan.prepare(dynatrain.World(), old, fresh.tensors)
# A trainer goes on meanwhile, until a step boundary.
switch.transfer(user_data=dynatrain.counters(model, optimizer))
switch.commit()
fresh.install(switch.user_data)

state = dynatrain.training_state(new, adamw)
assert all(torch.equal(tensor, right[key]) for key, tensor in state.items())
count = sum(tensor.nbytes for tensor in state.values())
print(f"rank {rank}: {count} bytes compared, all right")
