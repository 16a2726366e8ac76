"""What the picture keeps of each object."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kubebase.resource_vector import Vector
from pumice.model.specs import Queue


class ConditionSeen(Struct, frozen=True, gc=False):
    """A condition that holds, and since when (microseconds; 0: unknown)."""

    type: str
    reason: str
    message: str
    since: int


class PodSeen(Struct, frozen=True, gc=False):
    """A pod. Times are microseconds since 1970, 0 where unknown."""

    namespace: str
    name: str
    group: str  # the key of its PodGroup; empty: none
    state: str  # waiting, starting, running, ending, succeeded, failed, unknown
    node: str
    request: Vector
    user: str
    role: str
    scheduler: str
    created: int
    started: int
    priority: int
    reason: str
    message: str


class GroupSeen(Struct, frozen=True, gc=False):
    """A PodGroup: the job, under the name of its owner."""

    namespace: str
    group: str
    name: str
    kind: str
    queue: str
    user: str
    phase: str
    created: int
    minimum: int
    priority_class: str
    waits: ConditionSeen | None


class NodeSeen(Struct, frozen=True, gc=False):
    """A node."""

    name: str
    offered: Vector
    ready: bool
    schedulable: bool
    created: int
    labels: dict[str, str]
    taints: tuple[tuple[str, str, str], ...]


class QueueSeen(Struct, frozen=True, gc=False):
    """A Queue: its spec as the engine reads it, and what the scheduler wrote into its status."""

    spec: Queue
    state: str
    used: Vector | None
    entitled: Vector | None
    namespaces: tuple[NamespaceSeen, ...]
    inner_nodes: tuple[InnerNodeSeen, ...]
    conditions: tuple[ConditionSeen, ...]
    scheduler: dict[str, Any]
    annotations: dict[str, str]


class NamespaceSeen(Struct, frozen=True, gc=False):
    """A namespace with jobs in a queue, as the status of the queue lists it."""

    name: str
    weight: float | None
    used: Vector
    entitled: Vector


class InnerNodeSeen(Struct, frozen=True, gc=False):
    """An inner node of the tree that only annotations of queues name, as the status of ``root`` lists it."""

    path: str
    used: Vector
    entitled: Vector


ENDED = frozenset({"succeeded", "failed"})
HOLDING = frozenset({"starting", "running", "unknown"})
"""The states in which a pod holds what it requests: it has a node and is not being deleted."""
