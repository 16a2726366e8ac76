"""The metrics of queues and namespaces, from one walk over the engine's tree.

Units are Volcano's: cpu in thousandths, memory in bytes, other resources in thousandths too, in one metric with the
resource as a label. A parent queue counts for its whole subtree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric

from kubebase.resource_vector import CPU, MEMORY, PODS, Registry, dominant_share
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.specs import JobPhase
from pumice.observability.metrics.metric_families import gauges

if TYPE_CHECKING:
    from pumice.engine.engine import Engine

Families = Iterator[Metric]


class _Amounts:
    """A vector for each queue, in three metrics."""

    def __init__(self, name: str, text: str, registry: Registry) -> None:
        self._names = registry.names
        self._cpu = GaugeMetricFamily(
            f"volcano_queue_{name}_milli_cpu", f"{text}: cpu, in millicores.", labels=("queue_name",)
        )
        self._memory = GaugeMetricFamily(
            f"volcano_queue_{name}_memory_bytes", f"{text}: memory, in bytes.", labels=("queue_name",)
        )
        self._others = GaugeMetricFamily(
            f"volcano_queue_{name}_scalar_resources",
            f"{text}: other resources, in thousandths of a unit.",
            labels=("queue_name", "resource"),
        )

    def add(self, queue: str, amounts: Iterable[tuple[int, int]]) -> None:
        for j, amount in amounts:
            if j == CPU:
                self._cpu.add_metric((queue,), amount)
            elif j == MEMORY:
                self._memory.add_metric((queue,), amount)
            elif j != PODS:
                self._others.add_metric((queue, self._names[j]), amount)

    def __iter__(self) -> Families:
        return iter((self._cpu, self._memory, self._others))


def of_queues(engine: Engine) -> Families:
    """A series for each queue by its name, and for each inner node without a Queue object by its path."""
    registry, capacity = engine.state.registry, engine.state.capacity
    queues = [node for node in engine.tree.root.walk() if node.kind is NodeKind.QUEUE]
    # No queue has a name with a slash in it, so a path is never the name of a queue. Root has no path but its name.
    nodes = {node.queue_name or node.path: node for node in queues}
    phases, asked, missing = _counted(engine)
    shares: dict[str, float] = {}
    weights: dict[str, float] = {}
    beyond: dict[str, float] = {}
    dominant: dict[str, float] = {}
    short: dict[str, float] = {}
    entitled = GaugeMetricFamily(
        "pumice_queue_entitled",
        "Fair share of a queue: cpu in cores, memory in bytes, other resources in units.",
        labels=("queue_name", "resource"),
    )
    allocated = _Amounts("allocated", "Usage of a queue", registry)
    request = _Amounts("request", "Requests of all jobs in a queue, running or pending", registry)
    deserved = _Amounts("deserved", "Deserved amount of a queue", registry)
    capability = _Amounts("capacity", "Capability of a queue, as in its spec", registry)
    ceiling = _Amounts(
        "real_capacity",
        "Real capability of a queue (its own, within its ancestors' and other queues' guarantees)",
        registry,
    )
    shown: dict[str, ShareNode] = {}
    for name, node in nodes.items():
        queue = engine.context.sync.queue_of(node)
        if queue is None and node.queue_name is not None:
            continue
        shown[name] = node
        due = engine.order.entitlement_of(node)
        allocated.add(name, enumerate(node.held))
        request.add(name, enumerate(asked.get(node, [0] * len(node.held))))
        deserved.add(name, enumerate(due))
        capability.add(name, queue.capability if queue is not None else ())
        ceiling.add(name, enumerate(node.ceiling if node.ceiling is not None else capacity))
        weights[name] = node.weight
        shares[name] = _part(node.held, due)
        beyond[name] = float(any(h > d for j, (h, d) in enumerate(zip(node.held, due, strict=False)) if j != PODS))
        dominant[name] = dominant_share(node.held, capacity)
        short[name] = missing.get(node, 0.0)
        for j, amount in enumerate(node.entitled) if engine.order.has_targets else ():
            entitled.add_metric((name, registry.names[j]), amount if j in (MEMORY, PODS) else amount / 1000)
    for amounts in (allocated, request, deserved, capability, ceiling):
        yield from amounts
    yield entitled
    yield gauges("volcano_queue_share", "Usage of a queue divided by its deserved amount.", "queue_name", shares)
    yield gauges("volcano_queue_weight", "Effective weight of a queue among its siblings.", "queue_name", weights)
    yield gauges(
        "volcano_queue_overused", "1 if a queue holds more of some resource than it deserves.", "queue_name", beyond
    )
    yield gauges(
        "pumice_queue_dominant_share", "Dominant share of the cluster that a queue holds.", "queue_name", dominant
    )
    yield gauges(
        "pumice_queue_shortfall",
        "Fraction of the cluster that the jobs of a queue miss of their integer targets, summed over resources.",
        "queue_name",
        short,
    )
    for phase in JobPhase:
        yield gauges(
            f"volcano_queue_pod_group_{phase.value.lower()}_count",
            f"Number of PodGroups in the phase {phase.value}.",
            "queue_name",
            {name: phases.get(node, _NONE)[phase] for name, node in shown.items()},
        )


_NONE: Counter[JobPhase] = Counter()


def _counted(
    engine: Engine,
) -> tuple[dict[ShareNode, Counter[JobPhase]], dict[ShareNode, list[int]], dict[ShareNode, float]]:
    """By queue, including the queues below: jobs by phase, their requests, and the distance to their targets."""
    phases: dict[ShareNode, Counter[JobPhase]] = {}
    asked: dict[ShareNode, list[int]] = {}
    missing: dict[ShareNode, float] = {}
    capacity = engine.state.capacity
    for leaf in engine.tree.jobs.values():
        queue = leaf.queue
        phases.setdefault(queue, Counter())[leaf.job.phase] += 1
        sums = asked.setdefault(queue, [0] * len(capacity))
        for shape, tasks in leaf.job.unfinished.items():
            for j, amount in shape.ask:
                sums[j] += amount * tasks
        missing[queue] = missing.get(queue, 0.0) + _missing(leaf, capacity)
    inner = [node for node in engine.tree.root.walk() if node.kind is NodeKind.QUEUE]
    for node in reversed(inner):  # children first
        above = node.parent
        if above is not None and node in phases:
            phases.setdefault(above, Counter()).update(phases[node])
            sums = asked.setdefault(above, [0] * len(capacity))
            for j, amount in enumerate(asked[node]):
                sums[j] += amount
            missing[above] = missing.get(above, 0.0) + missing[node]
    return phases, asked, missing


def _missing(leaf: JobNode, capacity: Sequence[int]) -> float:
    return sum(
        (whole - held) / capacity[j]
        for j, (whole, held) in enumerate(zip(leaf.integer_target, leaf.held, strict=True))
        if whole > held and capacity[j]
    )


def _part(held: Sequence[int], due: Sequence[int]) -> float:
    """The largest ratio of usage to the deserved amount; 1 for usage of which nothing is deserved."""
    parts = [h / d if d else 1.0 for j, (h, d) in enumerate(zip(held, due, strict=False)) if h and j != PODS]
    return max(parts, default=0.0)


def of_namespaces(engine: Engine) -> Families:
    """A series for each namespace with jobs that are not over."""
    state = engine.state
    held: dict[str, list[int]] = {}
    for leaf in engine.tree.jobs.values():
        if leaf.job.phase is not JobPhase.COMPLETED:
            sums = held.setdefault(leaf.job.key.partition("/")[0], [0] * len(state.capacity))
            for j, amount in enumerate(leaf.held):
                sums[j] += amount
    shares = {name: dominant_share(vector, state.capacity) for name, vector in held.items()}
    weights = {name: float(state.namespace_weight(name)) for name in held}
    weighted = {name: share / weights[name] for name, share in shares.items()}
    label = "namespace_name"
    yield gauges(
        "volcano_namespace_share", "Dominant share of the cluster that the jobs of a namespace hold.", label, shares
    )
    yield gauges("volcano_namespace_weight", "Weight of a namespace.", label, weights)
    yield gauges(
        "volcano_namespace_weighted_share", "Dominant share of a namespace divided by its weight.", label, weighted
    )
