"""What Kueue's objects ask for and Queues of Pumice do not express."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pumice.migrate.kueue_quotas import CLUSTER_QUEUE, QuotaNode
from pumice.migrate.report import MigrationReport, Severity
from pumice.migrate.source_objects import KUEUE_GROUP, SourceObjects, display_name

_CONVERTED_KINDS = frozenset({"ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Workload"})
"""Kinds that are converted; a Workload exists only for the job that Kueue admits."""

_KIND_ADVICE = {
    "WorkloadPriorityClass": "create a PriorityClass with the same value and name it in spec.priorityClassName",
    "Topology": "see networkTopology in docs/volcano-support.md",
}

_LOST_FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "ClusterQueue": (
        ("admissionChecks", "Pumice has no admission checks"),
        ("admissionChecksStrategy", "Pumice has no admission checks"),
        ("admissionScope", "shares follow the present usage, not the usage over time"),
        ("concurrentAdmissionPolicy", "a Queue has no flavors"),
    ),
    "LocalQueue": (
        ("fairSharing", "several LocalQueues of a ClusterQueue become one Queue; create a Queue for each below it"),
        ("wallTimePolicy", "Pumice does not limit the time that a queue may use"),
    ),
    "ResourceFlavor": (
        ("nodeLabels", "set the labels as nodeSelector in the pods, or name groups of nodes in spec.affinity"),
        ("nodeTaints", "nodes keep their taints; pods need the tolerations themselves"),
        ("tolerations", "add the tolerations to the pods"),
        ("topologyName", "see networkTopology in docs/volcano-support.md"),
        ("resourceWeights", "all resources count alike"),
    ),
}
_STOPPED = ("Hold", "HoldAndDrain")


def report_differences(report: MigrationReport, objects: SourceObjects, nodes: Iterable[QuotaNode]) -> None:
    """Add everything that the converted queues do not express."""
    for (group, kind), found in objects.objects.items():
        if group == KUEUE_GROUP and kind not in _CONVERTED_KINDS:
            for one in found:
                report.add(Severity.LOST, kind, display_name(one), "has no equivalent", _KIND_ADVICE.get(kind, ""))
    for kind, fields in _LOST_FIELDS.items():
        for one in objects.of(KUEUE_GROUP, kind):
            spec = one.get("spec") or {}
            for name, advice in fields:
                if spec.get(name):
                    report.add(Severity.LOST, kind, display_name(one), f"spec.{name}: has no equivalent", advice)
            _report_stop(report, kind, one)
    covered = list(nodes)
    resources = {name for node in covered for name in node.nominal}
    for node in covered:
        if node.kind == CLUSTER_QUEUE:
            _report_cluster_queue(report, node, resources)


def _report_stop(report: MigrationReport, kind: str, document: Mapping[str, Any]) -> None:
    policy = (document.get("spec") or {}).get("stopPolicy")
    if policy in _STOPPED:
        advice = "close the Queue with 'vcctl queue operate --action close', which lets running jobs finish"
        report.add(Severity.DIFFERS, kind, display_name(document), f"spec.stopPolicy: {policy}", advice)


def _report_cluster_queue(report: MigrationReport, node: QuotaNode, resources: set[str]) -> None:
    spec = node.spec
    if len(node.flavors) > len(spec.get("resourceGroups") or ()):
        message = "the quotas of several flavors of a resource are added up, and none is enforced alone"
        advice = "make a Queue for each flavor, with spec.affinity, where the kind of node matters"
        report.add(Severity.LOST, node.kind, node.name, message, advice)
    selector = spec.get("namespaceSelector")
    if selector != {}:
        which = "all namespaces may use the Queue" + ("; in Kueue none may" if selector is None else "")
        advice = "restrict spec.queue with an admission policy"
        report.add(Severity.LOST, node.kind, node.name, f"spec.namespaceSelector: {which}", advice)
    preemption = spec.get("preemption") or {}
    if any(preemption.get(name, "Never") == "Never" for name in ("reclaimWithinCohort", "withinClusterQueue")):
        message = "spec.preemption: eviction is configured for the whole scheduler, not per queue"
        advice = "the actions reclaim and preempt; remove one from 'actions' in the configuration to switch it off"
        report.add(Severity.DIFFERS, node.kind, node.name, message, advice)
    for resource in sorted(resources - node.nominal.keys()):
        message = f"does not cover {resource}: Kueue admits no request for it here, and Pumice does not limit it"
        report.add(Severity.DIFFERS, node.kind, node.name, message, f"set spec.capability {resource}: 0 to forbid it")
