"""Mamba mixers are cut as Megatron-Core's own code cuts them."""

from conftest import run_apart
from test_examples import needs


@needs("megatron", "einops")
def test_parts_of_a_mixer():
    told = run_apart("mamba_layout.py")
    assert "8 parameters of 2 ranks are as expected" in told
