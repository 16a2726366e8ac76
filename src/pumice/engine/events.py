"""Events: everything that can change what the engine knows.

They may arrive in any order, more than once, or name objects that do not exist (yet): the state keeps each object and
links it when the other one appears. Applying an event never fails half way.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.specs import Described


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
