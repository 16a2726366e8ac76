"""Decisions: the output of the engine, which its caller executes."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engine.fairness.orders.serving_order import PickStep


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A job may create its pods."""

    job: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a task to a node. ``path`` (when tracing) is the path through the share tree that led to it."""

    task: str
    node: str
    job: str
    path: tuple[PickStep, ...] = ()
    cards: tuple[int, ...] = ()  # the cards of the node that it shall use


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A task waits on a node for capacity that is being freed there; a Bind follows."""

    task: str
    node: str
    job: str
    path: tuple[PickStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Sides:
    """An eviction in numbers: the lowest common ancestor, and the keys of both sides (preemptor, victim) there."""

    ancestor: str
    preemptor: str
    victim: str
    before: tuple[float, float]
    after: tuple[float, float]
    measure: str = "share"  # what the keys measure: want, share or priority


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a task so that one of another job (``preemptor``) can start.

    Without a ``preemptor``: because its gang cannot be completed (repair-gangs), or its node is overcommitted
    (relieve-nodes).
    """

    task: str
    node: str
    job: str
    preemptor: str
    action: str  # reclaim, preempt, repair-gangs or relieve-nodes
    sides: Sides | None = None


@dataclass(frozen=True, slots=True)
class QueueCondition:
    """A condition of a queue; an empty message ends it.

    ``Halted`` gives the reason why nothing starts there, ``DeservedClamped`` reports that the effective deserved
    differs from the spec, and ``GuaranteesExceedCapacity``, on root, that not all guarantees can be met.
    """

    queue: str
    message: str
    type: str = "Halted"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a job: why it waits, or that it no longer does."""

    job: str
    type: str  # Unschedulable or Scheduled
    reason: str
    message: str


Decision = Enqueue | Bind | Pipeline | Evict | Condition | QueueCondition
