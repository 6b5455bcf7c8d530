"""Megatron-Core and ../megatron's trainer, on CPUs where there is no GPU."""

import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "megatron")]
import cpu  # noqa: E402

BACKEND = cpu.for_megatron()

import independent  # noqa: E402, F401
import trainer  # noqa: E402
from dynatrain import megatron  # noqa: E402, F401
from trainer import Kind, Sizes  # noqa: E402, F401


class Trainer(trainer.Trainer):
    """Made on any thread."""

    def __init__(self, *how, **more):
        with cpu.of_thread():
            super().__init__(*how, **more)
