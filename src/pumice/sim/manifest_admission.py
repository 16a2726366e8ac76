"""Admit the objects of a scenario, as the API server of a cluster would.

Objects are admitted in the order in which a cluster would be set up, not in the order of the file. Nodes and namespaces
exist from the start. Next come HyperNodes, then queues, parents before children. Then jobs that already have a phase or
running pods: they were admitted before the scenario starts, so their queue may have been closed since. Last come new
jobs, in the order of the file; each is checked against the load of the jobs before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from kubebase.resource_vector import Registry, add
from pumice.admission import Object, Refusal, with_user_limits_settled
from pumice.input_errors import Problem, did_you_mean
from pumice.kube.decode.convert import decode
from pumice.kube.decode.pods import GROUP_NAME
from pumice.model.queue_expansion import expand_with_ages, parents_by_hierarchy
from pumice.model.queue_tree import HIERARCHY, build_queue_tree
from pumice.model.specs import DEFAULT_QUEUE, Queue, TaskSpec, TaskStatus, Vector
from pumice.sim.manifest_files import Manifest
from pumice.sim.manifest_translation import TranslatedManifest
from pumice.sim.object_set import ObjectSet
from pumice.sim.simulated_admission import SimulatedAdmission

PARENT = "spec.parent"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest that could be decoded, with its objects and creation time."""

    manifest: Manifest
    translated: TranslatedManifest
    created: int

    @property
    def document(self) -> Mapping[str, Any]:
        """The object as it is written."""
        return self.manifest.document

    def problem(self, refusal: Refusal) -> Problem:
        """A refusal as a problem of this manifest."""
        return Problem(self.manifest.file, self.translated.name, refusal.field, refusal.message)


@dataclass(slots=True)
class AdmittedManifests:
    """The admitted objects, and the problems of the refused ones."""

    registry: Registry
    admission: SimulatedAdmission
    objects: ObjectSet = field(default_factory=ObjectSet)
    translated: list[TranslatedManifest] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, translated: TranslatedManifest) -> None:
        """Add the objects of an admitted manifest."""
        self.translated.append(translated)
        for part in translated.parts:
            self.objects.put(part)


def admit_manifests(
    entries: Sequence[ManifestEntry], registry: Registry, announced: set[str], default_queue: str = ""
) -> AdmittedManifests:
    """Let the objects in or refuse them; ``announced`` are jobs that events will bring.

    ``default_queue`` is that of the scheduler's configuration.
    """
    judged = AdmittedManifests(registry, SimulatedAdmission(registry))
    judged.admission.view.cluster_queue = default_queue
    queues: list[ManifestEntry] = []
    jobs: list[ManifestEntry] = []
    hyper_nodes: list[ManifestEntry] = []
    for entry in entries:
        if entry.translated.kind == "Queue":
            queues.append(entry)
        elif entry.translated.podgroup is not None:
            jobs.append(entry)
        elif entry.translated.kind == "HyperNode":
            hyper_nodes.append(entry)
        else:
            judged.admission.put_other(entry.document)
            judged.take(entry.translated)
    _judge_hyper_nodes(hyper_nodes, judged)
    _judge_queues(queues, judged)
    refused = _admit_jobs(jobs, judged, own_default=any(entry.translated.name == "Queue/default" for entry in queues))
    _check_pod_groups(judged, entries, refused, announced)
    return judged


def _judge_hyper_nodes(entries: list[ManifestEntry], judged: AdmittedManifests) -> None:
    """In the order of the file: of two that share a node, the second is refused."""
    for entry in entries:
        refusals = judged.admission.hyper_node_refusals(entry.document)
        if refusals:
            judged.problems += map(entry.problem, refusals)
            continue
        judged.admission.put_other(entry.document)
        judged.take(entry.translated)


# ---- queues ------------------------------------------------------------------------------------------------


def _judge_queues(entries: list[ManifestEntry], judged: AdmittedManifests) -> None:
    read = {queue.name: queue for entry in entries for queue in entry.translated.parts if isinstance(queue, Queue)}
    by_hierarchy = parents_by_hierarchy(read.values())
    ordered = [entries[i] for i in _parents_first(list(read.values()), by_hierarchy)]
    by_name = {entry.document["metadata"]["name"]: entry for entry in ordered}

    def store(admitted: Object) -> None:
        name = admitted["metadata"]["name"]
        entry = by_name[name]
        queue = admitted_queue(admitted, judged.registry, entry.created)
        judged.take(TranslatedManifest(entry.translated.name, (queue,)))
        judged.admission.put_queue(queue, admitted)
        for owner in (name, by_hierarchy.get(name, ("", ""))[1]):
            if owner in judged.objects.queues:
                put_expanded_queues(judged.objects, judged.objects.queues[owner], judged.admission)

    documents = [placed_by_hierarchy(entry.document, by_hierarchy) for entry in ordered]
    refused = judged.admission.admit_queues(documents, store)
    parents = _refused_parents(read, judged) if any(refused) else {}
    for entry, refusals in zip(ordered, refused, strict=True):
        instead = parents.get(entry.document["metadata"]["name"])
        for refusal in refusals:
            about = instead if instead is not None and refusal.field == PARENT else refusal
            judged.problems.append(entry.problem(about))


def admitted_queue(admitted: Object, registry: Registry, created: int) -> Queue:
    """The admitted queue. It keeps its user limits, although the engine applies those of leaf queues only."""
    queue = decode(with_user_limits_settled(admitted, leaf=True), registry=registry, created=created)
    assert isinstance(queue, Queue)
    return queue


def placed_by_hierarchy(document: Mapping[str, Any], by_hierarchy: Mapping[str, tuple[str, str]]) -> Object:
    """The manifest of a queue, with the parent from ``spec.hierarchy`` of another queue if it names none itself."""
    about, spec = document["metadata"], document.get("spec") or {}
    parent, _ = by_hierarchy.get(about["name"], ("", ""))
    if not parent or spec.get("parent") or (about.get("annotations") or {}).get(HIERARCHY):
        return dict(document)
    return {**document, "spec": {**spec, "parent": parent}}


def put_expanded_queues(objects: ObjectSet, owner: Queue, admission: SimulatedAdmission | None = None) -> None:
    """Create and update the queues in ``spec.hierarchy`` of a queue."""
    for child in expand_with_ages(owner, objects.queues):
        objects.put(child)
        if admission is not None:
            admission.put_queue(child)


def _parents_first(queues: list[Queue], by_hierarchy: Mapping[str, tuple[str, str]]) -> Iterator[int]:
    """Positions of the queues in the order of the file, except that parents and owners come before their children."""
    position = {queue.name: i for i, queue in enumerate(queues)}
    waits_for: list[int] = []
    waiting: dict[int, list[int]] = {}
    for i, queue in enumerate(queues):
        above = {queue.parent, *by_hierarchy.get(queue.name, ())}
        if queue.parent is not None:
            above.add(by_hierarchy.get(queue.parent, ("", ""))[1])
        before = {position[name] for name in above if name in position} - {i}
        waits_for.append(len(before))
        for j in before:
            waiting.setdefault(j, []).append(i)
    ready = [i for i, number in enumerate(waits_for) if not number]
    heapify(ready)
    done = set()
    while ready:
        i = heappop(ready)
        done.add(i)
        yield i
        for j in waiting.get(i, ()):
            waits_for[j] -= 1
            if not waits_for[j]:
                heappush(ready, j)
    yield from (i for i in range(len(queues)) if i not in done)  # they go round in a circle, and are refused


def _refused_parents(read: Mapping[str, Queue], judged: AdmittedManifests) -> dict[str, Refusal]:
    """Refusals of queues whose parent is in the file but was refused: they must not be told to create it."""
    layout = build_queue_tree({**judged.objects.queues, **read})
    circles = {one.queue: one.message for one in layout.refusals if one.refused}
    return {
        queue.name: Refusal(circles.get(queue.name, f"parent queue '{queue.parent}' was refused"), PARENT)
        for queue in read.values()
        if queue.parent != queue.name and queue.parent in read and queue.parent not in judged.objects.queues
    }


# ---- jobs and their pods -----------------------------------------------------------------------------------


def _admit_jobs(entries: list[ManifestEntry], judged: AdmittedManifests, *, own_default: bool) -> set[str]:
    """Let jobs in, and return the keys of those that are refused."""
    admission, objects = judged.admission, judged.objects
    if not own_default and any(admission.needs_default_queue(one.translated, one.document) for one in entries):
        objects.put(Queue(DEFAULT_QUEUE))
        admission.put_queue(objects.queues[DEFAULT_QUEUE])
    runs = _usage_by_job(objects)
    held: dict[str, Vector] = {}
    admission.view.usage_of = lambda queue: held.get(queue, ())
    refused = set()
    there_first = sorted(((not _already_admitted(entry, runs), i) for i, entry in enumerate(entries)))
    for is_new, i in there_first:
        entry = entries[i]
        group = entry.translated.podgroup
        assert group is not None
        admitted, refusals = admission.admit_job(entry.translated, entry.document, there=not is_new)
        if refusals:
            judged.problems += map(entry.problem, refusals)
            refused.add(group.key)
            continue
        translated = entry.translated.with_defaults(admitted)
        judged.take(translated)
        admission.put_job(group.key, translated, admitted)
        queue = admitted["spec"]["queue"]
        held[queue] = add(held.get(queue, ()), runs.get(group.key, ()))
    return refused


def _already_admitted(entry: ManifestEntry, runs: Mapping[str, Vector]) -> bool:
    """Whether a job was admitted before the scenario starts: it has a phase or running pods."""
    group, status = entry.translated.podgroup, entry.document.get("status") or {}
    assert group is not None
    phase = (status.get("state") or {}).get("phase") if entry.translated.kind == "Job" else status.get("phase")
    return group.key in runs or (bool(phase) and entry.translated.kind != "Pod")


def _usage_by_job(objects: ObjectSet) -> dict[str, Vector]:
    """The usage of the running pods of each job."""
    runs: dict[str, Vector] = {}
    for task in objects.tasks.values():
        if task.job is not None and task.status is TaskStatus.RUNNING:
            runs[task.job] = add(runs.get(task.job, ()), task.request)
    return runs


def _check_pod_groups(
    judged: AdmittedManifests, entries: Sequence[ManifestEntry], refused: set[str], announced: set[str]
) -> None:
    """Remove pods whose PodGroup was refused, and refuse pods whose PodGroup does not exist."""
    objects = judged.objects
    for entry in entries:
        for task in entry.translated.parts:
            if not isinstance(task, TaskSpec) or task.job is None or task.job in objects.jobs or task.job in announced:
                continue
            objects.drop(TaskSpec, task.key)
            if task.job not in refused:
                message = f"there is no PodGroup {task.job}{did_you_mean(task.job, objects.jobs)}"
                judged.problems.append(entry.problem(Refusal(message, f"metadata.annotations[{GROUP_NAME}]")))
