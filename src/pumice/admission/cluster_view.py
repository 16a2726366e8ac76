"""The view of the cluster for admission rules: the queue tree, the workloads of each queue, the cluster's size.

A ``ClusterView`` follows objects. Its owner (the embedded server from its store, a webhook from its informers) reports
each object that is added, changed or deleted; the view keeps only what rules need. No call blocks or lists objects: a
rule costs what it reads, not what exists.

Pending work of a queue counts from its admission: a Job by its future pods until it has a PodGroup, a PodGroup by its
``minResources`` until it runs; from then on it is part of the queue's usage (``status.allocated``, or the
``minResources`` of running PodGroups where that is more: the status lags a little). So a burst of jobs sees its own
beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Final

from kubebase.field_error import FieldError
from kubebase.pod_request import pod_request
from kubebase.resource_vector import Registry, ResourceError, add, subtract
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import (
    HYPER_NODES,
    JOB_TEMPLATES,
    JOBS,
    NAMESPACES,
    NODES,
    PODGROUPS,
    QUEUES,
    Object,
    Settings,
    annotations_of,
    metadata_of,
    spec_of,
)
from pumice.kube.decode import api_types
from pumice.kube.decode.hyper_nodes import hyper_node
from pumice.kube.decode.min_resources import requested_resources
from pumice.kube.decode.preemption_annotations import queue_name
from pumice.kube.decode.queues import queue as queue_of
from pumice.kube.decode.struct_decode import microseconds, read
from pumice.model.hyper_nodes import HyperNode
from pumice.model.node_domains import NodeDomains
from pumice.model.queue_expansion import planned_queues
from pumice.model.specs import ROOT, Queue, Vector

FOLLOWED: Final = frozenset({QUEUES, PODGROUPS, JOBS, JOB_TEMPLATES, NODES, NAMESPACES, HYPER_NODES})
"""The resources whose objects the view follows."""

_OVER = frozenset({"Completed", "Failed", "Terminated"})  # final phases; an aborted job may resume
_PARTS: Final = ("metadata", "spec", "status")
_WAITING = frozenset({"", "Pending", "Inqueue"})
_RUNNING = frozenset({"Running", "Unknown"})

Key = tuple[str, str, str]
"""Resource, namespace and name."""


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """A PodGroup or Job, as far as queues need it."""

    queue: str
    unfinished: bool
    waits_for: Vector = ()
    runs_on: Vector = ()
    """A lower bound of its usage."""
    owner: Key | None = None
    """The Job that a PodGroup represents."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The leaves below a queue that accept routed jobs, the least utilised first (see ``routing``).

    It is valid while only loads change; those of ``stale`` leaves have to be looked up again.
    """

    heap: list[tuple[Fraction, str]]
    used: dict[str, Fraction]
    stale: set[str]


class ClusterView:
    """The newest state of a cluster, as admission sees it."""

    def __init__(self, settings: Settings | None = None, registry: Registry | None = None) -> None:
        self.settings = settings or Settings()
        self.registry = Registry() if registry is None else registry
        self.queues: dict[str, Object] = {}
        """All queues as documents; read-only."""
        self.capacity: Vector = ()
        """The capacity of all nodes, ready or not: quotas should not depend on every reboot."""
        self.domains = NodeDomains()
        """The HyperNodes, and the nodes they contain."""
        self._described: dict[str, Queue] = {}
        self._tree: QueueTree | None = None
        self._expanded: tuple[QueueTree, QueueTree] | None = None  # the tree it was built from, and the result
        self._work: dict[Key, WorkloadSummary] = {}
        self._in_queue: dict[str, set[Key]] = {}
        self._waiting: dict[str, Vector] = {}
        self._running: dict[str, Vector] = {}
        self._groups: Counter[Key] = Counter()  # of each job
        self._nodes: dict[str, Vector] = {}
        self._namespace_queues: dict[str, str] = {}
        self._job_templates: set[tuple[str, str]] = set()
        self.cluster_queue = ""
        """The default queue that the scheduler's configuration names; empty: none, or no scheduler has published it."""
        self.rankings: dict[str, Ranking] = {}
        """By queue, for queues that routed jobs since the tree or a state last changed."""

    # ---- queries for rules ----------------------------------------------------------------------------------

    @property
    def tree(self) -> QueueTree:
        """The queue tree."""
        if self._tree is None:
            self._tree = QueueTree(self._described)
        return self._tree

    @property
    def expanded_tree(self) -> QueueTree:
        """The tree including the queues that hierarchies name and the queue controller has yet to create.

        A queue whose hierarchy is not expanded yet is no leaf there.
        """
        tree = self.tree
        if self._expanded is None or self._expanded[0] is not tree:
            planned = planned_queues(self._described)
            self._expanded = (tree, tree.changed(planned) if planned else tree)
        return self._expanded[1]

    def is_planned(self, queue: str) -> bool:
        """Whether a hierarchy names a queue that does not exist yet."""
        return queue not in self.queues and self.expanded_tree.path(queue) is not None

    @property
    def plans_come_true(self) -> bool:
        """Whether a queue controller runs here, which creates the queues that hierarchies name."""
        return bool(self.settings.queue_finalizer)

    def is_leaving(self, queue: str) -> bool:
        """Whether a queue is terminating."""
        return "deletionTimestamp" in self.queues.get(queue, {}).get("metadata", {})

    def default_queue(self, namespace: str) -> str:
        """The queue of jobs that name none: that of their namespace, else that of the cluster; empty if none."""
        return self.namespace_queue(namespace) or self.cluster_queue

    def namespace_queue(self, namespace: str) -> str:
        """The default queue that the annotations of a namespace name; empty if none."""
        return self._namespace_queues.get(namespace, "")

    def has_job_template(self, namespace: str, name: str) -> bool:
        """Whether a JobTemplate exists."""
        return (namespace, name) in self._job_templates

    def unfinished(self, queue: str) -> list[str]:
        """The unfinished jobs in a queue, pending ones included: ``PodGroup ns/name``, ``Job ns/name``."""
        found = []
        for key in self._in_queue.get(queue, ()):
            if self._work[key].unfinished:
                kind = "PodGroup" if key[0] == PODGROUPS else "Job"
                found.append(f"{kind} {key[1]}/{key[2]}")
        return sorted(found)

    def allocated(self, queue: str) -> Vector:
        """The usage of a queue, from its status."""
        return self._vector((self.queues.get(queue, {}).get("status") or {}).get("allocated"))

    def load(self, queue: str) -> Vector:
        """The usage and pending demand of a queue."""
        said, least = self.allocated(queue), self._running.get(queue, ())
        holds = [max(pair) for pair in zip_longest(said, least, fillvalue=0)]
        return add(holds, self._waiting.get(queue, ()))

    # ---- updates -------------------------------------------------------------------------------------------

    def note(self, resource: str, namespace: str, name: str, found: Object | None) -> None:
        """Apply an object, or (None) its deletion. Resources that are not followed are ignored.

        An object whose fields have wrong types, which a changed CRD may have allowed, counts as if it did not exist.
        """
        key = (resource, namespace, name)
        if found is not None and not all(isinstance(found.get(part) or {}, dict) for part in _PARTS):
            found = None
        match resource:
            case "queues.scheduling.volcano.sh":
                self._note_queue(name, found)
            case "podgroups.scheduling.volcano.sh":
                self._note_work(key, _parsed(partial(self._group, namespace), found))
            case "jobs.batch.volcano.sh":
                self._note_work(key, _parsed(self._job, found))
            case "jobtemplates.flow.volcano.sh":
                (self._job_templates.add if found else self._job_templates.discard)((namespace, name))
            case "nodes":
                self._note_node(name, found)
            case "hypernodes.topology.volcano.sh":
                self._note_hyper_node(name, found)
            case "namespaces":
                if queue := queue_name(annotations_of(found or {})):
                    self._namespace_queues[name] = queue
                else:
                    self._namespace_queues.pop(name, None)

    def _note_queue(self, name: str, found: Object | None) -> None:
        self.note_described(name, found, self._read(found))
        if name == ROOT:
            scheduler = ((found or {}).get("status") or {}).get("scheduler") or {}
            self.cluster_queue = str(scheduler.get("defaultQueue") or "")

    def note_described(self, name: str, found: Object | None, new: Queue | None) -> None:
        """Apply a queue that the caller has parsed already (None: it was deleted)."""
        was_leaving, old = self.is_leaving(name), self._described.get(name)
        if found is None:
            self.queues.pop(name, None)
        else:
            self.queues[name] = found
        if new is None:
            self._described.pop(name, None)
        else:
            self._described[name] = new
        stays = old is not None and new is not None and replace(old, state=new.state) == new
        if not stays and (old, new) != (None, None):
            self._tree = None
        elif old != new and self._expanded is not None and self._expanded[1] is not self._tree:
            self._expanded = None  # it has copies of all queues, and the state of this one differs
        if old != new or was_leaving != self.is_leaving(name):
            self.rankings.clear()
        self._load_changed(name)

    def _read(self, found: Object | None) -> Queue | None:
        """Parse a queue; an invalid one has no place, as if it did not exist."""
        try:
            return None if found is None else describe_queue(found, self.registry)
        except FieldError:
            return None

    def _note_node(self, name: str, found: Object | None) -> None:
        has = self._vector((found.get("status") or {}).get("allocatable")) if found else ()
        if found:
            self.domains.put_node(name, metadata_of(found).get("labels") or {})
        else:
            self.domains.drop_node(name)
        had = self._nodes.pop(name, ())
        if has:
            self._nodes[name] = has
        if has != had:
            self.capacity = add(subtract(self.capacity, had), has)
            self.rankings.clear()

    def _note_hyper_node(self, name: str, found: Object | None) -> None:
        """Follow a HyperNode; an invalid one contains nothing, as if it did not exist."""
        try:
            described = describe_hyper_node(found) if found else None
        except FieldError:
            described = None
        if described is not None:
            self.domains.put_hyper_node(described)
        else:
            self.domains.drop_hyper_node(name)

    def _note_work(self, key: Key, new: WorkloadSummary | None) -> None:
        old = self._work.get(key)
        if old == new:
            return
        if old is not None:
            self._in_queue[old.queue].discard(key)
            self._count(key, old, -1)
            self._stand_for(old.owner, -1)
            del self._work[key]
        if new is not None:
            self._work[key] = new
            self._in_queue.setdefault(new.queue, set()).add(key)
            self._count(key, new, +1)
            self._stand_for(new.owner, +1)

    def _count(self, key: Key, work: WorkloadSummary, sign: int) -> None:
        """Add or subtract pending and running work. A job is not pending any more once its PodGroup is."""
        change = add if sign > 0 else subtract
        self._load_changed(work.queue)
        if work.waits_for and not self._groups[key]:
            self._waiting[work.queue] = change(self._waiting.get(work.queue, ()), work.waits_for)
        if work.runs_on:
            self._running[work.queue] = change(self._running.get(work.queue, ()), work.runs_on)

    def _load_changed(self, queue: str) -> None:
        if self.rankings:
            for name in (ROOT, *(above.name for above in self.expanded_tree.above(queue))):
                if name in self.rankings:
                    self.rankings[name].stale.add(queue)

    def _stand_for(self, job: Key | None, sign: int) -> None:
        """Note that a PodGroup represents a job from now on, or no longer."""
        if job is None:
            return
        work = self._work.get(job)
        if work is not None:
            self._count(job, work, -1)
        self._groups[job] += sign
        if not self._groups[job]:
            del self._groups[job]
        if work is not None:
            self._count(job, work, +1)

    def _group(self, namespace: str, found: Object) -> WorkloadSummary:
        phase = (found.get("status") or {}).get("phase") or ""
        owners = (found.get("metadata") or {}).get("ownerReferences") or ()
        job = next((o for o in owners if o["kind"] == "Job" and o["apiVersion"].startswith("batch.volcano.sh/")), None)
        least = self._vector(requested_resources(spec_of(found).get("minResources") or {}))
        return WorkloadSummary(
            queue=spec_of(found).get("queue") or "",
            unfinished=phase not in _OVER,
            waits_for=least if phase in _WAITING else (),
            runs_on=least if phase in _RUNNING else (),
            owner=(JOBS, namespace, job["name"]) if job else None,
        )

    def _job(self, found: Object) -> WorkloadSummary:
        phase = ((found.get("status") or {}).get("state") or {}).get("phase") or ""
        waits = job_request(found, self.registry) if phase in _WAITING else ()
        return WorkloadSummary(spec_of(found).get("queue") or "", phase not in _OVER, waits)

    def _vector(self, amounts: Mapping[str, str | int] | None) -> Vector:
        try:
            return self.registry.vector(amounts, where="") if amounts else ()
        except ResourceError:
            return ()


def describe_queue(found: Object, registry: Registry) -> Queue:
    """Parse a Queue object. Raises ``FieldError`` on an invalid field."""
    try:
        manifest = read(found, api_types.Queue)
        created = manifest.metadata.creation_timestamp
        return queue_of(manifest, microseconds(created) if created else 0, registry)
    except ResourceError as error:
        field, _, message = str(error).partition(": ")
        raise FieldError(field, message) from None
    except RecursionError:
        raise FieldError("spec.hierarchy", "Too deep: entries are nested too deeply") from None


def describe_hyper_node(found: Object) -> HyperNode:
    """Parse a HyperNode object. Raises ``FieldError`` on an invalid field."""
    return hyper_node(read(found, api_types.HyperNode))


def job_request(job: Object, registry: Registry) -> Vector:
    """The request of the pods of a job that must start together, as far as their templates can be parsed."""
    total: Vector = ()
    for task in spec_of(job).get("tasks") or ():
        pods = task.get("minAvailable") or task.get("replicas") or 0
        try:
            one = template_request((task.get("template") or {}).get("spec") or {}, registry, "")
        except FieldError:
            continue
        total = add(total, [amount * pods for amount in one])
    return total


def template_request(pod_spec: Object, registry: Registry, where: str) -> Vector:
    """The request of a pod created from a template. Raises ``FieldError`` on an invalid field."""
    try:
        pod = read(pod_spec, api_types.PodSpec, where=where)
        containers, initial = (
            [{"resources": _asked(one.resources), "restartPolicy": one.restart_policy} for one in some]
            for some in (pod.containers, pod.init_containers)
        )
        pod_level = _asked(pod.resources) if pod.resources else None
        return pod_request(registry, containers, initial, pod.overhead, pod_level, where=where)
    except ResourceError as error:
        field, _, message = str(error).partition(": ")
        raise FieldError(field, message) from None
    except RecursionError:
        raise FieldError(where, "Too deep: entries are nested too deeply") from None


def _asked(resources: api_types.Resources) -> dict[str, api_types.Quantities | None]:
    return {"requests": resources.requests, "limits": resources.limits}


def _parsed(parse: Callable[[Object], WorkloadSummary | None], found: Object | None) -> WorkloadSummary | None:
    """An object parsed; None without one, and for one whose fields have wrong types."""
    try:
        return parse(found) if found else None
    except (AttributeError, TypeError, ValueError):  # FieldError is a ValueError
        return None
