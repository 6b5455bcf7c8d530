"""Mamba mixers and gated delta nets are cut as Megatron-Core's own code cuts
them."""

from conftest import run_apart
from test_examples import needs


@needs("megatron", "einops")
def test_parts_of_mixers():
    told = run_apart("mamba_layout.py")
    assert "mixer: 8 parameters of 2 ranks are as expected" in told
    assert "delta net: 6 parameters of 2 ranks are as expected" in told
