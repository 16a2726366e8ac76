"""Usage, entitlement and limit of all queues, as shares of the cluster.

All figures come from the status of queues, which the scheduler writes, and from the nodes. Shares are dominant shares.
The namespaces that have jobs in a queue follow the queue. A user who may not list nodes sees the shares in the status,
which says what a queue uses but not what part of the cluster it is entitled to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubebase.resource_vector import CPU, MEMORY, PODS, Registry, ResourceError, dominant_share
from pumice.cli.cluster.queue_tree import QueueNode, queue_tree
from pumice.cli.top.workload_usage import Workloads
from pumice.model.specs import ROOT

Document = dict[str, Any]
Amounts = dict[str, int]

COUNTED_PHASES = ("running", "inqueue", "pending", "unknown")
USER_LIMITS = ("minUserLimitPercent", "userLimitFactor")


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A queue. Shares are shares of the cluster; None if unknown. Amounts are in the units of the registry."""

    name: str
    path: str
    depth: int
    weight: str
    state: str
    used: float | None
    entitled: float | None
    limit: float | None
    counts: Mapping[str, int]
    allocated: Amounts = field(default_factory=dict)
    entitled_to: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)
    user_limits: Mapping[str, float] = field(default_factory=dict)
    namespace: bool = False
    """Whether this row is a namespace in the queue of that path."""
    waiting: int | None = None
    """Pods without a node, in the queue and below it; None: the user may not list pods."""


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """The cluster and its queues, parents first."""

    rows: list[UsageRow]
    registry: Registry
    capacity: Sequence[int]
    nodes: int | None
    """None: the user may not list nodes."""
    ready_nodes: int
    notes: list[str]
    workloads: Workloads | None = None
    """None: the user may not list pods or podgroups."""
    node_objects: Sequence[Document] = ()

    @property
    def queues_known(self) -> bool:
        """Whether the user may list queues."""
        return NO_QUEUES not in self.notes

    def without_namespaces(self) -> ClusterUsage:
        """The queues alone."""
        return replace(self, rows=[row for row in self.rows if not row.namespace])

    @property
    def resources(self) -> list[str]:
        """cpu and memory, devices that nodes offer, and what else a queue has or is to have; no places for pods."""
        named = [amounts for row in self.rows for amounts in (row.allocated, row.entitled_to, row.capability)]
        spoken = {name for amounts in named for name, amount in amounts.items() if amount}
        devices = {
            name for name, offer in zip(self.registry.names, self.capacity, strict=False) if offer and "/" in name
        }
        return [
            name
            for j, name in enumerate(self.registry.names)
            if j in (CPU, MEMORY) or (name in spoken | devices and j != PODS)
        ]


NO_NODES = "you may not list nodes; USED is the share that the scheduler wrote, and ENTITLED is unknown"
NO_QUEUES = "you may not list queues; ask an administrator for the ClusterRole pumice-queue-viewer"


NO_PODS = "you may not list pods and podgroups, from which this view is made"


def cluster_usage(
    queues: Iterable[Document] | None,
    nodes: Iterable[Document] | None,
    found_workloads: Workloads | None = None,
    registry: Registry | None = None,
) -> ClusterUsage:
    """The usage of the cluster. None: the user may not list these objects.

    The registry is that of the requests of the workloads.
    """
    registry = registry or Registry()
    known = None if nodes is None else list(nodes)
    working = [node for node in known or () if _is_schedulable(node)]
    offers = [_vector(registry, _nested_field(node, "status", "allocatable")) for node in working]
    capacity = [sum(vector[j] for vector in offers if j < len(vector)) for j in range(len(registry))]
    found = queue_tree(queues or ())
    limits: dict[tuple[str, ...], float] = {}
    rows: list[UsageRow] = []
    for line in (*found.nodes, *found.unplaced):
        row = _queue_row(line, registry, capacity, limits)
        namespaces = list(_namespace_rows(row, line.figures, registry, capacity))
        if known is None:
            row = _by_status(row, line.figures)
            namespaces = [
                _by_status(one, entry) for one, entry in zip(namespaces, _listed_namespaces(line.figures), strict=True)
            ]
        rows += [row, *namespaces]
    if known is not None and not any(
        row.entitled for row in rows
    ):  # the policy has no targets, or nothing is requested
        rows = [replace(row, entitled=None, entitled_to={}) for row in rows]
    if found_workloads is not None:
        rows = _with_waiting(rows, found_workloads.waiting_by_queue())
    denied = [NO_QUEUES] if queues is None else [NO_NODES] if known is None else []
    count = None if known is None else len(known)
    notes = [*denied, *found.notes]
    return ClusterUsage(rows, registry, capacity, count, len(working), notes, found_workloads, known or ())


def _with_waiting(rows: list[UsageRow], waiting: Mapping[tuple[str, str], int]) -> list[UsageRow]:
    """The rows with the number of waiting pods; a parent has the sum of its children."""
    below: Counter[str] = Counter()
    by_queue: Counter[str] = Counter()
    for (queue, _), number in waiting.items():
        by_queue[queue] += number
    for row in rows:
        if not row.namespace and by_queue[row.name]:
            steps = row.path.split("/")
            below.update({"/".join(steps[:depth]): by_queue[row.name] for depth in range(1, len(steps) + 1)})
    return [
        replace(row, waiting=waiting.get((row.path.rpartition("/")[2], row.name.removeprefix("ns/")), 0))
        if row.namespace
        else replace(row, waiting=below[row.path])
        for row in rows
    ]


def _by_status(row: UsageRow, figures: Document) -> UsageRow:
    """A row with the share that the scheduler wrote, where the size of the cluster is unknown."""
    share = figures.get("share")
    return replace(row, used=float(share) if isinstance(share, int | float) else None, entitled=None, limit=None)


def _queue_row(
    line: QueueNode, registry: Registry, capacity: list[int], limits: dict[tuple[str, ...], float]
) -> UsageRow:
    spec, status = (line.queue or {}).get("spec") or {}, line.figures
    allocated = _vector(registry, status.get("allocated"))
    entitled = _vector(registry, status.get("entitled"))
    capability = _amounts(registry, spec.get("capability"))
    if line.path != (ROOT,):  # what root is given there is the cluster itself
        own = _limit(registry, capability, allocated, capacity)
        limits[line.path] = min(own, limits.get(line.path[:-1], 1.0))
    limit = limits.get(line.path, 1.0)
    return UsageRow(
        line.name,
        "/".join(line.path),
        len(line.path) - 1,
        line.weight,
        str(status.get("state") or ("" if line.queue is None else "Open")),
        dominant_share(allocated, capacity) if "allocated" in status else None,
        dominant_share(entitled, capacity) if any(entitled) or "entitled" in status else None,
        limit if limit < 1 else None,
        {phase: line.counts.get(phase, 0) for phase in COUNTED_PHASES},
        _amounts(registry, status.get("allocated")),
        _amounts(registry, status.get("entitled")),
        _amounts(registry, spec.get("deserved")),
        _amounts(registry, _nested_field(spec, "guarantee", "resource")),
        capability,
        {name: spec[name] for name in USER_LIMITS if spec.get(name) is not None},
    )


def _namespace_rows(queue: UsageRow, figures: Document, registry: Registry, capacity: list[int]) -> Iterator[UsageRow]:
    """The namespaces of a queue, as the scheduler lists them in its status."""
    for entry in _listed_namespaces(figures):
        weight = entry.get("weight")
        yield UsageRow(
            f"ns/{entry.get('name')}",
            queue.path,
            queue.depth + 1,
            f"{weight:g}" if isinstance(weight, int | float) else "-",
            "",
            dominant_share(_vector(registry, entry.get("allocated")), capacity),
            dominant_share(_vector(registry, entry.get("entitled")), capacity),
            None,
            {phase: int(entry.get(phase) or 0) for phase in COUNTED_PHASES},
            _amounts(registry, entry.get("allocated")),
            _amounts(registry, entry.get("entitled")),
            namespace=True,
        )


def _listed_namespaces(figures: Document) -> list[Document]:
    listed = figures.get("namespaces")
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _limit(registry: Registry, capability: Amounts, allocated: Sequence[int], capacity: Sequence[int]) -> float:
    """The part of the cluster at which a queue stops: of its dominant resource or, if that has none, the smallest."""
    parts = {}
    for name, most in capability.items():
        j = registry.index(name)
        if j != PODS and j < len(capacity) and capacity[j]:
            parts[j] = most / capacity[j]
    held = [(amount / capacity[j], j) for j, amount in enumerate(allocated) if j < len(capacity) and capacity[j]]
    dominant = max((part for part in held if part[1] != PODS), default=(0.0, -1))[1]
    return parts.get(dominant, min(parts.values(), default=1.0))


def _is_schedulable(node: Document) -> bool:
    """Whether a node accepts new tasks, so that it counts for the capacity."""
    conditions = _nested_field(node, "status", "conditions") or ()
    ready = all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")
    return ready and not _nested_field(node, "spec", "unschedulable")


def _nested_field(document: Document, *names: str) -> Any:
    found: Any = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _vector(registry: Registry, amounts: object) -> Sequence[int]:
    """Decode quantities; invalid ones are empty."""
    try:
        return registry.vector(amounts, where="") if isinstance(amounts, dict) else ()
    except ResourceError:
        return ()


def _amounts(registry: Registry, written: object) -> Amounts:
    vector = _vector(registry, written)
    names = written if isinstance(written, dict) else {}
    return {name: vector[j] for name in names if (j := registry.index(name)) < len(vector) and j != PODS}
