"""The one table of what Volcano has and what becomes of it here: kinds, fields, annotations, plugins, actions.

Admission warns of every field with ``NO_EFFECT`` that an object sets (``effectless_fields``), ``pumice check`` prints
the same as notes, and ``tools/volcano_support_page.py`` writes docs/volcano-support.md from all of it.

A field is named by its path, with ``[]`` for the elements of a list. An entry covers the fields below it that have no
entry of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pumice.admission.request import CRON_JOBS, HYPER_NODES, JOB_FLOWS, JOBS, PODGROUPS, PODS, QUEUES

COMMANDS: Final = "commands.bus.volcano.sh"


class Support(Enum):
    """What becomes of something that Volcano has."""

    WORKS = "works"
    DIFFERS = "differs"
    NO_EFFECT = "no effect"
    """Accepted and kept, and admission warns of it."""
    MISSING = "not there"
    """Rejected, or not served."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A kind, field, annotation, plugin, action or argument of Volcano."""

    name: str
    support: Support
    note: str = ""
    """How it differs, or why it has no effect or is not there: the end of a sentence, without a full stop."""
    harmless: tuple[object, ...] = ()
    """Values that ask for nothing: no warning."""


def _works(*names: str) -> tuple[Feature, ...]:
    return tuple(Feature(name, Support.WORKS) for name in names)


def _differs(name: str, note: str) -> Feature:
    return Feature(name, Support.DIFFERS, note)


def _no_effect(name: str, note: str, *harmless: object) -> Feature:
    return Feature(name, Support.NO_EFFECT, note, harmless)


def _missing(name: str, note: str) -> Feature:
    return Feature(name, Support.MISSING, note)


_TOPOLOGY = (
    "hard without a tier means tier 1; soft means any nodes if no HyperNode holds the gang; of several the HyperNode "
    "with the least room is used, and reclaim and preempt evict inside one HyperNode"
)
_WHOLE_JOB = "only the network topology of the whole job counts"
_DEVICES = "the scheduler allocates no devices for resource claims, so the pod does not start on its node"
_PROBES = "as in Volcano, which accepts it: the targets have to be complete, or taskStatusList says what is enough"
_ROUTED = "a job that names no queue, or a parent queue, goes to the least utilised open leaf queue below it"

KINDS: Final = (
    *_works("Queue (scheduling.volcano.sh/v1beta1)", "PodGroup (scheduling.volcano.sh/v1beta1)"),
    *_works("Job (batch.volcano.sh/v1alpha1)", "Command (bus.volcano.sh/v1alpha1)"),
    *_works("CronJob (batch.volcano.sh/v1alpha1)"),
    _differs("JobTemplate (flow.volcano.sh/v1alpha1)", "rejected when it is created if no Job could be made from it"),
    *_works("JobFlow (flow.volcano.sh/v1alpha1)"),
    _differs(
        "HyperNode (topology.volcano.sh/v1alpha1)",
        "tiers start at 1, a node is in at most one HyperNode of a tier, and no controller discovers or writes them",
    ),
    _missing("Numatopology (nodeinfo.volcano.sh/v1alpha1)", "the scheduler does not look inside nodes"),
    _missing("HyperJob (training.volcano.sh/v1alpha1)", "one scheduler serves one cluster"),
    _missing("NodeShard (shard.volcano.sh/v1alpha1)", "one scheduler serves all nodes of the cluster"),
    _missing("ColocationConfiguration (config.volcano.sh/v1alpha1)", "there is no node agent"),
)
"""The kinds that Volcano defines."""

FIELDS: Final[dict[str, tuple[Feature, ...]]] = {
    JOBS: (
        _differs("spec.schedulerName", "defaults to pumice; pods that name volcano are scheduled as well"),
        *_works("spec.minAvailable"),
        _differs("spec.queue", _ROUTED),
        *_works("spec.priorityClassName", "spec.maxRetry", "spec.minSuccess", "spec.ttlSecondsAfterFinished"),
        _no_effect("spec.runningEstimate", "no policy here uses estimates"),
        _differs(
            "spec.plugins",
            "a value that an argument cannot have is rejected; other plugins than those below, and other arguments, "
            "are accepted with a warning",
        ),
        *_works("spec.volumes"),
        _differs("spec.networkTopology", _TOPOLOGY),
        _differs(
            "spec.policies",
            "the events OutOfSync and CommandIssued, and the actions SyncJob and EnqueueJob, are "
            "internal to the controller and rejected",
        ),
        *_works("spec.tasks[].name"),
        _differs(
            "spec.tasks[].replicas",
            "an update that leaves it out scales the task to zero, as Volcano's clients expect, which leave zeros out",
        ),
        *_works("spec.tasks[].minAvailable", "spec.tasks[].template", "spec.tasks[].policies", "spec.tasks[].maxRetry"),
        *_works("spec.tasks[].dependsOn"),
        _no_effect("spec.tasks[].template.spec.resourceClaims", _DEVICES),
        _no_effect("spec.tasks[].topologyPolicy", "the scheduler does not know the NUMA nodes of machines", "none"),
        _differs(
            "spec.tasks[].partitionPolicy",
            "a partition is what RestartPartition restarts; its pods are not placed as a gang of their own",
        ),
        _no_effect("spec.tasks[].partitionPolicy.minPartitions", "the minimum of a task counts pods, not partitions"),
        _no_effect("spec.tasks[].partitionPolicy.networkTopology", _WHOLE_JOB),
    ),
    PODGROUPS: (
        *_works("spec.minMember", "spec.minTaskMember"),
        _differs("spec.queue", _ROUTED),
        *_works("spec.priorityClassName", "spec.minResources"),
        _differs("spec.networkTopology", _TOPOLOGY),
        _no_effect("spec.subGroupPolicy", "a PodGroup has one minimum, and minTaskMember one per role"),
        _differs("status.phase", "Unknown while fewer pods run than minMember, where Volcano may go back to Pending"),
        *_works("status.conditions", "status.running", "status.succeeded", "status.failed"),
    ),
    QUEUES: (
        *_works("spec.weight", "spec.parent", "spec.capability", "spec.deserved", "spec.guarantee", "spec.priority"),
        *_works("spec.reclaimable", "spec.affinity", "spec.dequeueStrategy"),
        _no_effect("spec.type", "queues have no types"),
        _no_effect("spec.extendClusters", "one scheduler serves one cluster"),
        *_works("status.state", "status.unknown", "status.pending", "status.running", "status.inqueue"),
        *_works("status.completed", "status.allocated"),
        _differs("status.reservation", "never filled in: the actions elect and reserve do not exist"),
    ),
    HYPER_NODES: (
        *_works("spec.tier", "spec.tierName", "spec.members"),
        _differs("status.nodeCount", "kept as clients write it; the scheduler does not fill it in"),
        _differs("status.conditions", "kept as clients write them"),
    ),
    COMMANDS: (
        _differs("action", "the actions SyncJob and EnqueueJob are accepted and do nothing"),
        *_works("target", "reason", "message"),
    ),
    JOB_FLOWS: (
        *_works("spec.flows[].name", "spec.flows[].dependsOn.targets"),
        _differs("spec.flows[].dependsOn.probe.taskStatusList", "Volcano accepts it and waits for complete targets"),
        _no_effect("spec.flows[].dependsOn.probe.httpGetList", _PROBES),
        _no_effect("spec.flows[].dependsOn.probe.tcpSocketList", _PROBES),
        _differs("spec.flows[].patch", "Volcano accepts it and makes the job from the template alone"),
        *_works("spec.jobRetainPolicy", "status.pendingJobs", "status.runningJobs", "status.completedJobs"),
        *_works("status.failedJobs", "status.terminatedJobs", "status.unKnowJobs", "status.jobStatusList"),
        *_works("status.conditions"),
        _differs("status.state", "a flow fails with a terminated job as well, where Volcano may wait for ever"),
    ),
    CRON_JOBS: (
        *_works("spec.schedule"),
        _differs("spec.timeZone", "defaults to UTC, not to the zone of the controller's machine"),
        *_works("spec.startingDeadlineSeconds", "spec.concurrencyPolicy", "spec.suspend"),
        *_works("spec.successfulJobsHistoryLimit"),
        _differs("spec.failedJobsHistoryLimit", "counts terminated jobs as well, which Volcano keeps for ever"),
        _differs("spec.jobTemplate", "rejected if no Job could be made from it"),
        *_works("status.active", "status.lastScheduleTime", "status.lastSuccessfulTime"),
    ),
    PODS: (_no_effect("spec.resourceClaims", _DEVICES),),
}
"""The fields of Volcano's kinds, and those of pods that Volcano's scheduler reads and ours does not."""

OWN_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    QUEUES: (
        "spec.hierarchy",
        "spec.minUserLimitPercent",
        "spec.userLimitFactor",
        "status.weight",
        "status.path",
        "status.share",
        "status.entitled",
        "status.namespaces",
        "status.innerNodes",
        "status.scheduler",
        "status.conditions",
    ),
}
"""Fields that Volcano does not have."""

_BUDGET = "only the plugin tdm of Volcano reads it, which does not exist here; use a PodDisruptionBudget"
_TASK_TOPOLOGY = "counts if the configuration names the plugin task-topology; scores nodes by the tasks placed before"

ANNOTATIONS: Final = (
    *_works("scheduling.k8s.io/group-name", "volcano.sh/task-spec"),
    _differs("volcano.sh/queue-name", "a label of that name counts on a pod as well"),
    *_works("scheduling.volcano.sh/queue-name", "scheduling.volcano.sh/group-min-member", "volcano.sh/preemptable"),
    *_works("volcano.sh/sla-waiting-time", "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"),
    _no_effect("volcano.sh/cooldown-time", "the argument reclaim.minRuntime protects tasks that just started"),
    _no_effect("volcano.sh/revocable-zone", "the plugin tdm does not exist", ""),
    _no_effect("volcano.sh/jdb-min-available", _BUDGET),
    _no_effect("volcano.sh/jdb-max-unavailable", _BUDGET),
    _no_effect("volcano.sh/numa-topology-policy", "the scheduler does not know the NUMA nodes of machines", "none"),
    _differs("volcano.sh/task-topology-affinity", _TASK_TOPOLOGY),
    _differs("volcano.sh/task-topology-anti-affinity", _TASK_TOPOLOGY),
    _no_effect("volcano.sh/task-topology-task-order", "tasks start by priority and index; use priority classes"),
    _no_effect("volcano.sh/qos-level", "there is no node agent"),
)
"""Annotations of jobs, podgroups, pods, queues and namespaces."""

JOB_PLUGINS: Final = (*_works("env", "svc", "ssh", "mpi", "tensorflow", "pytorch", "ray", "hcclrank"),)
"""Plugins of Jobs. A job with one that has no effect is accepted with a warning."""

ACTIONS: Final = (
    _differs("enqueue", "owed jobs are admitted even where overcommit would keep them out"),
    _differs(
        "allocate", "serves the tree of queues unit by unit, reserves capacity for owed jobs, then lends the rest"
    ),
    *_works("backfill"),
    _differs("reclaim", "waits for reclaim.patience and protects tasks for reclaim.minRuntime"),
    _differs(
        "preempt",
        "evicts for every task that a job is owed or outranks others for; with enableJobStarving: true at gang it "
        "stops at minMember, as in Volcano",
    ),
    _missing("elect", "reserves nodes for one job; allocate reserves for owed jobs by itself"),
    _missing("reserve", "see elect"),
    _missing("shuffle", "evicts pods that plugins choose, and none does here; use the descheduler"),
    _missing("gangpreempt", "use preempt, which evicts for a whole gang or not at all; alone it would have no effect"),
    _missing("gangreclaim", "see gangpreempt"),
)
"""Actions of the scheduler configuration."""

PLUGINS: Final = (
    *_works("binpack"),
    _differs("capacity", "parents always count; queues need no enableHierarchy"),
    *_works("conformance"),
    _differs(
        "deviceshare",
        "hands out volcano.sh/gpu-number and gpu-memory; unhealthy cards are not left out, virtual GPUs are rejected",
    ),
    _differs(
        "drf", "computes entitlements of the whole tree (drf.rule: steer); drf.rule: paper is the published H-DRF"
    ),
    *_works("gang"),
    _differs(
        "network-topology-aware",
        "always active; weight counts for tasks that join others; gangs go to the HyperNode with the least room",
    ),
    *_works("nodegroup"),
    _differs("nodeorder", "scores neither images, pod affinity nor volumes"),
    *_works("overcommit", "pdb"),
    _differs("predicates", "checks nodes, taints, ports, pod affinity, spreading and volumes; devices have no check"),
    *_works("priority"),
    _differs(
        "proportion",
        "capacity that no waiting job could use within what its queue deserves is lent; after an eviction of single "
        "tasks the victim's queue still has a larger share than the preemptor's queue had before it, so "
        "that no two queues evict each other in turn",
    ),
    _differs("resource-strategy-fit", "sra.policy: proportional is rejected; annotations of pods do not override it"),
    *_works("sla"),
    _differs("task-topology", "each task follows the tasks placed before it; there are no buckets and no task order"),
    _missing("cdp", "the argument reclaim.minRuntime protects tasks that just started"),
    _missing("extender", "write a plugin in Python"),
    _missing("numa-aware", "the scheduler does not look inside nodes"),
    _missing("rescheduling", "moves running pods; use the descheduler"),
    _missing("reservation", "allocate reserves for owed jobs by itself"),
    _missing("resourcequota", "the API server enforces ResourceQuotas when pods are created"),
    _missing("tdm", "use taints, or nodegroup"),
    _missing("usage", "the scheduler reads no metrics of nodes"),
)
"""Plugins of the scheduler configuration; a configuration that names one that is not there is rejected."""

_CACHED = "results are always kept until something changes"
_VOLUMES = "volumes are always checked"

ARGUMENTS: Final = (
    _no_effect("network-topology-aware: hypernode.binpack.cpu", "a gang goes to the HyperNode with the least room"),
    _no_effect("network-topology-aware: hypernode.binpack.memory", "see hypernode.binpack.cpu"),
    _no_effect("network-topology-aware: hypernode.binpack.resources", "see hypernode.binpack.cpu"),
    _no_effect(
        "network-topology-aware: hypernode.binpack.normal-pod.enable", "pods without networkTopology go anywhere"
    ),
    _no_effect(
        "network-topology-aware: hypernode.binpack.normal-pod.fading", "see hypernode.binpack.normal-pod.enable"
    ),
    _no_effect("nodeorder: podaffinity.weight", "preferred pod affinity is not scored"),
    _no_effect("nodeorder: imagelocality.weight", "images are not scored"),
    _no_effect("nodeorder: selectorspread.weight", "use topologySpreadConstraints"),
    _no_effect("nodeorder: volumebinding.weight", "volumes are not scored"),
    _no_effect("predicates: predicate.CacheEnable", _CACHED),
    _no_effect("predicates: predicate.ProportionalEnable", "use node groups to keep CPU jobs off GPU nodes"),
    _no_effect("predicates: predicate.resources", "see predicate.ProportionalEnable"),
    _no_effect("predicates: predicate.GPUSharingEnable", "use the plugin deviceshare"),
    _no_effect("predicates: predicate.GPUNumberEnable", "use the plugin deviceshare"),
    _no_effect("deviceshare: deviceshare.NodeLockEnable", "one scheduler decides, so no lock is needed"),
    _no_effect("deviceshare: deviceshare.SchedulePolicy", "cards are used from the lowest number on"),
    _no_effect("deviceshare: deviceshare.ScheduleWeight", "see deviceshare.SchedulePolicy"),
    _no_effect("predicates: predicate.NodeVolumeLimitsEnable", _VOLUMES),
    _no_effect("predicates: predicate.VolumeZoneEnable", _VOLUMES),
    _no_effect("predicates: predicate.VolumeBindingEnable", _VOLUMES),
    _no_effect("predicates: predicate.DynamicResourceAllocationEnable", _DEVICES),
    _no_effect("allocate: predicateErrorCacheEnable", _CACHED),
    _no_effect("preempt: predicateErrorCacheEnable", _CACHED),
    _no_effect("preempt: enableTopologyAwarePreemption", "victims are always chosen with the pods around them in mind"),
    _no_effect("preempt: topologyAwarePreemptWorkerNum", "see enableTopologyAwarePreemption"),
    _no_effect("preempt: minCandidateNodesPercentage", "all nodes are considered"),
    _no_effect("preempt: minCandidateNodesAbsolute", "all nodes are considered"),
    _no_effect("preempt: maxCandidateNodesAbsolute", "all nodes are considered"),
    _no_effect("enqueue: overcommit-factor", "set it at the plugin overcommit"),
)
"""Arguments of Volcano's plugins and actions that have no effect; a note in the log names them."""

PROGRAMS: Final = (
    *_works("vcctl job", "vcctl jobflow", "vcctl jobtemplate", "vsub", "vsuspend", "vresume", "vcancel"),
    _differs("vcctl queue", "delete also removes what is below and in the queue, and asks before it does"),
    _differs("vjobs", "--selector takes labels, not parts of names"),
    _differs("vqueues", "shows the tree of queues"),
    _missing("vcctl pod", "use kubectl get pods, or vcctl job view"),
    _missing("vlogs", "use kubectl logs -l volcano.sh/job-name=JOB"),
)
"""Volcano's commands, beside those that the executable of Pumice has itself (docs/commands.md)."""
