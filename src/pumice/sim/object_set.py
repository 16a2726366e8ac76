"""The objects of a cluster as its API would list them, by kind and key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pumice.model.hyper_nodes import HyperNode
from pumice.model.specs import Described, DisruptionBudget, JobSpec, NodeSpec, PriorityClass, Queue, Quota, TaskSpec

SPEC_TYPES: dict[str, type[Described]] = {
    "PriorityClass": PriorityClass,
    "ResourceQuota": Quota,
    "Queue": Queue,
    "HyperNode": HyperNode,
    "Node": NodeSpec,
    "PodDisruptionBudget": DisruptionBudget,
    "PodGroup": JobSpec,
    "Pod": TaskSpec,
}
"""The type in the model of each kind; a kind refers only to kinds before it."""

KIND_NAMES = {kind: name for name, kind in SPEC_TYPES.items()}


def object_key(described: Described) -> str:
    """Name, with namespace where it has one."""
    if isinstance(described, JobSpec | TaskSpec | Quota | DisruptionBudget):
        return described.key
    return described.name


class ObjectSet:
    """A set of objects. Copies are cheap: the objects themselves never change."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, JobSpec] = {}
        self.tasks: dict[str, TaskSpec] = {}
        self.hyper_nodes: dict[str, HyperNode] = {}
        self.nodes: dict[str, NodeSpec] = {}
        self.quotas: dict[str, Quota] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[str, DisruptionBudget] = {}

    def of_type(self, kind: type[Described]) -> dict[str, Any]:
        """The objects of one kind, by key."""
        by_kind: dict[type[Described], dict[str, Any]] = {
            Queue: self.queues,
            JobSpec: self.jobs,
            TaskSpec: self.tasks,
            HyperNode: self.hyper_nodes,
            NodeSpec: self.nodes,
            Quota: self.quotas,
            PriorityClass: self.priority_classes,
            DisruptionBudget: self.budgets,
        }
        return by_kind[kind]

    def put(self, described: Described) -> None:
        """Add an object, or put it in the place of the one with its key."""
        self.of_type(type(described))[object_key(described)] = described

    def drop(self, kind: type[Described], key: str) -> None:
        """Take an object out, if it is there."""
        self.of_type(kind).pop(key, None)

    def copy(self) -> ObjectSet:
        """The same objects in a set of its own."""
        other = ObjectSet()
        for kind in SPEC_TYPES.values():
            other.of_type(kind).update(self.of_type(kind))
        return other

    def __iter__(self) -> Iterator[Described]:
        """All objects; an object refers only to objects before it."""
        for kind in SPEC_TYPES.values():
            yield from self.of_type(kind).values()
