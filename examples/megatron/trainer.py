"""A small Megatron-Core trainer: GPT, dense or of experts, with tensor,
pipeline, data and expert parallelism, ZeRO-1 and Megatron's own schedules.

Nothing in it knows of DynaTrain. `Trainer` makes the objects of one world, in
whatever world Megatron-Core's globals are; `step` takes one training step.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.num_microbatches_calculator import (
    get_num_microbatches,
    init_num_microbatches_calculator,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.pipeline_parallel.schedules import (
    get_forward_backward_func,
)
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

VOCABULARY, LENGTH, BATCH, LAYERS, NUM_EXPERTS = 128, 32, 4, 4, 4


@dataclass
class Sizes:
    """A parallel layout of this job's processes."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    etp: int = 1
    #: Layers of each stage; none: equally many.
    stages: tuple = ()

    def __str__(self):
        sizes = vars(self) | {"dp": dist.get_world_size() // self.tp // self.pp}
        return " ".join(
            f"{name}{size}"
            for name, size in sizes.items()
            if size not in (1, ())
        )


@dataclass
class Kind:
    """What is trained. half: bf16 parameters, main parameters in single
    precision; zero: the optimizer is distributed over data parallelism; batch:
    samples of an iteration."""

    experts: bool = False
    half: bool = True
    zero: bool = True
    batch: int = BATCH

    @property
    def dtype(self):
        return torch.bfloat16 if self.half else torch.float32


def _experts(sizes):
    return {
        "num_moe_experts": NUM_EXPERTS,
        "moe_router_topk": 2,
        "moe_ffn_hidden_size": 64,
        "moe_token_dispatcher_type": "alltoall",
        "moe_router_load_balancing_type": "none",
        "add_bias_linear": False,
        "gated_linear_unit": True,
        "activation_func": torch.nn.functional.silu,
        "expert_model_parallel_size": sizes.ep,
        "expert_tensor_parallel_size": sizes.etp,
    }


def _stages(sizes):
    if not sizes.stages:
        return {}
    blocks = [["decoder"] * count for count in sizes.stages]
    blocks[0].insert(0, "embedding")
    blocks[-1].append("loss")
    return {"pipeline_model_parallel_layout": blocks}


def _config(sizes, kind):
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=32,
        num_attention_heads=4,
        bf16=kind.half,
        params_dtype=kind.dtype,
        pipeline_dtype=kind.dtype,
        tensor_model_parallel_size=sizes.tp,
        pipeline_model_parallel_size=sizes.pp,
        use_cpu_initialization=not torch.cuda.is_available(),
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        **(_experts(sizes) if kind.experts else {}),
        **_stages(sizes),
    )


def _chunk(config, kind):
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(
            num_experts=config.num_moe_experts, moe_grouped_gemm=False
        ),
        vocab_size=VOCABULARY,
        max_sequence_length=LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
    )
    if torch.cuda.is_available():
        model.cuda()
    if kind.half:
        model = Float16Module(config, model)
    return DistributedDataParallel(
        config,
        DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, use_distributed_optimizer=kind.zero
        ),
        model,
    )


def _optimizer(chunks, kind):
    return get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=1e-2,
            min_lr=1e-4,
            weight_decay=0.01,
            bf16=kind.half,
            params_dtype=kind.dtype,
            use_distributed_optimizer=kind.zero,
            clip_grad=1.0,
        ),
        chunks,
    )


def _scheduler(optimizer, batch):
    return OptimizerParamScheduler(
        optimizer,
        init_lr=0.0,
        max_lr=1e-2,
        min_lr=1e-4,
        lr_warmup_steps=2 * batch,
        lr_decay_steps=40 * batch,
        lr_decay_style="cosine",
        start_wd=0.01,
        end_wd=0.01,
        wd_incr_steps=40 * batch,
        wd_incr_style="constant",
    )


def _loss(of_tokens):
    mean = of_tokens.float().mean()
    # Megatron-Core scales what it gets in place.
    return mean, {"loss": mean.detach().clone()}


def _forward(batches, model):
    tokens = next(batches)
    if torch.cuda.is_available():
        tokens = tokens.cuda()
    at = tokens.device
    positions = torch.arange(LENGTH, device=at).unsqueeze(0)
    mask = torch.ones(1, 1, LENGTH, LENGTH, device=at).triu(1).bool()
    output = model(tokens[:, :-1], positions, mask, labels=tokens[:, 1:])
    return output, _loss


class Trainer:
    """The objects of one world. seed: of weights and generators; None: others
    give these."""

    def __init__(self, sizes, kind, seed=1234):
        self.sizes, self.kind, self.iteration = sizes, kind, 0
        parallel_state.initialize_model_parallel(
            sizes.tp,
            sizes.pp,
            expert_model_parallel_size=sizes.ep,
            expert_tensor_parallel_size=sizes.etp,
        )
        init_num_microbatches_calculator(
            0,
            None,
            kind.batch,
            1,
            parallel_state.get_data_parallel_world_size(),
        )
        if seed is not None:
            torch.manual_seed(seed)
            model_parallel_cuda_manual_seed(seed)
        config = _config(sizes, kind)
        self.chunks = [_chunk(config, kind)]
        self.optimizer = _optimizer(self.chunks, kind)
        self.scheduler = _scheduler(self.optimizer, kind.batch)
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = self.optimizer.scale_loss

    def _batches(self):
        """This process's part of the iteration's samples; which these are
        depends on the iteration alone."""
        size = self.kind.batch
        generator = torch.Generator().manual_seed(self.iteration)
        # Tokens that follow each other, so that there is something to learn.
        first = torch.randint(0, VOCABULARY, (size, 1), generator=generator)
        samples = (first + torch.arange(LENGTH + 1)) % VOCABULARY
        part = parallel_state.get_data_parallel_rank()
        parts = parallel_state.get_data_parallel_world_size()
        return iter(samples.chunk(parts)[part].split(1))

    def step(self):
        """One iteration; the mean loss over all samples, on all processes."""
        for chunk in self.chunks:
            chunk.zero_grad_buffer()
        self.optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=_forward,
            data_iterator=self._batches(),
            model=self.chunks,
            num_microbatches=get_num_microbatches(),
            seq_length=LENGTH,
            micro_batch_size=1,
            forward_only=False,
        )
        self.optimizer.step()
        self.scheduler.step(increment=self.kind.batch)
        self.iteration += 1
        told = torch.tensor(
            [sum(float(one["loss"]) for one in losses), float(len(losses))]
        )
        dist.all_reduce(told)
        return (told[0] / told[1]).item()
