"""Folders of plans, compiled ahead for the layouts that a job may change to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

from . import _C
from .compiler import run_compiler
from .errors import InvalidError
from .plan import Plan

#: A layout by its name, or as a request says it.
LayoutQuery = Union[str, Mapping[str, Any], None]

_ORDER = "tp-cp-ep-fsdp-dp-pp"
# Of a request, which its layouts have no words of their own for.
_ANY = frozenset({"state", "vocab_multiple", "bucket_size"})


@dataclass(frozen=True)
class SetLayout:
    """One side of a plan, as the index of its folder has it."""

    #: Empty where the request gives it none.
    name: str
    world: int
    #: The device of each rank.
    devices: list[int]
    #: All parallel sizes; empty for explicit shards.
    sizes: dict[str, int]
    #: Which axis varies fastest; empty for explicit shards.
    order: str
    #: Layers of each stage; empty where they are even.
    pp_layers: list[int]
    fingerprint: str

    def is_as(self, query: LayoutQuery) -> bool:
        """Whether a request's words mean this layout: what they leave out has
        the request's default, but for `vocab_multiple`, `bucket_size` and
        `state`, which the words need not have."""
        if query is None or isinstance(query, str):
            return query in (None, self.name)
        if not self.sizes:
            return False
        words = {key: query[key] for key in query if key != "name"}
        world = words.pop("world", self.world)
        devices = words.pop("devices", range(world))
        if world != self.world or list(devices) != self.devices:
            return False
        words.pop("state", None)
        usual = {
            "pp_layers": [],
            "order": _ORDER,
            "zero": 0,
            "etp": words.get("tp", 1),
        }
        own = {**self.sizes, "order": self.order, "pp_layers": self.pp_layers}
        return words.keys() <= own.keys() and all(
            words.get(key, usual.get(key, 1)) == value
            for key, value in own.items()
            if key in words or key not in _ANY
        )


@dataclass(frozen=True)
class LibraryPlan:
    """What the index of a folder says of a plan."""

    name: str
    file: str
    digest: str
    bytes: int
    predicted_s: float
    #: ``"node:3"`` or ``"17"``: what the destination does without; or empty.
    lost: str
    source: SetLayout
    destination: SetLayout


def _library_plan(row: dict[str, Any]) -> LibraryPlan:
    sides = {side: SetLayout(**row[side]) for side in ("source", "destination")}
    return LibraryPlan(**{**row, **sides})


class PlanLibrary:
    """The plans of a folder that `dt-opt` has made of one request.

    Opening reads the index; a plan file is opened when it is loaded, and has to
    be what the index says of it, else that is an `Error` that names the file.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self._native = _C.PlanSet(self.folder)
        #: In the request's order.
        self.plans = [_library_plan(row) for row in self._native.plans()]
        self._numbers = {plan.name: i for i, plan in enumerate(self.plans)}

    @classmethod
    def compile(
        cls,
        request: str | os.PathLike[str] | Mapping[str, Any],
        folder: str | os.PathLike[str],
    ) -> PlanLibrary:
        """Compiles a request for several plans (a file, or the same as a dict)
        to a folder, as `dynatrain.compile` does for one."""
        run_compiler(request, folder)
        return cls(folder)

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[LibraryPlan]:
        return iter(self.plans)

    def find(
        self,
        source: LayoutQuery = None,
        destination: LayoutQuery = None,
        *,
        lost: str | None = None,
    ) -> LibraryPlan | None:
        """The plan from one layout to another, or None.

        source, destination: what a request says of the layout, its devices
            among it (without them 0, 1, ...), or its name there. Without one
            any layout will do.
        lost: ``"node:3"`` or ``"17"``.

        That more than one plan fits is an `InvalidError`.
        """
        found = [
            plan
            for plan in self.plans
            if plan.source.is_as(source)
            and plan.destination.is_as(destination)
            and lost in (None, plan.lost)
        ]
        if len(found) > 1:
            names = ", ".join(plan.name for plan in found[:8])
            asked = json.dumps([source, destination, lost], default=str)
            raise InvalidError(
                f"{len(found)} plans of '{self.folder}' fit {asked[:200]}: "
                f"{names}{', ...' if len(found) > 8 else ''}"
            )
        return found[0] if found else None

    def load(self, plan: LibraryPlan | str) -> Plan:
        """Opens a plan, given as `find` gives it or by its name."""
        name = plan if isinstance(plan, str) else plan.name
        if name not in self._numbers:
            raise InvalidError(
                f"'{self.folder}' has no plan '{name}', only "
                f"{', '.join(list(self._numbers)[:8])}"
                f"{', ...' if len(self) > 8 else ''}"
            )
        return Plan(self._native.open(self._numbers[name]))
