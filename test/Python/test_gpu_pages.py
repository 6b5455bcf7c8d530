"""Memory of GPUs that a switch can take page by page, without a GPU."""

import ctypes

import dynatrain
import pytest
from dynatrain import _C
from processes import torch

needs_cuda = pytest.mark.skipif(
    "cuda" not in _C.features(), reason="built without CUDA"
)


def test_hollow_tensors_of_a_shape_have_never_had_memory():
    made = _C.hollow_like(torch.empty(0, dtype=torch.bfloat16), [3, 5])
    assert made.shape == (3, 5) and made.is_contiguous()
    assert made.dtype == torch.bfloat16
    assert made.untyped_storage().nbytes() == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_pool_without_a_gpu_is_refused():
    with pytest.raises(dynatrain.InvalidError, match="this torch has no GPU"):
        dynatrain.page_pool()


@needs_cuda
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_torchs_allocator_finds_the_pools_functions():
    """By name, and without memory they say so as it expects."""
    module = ctypes.CDLL(_C.__file__)
    allocate, free = (
        module.dynatrain_allocate_pages,
        module.dynatrain_free_pages,
    )
    allocate.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    allocate.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p, *allocate.argtypes]
    free.restype = None
    assert allocate(1 << 20, 0, None) is None
    free(None, 0, 0, None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_tensors_in_pages_on_a_gpu():
    whole = torch.arange(5 << 20, dtype=torch.float32, device="cuda")
    assert torch.equal(dynatrain.paged(whole), whole)
    with torch.cuda.use_mem_pool(dynatrain.page_pool()):
        other = whole.clone()
    assert torch.equal(other, whole)
    made = dynatrain.hollow(whole.to("meta"), "cuda")
    assert made.is_cuda and made.untyped_storage().nbytes() == 0
