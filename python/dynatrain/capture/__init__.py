"""Layouts of live objects, as the explicit shards of a request.

Three readers fill a `Layout` with one row per region that a rank holds:

- `from_checkpoint_metadata`: the Metadata of torch.distributed.checkpoint,
- `from_dtensors`: a state dict of DTensors (FSDP2, TP, HSDP, _StridedShard),
- `from_sharded_tensors`: Megatron-Core's sharded_state_dict, rank by rank;
  `describe_sharded` makes plain data of one, with ZeRO-1's ranges.

Each takes the objects or their JSON form (the same field names), and needs
neither torch nor Megatron itself. `merge` joins what several ranks have read,
`request(source, destination)` makes the request for `dt-opt`. `gather` does the
reading and joining for all processes of a world at once. A `Piece` is a plain
tensor that says which part of a full one it is. `huggingface` reads how a model
of transformers may be cut, for a side with sizes.
"""

from .huggingface import huggingface
from .layout import CaptureError, Layout, merge
from .local import gather, local_layout
from .megatron import describe_sharded, from_sharded_tensors
from .pieces import Piece
from .states import request, state_key, tensor_and_state
from .tensors import from_checkpoint_metadata, from_dtensors

__all__ = [
    "CaptureError",
    "Layout",
    "Piece",
    "describe_sharded",
    "from_checkpoint_metadata",
    "from_dtensors",
    "from_sharded_tensors",
    "gather",
    "huggingface",
    "local_layout",
    "merge",
    "request",
    "state_key",
    "tensor_and_state",
]
