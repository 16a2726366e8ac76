"""Decisions: all the engine ever says. A shell carries them out."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.fairness.order import Level


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
    path: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """What people should know about a job: why it waits, or that it waits no longer."""

    job: str
    type: str  # Unschedulable or Scheduled
    reason: str
    message: str


Decision = Enqueue | Bind | Condition
