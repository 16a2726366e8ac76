"""The objects of a cluster as its API would list them, by kind and key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pumice.model.specs import Described, DisruptionBudget, JobSpec, NodeSpec, PriorityClass, Queue, Quota, TaskSpec

KINDS: dict[str, type[Described]] = {
    "PriorityClass": PriorityClass,
    "ResourceQuota": Quota,
    "Queue": Queue,
    "Node": NodeSpec,
    "PodDisruptionBudget": DisruptionBudget,
    "PodGroup": JobSpec,
    "Pod": TaskSpec,
}
"""Kind in a manifest to type in the model, in an order in which nothing names what comes later."""

KIND_OF = {kind: name for name, kind in KINDS.items()}


def key_of(described: Described) -> str:
    """Name, with namespace where it has one."""
    if isinstance(described, JobSpec | TaskSpec | Quota | DisruptionBudget):
        return described.key
    return described.name


class Objects:
    """A set of objects. Copies are cheap: the objects themselves never change."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, JobSpec] = {}
        self.tasks: dict[str, TaskSpec] = {}
        self.nodes: dict[str, NodeSpec] = {}
        self.quotas: dict[str, Quota] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[str, DisruptionBudget] = {}

    def of(self, kind: type[Described]) -> dict[str, Any]:
        """The objects of one kind, by key."""
        by_kind: dict[type[Described], dict[str, Any]] = {
            Queue: self.queues,
            JobSpec: self.jobs,
            TaskSpec: self.tasks,
            NodeSpec: self.nodes,
            Quota: self.quotas,
            PriorityClass: self.priority_classes,
            DisruptionBudget: self.budgets,
        }
        return by_kind[kind]

    def put(self, described: Described) -> None:
        """Add an object, or put it in the place of the one with its key."""
        self.of(type(described))[key_of(described)] = described

    def drop(self, kind: type[Described], key: str) -> None:
        """Take an object out, if it is there."""
        self.of(kind).pop(key, None)

    def copy(self) -> Objects:
        """The same objects in a set of its own."""
        other = Objects()
        for kind in KINDS.values():
            other.of(kind).update(self.of(kind))
        return other

    def __iter__(self) -> Iterator[Described]:
        """All objects, those that others name first."""
        for kind in KINDS.values():
            yield from self.of(kind).values()
