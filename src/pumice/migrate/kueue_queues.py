"""Queues of Pumice that divide a cluster as the ClusterQueues and Cohorts of Kueue do.

| Kueue | Pumice |
|---|---|
| ClusterQueue, Cohort | Queue; the Cohort is the parent |
| nominalQuota, of all flavors together | deserved; of a Cohort with that of all below it |
| borrowingLimit | capability: nominalQuota + borrowingLimit; without a Cohort, nominalQuota |
| lendingLimit | guarantee: nominalQuota - lendingLimit |
| fairSharing.weight | weight |
| queueingStrategy | dequeueStrategy |
| LocalQueue | the default queue of its namespace |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from kubebase.resource_vector import Registry
from pumice.kube.decode.preemption_annotations import QUEUE_NAMES
from pumice.kube.resources import Document
from pumice.migrate.kueue_differences import report_differences
from pumice.migrate.kueue_quotas import CLUSTER_QUEUE, Amounts, QuotaNode, read_quota_nodes
from pumice.migrate.report import MigrationReport, Severity
from pumice.migrate.source_objects import KUEUE_GROUP, SourceObjects, display_name
from pumice.migrate.volcano_check import SCHEDULING, admission_problems
from pumice.model.specs import ROOT

LARGEST_WEIGHT = 65535
DEFAULT_LOCAL_QUEUE = "default"
"""The LocalQueue to which Kueue assigns the jobs of a namespace that name none."""

_DEQUEUE = {"StrictFIFO": "fifo", "BestEffortFIFO": "traverse"}


@dataclass(frozen=True, slots=True)
class ConvertedQueues:
    """The objects to apply, and the report about everything that they do not express."""

    objects: list[Document]
    report: MigrationReport


def convert_kueue(objects: SourceObjects) -> ConvertedQueues:
    """Convert the queues of Kueue; raises BadInput where an object cannot be read."""
    registry = Registry()
    report = MigrationReport()
    nodes = read_quota_nodes(objects, registry)
    _set_checked(report, objects)
    weights = _weights(nodes, report)
    capabilities: dict[str, Amounts] = {}
    queues = [_queue(node, weights[node.queue], capabilities, registry) for node in nodes]
    converted = SourceObjects({(SCHEDULING, "Queue"): queues, ("", "Node"): objects.of("", "Node")})
    for problem in admission_problems(converted):
        name = problem.object.partition("/")[2]
        report.add(Severity.LOST, "Queue", name, problem.reason, "correct the printed Queue before you apply it")
    report_differences(report, objects, nodes)
    namespaces = _namespaces(objects, {node.name: node.queue for node in nodes if node.kind == CLUSTER_QUEUE}, report)
    return ConvertedQueues([*queues, *namespaces], report)


def _set_checked(report: MigrationReport, objects: SourceObjects) -> None:
    for (group, kind), found in objects.objects.items():
        if group == KUEUE_GROUP and kind != "Workload":
            report.checked[kind] += len(found)


def _queue(node: QuotaNode, weight: int, capabilities: dict[str, Amounts], registry: Registry) -> Document:
    total = node.total()
    above = capabilities[node.parent.queue] if node.parent is not None else {}
    capability = dict(above) | {
        resource: min(limit, above.get(resource, limit)) for resource, limit in _own_capability(node, total).items()
    }
    capabilities[node.queue] = capability
    named = {resource: amount for resource, amount in capability.items() if above.get(resource) != amount}
    spec: dict[str, Any] = {"parent": node.parent.queue if node.parent is not None else ROOT, "weight": weight}
    spec |= {"deserved": _listed(total, registry)} if total else {}
    spec |= {"capability": _listed(named, registry)} if named else {}
    guarantee = _guarantee(node, total)
    spec |= {"guarantee": {"resource": _listed(guarantee, registry)}} if guarantee else {}
    strategy = _DEQUEUE.get(str(node.spec.get("queueingStrategy") or ""))
    spec |= {"dequeueStrategy": strategy} if strategy == "fifo" else {}
    return {
        "apiVersion": f"{SCHEDULING}/v1beta1",
        "kind": "Queue",
        "metadata": {"name": node.queue},
        "spec": spec,
    }


def _own_capability(node: QuotaNode, total: Amounts) -> Amounts:
    """What the node may hold at most: of a root of a tree its own quota, else as much as it may borrow in addition."""
    if node.parent is None:
        return total
    return {resource: total.get(resource, 0) + limit for resource, limit in node.borrowing.items()}


def _guarantee(node: QuotaNode, total: Amounts) -> Amounts:
    """What the node never lends. A Cohort keeps at least what the nodes below it keep."""
    if node.parent is None:
        return {}
    found: Amounts = {}
    for resource, lent in node.lending.items():
        below = sum(_guarantee(child, child.total()).get(resource, 0) for child in node.children)
        kept = max(total.get(resource, 0) - lent, below)
        if kept > 0:
            found[resource] = kept
    return found


def _listed(amounts: Amounts, registry: Registry) -> dict[str, str]:
    return {
        resource: registry.format_amount(registry.index(resource), amount)
        for resource, amount in sorted(amounts.items())
    }


def _weights(nodes: Iterable[QuotaNode], report: MigrationReport) -> dict[str, int]:
    """Whole weights in the proportion of Kueue's, among the siblings of each parent."""
    siblings: dict[str, list[QuotaNode]] = {}
    for node in nodes:
        siblings.setdefault(node.parent.queue if node.parent is not None else "", []).append(node)
    found: dict[str, int] = {}
    for group in siblings.values():
        scale = Fraction(lcm(*(node.weight.denominator for node in group)))
        common = gcd(*(int(node.weight * scale) for node in group)) or 1
        scale /= common
        largest = max(int(node.weight * scale) for node in group)
        if largest > LARGEST_WEIGHT:
            scale *= Fraction(LARGEST_WEIGHT, largest)
        for node in group:
            found[node.queue] = max(1, round(node.weight * scale))
            if found[node.queue] != node.weight * scale:
                message = f"spec.fairSharing.weight: {node.weight} becomes the weight {found[node.queue]}"
                report.add(Severity.DIFFERS, node.kind, node.name, message, f"weights are 1 to {LARGEST_WEIGHT}")
    return found


def _namespaces(objects: SourceObjects, queues: dict[str, str], report: MigrationReport) -> list[Document]:
    """The namespaces with the queue of jobs that name none, from their LocalQueues."""
    by_namespace: dict[str, dict[str, str]] = {}
    for one in objects.of(KUEUE_GROUP, "LocalQueue"):
        about, cluster_queue = one.get("metadata") or {}, str((one.get("spec") or {}).get("clusterQueue") or "")
        if cluster_queue not in queues:
            message = f"spec.clusterQueue: Not found: ClusterQueue '{cluster_queue}'"
            report.add(Severity.LOST, "LocalQueue", display_name(one), message)
            continue
        names = by_namespace.setdefault(str(about.get("namespace") or "default"), {})
        names[str(about.get("name") or "")] = queues[cluster_queue]
    found = []
    for namespace, names in sorted(by_namespace.items()):
        only = next(iter(names.values())) if len(set(names.values())) == 1 else ""
        default = names.get(DEFAULT_LOCAL_QUEUE) or only
        for name, queue in sorted(names.items()):
            if queue != default:
                message = "is not the default queue of its namespace"
                report.add(
                    Severity.DIFFERS, "LocalQueue", f"{namespace}/{name}", message, f"its jobs set spec.queue: {queue}"
                )
        if default:
            about = {"name": namespace, "annotations": {QUEUE_NAMES[0]: default}}
            found.append({"apiVersion": "v1", "kind": "Namespace", "metadata": about})
    return found
