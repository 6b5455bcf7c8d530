"""torchtitan and the configurations of ../torchtitan, on CPUs where there is no
GPU."""

import os
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "torchtitan")]
import cpu  # noqa: E402

cpu.for_torchtitan()
# torchrun says which GPU is this process's.
os.environ.setdefault("LOCAL_RANK", "0")

import dynatrain.torchtitan  # noqa: E402, F401
from config import configured, start  # noqa: E402, F401
from torchtitan.trainer import Trainer  # noqa: E402, F401
