"""Applies a change to a simulated cluster, object by object, as ``kubectl apply`` would, by the rules of admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubebase.field_error import FieldError
from kubebase.resource_vector import PODS, add
from pumice.config.load import SchedulerConfig
from pumice.engine.config.scheduler_config import ConfigError
from pumice.input_errors import Problem
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.queue_expansion import parents_by_hierarchy
from pumice.model.specs import TaskSpec, TaskStatus, Vector
from pumice.plan.applied_documents import changed_fields, merged_document
from pumice.plan.change_file import Change
from pumice.plan.plan_basis import PlanBasis
from pumice.plan.rest_run import Eviction
from pumice.plan.unknown_fields import unknown_fields
from pumice.sim.manifest_files import Manifest
from pumice.sim.manifest_translation import TranslatedManifest, manifest_name
from pumice.sim.object_set import SPEC_TYPES
from pumice.sim.scenario import DeleteEvent, Scenario, ScenarioSpec
from pumice.sim.scenario_events import RefusedError, ScenarioEvents
from pumice.sim.simulated_cluster import SimulatedCluster


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that the change touches: ``action`` is created, changed, deleted or unchanged."""

    object: str
    action: str
    fields: tuple[tuple[str, Any, Any], ...] = ()


@dataclass(slots=True)
class AppliedChange:
    """What was let in and what was refused."""

    objects: list[ObjectChange] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    lost: list[Eviction] = field(default_factory=list)  # tasks that go with their node


def apply_change(change: Change, basis: PlanBasis, cluster: SimulatedCluster) -> AppliedChange:
    """Apply a change to a cluster of the basis. What is refused changes nothing; the rest is applied nevertheless."""
    application = _Application(basis, cluster)
    for manifest in change.manifests:
        application.apply(manifest)
    for deletion in change.deletions:
        application.delete(deletion)
    if change.config is not None:
        application.configure(change.config)
    return application.found


class _Application:
    def __init__(self, basis: PlanBasis, cluster: SimulatedCluster) -> None:
        self._basis = basis
        self._cluster = cluster
        self._documents = dict(basis.documents)
        queues = cluster.objects.queues
        expanded = parents_by_hierarchy(queues.values())
        own = [TranslatedManifest(f"Queue/{name}", (queue,)) for name, queue in queues.items() if name not in expanded]
        scenario = Scenario(basis.name, "", ScenarioSpec(), basis.config)
        self._events = ScenarioEvents(scenario, cluster, basis.admission(cluster), own)
        self.found = AppliedChange()

    def apply(self, manifest: Manifest) -> None:
        name = manifest_name(manifest.document)
        unknown = list(unknown_fields(manifest.kind, manifest.document))
        if unknown:
            self.found.refused += [Problem(manifest.file, name, error.field, error.message) for error in unknown]
            return
        stored = self._documents.get(name)
        document = merged_document(stored, self._basis.applied.get(name), manifest.document)
        there = stored is not None or self._is_there(manifest.document)
        fields = tuple(changed_fields(stored or {}, document)) if there else ()
        try:
            self._events.apply_object(document)
        except RefusedError as error:
            self.found.refused += error.problems(manifest.file)
            return
        except ObjectError as error:
            self.found.refused.append(Problem(manifest.file, error.object, error.field, error.message))
            return
        if manifest.kind == "Job" and not there:
            self._await_pods(document)
        self._documents[name] = document
        action = "created" if not there else "changed" if fields or stored is None else "unchanged"
        self.found.objects.append(ObjectChange(name, action, fields if stored is not None else ()))

    def _await_pods(self, document: Mapping[str, Any]) -> None:
        """A new job has no pods until it is let in, and asks to be let in with what its smallest start needs."""
        about, cluster = document["metadata"], self._cluster
        job = cluster.objects.jobs.get(f"{about.get('namespace') or 'default'}/{about['name']}")
        if job is None or not cluster.engine.policy.enqueues:
            return
        pods = [task for task in cluster.objects.tasks.values() if task.job == job.key]
        for pod in pods:
            cluster.drop(TaskSpec, pod.key)
        least: Vector = ()
        for pod in pods[: job.minimum]:
            least = add(least, pod.request)
        cluster.put(replace(job, min_resources=tuple(0 if j == PODS else n for j, n in enumerate(least))))
        cluster.awaited_pods[job.key] = tuple(pods)

    def delete(self, deletion: DeleteEvent) -> None:
        about = {"name": deletion.name, "namespace": deletion.namespace}
        name = manifest_name({"kind": deletion.kind, "metadata": about})
        try:
            self._events.delete_object(deletion, "")
        except RefusedError as error:
            self.found.refused += error.problems("--delete")
        except FieldError as error:
            self.found.refused.append(Problem("--delete", name, "", error.message))
        else:
            self._documents.pop(name, None)
            self.found.objects.append(ObjectChange(name, "deleted"))
            if deletion.kind == "Node":
                self._remove_pods(deletion.name)

    def _remove_pods(self, node: str) -> None:
        """The pods of a node go with it; a controller creates those of its job again."""
        cluster = self._cluster
        for task in [task for task in cluster.objects.tasks.values() if task.node == node and task.status.on_node]:
            cluster.drop(TaskSpec, task.key)
            if task.key in cluster.recreated_pods:
                cluster.put(replace(task, status=TaskStatus.PENDING, node=None, started=0, created=cluster.now))
            if task.job is not None and task.managed:
                self.found.lost.append(Eviction(0, task.key, task.job, node, "", "delete-node"))
                cluster.refresh_phases([task.job])

    def configure(self, config: SchedulerConfig) -> None:
        same = config.text == self._basis.config.text
        try:
            self._events.use_config(config)
        except ConfigError as error:
            self.found.refused.append(Problem(config.source, "", f"line {error.line}", error.message))
            return
        name = "the configuration of the scheduler"
        self.found.objects.append(ObjectChange(name, "unchanged" if same else "changed"))

    def _is_there(self, document: Mapping[str, Any]) -> bool:
        kind = SPEC_TYPES.get(str(document.get("kind")))
        if kind is None:
            return False
        about = document.get("metadata") or {}
        known = self._cluster.objects.of_type(kind)
        return about.get("name") in known or f"{about.get('namespace') or 'default'}/{about.get('name')}" in known
