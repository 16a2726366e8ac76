"""Events: the input of the engine, everything that can change its state.

They may arrive in any order, more than once, or name objects that do not exist (yet): the state keeps each object and
links it when the other one appears. An event is applied completely or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.specs import Described


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added or updated."""

    object: Described


@dataclass(frozen=True, slots=True)
class Gone:
    """An object was deleted. ``key`` is its name, with its namespace if it has one."""

    kind: type[Described]
    key: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A decided bind could not be executed: the task is pending again."""

    task: str


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """A decided eviction could not be executed: the task keeps running."""

    task: str


Event = Changed | Gone | BindFailed | EvictFailed
