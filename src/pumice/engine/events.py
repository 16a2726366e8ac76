"""Events: everything that can change what the engine knows.

They may arrive in any order, twice, or name things that do not exist (yet): the state keeps what it was told and
links it when the other side appears. Applying an event never fails half way.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.specs import DisruptionBudget, JobSpec, NodeSpec, PriorityClass, Queue, Quota, TaskSpec

Described = NodeSpec | Queue | Quota | PriorityClass | DisruptionBudget | JobSpec | TaskSpec


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is as described: new, or different from before."""

    object: Described


@dataclass(frozen=True, slots=True)
class Gone:
    """An object is no more. ``key`` is its name, with namespace where it has one."""

    kind: type[Described]
    key: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A bind that was decided could not be carried out: the task is pending again."""

    task: str


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction that was decided could not be carried out: the task goes on."""

    task: str


Event = Changed | Gone | BindFailed | EvictFailed
