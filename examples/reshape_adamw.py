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
# The new shards and their optimizer, still empty.
new = {n: torch.zeros_like(t) for (n, s), t in right.items() if s == "param"}
adamw = torch.optim.AdamW(new.values())
target = dynatrain.training_state(new, adamw, create=True)

plan = dynatrain.Plan.load(sys.argv[1])
counters = dynatrain.steps(model, optimizer)
switch = plan.prepare(dynatrain.World(), old, target, user_data=counters)
switch.transfer()  # a trainer goes on meanwhile, until a step boundary
switch.commit()
dynatrain.set_steps(new, adamw, switch.user_data)

for key, tensor in target.items():
    assert torch.equal(tensor, right[key]), key
count = sum(tensor.nbytes for tensor in target.values())
print(f"rank {rank}: {count} bytes compared, all right")
