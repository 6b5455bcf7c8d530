"""The state of a small language model that has been trained.

Random values do not compress as state does, so a model is trained, on the text
of this repository: parameters in bf16, their masters and Adam's moments in f32,
as mixed precision has it.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[2]
CONTEXT, BATCH, BYTES = 64, 8, 256
BETAS, EPSILON, RATE = (0.9, 0.95), 1e-8, 1e-3


class Block(nn.Module):
    """Attention and an MLP, each beside what comes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64)
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.before(x)).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Gpt(nn.Module):
    """The mean loss of byte sequences."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(BYTES, width)
        self.places = nn.Embedding(CONTEXT, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        inputs, targets = text[:, :-1], text[:, 1:]
        x = self.embed(inputs) + self.places.weight[: inputs.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def corpus() -> torch.Tensor:
    """The bytes of the documentation and the Python package."""
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "python").rglob("*.py")]
    text = b"".join(path.read_bytes() for path in sorted(files))
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def train(
    width: int = 256, layers: int = 8, steps: int = 60
) -> tuple[dict[str, dict[str, torch.Tensor]], list[float]]:
    """{parameter: {state: tensor}}, and the losses."""
    torch.manual_seed(1)
    model = Gpt(width, layers)
    text = corpus()
    state = {}
    for name, value in model.named_parameters():
        master = value.detach().clone()
        value.data.copy_(master.bfloat16())
        state[name] = {
            "param": master.bfloat16(),
            "master": master,
            "exp_avg": torch.zeros_like(master),
            "exp_avg_sq": torch.zeros_like(master),
        }
    losses = []
    for step in range(1, steps + 1):
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
        batch = torch.stack([text[s : s + CONTEXT + 1] for s in starts])
        loss = model(batch)
        loss.backward()
        losses.append(float(loss.detach()))
        _step(model, state, step)
    return state, losses


@torch.no_grad()
def _step(model: nn.Module, state: dict, step: int) -> None:
    """AdamW on the masters. The model computes in f32, as CPUs are slow in
    bf16, with parameters that are the masters rounded to it."""
    for name, value in model.named_parameters():
        own, gradient = state[name], value.grad
        own["exp_avg"].lerp_(gradient, 1 - BETAS[0])
        own["exp_avg_sq"].mul_(BETAS[1]).addcmul_(
            gradient, gradient, value=1 - BETAS[1]
        )
        mean = own["exp_avg"] / (1 - BETAS[0] ** step)
        square = own["exp_avg_sq"] / (1 - BETAS[1] ** step)
        own["master"].mul_(1 - 0.1 * RATE)
        own["master"].addcdiv_(mean, square.sqrt() + EPSILON, value=-RATE)
        own["param"].copy_(own["master"])
        value.copy_(own["param"])
        value.grad = None
