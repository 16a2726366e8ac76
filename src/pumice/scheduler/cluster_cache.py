"""The scheduler's cache of the cluster: watch events, overlaid with decisions that are not confirmed yet.

Once the engine binds a pod, the cache reports the pod as bound, even if later watch events still show it unbound: the
API server sent them before the binding. The cache drops the assumption when the API confirms the decision in an object
of the same uid, or rejects it; then it reports the API's objects again.

What a pod with claims demands of nodes depends on many objects. Such pods are reported by ``settled_events``, after all
changes that arrived together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

from kubebase.resource_vector import Registry
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
from pumice.kube.decode.convert import SCHEDULERS, describe
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.pods import bound_task
from pumice.kube.decode.storage import PodClaim, claims_of
from pumice.kube.resources import NODES, PODS
from pumice.kube.watch.change_queue import Change
from pumice.model.hyper_nodes import HyperNode
from pumice.model.specs import (
    Described,
    DisruptionBudget,
    JobPhase,
    JobSpec,
    NodeSpec,
    PriorityClass,
    Queue,
    Quota,
    TaskSpec,
    TaskStatus,
)
from pumice.scheduler.gated_pods import NO_JOBS, GatedPods
from pumice.scheduler.volumes.volume_cache import STORAGE_RESOURCES, VolumeCache

POD_GROUPS = "podgroups.scheduling.volcano.sh"

KINDS: dict[str, tuple[str, type[Described]]] = {
    "nodes": ("Node", NodeSpec),
    "hypernodes.topology.volcano.sh": ("HyperNode", HyperNode),
    "pods": ("Pod", TaskSpec),
    "resourcequotas": ("ResourceQuota", Quota),
    "poddisruptionbudgets.policy": ("PodDisruptionBudget", DisruptionBudget),
    "priorityclasses.scheduling.k8s.io": ("PriorityClass", PriorityClass),
    "queues.scheduling.volcano.sh": ("Queue", Queue),
    POD_GROUPS: ("PodGroup", JobSpec),
}
"""The resources that feed the engine: their kind, and the type each is decoded to."""

STORAGE = frozenset(resource.name for resource in STORAGE_RESOURCES)
"""The resources that reach the engine as constraints of pods and limits of nodes."""

ENTERED = (JobPhase.INQUEUE, JobPhase.RUNNING, JobPhase.UNKNOWN, JobPhase.COMPLETED)


@dataclass(frozen=True, slots=True, eq=False)
class Assumption:
    """The assumed effect of one decision about a pod: it is on a node, or being evicted. Compared by identity."""

    uid: str
    node: str = ""  # empty: it is being evicted


class ClusterCache:
    """Turns changes of the cluster into events of the engine."""

    def __init__(
        self,
        registry: Registry,
        refused: Callable[[ObjectError], None] = lambda error: None,
        schedulers: Collection[str] = SCHEDULERS,
    ) -> None:
        self._registry = registry
        self._refused = refused
        self._schedulers = schedulers  # names of the schedulers whose pods we place
        self._tasks: dict[str, TaskSpec] = {}  # as last seen, by key
        self._refused_pods: set[str] = set()  # pods that have become what cannot be converted
        self._uids: dict[str, str] = {}  # of pods and podgroups, by resource and key
        self._assumed: dict[str, Assumption] = {}
        self._last_delivered: dict[
            tuple[str, str], Described
        ] = {}  # by resource and key: many changes do not concern the engine
        self._enqueued: dict[str, str] = {}  # enqueued jobs, and the uid of their podgroup
        self._nodes: dict[str, NodeSpec] = {}  # as last seen, without what storage drivers say of them
        self.volumes = VolumeCache()
        self._groups: dict[str, JobSpec] = {}  # as last seen, by key
        self._gated = GatedPods(schedulers)

    # ---- watch events -------------------------------------------------------------------------------------

    def events_for(self, change: Change[Any]) -> Iterator[Event]:
        """The events for the engine that a change causes; none if the engine would see no difference."""
        if change.resource in STORAGE:
            self._note_storage(change)
            return
        if change.resource == PODS.name and (bound := self._confirmed(change)) is not None:
            self._last_delivered[change.resource, change.key] = bound
            yield Changed(bound)
            return
        kind, described = KINDS[change.resource]
        if change.new is None:
            ungated = self._forget(change)
            self._last_delivered.pop((change.resource, change.key), None)
            yield Gone(described, change.key)
            yield from self._job_events(ungated)
            return
        try:
            found = describe(kind, change.new, registry=self._registry, schedulers=self._schedulers)
        except ObjectError as error:
            self._refused(error)  # the last valid state stays in force
            if change.resource == PODS.name:
                self._refused_pods.add(change.key)
            return
        if isinstance(found, JobSpec):
            self._uids[f"podgroups/{change.key}"] = change.uid
            self._groups[change.key] = found
            yield from self._job_events({change.key})
            return
        regated: Set[str] = NO_JOBS
        if isinstance(found, TaskSpec):
            self._uids[f"pods/{change.key}"] = change.uid
            self._tasks[change.key] = found
            self._refused_pods.discard(change.key)
            regated = self._gated.follow(change.key, change.new, found)
            has_claims = self._note_claims(change.key, change.new, found)
            found = None if has_claims else self._as_assumed(change.key, change.uid, found)
        elif isinstance(found, NodeSpec):
            self._nodes[change.key] = found
            self.volumes.set_node(change.key, found.labels)
            found = self._with_volume_limits(found)
        if found is not None:
            yield from self._deliver(change.resource, change.key, found)
        if regated:
            yield from self._job_events(regated)

    def _confirmed(self, change: Change[Any]) -> TaskSpec | None:
        """The task that our own binding has made of a pod, if that is all that the change shows; else None."""
        key, before, after = change.key, change.old, change.new
        assumed = self._assumed.get(key)
        if assumed is None or before is None or after is None or key in self._refused_pods or after.spec.volumes:
            return None
        if not assumed.node or assumed.node != after.spec.node_name or assumed.uid != change.uid:
            return None
        bound = bound_task(self._tasks[key], before, after)
        if bound is not None:
            del self._assumed[key]
            self._tasks[key] = bound
        return bound

    def settled_events(self) -> Iterator[Event]:
        """The events about limits of nodes and pods with claims, after all changes that arrived together."""
        if self.volumes.limits_changed:
            self.volumes.limits_changed = False
            for name, node in self._nodes.items():
                yield from self._deliver(NODES.name, name, self._with_volume_limits(node))
        for key in self.volumes.take_changed_pods():
            if key in self._tasks:
                seen = self._as_assumed(key, self.uid("pods", key), self._tasks[key])
                yield from self._deliver("pods", key, self._with_volumes(key, seen))

    def _job_events(self, keys: Collection[str]) -> Iterator[Event]:
        """The events of podgroups that changed, or whose gated pods did."""
        for key in sorted(keys):
            seen = self._groups.get(key)
            if seen is not None:
                enqueued = self._as_enqueued(key, self.uid("podgroups", key), seen)
                yield from self._deliver(POD_GROUPS, key, self._gated.without_gated(key, enqueued))

    def _deliver(self, resource: str, key: str, found: Described) -> Iterator[Event]:
        if self._last_delivered.get((resource, key)) != found:
            self._last_delivered[resource, key] = found
            yield Changed(found)

    def _note_storage(self, change: Change[Any]) -> None:
        try:
            self.volumes.apply(change)
        except ObjectError as error:
            self._refused(error)  # the last valid state stays in force

    def _note_claims(self, key: str, pod: Any, task: TaskSpec) -> bool:
        """Record the claims of a pod. True: it has claims, and ``settled_events`` will report it."""
        claims: tuple[PodClaim, ...] = ()
        if pod.spec.volumes and task.status not in {TaskStatus.SUCCEEDED, TaskStatus.FAILED}:
            claims = claims_of(pod)
        if claims:
            self.volumes.set_pod(key, claims)
            return True
        if self.volumes.has_pod(key):
            self.volumes.drop_pod(key)
        return False

    def _with_volumes(self, key: str, task: TaskSpec) -> TaskSpec:
        demand = self.volumes.demand(key, placed=task.node is not None)
        if demand is None:
            return task
        return replace(task, constraints=replace(task.constraints, volumes=demand))

    def _with_volume_limits(self, node: NodeSpec) -> NodeSpec:
        limits = self.volumes.limits_of(node.name)
        return replace(node, volume_limits=limits) if limits else node

    def _forget(self, change: Change[Any]) -> Set[str]:
        """Forget an object that is gone. Returns the jobs whose gated pods are others now."""
        if change.resource == NODES.name:
            self._nodes.pop(change.key, None)
            self.volumes.set_node(change.key, None)
        elif change.resource == "pods":
            if self.volumes.has_pod(change.key):
                self.volumes.drop_pod(change.key)
            self._tasks.pop(change.key, None)
            self._refused_pods.discard(change.key)
            self._assumed.pop(change.key, None)
            self._uids.pop(f"pods/{change.key}", None)
            return self._gated.forget(change.key)
        if change.resource == POD_GROUPS:
            self._enqueued.pop(change.key, None)
            self._groups.pop(change.key, None)
            self._uids.pop(f"podgroups/{change.key}", None)
        return NO_JOBS

    def _as_assumed(self, key: str, uid: str, seen: TaskSpec) -> TaskSpec:
        assumed = self._assumed.get(key)
        if assumed is None:
            return seen
        is_over = seen.status in {TaskStatus.SUCCEEDED, TaskStatus.FAILED}
        confirmed = is_over or (bool(seen.node) if assumed.node else seen.status is TaskStatus.RELEASING)
        if assumed.uid != uid or confirmed:
            del self._assumed[key]
            return seen
        if assumed.node:
            return replace(seen, node=assumed.node, status=TaskStatus.BINDING)
        return seen  # the engine assumes the eviction until it is reported as failed

    def _as_enqueued(self, key: str, uid: str, seen: JobSpec) -> JobSpec:
        if self._enqueued.get(key) != uid:
            return seen
        if seen.phase in ENTERED:
            del self._enqueued[key]
            return seen
        return replace(seen, phase=JobPhase.INQUEUE)

    # ---- decisions ----------------------------------------------------------------------------------------

    def uid(self, resource: str, key: str) -> str:
        """The uid of a pod or podgroup, as last seen."""
        return self._uids.get(f"{resource}/{key}", "")

    def assume_bound(self, key: str, node: str) -> Assumption:
        """Assume that a pod is bound to a node. The assumption holds for the present uid only."""
        assumed = self._assumed[key] = Assumption(self.uid("pods", key), node)
        return assumed

    def assume_evicted(self, key: str) -> Assumption:
        """Assume that a pod is being evicted."""
        assumed = self._assumed[key] = Assumption(self.uid("pods", key))
        return assumed

    def assume_enqueued(self, job: str) -> None:
        """Assume that a job is enqueued."""
        self._enqueued[job] = self.uid("podgroups", job)

    def is_assumed(self, key: str, assumed: Assumption) -> bool:
        """Whether an assumption still holds: the pod has not changed otherwise, and no decision replaced it."""
        return self._assumed.get(key) is assumed

    def failed(self, key: str, assumed: Assumption) -> list[Event]:
        """Drop the assumption of a failed decision; returns the events for the engine, none if the pod has changed
        since.
        """
        if not self.is_assumed(key, assumed):
            return []
        del self._assumed[key]
        seen = self._last_delivered["pods", key] = self._with_volumes(key, self._tasks[key])
        return [BindFailed(key) if assumed.node else EvictFailed(key), Changed(seen)]

    @property
    def open_assumptions(self) -> int:
        """How many decisions the cluster has not confirmed yet."""
        return len(self._assumed)
