"""Decisions: all the context ever says. A shell carries them out."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engine.fairness.orders.serving_order import PickStep


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A job may create its pods."""

    job: str


@dataclass(frozen=True, slots=True)
class Bind:
    """A task goes to a node. ``path`` says how it came to be picked (when tracing)."""

    task: str
    node: str
    job: str
    path: tuple[PickStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A task waits on a node for room that is being freed there; a Bind follows."""

    task: str
    node: str
    job: str
    path: tuple[PickStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Sides:
    """An eviction in numbers: where the two jobs meet, and the keys there of the taker's and the victim's side."""

    ancestor: str
    taker: str
    victim: str
    before: tuple[float, float]
    after: tuple[float, float]
    measure: str = "share"  # what the keys are: want, share or priority


@dataclass(frozen=True, slots=True)
class Evict:
    """A task goes, so that one of another job (``taker``) can start.

    Without a taker: because its own gang can't start (mend), or its node has no room for it (relieve).
    """

    task: str
    node: str
    job: str
    taker: str
    action: str  # reclaim, preempt, mend or relieve
    sides: Sides | None = None


@dataclass(frozen=True, slots=True)
class QueueCondition:
    """What people should know about a queue; an empty message: that is over.

    ``Halted`` says why nothing starts there, ``DeservedClamped`` that its deserved is not what it says, and
    ``GuaranteesExceedCapacity`` of root that not all can be kept.
    """

    queue: str
    message: str
    type: str = "Halted"


@dataclass(frozen=True, slots=True)
class Condition:
    """What people should know about a job: why it waits, or that it waits no longer."""

    job: str
    type: str  # Unschedulable or Scheduled
    reason: str
    message: str


Decision = Enqueue | Bind | Pipeline | Evict | Condition | QueueCondition
