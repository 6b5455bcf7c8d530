"""A small GPT whose matrices are cut by tensor parallelism, in plain PyTorch.

Which part of which full tensor a parameter is stands in `regions`; all else of
this file is a model as any other.
"""

import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HIDDEN, HEADS, BLOCKS, CONTEXT = 64, 32, 64, 4, 2, 12


class _Enter(torch.autograd.Function):
    """The same activations for all parts; their gradients are added."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class _Leave(torch.autograd.Function):
    """The sum of what the parts have computed."""

    @staticmethod
    def forward(context, x, group):
        x = x.contiguous()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class Cut:
    """One of `parts` parts of a model; `group`: of all of them."""

    def __init__(self, part=0, parts=1, group=None):
        self.part, self.parts, self.group = part, parts, group

    def enter(self, x):
        return x if self.group is None else _Enter.apply(x, self.group)

    def leave(self, x):
        return x if self.group is None else _Leave.apply(x, self.group)

    def region(self, shape, dim):
        """Offset and size of a full tensor's part; no dim: it is whole."""
        offset, size = [0] * len(shape), list(shape)
        if dim is not None:
            size[dim] //= self.parts
            offset[dim] = self.part * size[dim]
        return tuple(offset), tuple(size)


class Gpt(nn.Module):
    """The mean loss of token sequences."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        #: {name: (full shape, offset, size)}
        self.regions = {}
        self.weights = nn.ParameterDict()
        self._add("embed", (VOCABULARY, WIDTH))
        self._add("places", (CONTEXT, WIDTH))
        for number in range(BLOCKS):
            at = f"blocks_{number}_"
            for name in "qkv":
                self._add(at + name, (WIDTH, WIDTH), 0)
            self._add(at + "o", (WIDTH, WIDTH), 1)
            self._add_mlp(at)
            self._add(at + "before", (WIDTH,))
            self._add(at + "after", (WIDTH,))
        self._add("head", (VOCABULARY, WIDTH))

    def _add_mlp(self, at):
        self._add(at + "up", (HIDDEN, WIDTH), 0)
        self._add(at + "down", (WIDTH, HIDDEN), 1)

    def _add(self, name, shape, dim=None, cut=None):
        offset, size = (cut or self.cut).region(shape, dim)
        self.regions[name] = (shape, offset, size)
        values = torch.ones(size, dtype=torch.float64)
        self.weights[name] = nn.Parameter(values)

    def first_values(self):
        """The same model however it is cut."""
        for name, (shape, offset, size) in self.regions.items():
            if len(shape) == 1:
                continue
            seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            full = torch.randn(shape, generator=seed, dtype=torch.float64)
            for dim, (first, count) in enumerate(zip(offset, size)):
                full = full.narrow(dim, first, count)
            self.weights[name].data.copy_(full * shape[-1] ** -0.5)

    def _attend(self, x, weights):
        q, k, v = (
            functional.linear(x, weights[name])
            .unflatten(-1, (-1, WIDTH // HEADS))
            .transpose(1, 2)
            for name in "qkv"
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return functional.linear(y.transpose(1, 2).flatten(2), weights["o"])

    def _block(self, x, weights):
        y = functional.layer_norm(x, (WIDTH,), weights["before"])
        x = x + self.cut.leave(self._attend(self.cut.enter(y), weights))
        y = functional.layer_norm(x, (WIDTH,), weights["after"])
        return x + self._mlp(y, weights)

    def _mlp(self, y, weights):
        y = functional.gelu(functional.linear(self.cut.enter(y), weights["up"]))
        return self.cut.leave(functional.linear(y, weights["down"]))

    def forward(self, tokens):
        weights = self.weights
        given, wanted = tokens[:, :-1], tokens[:, 1:]
        x = weights["embed"][given] + weights["places"][: given.shape[1]]
        for number in range(BLOCKS):
            at = f"blocks_{number}_"
            own = {
                n[len(at) :]: w for n, w in weights.items() if n.startswith(at)
            }
            x = self._block(x, own)
        logits = functional.linear(x, weights["head"])
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
