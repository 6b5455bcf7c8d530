"""Which memory mode the plans of an elastic job have, and what is given up.

A job whose requests say `memory={"mode": "flat"}` leaves its worlds by flat
plans: past the point of no return what a world held is gone. A plan whose
source are copies is never flat, as these stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from .capture import Piece
from .errors import InvalidError
from .hollow import local_part
from .state import State

#: What a driver maps at once; a plan's pages may be larger.
GPU_PAGE = "2MiB"


def is_flat(request: Mapping[str, Any]) -> bool:
    """Whether a trainer wants flat plans."""
    return request.get("memory", {}).get("mode") == "flat"


def is_by_page(request: Mapping[str, Any]) -> bool:
    """Whether memory that can go page by page is of use."""
    memory = request.get("memory", {})
    return is_flat(request) and memory.get("granularity", "page") == "page"


def with_gpu_memory(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The trainer's keys for GPUs: what these and NCCL have for a plan counts,
    and pages are as large as a GPU's. Of smaller ones parts would wait for the
    rest, and a GPU hold more than a plan says."""
    memory = {"communicator": "nccl", **request.get("memory", {})}
    if is_by_page(request):
        memory = {"page": GPU_PAGE, **memory}
    return {**request, "memory": memory}


def check_beside(beside: bool, plans_ahead: bool, is_flat: bool) -> None:
    """Raises where a job is asked for what needs `build` beside training, and
    has it not."""
    for is_asked, what in (
        (plans_ahead, "plans_ahead=True builds worlds that may come"),
        (is_flat, "memory of mode flat is given up when all is prepared"),
    ):
        if is_asked and not beside:
            raise InvalidError(
                f"Job: with beside=False nothing is built beside training, "
                f"but {what}"
            )


def request_for(request: Mapping[str, Any], passes: bool) -> Mapping[str, Any]:
    """The trainer's keys for the plan of a switch; passes: it has a point of no
    return. Where it has none, limits that are for flat plans do not hold."""
    memory = dict(request.get("memory", {}))
    if passes:
        memory["mode"] = "flat"
    elif is_flat(request):
        keys = ("staging", "communicator")
        memory = {k: v for k, v in memory.items() if k in keys}
    return {**request, "memory": memory}


def give_up(state: State) -> None:
    """Its tensors have no elements any more, and no memory where it is their
    own. What cannot be read in the middle of a step stays."""
    with contextlib.suppress(Exception):
        for value in state.tensors.values():
            for one in value if isinstance(value, list) else [value]:
                own = local_part(one.tensor if isinstance(one, Piece) else one)
                own.data = own.new_empty(0)
