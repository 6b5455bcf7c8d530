"""DynaTrain: change the sharding of a live PyTorch job by a compiled plan.

A plan file says, proved ahead of time, which bytes go where when a job changes
its parallel layout or its size. In every process of the job::

    plan = dynatrain.Plan.load("shrink.dtplan")
    world = dynatrain.World(process_group=group)
    switch = plan.prepare(world, source_tensors, destination_tensors)
    ...                       # training goes on while it prepares
    switch.transfer()         # at a step boundary
    switch.commit()           # or switch.abort(): the old state is intact

Tensors come by name, ``{(tensor, state): tensor}`` or
``{state: {tensor: tensor}}``, and are this process's shards. Loading and
running plans needs no compiler; `compile` calls ``dt-opt`` where it is found.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import torch as _torch  # noqa: F401  (loads the libraries that _C needs)

from .block_scaled import BlockScaled
from .compiler import compile
from .errors import (
    AbortedError,
    CompileError,
    CompileWarning,
    Error,
    InvalidError,
    JobWarning,
    LostStateError,
    MismatchError,
    OutOfMemoryError,
    PeerLostError,
    PeerTimeoutError,
    PlatformError,
    StoreLostError,
    TensorError,
    UndecidedError,
)
from .etcd_store import EtcdStore
from .hollow import hollow, page_pool, paged
from .job import Job
from .job_world import JobWorld
from .optimizer import (
    FreshState,
    counters,
    fresh_state,
    set_counters,
    training_state,
)
from .plan import Plan
from .plan_library import LibraryPlan, PlanLibrary, SetLayout
from .planning import plan_between
from .profile import Profile, merge_profiles
from .replanner import Replanned, Replanner
from .samples import MicroBatch, Samples
from .state import Part, PerRank, State
from .switch import Switch
from .tensors import ExpectedTensor, TensorMap
from .world import World

if _TYPE_CHECKING:
    from .redistribution import redistribute

__version__ = "0.1.0"

__all__ = [
    "AbortedError",
    "BlockScaled",
    "CompileError",
    "CompileWarning",
    "Error",
    "EtcdStore",
    "ExpectedTensor",
    "FreshState",
    "InvalidError",
    "Job",
    "JobWarning",
    "JobWorld",
    "LibraryPlan",
    "LostStateError",
    "MicroBatch",
    "MismatchError",
    "OutOfMemoryError",
    "Part",
    "PeerLostError",
    "PeerTimeoutError",
    "PerRank",
    "Plan",
    "PlanLibrary",
    "PlatformError",
    "Profile",
    "Replanned",
    "Replanner",
    "Samples",
    "SetLayout",
    "State",
    "StoreLostError",
    "Switch",
    "TensorError",
    "TensorMap",
    "UndecidedError",
    "World",
    "compile",
    "counters",
    "fresh_state",
    "hollow",
    "merge_profiles",
    "page_pool",
    "paged",
    "plan_between",
    "redistribute",
    "set_counters",
    "training_state",
]


def __getattr__(name: str) -> _Any:
    """`redistribute`, when it is asked for: torch's DTensors take as long to
    import as half of torch, and few processes need them."""
    if name != "redistribute":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .redistribution import redistribute

    return redistribute
