"""Which samples a step trains on, whatever the number of replicas.

The global batch stays what it is when replicas come and go: it is cut into the
same micro-batches, which are dealt out anew. So every sample is taken once, and
a micro-batch draws the same random numbers wherever it runs. What changes is
the order in which gradients are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .advise import random_stream
from .errors import InvalidError


@dataclass(frozen=True)
class MicroBatch:
    """What one forward and backward pass takes.

    samples: indices into the data set. first: the number of the first of them
    among all samples of the run. factor: what the mean loss is multiplied by
    before the backward pass, so that gradients averaged over the replicas (DDP,
    FSDP) are those of the global batch's mean; 0 where a replica has fewer
    micro-batches than another and only takes part in its collectives. seed: of
    the random numbers of this pass, as for `torch.manual_seed`.
    """

    samples: list[int]
    first: int
    factor: float
    seed: int


def _dealt(total: int, counts: int | Sequence[int]) -> list[int]:
    """Micro-batches of each replica, in turn."""
    if isinstance(counts, int):
        if counts < 1:
            raise InvalidError(f"replicas is {counts}, expected at least 1")
        each, more = divmod(total, counts)
        return [each + (replica < more) for replica in range(counts)]
    dealt = [int(count) for count in counts]
    if not dealt or min(dealt) < 0 or sum(dealt) != total:
        raise InvalidError(
            f"the replicas have {dealt} micro-batches, expected {total} in all "
            "and none below 0"
        )
    return dealt


class Samples:
    """The order of a data set, and how far a run is in it::

        samples = dynatrain.Samples(len(data), batch=512, micro_batch=8)
        state = dynatrain.State(model=model, ..., samples=samples)
        for micro in samples.next(replica, replicas):
            torch.manual_seed(micro.seed)
            loss = criterion(model(data[micro.samples])) * micro.factor
            loss.backward()

    length: samples of the data set. batch: samples of a step, over all
    replicas. micro_batch: samples of a pass; the last one of a step has fewer
    where it does not divide the batch. Each epoch has an order of its own, from
    `seed`, or with ``shuffle=False`` that of the data set. A batch may end one
    epoch and begin the next.

    Registered in a `State` it is shared: after a switch all processes go on
    behind the last sample that was taken, those that join as well.
    """

    def __init__(
        self,
        length: int,
        batch: int,
        micro_batch: int = 1,
        *,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        for name, value in (
            ("length", length),
            ("batch", batch),
            ("micro_batch", micro_batch),
        ):
            if value < 1:
                raise InvalidError(f"{name} is {value}, expected at least 1")
        self.length, self.batch, self.micro_batch = length, batch, micro_batch
        self.seed, self.shuffle = seed, shuffle
        #: Samples that have been taken, over all epochs.
        self.taken = 0
        self._epoch = -1
        self._order: torch.Tensor | None = None

    def next(
        self, replica: int, replicas: int | Sequence[int]
    ) -> list[MicroBatch]:
        """What one replica does of the next step; all of its processes call
        this, in every replica.

        replicas: how many there are, which take as many micro-batches each, or
        one more; or the micro-batches of each, as `dt-advise` deals them out to
        replicas of unequal speed. All get lists of one length.
        """
        total = -(-self.batch // self.micro_batch)
        dealt = _dealt(total, replicas)
        if not 0 <= replica < len(dealt):
            raise InvalidError(
                f"replica is {replica}, expected 0 to {len(dealt) - 1}"
            )
        begin = sum(dealt[:replica])
        own = [
            self._micro(number, len(dealt))
            for number in range(begin, begin + dealt[replica])
        ]
        # The first one again, for nothing: collectives need all replicas.
        idle = self._micro(0, 0)
        own += [idle] * (max(dealt) - len(own))
        self.taken += self.batch
        return own

    def _micro(self, number: int, replicas: int) -> MicroBatch:
        offset = number * self.micro_batch
        size = min(self.micro_batch, self.batch - offset)
        first = self.taken + offset
        return MicroBatch(
            [self._sample(at) for at in range(first, first + size)],
            first,
            size * replicas / self.batch,
            random_stream(self.seed, first, 0),
        )

    def _sample(self, number: int) -> int:
        """The sample that is taken as the `number`th of the run."""
        epoch, at = divmod(number, self.length)
        if not self.shuffle:
            return at
        if self._order is None or epoch != self._epoch:
            generator = torch.Generator()
            # Layers of a model are counted from 0.
            generator.manual_seed(random_stream(self.seed, epoch, -1))
            self._order = torch.randperm(self.length, generator=generator)
            self._epoch = epoch
        return int(self._order[at])

    def state_dict(self) -> dict[str, Any]:
        """How far the run is, and what says the order."""
        return {
            "taken": self.taken,
            "length": self.length,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where another left; of the same data set in the same order.
        The batch may be another one."""
        own = self.state_dict()
        for key in ("length", "seed", "shuffle"):
            if state[key] != own[key]:
                raise InvalidError(
                    f"the samples' {key} is {own[key]} here and {state[key]} "
                    "in the state, expected the same order"
                )
        self.taken = state["taken"]
