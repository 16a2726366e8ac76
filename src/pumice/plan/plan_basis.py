"""The cluster that a plan starts from: everything that an engine knows at one moment, and the manifests of its queues.

A basis comes from the objects of a running cluster, from the end of a scenario, or from a decision log. Engines are
restored from it as often as needed; the basis itself never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubebase.resource_vector import Registry
from pumice.admission import Object
from pumice.admission.request import NODES, PODGROUPS
from pumice.config.plugin_loader import plugin_factories
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint, PreemptorsCheckpoint
from pumice.engine.checkpoint.restore import EngineSnapshot, restore_engine, snapshot_engine
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.engine import Engine
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.model.specs import JobSpec, NodeSpec, TaskSpec
from pumice.sim.simulated_admission import SimulatedAdmission
from pumice.sim.simulated_cluster import SimulatedCluster

StoredObject = tuple[str, str, str, Object]
"""Resource, namespace, name and document, as admission follows it."""


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """A cluster at one moment. ``applied`` are manifests as their authors wrote them last, by KIND/NAME."""

    name: str
    snapshot: EngineSnapshot
    config: SchedulerConfig
    registry: Registry
    cooldown: PreemptionCooldown
    controlled: frozenset[str]  # pods that a controller creates again
    documents: Mapping[str, Object] = field(default_factory=dict)  # stored objects, by KIND/[NAMESPACE/]NAME
    applied: Mapping[str, Object] = field(default_factory=dict)
    workloads: Sequence[StoredObject] | None = None  # what admission follows beside queues; None: from the engine
    awaited_pods: Mapping[str, tuple[TaskSpec, ...]] = field(default_factory=dict)  # by job that is not let in
    notes: tuple[str, ...] = ()

    def cluster(self) -> SimulatedCluster:
        """A cluster of its own in this state."""
        config = self.config
        engine = restore_engine(self.snapshot, config, plugin_factories(config), self.registry, self.cooldown)
        cluster = SimulatedCluster.around(engine, self.controlled)
        cluster.awaited_pods.update(self.awaited_pods)
        return cluster

    def admission(self, cluster: SimulatedCluster) -> SimulatedAdmission:
        """The admission rules, which know the objects of a cluster of this basis."""
        admission = SimulatedAdmission(self.registry)
        admission.view.cluster_queue = self.config.default_queue
        for queue in cluster.objects.queues.values():
            admission.put_queue(queue, self.documents.get(f"Queue/{queue.name}"))
        for resource, namespace, name, document in self.workloads or self._described_workloads(cluster):
            admission.view.note(resource, namespace, name, document)
        return admission

    def _described_workloads(self, cluster: SimulatedCluster) -> list[StoredObject]:
        found: list[StoredObject] = [
            (NODES, "", node.name, _node_document(node, self.registry)) for node in cluster.objects.nodes.values()
        ]
        found += [
            (PODGROUPS, job.namespace, job.name, _group_document(job, cluster.engine, self.registry))
            for job in cluster.objects.jobs.values()
        ]
        return found


def basis_of(
    name: str,
    engine: Engine,
    *,
    controlled: frozenset[str],
    documents: Mapping[str, Object],
    applied: Mapping[str, Object],
    workloads: Sequence[StoredObject] | None = None,
    awaited_pods: Mapping[str, tuple[TaskSpec, ...]] | None = None,
    notes: Sequence[str] = (),
) -> PlanBasis:
    """The basis for the state of an engine between two cycles. The engine is not changed."""
    was = snapshot_engine(engine)
    basis = PlanBasis(
        name,
        was,
        engine.policy.config,
        engine.state.registry,
        engine.cooldown,
        controlled,
        documents,
        applied,
        workloads,
        awaited_pods or {},
        tuple(notes),
    )
    return replace(basis, snapshot=EngineSnapshot(was.cluster, _without_sated(basis)))


def _without_sated(basis: PlanBasis) -> EngineCheckpoint:
    """The checkpoint without the waiting times of jobs that are owed nothing at present.

    A scheduler counts the patience of a job from when the job is owed something, so it counts from a change on that
    makes it so. Objects only tell since when a job waits.
    """
    probe = basis.cluster().engine
    probe.cycle(probe.now)
    owed, was = probe.checkpoint(), basis.snapshot.checkpoint
    holds = was.holds
    if holds is not None:
        still = owed.holds.waiting if owed.holds is not None else {}
        kept = {} if owed.holds is None else {saved.job: 0 for saved in owed.holds.kept}
        waiting = {job: since for job, since in holds.waiting.items() if job in still or job in kept}
        holds = replace(holds, waiting=waiting)
    return replace(
        was, reclaims=_common(was.reclaims, owed.reclaims), preempts=_common(was.preempts, owed.preempts), holds=holds
    )


def _common(was: PreemptorsCheckpoint, owed: PreemptorsCheckpoint) -> PreemptorsCheckpoint:
    return replace(was, since={job: since for job, since in was.since.items() if job in owed.since})


def _node_document(node: NodeSpec, registry: Registry) -> Object:
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "status": {"allocatable": registry.format(node.allocatable)},
    }


def _group_document(job: JobSpec, engine: Engine, registry: Registry) -> Object:
    known = engine.state.jobs.get(job.key)
    spec: Object = {"queue": job.queue}
    if job.min_resources:
        spec["minResources"] = registry.format(job.min_resources)
    return {
        "metadata": {"name": job.name, "namespace": job.namespace},
        "spec": spec,
        "status": {"phase": (known.phase if known is not None else job.phase).value},
    }
