"""torchtitan's llama debug model, small enough for a CPU, on data that this
file makes up."""

import zlib
from dataclasses import dataclass

import torch
from torch.distributed.tensor import distribute_tensor
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    default_adamw,
)
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

LAYOUTS = [
    {"data_parallel_shard_degree": 4},
    {"data_parallel_shard_degree": 2, "tensor_parallel_degree": 2},
    {"data_parallel_shard_degree": 2, "data_parallel_replicate_degree": 2},
    {"data_parallel_shard_degree": 4},
]
VOCABULARY, LENGTH, BATCH, LOCAL = 2048, 32, 8, 2


class Tokens(BaseTokenizer):
    """There is no text to encode."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **_):
        super().__init__()

    def encode(self, *_, **__):
        return []

    def decode(self, *_, **__):
        return ""

    def get_vocab_size(self):
        return VOCABULARY


class Counted(BaseDataLoader):
    """Samples by number. Its state is how many all processes together have
    had, which is the same on all of them and in all layouts."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(
        self, config, *, dp_world_size, dp_rank, local_batch_size, **_
    ):
        self.part, self.parts = dp_rank, dp_world_size
        self.size, self.given = local_batch_size, 0

    def __iter__(self):
        while True:
            first = self.given + self.part * self.size
            self.given += self.parts * self.size
            rows = [self._sample(first + n) for n in range(self.size)]
            tokens = torch.stack(rows)
            yield {"input": tokens[:, :-1]}, tokens[:, 1:]

    @staticmethod
    def _sample(number):
        generator = torch.Generator().manual_seed(number)
        first = torch.randint(0, VOCABULARY, (1,), generator=generator)
        return (first + torch.arange(LENGTH + 1)) % 64

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state):
        self.given = state["given"]


def start(trainer):
    """Weights that are the same in all layouts: torchtitan draws every shard's
    own."""
    for name, weight in trainer.model_parts[0].named_parameters():
        if weight.dim() > 1:
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            full = torch.randn(weight.shape, generator=generator) * 0.02
            whole = distribute_tensor(
                full, weight.device_mesh, weight.placements, src_data_rank=None
            )
            with torch.no_grad():
                weight.to_local().copy_(whole.to_local())
            assert torch.equal(weight.full_tensor(), full), name


def configured(sizes, steps, batch=BATCH, local=LOCAL):
    """A trainer's configuration in a layout: samples of a step, and of one
    process at once."""
    spec = model_registry("debugmodel", attn_backend="flex")
    spec.model.layers = spec.model.layers[:2]
    return Trainer.Config(
        model_spec=spec,
        loss=CrossEntropyLoss.Config(
            global_vocab_size=decoder_vocab_size(spec)
        ),
        tokenizer=Tokens.Config(),
        dataloader=Counted.Config(),
        optimizer=default_adamw(lr=8e-4),
        lr_scheduler=LRSchedulersContainer.Config(
            warmup_steps=2, decay_ratio=0.8, decay_type="linear"
        ),
        training=TrainingConfig(
            local_batch_size=local,
            global_batch_size=batch,
            seq_len=LENGTH,
            steps=steps,
            disable_cuda_graphs=True,
        ),
        metrics=MetricsProcessor.Config(log_freq=100),
        parallelism=ParallelismConfig(spmd_backend="partial_dtensor", **sizes),
        checkpoint=CheckpointManager.Config(),
        activation_checkpoint=None,
    )
