"""`mamba_ssm`'s kernels as plain torch, for Megatron-Core on CPUs.

They need Triton and a GPU. Megatron-Core's mixer takes a norm and a scan of
them: these are the same by their definitions, a token at a time. Import this
before Megatron-Core's mixer, which looks for the package when it is imported.
"""

import sys
import types

import torch
from torch.nn import functional


class GatedNorm(torch.nn.Module):
    """RMS norm of x silu(z), by groups."""

    def __init__(
        self, size, eps=1e-5, group_size=None, norm_before_gate=False,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        assert not norm_before_gate
        self.eps, self.group_size = eps, group_size or size
        self.weight = torch.nn.Parameter(
            torch.empty(size, device=device, dtype=dtype)
        )

    def forward(self, x, z):
        gated = (x * functional.silu(z)).unflatten(-1, (-1, self.group_size))
        scale = (gated.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (gated * scale).flatten(-2) * self.weight


def scan(
    x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None,
    dt_softplus=False, return_final_states=False, seq_idx=None,
    cu_seqlens=None, return_varlen_states=False, initial_states=None,
):  # fmt: skip
    """h' = exp(dt A) h + dt B x, y = C h' + D x; x is [batch, length, heads,
    rows of a head], B and C are those of a group of heads."""
    del chunk_size, cu_seqlens
    assert z is None and seq_idx is None and initial_states is None
    assert not (return_final_states or return_varlen_states)
    dt = functional.softplus(dt + dt_bias) if dt_softplus else dt + dt_bias
    heads = x.shape[2] // B.shape[2]
    B, C = (one.repeat_interleave(heads, 2) for one in (B, C))
    state = x.new_zeros(*x.shape[:1], *x.shape[2:], B.shape[-1])
    outputs = []
    for t in range(x.shape[1]):
        step = dt[:, t, :, None, None]
        grown = x[:, t, :, :, None] * B[:, t, :, None, :]
        state = (step * A[:, None, None]).exp() * state + step * grown
        outputs.append((state * C[:, t, :, None, :]).sum(-1))
    return torch.stack(outputs, 1) + D[:, None] * x


def put_in_place():
    """Modules that Megatron-Core imports these of."""
    ops = "mamba_ssm.ops.triton"
    for name, parts in (
        ("mamba_ssm", {}),
        ("mamba_ssm.ops", {}),
        (ops, {}),
        (f"{ops}.selective_state_update", {"selective_state_update": None}),
        (f"{ops}.layernorm_gated", {"RMSNorm": GatedNorm}),
        (
            f"{ops}.ssd_combined",
            {
                "mamba_chunk_scan_combined": scan,
                "mamba_split_conv1d_scan_combined": None,
            },
        ),
    ):
        module = types.ModuleType(name)
        vars(module).update(parts)
        sys.modules[name] = module
