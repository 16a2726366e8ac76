"""What rules may look up: the queues and their tree, the work in each of them, the size of the cluster.

A ``ClusterView`` follows objects. Whoever has them (the embedded server its store, a webhook its informers) tells it of
each that is new, changed or gone; it keeps of each only what rules ask for. Nothing here waits, and nothing is ever
listed: a rule costs what it looks at, not what there is.

What a queue's jobs wait for is counted from the moment at which they are let in: a Job by the pods it will have until
it has a PodGroup, a PodGroup by its ``minResources`` until it runs; from then on it is part of what the queue holds
(``status.allocated``, or the ``minResources`` of what runs where that is more: a queue says a little later what it
holds). So a burst of jobs sees its own beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import zip_longest
from typing import Final

from kubebase.field_error import FieldError
from kubebase.pod_request import pod_request
from kubebase.resource_vector import Registry, ResourceError, add, subtract
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import (
    JOBS,
    NAMESPACES,
    NODES,
    PODGROUPS,
    QUEUES,
    Object,
    Settings,
    annotations_of,
    spec_of,
)
from pumice.kube.decode import api_types
from pumice.kube.decode.preemption_annotations import queue_name
from pumice.kube.decode.queues import queue as queue_of
from pumice.kube.decode.struct_decode import microseconds, read
from pumice.model.queue_expansion import planned_queues
from pumice.model.specs import ROOT, Queue, Vector

FOLLOWED: Final = frozenset({QUEUES, PODGROUPS, JOBS, NODES, NAMESPACES})
"""The resources whose objects a world wants to be told of."""

_OVER = frozenset({"Completed", "Failed", "Terminated"})  # phases that nothing comes after; an aborted job may resume
_WAITING = frozenset({"", "Pending", "Inqueue"})
_RUNNING = frozenset({"Running", "Unknown"})

Key = tuple[str, str, str]
"""Resource, namespace and name."""


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """A PodGroup or Job, as far as queues are concerned."""

    queue: str
    unfinished: bool
    waits_for: Vector = ()
    runs_on: Vector = ()
    """At least so much it holds."""
    owner: Key | None = None
    """The Job that a PodGroup stands for."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The leaves below a queue that take routed jobs, the least used first (see ``routing``).

    It lasts as long as only loads change; those of ``stale`` leaves have to be looked up again.
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
        """All queues as they are written; not to be changed."""
        self.capacity: Vector = ()
        """What all nodes have together, ready or not: what a queue may be promised does not follow every reboot."""
        self._described: dict[str, Queue] = {}
        self._tree: QueueTree | None = None
        self._expanded: tuple[QueueTree, QueueTree] | None = None  # the tree it was made from, and itself
        self._work: dict[Key, WorkloadSummary] = {}
        self._in_queue: dict[str, set[Key]] = {}
        self._waiting: dict[str, Vector] = {}
        self._running: dict[str, Vector] = {}
        self._groups: Counter[Key] = Counter()  # of each job
        self._nodes: dict[str, Vector] = {}
        self._default_queues: dict[str, str] = {}
        self.rankings: dict[str, Ranking] = {}
        """By queue, as far as jobs were routed from it since the tree or a state last changed."""

    # ---- what rules ask ------------------------------------------------------------------------------------

    @property
    def tree(self) -> QueueTree:
        """Where the queues stand."""
        if self._tree is None:
            self._tree = QueueTree(self._described)
        return self._tree

    @property
    def expanded_tree(self) -> QueueTree:
        """The tree with the queues that hierarchies name and the queue controller has yet to create.

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
        """Whether a queue controller works here, which creates the queues that hierarchies name."""
        return bool(self.settings.queue_finalizer)

    def is_leaving(self, queue: str) -> bool:
        """Whether a queue is being deleted."""
        return "deletionTimestamp" in self.queues.get(queue, {}).get("metadata", {})

    def default_queue(self, namespace: str) -> str:
        """The queue that a namespace names for its jobs; empty if none."""
        return self._default_queues.get(namespace, "")

    def unfinished(self, queue: str) -> list[str]:
        """The jobs in a queue that are not over, waiting ones too: ``PodGroup ns/name``, ``Job ns/name``."""
        found = []
        for key in self._in_queue.get(queue, ()):
            if self._work[key].unfinished:
                kind = "PodGroup" if key[0] == PODGROUPS else "Job"
                found.append(f"{kind} {key[1]}/{key[2]}")
        return sorted(found)

    def allocated(self, queue: str) -> Vector:
        """What a queue holds, by its own account."""
        return self._vector((self.queues.get(queue, {}).get("status") or {}).get("allocated"))

    def load(self, queue: str) -> Vector:
        """What a queue holds and what its jobs wait for."""
        said, least = self.allocated(queue), self._running.get(queue, ())
        holds = [max(pair) for pair in zip_longest(said, least, fillvalue=0)]
        return add(holds, self._waiting.get(queue, ()))

    # ---- what it is told -----------------------------------------------------------------------------------

    def note(self, resource: str, namespace: str, name: str, found: Object | None) -> None:
        """An object is as described, or (None) gone. Resources that are not followed are passed over."""
        key = (resource, namespace, name)
        match resource:
            case "queues.scheduling.volcano.sh":
                self._note_queue(name, found)
            case "podgroups.scheduling.volcano.sh":
                self._note_work(key, self._group(namespace, found) if found else None)
            case "jobs.batch.volcano.sh":
                self._note_work(key, self._job(found) if found else None)
            case "nodes":
                self._note_node(name, found)
            case "namespaces":
                if queue := queue_name(annotations_of(found or {})):
                    self._default_queues[name] = queue
                else:
                    self._default_queues.pop(name, None)

    def _note_queue(self, name: str, found: Object | None) -> None:
        self.note_described(name, found, self._read(found))

    def note_described(self, name: str, found: Object | None, new: Queue | None) -> None:
        """A queue is as described, for a caller that has read its object already (None: it is gone)."""
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
            self._expanded = None  # it has copies of all queues, and this one has another state
        if old != new or was_leaving != self.is_leaving(name):
            self.rankings.clear()
        self._load_changed(name)

    def _read(self, found: Object | None) -> Queue | None:
        """A queue that cannot be read has no place, as if it were not there."""
        try:
            return None if found is None else describe_queue(found, self.registry)
        except FieldError:
            return None

    def _note_node(self, name: str, found: Object | None) -> None:
        has = self._vector((found.get("status") or {}).get("allocatable")) if found else ()
        had = self._nodes.pop(name, ())
        if has:
            self._nodes[name] = has
        if has != had:
            self.capacity = add(subtract(self.capacity, had), has)
            self.rankings.clear()

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
        """What waits and what runs, or no longer does. A job does not wait, once its PodGroup does."""
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
        """A PodGroup stands for a job from now on, or no longer."""
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
        least = self._vector(spec_of(found).get("minResources"))
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
    """The queue that an object describes. ``FieldError`` if there is something in it that cannot be meant."""
    try:
        manifest = read(found, api_types.Queue)
        created = manifest.metadata.creation_timestamp
        return queue_of(manifest, microseconds(created) if created else 0, registry)
    except ResourceError as error:
        field, _, message = str(error).partition(": ")
        raise FieldError(field, message) from None
    except RecursionError:
        raise FieldError("spec.hierarchy", "is nested too deeply") from None


def job_request(job: Object, registry: Registry) -> Vector:
    """What the pods of a job ask for that must start together, as far as their templates can be read."""
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
    """What a pod made from a template asks for. ``FieldError`` if there is something in it that cannot be meant."""
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
        raise FieldError(where, "is nested too deeply") from None


def _asked(resources: api_types.Resources) -> dict[str, api_types.Quantities | None]:
    return {"requests": resources.requests, "limits": resources.limits}
