"""What a run found out: per queue at every level, and for the cluster. Plain values that travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum

from kubebase.resource_vector import MEMORY
from pumice.simulate.distribution import Distribution

HOUR = 3_600_000_000
SLOWDOWN_UNIT = 1000
"""Slowdowns are counted in thousandths."""


@dataclass(slots=True)
class QueueFigures:
    """One queue with everything below it. Amounts are in the units of the report, integrals in resource-hours."""

    path: str
    depth: int
    is_leaf: bool
    arrived: int = 0
    never_started: int = 0
    unfinished: int = 0
    finished: int = 0
    evictions: int = 0
    waits: Distribution = field(default_factory=Distribution)
    slowdowns: Distribution = field(default_factory=Distribution)
    used: dict[str, float] = field(default_factory=dict)
    entitled: dict[str, float] = field(default_factory=dict)
    shortfall: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    used_series: dict[str, list[float]] = field(default_factory=dict)
    entitled_series: dict[str, list[float]] = field(default_factory=dict)

    def add(self, below: QueueFigures) -> None:
        """Add the jobs of a queue below it."""
        self.arrived += below.arrived
        self.never_started += below.never_started
        self.unfinished += below.unfinished
        self.finished += below.finished
        self.evictions += below.evictions
        self.waits = self.waits.merge([below.waits])
        self.slowdowns = self.slowdowns.merge([below.slowdowns])


@dataclass(slots=True)
class RunFigures:
    """One run: a policy, and the number of its repeat."""

    policy: str
    repeat: int
    duration: int  # microseconds of virtual time
    cycles: int
    capacity: dict[str, float]
    idle_while_waiting: dict[str, float]
    series_width: int
    evictions_series: list[float]
    queues: list[QueueFigures]  # root first, children after their parent

    @property
    def root(self) -> QueueFigures:
        """The whole cluster."""
        return self.queues[0]

    @property
    def queue_shortfall(self) -> dict[str, float]:
        """What all queues without queues below them are short of: one holding more does not make up for another."""
        leaves = [queue for queue in self.queues if queue.is_leaf]
        return {name: fsum(queue.shortfall[name] for queue in leaves) for name in self.capacity}


def unit_of(index: int) -> int:
    """How much of the engine's amount of a resource is one in reports: a core, a GiB, a device."""
    return 2**30 if index == MEMORY else 1000
