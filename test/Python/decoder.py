"""A small trainer with the parts of a real one: a decoder under FSDP2, or under
FSDP2 and tensor parallelism, two groups of AdamW, a schedule."""

from processes import dist, torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional

VOCABULARY, WIDTH, HIDDEN, HEAD, BLOCKS = 250, 32, 88, 8, 2


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in "qkvo":
            setattr(self, name, torch.nn.Linear(WIDTH, WIDTH, bias=False))

    def forward(self, x):
        q, k, v = (
            part(x).unflatten(-1, (-1, HEAD)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).flatten(2))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.before = torch.nn.LayerNorm(WIDTH)
        self.after = torch.nn.LayerNorm(WIDTH)
        self.gate = torch.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = torch.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        y = self.after(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )


class Whole(ParallelStyle):
    """Parameters that tensor parallelism leaves whole, as DTensors of its mesh
    nonetheless."""

    def _apply(self, module, mesh):
        def enter(_, inputs, mesh):
            whole = DTensor.from_local(
                inputs[0], mesh, [Replicate()], run_check=False
            )
            return (whole, *inputs[1:])

        def leave(_, output, mesh):
            return output.to_local()

        return distribute_module(module, mesh, None, enter, leave)


def tensor_parallel(model, mesh, norms):
    styles = {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    for number in range(BLOCKS):
        at = f"blocks.{number}"
        for name in ("attention.q", "attention.k", "attention.v", "gate", "up"):
            styles[f"{at}.{name}"] = ColwiseParallel()
        for name in ("attention.o", "down"):
            styles[f"{at}.{name}"] = RowwiseParallel()
        if norms:
            styles[f"{at}.before"] = styles[f"{at}.after"] = Whole()
    if norms:
        styles["norm"] = Whole()
    parallelize_module(model, mesh, styles)


def build(sizes, seed=0, norms=True):
    """Model, optimizer and schedule on a mesh: {"dp": 4} or
    {"dp": 2, "tp": 2}. Without `norms` tensor parallelism leaves them alone:
    they lie on sub-meshes."""
    mesh = init_device_mesh(
        "cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes)
    )
    torch.manual_seed(seed)
    model = Decoder()
    if "tp" in sizes:
        tensor_parallel(model, mesh["tp"], norms)
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    wide = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": wide, "weight_decay": 0.1, "lr": 3e-3},
            {"params": rest, "weight_decay": 0.0, "lr": 1e-3},
        ],
        betas=(0.9, 0.95),
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 ** (step / 4)
    )
    return mesh, model, optimizer, schedule


def train(mesh, model, optimizer, schedule, first, count):
    """The mean loss of each step."""
    part, parts = mesh.get_local_rank("dp"), mesh["dp"].size()
    losses = []
    for step in range(first, first + count):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, VOCABULARY, (8, 12), generator=generator)
        optimizer.zero_grad()
        loss = model(tokens.chunk(parts)[part])
        loss.backward()
        optimizer.step()
        schedule.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    return losses
