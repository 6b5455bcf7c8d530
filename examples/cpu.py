"""Lets trainers that call CUDA run on a machine without GPUs, over Gloo.

Megatron-Core and torchtitan ask CUDA for devices, streams and generators in
many places. What they get here is the CPU's. Where there is a GPU nothing is
changed. This is for examples and tests, not for training.
"""

import atexit
import contextlib
import os
import sys

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")


class _Stream:
    """Work of the CPU is over when the call returns."""

    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass

    def record_event(self, *_):
        return self


class _FloatTensor:
    def __new__(cls, values, *_):
        return torch.tensor(values, dtype=torch.float)


class _OnCpu(TorchFunctionMode):
    """Tensors that are made for CUDA are made on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = CPU
        return function(*args, **kwargs)


_MODE = _OnCpu()


def _cuda_names():
    """torch.cuda as the CPU would answer."""
    cuda = torch.cuda
    cuda.current_device = lambda: CPU
    cuda.set_device = lambda device: None
    cuda.synchronize = lambda *_: None
    cuda.default_stream = cuda.current_stream = lambda *_: _Stream()
    cuda.Stream = lambda *_, **__: _Stream()
    cuda.stream = lambda stream: contextlib.nullcontext()
    cuda.nvtx.range_push = cuda.nvtx.range_pop = lambda *_: None
    cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    cuda.manual_seed = torch.manual_seed
    cuda.FloatTensor = _FloatTensor


def _tensor_names():
    """Tensors that say they are on CUDA where Megatron-Core asks by name."""
    kind = torch.Tensor.type

    def type_of(tensor, *args, **kwargs):
        name = kind(tensor, *args, **kwargs)
        if isinstance(name, str) and "cuda" not in name:
            return name.replace("torch.", "torch.cuda.", 1)
        return name

    torch.Tensor.type = type_of
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor


def _split_sizes():
    """Gloo wants lists where NCCL takes tensors."""
    exchange = dist.all_to_all_single

    def plain(sizes):
        return sizes.tolist() if hasattr(sizes, "tolist") else sizes

    def all_to_all_single(
        output, given, output_split_sizes=None, input_split_sizes=None, **more
    ):
        return exchange(
            output,
            given,
            output_split_sizes=plain(output_split_sizes),
            input_split_sizes=plain(input_split_sizes),
            **more,
        )

    dist.all_to_all_single = all_to_all_single


def _uneven():
    """Gloo gathers and scatters equal parts only."""
    gather, scatter = dist.all_gather, dist.reduce_scatter

    def all_gather(outputs, given, group=None, **more):
        if len({tuple(one.shape) for one in outputs}) == 1:
            return gather(outputs, given, group=group, **more)
        outputs[dist.get_rank(group)].copy_(given)
        for number, one in enumerate(outputs):
            dist.broadcast(one, group=group, group_src=number)
        return None

    def reduce_scatter(output, inputs, *args, group=None, **more):
        if len({tuple(one.shape) for one in inputs}) == 1:
            return scatter(output, inputs, *args, group=group, **more)
        for one in inputs:
            dist.all_reduce(one, *args, group=group)
        output.copy_(inputs[dist.get_rank(group)])
        return None

    dist.all_gather, dist.reduce_scatter = all_gather, reduce_scatter


def _without_compiler():
    """What is compiled elsewhere runs as it is: Inductor takes longer to be
    imported than these models to be trained."""
    torch.compile = lambda model=None, **_: model or (lambda model: model)


def for_megatron():
    """Call it before megatron.core is imported; gives the backend to use."""
    if torch.cuda.is_available():
        torch.cuda.set_device(dist.get_node_local_rank(fallback_rank=0))
        return "nccl"
    torch.set_num_threads(1)
    _without_compiler()
    sys.modules.setdefault("wandb", None)  # it logs where it is found
    _cuda_names()
    _tensor_names()
    _split_sizes()
    _uneven()
    _MODE.__enter__()
    import megatron.core.tensor_parallel.random as generators
    import megatron.core.transformer.moe.moe_utils as experts

    generators._set_cuda_rng_state = lambda state, *_, **__: (
        torch.set_rng_state(state)
    )
    generators._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
    experts.te_general_gemm = None
    return "gloo"


def of_thread():
    """As for the thread that has called `for_megatron`, for another one."""
    if torch.cuda.is_available():
        return contextlib.nullcontext()
    return _OnCpu()


def _cpu_names():
    """torch.cpu with the questions that torchtitan asks of a device."""
    import torch._utils

    class Properties:
        total_memory, name = 1 << 34, "cpu"

    module = torch.cpu
    torch._utils._get_available_device_type = lambda: "cpu"
    module.get_device_name = lambda device=None: "cpu"
    module.current_device = lambda: 0
    module.get_device_properties = lambda device=None: Properties
    module.reset_peak_memory_stats = module.empty_cache = lambda *_: None
    module.memory_stats = lambda device=None: {}
    module.max_memory_allocated = module.memory_reserved = lambda *_: 0


def _plain_calls():
    barrier = dist.barrier

    def without_devices(*args, **more):
        more.pop("device_ids", None)
        return barrier(*args, **more)

    dist.barrier = without_devices
    if not hasattr(dist, "set_timeout"):
        dist.set_timeout = lambda *_, **__: None


def _plain_sums():
    """Gloo has no PREMUL_SUM; FSDP2 divides by itself when told to."""
    from torch.distributed.fsdp import FSDPModule

    set_factor = FSDPModule.set_gradient_divide_factor

    def set_gradient_divide_factor(module, factor):
        set_factor(module, factor)
        module.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = set_gradient_divide_factor


def for_torchtitan():
    """Call it before torchtitan is imported."""
    if torch.cuda.is_available():
        return
    torch.set_num_threads(1)
    _without_compiler()
    _cpu_names()
    _plain_calls()
    _plain_sums()
    # Its masked attention needs a compiler for GPUs.
    import torchtitan.models.common.config_utils as attention
    import torchtitan.models.llama3 as llama3
    from torchtitan.models.common.attention import ScaledDotProductAttention

    def causal(backend):
        return ScaledDotProductAttention.Config()

    attention.get_attention_config = llama3.get_attention_config = causal


def leave():
    """Ends the process's part in torch.distributed; over Gloo the process too.

    Gloo's threads let go of a collective's tensors some time after it has
    returned, and need Python for that. One that asks for it while Python ends
    takes the process down ("terminate called without an active exception"), and
    destroy_process_group does not wait for them. So Python does not end here:
    what is registered for its exit is run, and the process is over.
    """
    uses_gloo = dist.get_backend() == "gloo"
    dist.destroy_process_group()
    if uses_gloo:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
