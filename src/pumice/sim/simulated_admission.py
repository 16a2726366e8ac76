"""The admission rules over the objects of a simulated cluster.

``pumice.admission`` contains the rules for defaults and refusals. This module gives them a view of the simulated
cluster: its queues and their usage, the jobs and their phases. So an object in a file or event is checked by the same
rules, with the same messages, as by an API server.

The author of a file may act for all users: a job belongs to the user in its annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubebase.resource_vector import Registry
from pumice.admission import CREATE, DELETE, UPDATE, ClusterView, Object, Refusal, Request, admit, admit_queues
from pumice.admission.request import HYPER_NODES, JOBS, NAMESPACES, NODES, PODGROUPS, QUEUES
from pumice.kube.decode.preemption_annotations import QUEUE_NAMES, queue_name
from pumice.model.specs import DEFAULT_QUEUE, ROOT, JobPhase, Queue, Vector
from pumice.sim.manifest_translation import TranslatedManifest
from pumice.sim.simulated_cluster import SimulatedCluster

SPEC_QUEUE = "spec.queue"


class SimulatedClusterView(ClusterView):
    """The view of the rules. The usage of a queue is counted; the status in its manifest is ignored."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry=registry)
        self.usage_of: Callable[[str], Vector] = lambda queue: ()

    def allocated(self, queue: str) -> Vector:
        """The usage of the tasks of a queue."""
        return self.usage_of(queue)


@dataclass(slots=True)
class AdmittedJob:
    """An admitted Job or PodGroup, with the phase that the rules know."""

    resource: str
    document: Object
    phase: JobPhase | None = None


class SimulatedAdmission:
    """The rules, and the objects of a scenario as they let them in."""

    def __init__(self, registry: Registry) -> None:
        self.view = SimulatedClusterView(registry)
        self._queues: dict[str, Object] = {}  # as written; a queue that a hierarchy created has no manifest
        self._jobs: dict[str, AdmittedJob] = {}  # by the key of the PodGroup

    @property
    def queue_documents(self) -> Mapping[str, Object]:
        """The manifests of queues, as they were let in."""
        return self._queues

    # --- asking -------------------------------------------------------------------------------------------------

    def admit_queues(self, documents: Iterable[Object], store: Callable[[Object], None]) -> list[list[Refusal]]:
        """Admit queues, parents first. ``store`` gets each admitted queue and must call ``put_queue``."""
        requests = [_request(self._operation(new), QUEUES, new) for new in documents]
        verdicts = admit_queues(requests, self.view, lambda _, admitted: store(admitted))
        return [verdict.refusals for verdict in verdicts]

    def admit_queue(self, new: Object) -> tuple[Object, list[Refusal]]:
        """Admit a queue that is created or changed; returns the object to store, and the refusals."""
        verdict = admit(
            _request(self._operation(new), QUEUES, new, self._queues.get(new["metadata"]["name"])), self.view
        )
        return verdict.object or new, verdict.refusals

    def queue_deletion_refusals(self, queue: str) -> list[Refusal]:
        """Why a queue must stay."""
        old = self._queues.get(queue) or {"metadata": {"name": queue}}
        return admit(_request(DELETE, QUEUES, None, old), self.view).refusals

    def admit_job(
        self, translated: TranslatedManifest, document: Mapping[str, Any], *, there: bool = False
    ) -> tuple[Object, list[Refusal]]:
        """Admit a Job, a PodGroup, or a Pod that needs a PodGroup; returns the job to store, and the refusals.

        ``there``: the job was admitted earlier, even if its queue has been closed since.
        """
        resource, new = _job_object(translated, document)
        group = translated.podgroup
        assert group is not None  # every job has one
        known = self._jobs.get(group.key)
        old = known.document if known is not None and known.resource == resource else None
        if old is None and there and self.view.tree.is_leaf(new["spec"].get("queue") or ""):
            old = new
        verdict = admit(_request(CREATE if old is None else UPDATE, resource, new, old), self.view)
        refusals = verdict.refusals
        if translated.kind == "Pod":
            where = _queue_field(document["metadata"])
            refusals = [replace(one, field=where) if one.field == SPEC_QUEUE else one for one in refusals]
        return verdict.object or new, refusals

    def hyper_node_refusals(self, document: Mapping[str, Any]) -> list[Refusal]:
        """Why a HyperNode may not be created, or not be changed like this."""
        there = str(document["metadata"]["name"]) in self.view.domains.hyper_nodes
        return admit(_request(UPDATE if there else CREATE, HYPER_NODES, dict(document)), self.view).refusals

    def needs_default_queue(self, translated: TranslatedManifest, document: Mapping[str, Any]) -> bool:
        """Whether a job needs the queue ``default``, which every cluster has: it names this queue, root or none."""
        _, new = _job_object(translated, document)
        queue = new["spec"].get("queue") or self.view.default_queue(new["metadata"]["namespace"]) or ROOT
        return queue in (DEFAULT_QUEUE, ROOT) and DEFAULT_QUEUE not in self.view.queues

    def _operation(self, queue: Object) -> str:
        return UPDATE if queue["metadata"]["name"] in self.view.queues else CREATE

    # --- telling ------------------------------------------------------------------------------------------------

    def put_queue(self, queue: Queue, document: Object | None = None) -> None:
        """A queue is there; ``document`` is its manifest, if it has a new one."""
        if document is not None:
            self._queues[queue.name] = document
        found = self._queues.get(queue.name) or {"metadata": {"name": queue.name}}
        self.view.note_described(queue.name, found, queue)

    def put_job(self, key: str, translated: TranslatedManifest, admitted: Object) -> None:
        """Record an admitted job."""
        resource = JOBS if translated.kind == "Job" else PODGROUPS
        self._jobs[key] = AdmittedJob(resource, admitted)
        self._note_job(key, self._jobs[key], admitted)

    def put_other(self, document: Mapping[str, Any]) -> None:
        """Record a node, a namespace or a HyperNode; the rules need no other kinds."""
        found: Object = {"metadata": document["metadata"], "spec": document.get("spec") or {}}
        if document.get("kind") == "Node":
            status = document.get("status") or {}
            found["status"] = {"allocatable": status.get("allocatable") or status.get("capacity")}
        self._note_other(str(document.get("kind")), document["metadata"]["name"], found)

    def drop_other(self, kind: str, name: str) -> None:
        """Record that a node, a namespace or a HyperNode was deleted."""
        self._note_other(kind, name, None)

    def refresh(self, cluster: SimulatedCluster) -> None:
        """Update the view to the current state of the cluster."""
        queues, jobs = cluster.objects.queues, cluster.engine.state.jobs
        for name in self.view.queues.keys() - queues.keys():
            self._queues.pop(name, None)
            self.view.note_described(name, None, None)
        for queue in queues.values():
            self.put_queue(queue)
        for key, work in list(self._jobs.items()):
            if key not in cluster.objects.jobs:
                del self._jobs[key]
                self._note_job(key, work, None)
            elif work.phase is not (phase := jobs[key].phase):
                work.phase = phase
                work.document = {**work.document, "status": _status(work.resource, phase)}
                self._note_job(key, work, work.document)
        held = {
            node.queue_name: tuple(node.held) for node in cluster.engine.tree.queues() if node.queue_name is not None
        }
        self.view.usage_of = lambda queue: held.get(queue, ())

    def _note_job(self, key: str, work: AdmittedJob, document: Object | None) -> None:
        namespace, _, name = key.partition("/")
        self.view.note(work.resource, namespace, name, document)

    def _note_other(self, kind: str, name: str, document: Object | None) -> None:
        resource = {"Node": NODES, "Namespace": NAMESPACES, "HyperNode": HYPER_NODES}.get(kind)
        if resource is not None:
            self.view.note(resource, "", name, document)


def _request(operation: str, resource: str, new: Object | None, old: Object | None = None) -> Request:
    return Request(operation, resource, new, old, may_impersonate=lambda user: True)


def _status(resource: str, phase: JobPhase) -> Object:
    return {"state": {"phase": phase.value}} if resource == JOBS else {"phase": phase.value}


def _job_object(translated: TranslatedManifest, document: Mapping[str, Any]) -> tuple[str, Object]:
    """The Job or PodGroup that is created for a manifest, with its namespace."""
    group = translated.podgroup
    assert group is not None
    given: Mapping[str, Any] = document["metadata"]
    about: Object = {key: value for key, value in given.items() if key != "ownerReferences"}  # it has no owner here
    about["namespace"] = group.namespace
    if translated.kind == "Pod":
        queue = queue_name(about.get("annotations") or {}, about.get("labels"))
        return PODGROUPS, {"metadata": about, "spec": {"queue": queue} if queue else {}}
    resource = JOBS if translated.kind == "Job" else PODGROUPS
    return resource, {**document, "metadata": about, "spec": document.get("spec") or {}}


def _queue_field(metadata: Mapping[str, Any]) -> str:
    """The field in which a pod names its queue, or could."""
    annotations = metadata.get("annotations") or {}
    named = next((name for name in QUEUE_NAMES if annotations.get(name)), "")
    if not named and (metadata.get("labels") or {}).get(QUEUE_NAMES[0]):
        return f"metadata.labels[{QUEUE_NAMES[0]}]"
    return f"metadata.annotations[{named or QUEUE_NAMES[0]}]"
