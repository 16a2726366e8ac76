"""The events of a scenario: tasks finish, objects are applied and deleted, queues get commands.

An event is executed completely or refused completely, by the admission rules of a cluster. A refusal is recorded and
the run continues, as a cluster does after a refused ``kubectl apply``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kubebase.field_error import FieldError
from pumice.admission import Object, Refusal
from pumice.config.load import SchedulerConfig, read_config
from pumice.engine.config.scheduler_config import ConfigError
from pumice.input_errors import Problem, did_you_mean
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.pods import GROUP_NAME
from pumice.model.hyper_nodes import HyperNode
from pumice.model.queue_expansion import parents_by_hierarchy, without_given_fields, without_given_hierarchies
from pumice.model.specs import (
    DEFAULT_QUEUE,
    Described,
    DisruptionBudget,
    JobSpec,
    PriorityClass,
    Queue,
    Quota,
    TaskSpec,
    TaskStatus,
)
from pumice.sim.manifest_admission import admitted_queue, placed_by_hierarchy, put_expanded_queues
from pumice.sim.manifest_translation import (
    KNOWN_KINDS,
    NAMESPACED_KINDS,
    TranslatedManifest,
    manifest_name,
    pods_of_job,
    translate_manifest,
)
from pumice.sim.object_set import SPEC_TYPES, ObjectSet, object_key
from pumice.sim.scenario import CommandEvent, DeleteEvent, FinishEvent, Scenario, ScenarioEvent
from pumice.sim.simulated_admission import SimulatedAdmission
from pumice.sim.simulated_cluster import SimulatedCluster

ObjectKey = tuple[type[Described], str]


class RefusedError(Exception):
    """Admission does not let an object in, for these reasons."""

    def __init__(self, subject: str, refusals: Sequence[Refusal]) -> None:
        super().__init__(subject, refusals)
        self.subject = subject
        self.refusals = refusals

    def problems(self, file: str) -> Iterator[Problem]:
        """The reasons, each as a problem of the object."""
        for refusal in self.refusals:
            yield Problem(file, self.subject, refusal.field, refusal.message)


class ScenarioEvents:
    """The events of a scenario, in order, and what each manifest brought into the cluster."""

    def __init__(
        self,
        scenario: Scenario,
        cluster: SimulatedCluster,
        admission: SimulatedAdmission,
        translated: Iterable[TranslatedManifest],
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._admission = admission
        self._objects_of_manifest: dict[str, tuple[ObjectKey, ...]] = {}
        self._queue_manifests: dict[str, Queue] = {}  # queues with manifests of their own, as these describe them
        for one in translated:
            self._objects_of_manifest[one.name] = _object_keys(one.parts)
            self._queue_manifests |= {part.name: part for part in one.parts if isinstance(part, Queue)}
        self._writes = 0  # of hierarchy annotations: those of one cycle count one after the other
        self._upcoming = sorted(enumerate(scenario.spec.events), key=lambda numbered: numbered[1].cycle)

    @property
    def last_cycle(self) -> int:
        """The cycle of the last event that is still to come; 0 if there is none."""
        return self._upcoming[-1][1].cycle if self._upcoming else 0

    def run_before(self, cycle: int) -> Iterator[Problem]:
        """Let happen what happens before this cycle; yields what was refused."""
        while self._upcoming and self._upcoming[0][1].cycle <= cycle:
            number, event = self._upcoming.pop(0)
            where = f"spec.events[{number}]"
            try:
                self._run_event(event, where)
            except RefusedError as error:
                yield from error.problems(self._scenario.file)
            except ObjectError as error:
                yield Problem(self._scenario.file, error.object, error.field, error.message)
            except FieldError as error:
                yield Problem(self._scenario.file, self._scenario.object, error.field, error.message)

    def missed_events(self) -> Iterator[Problem]:
        """The events whose cycle was not reached before the end of the run."""
        for number, event in self._upcoming:
            message = f"cycle {event.cycle} was not reached: the run ended after cycle {self._cluster.cycles}"
            yield Problem(self._scenario.file, self._scenario.object, f"spec.events[{number}].cycle", message)

    def _run_event(self, event: ScenarioEvent, where: str) -> None:
        if event.finish is not None:
            self._finish(event.finish, f"{where}.finish")
        elif event.apply is not None:
            self.apply_object(event.apply)
        elif event.delete is not None:
            self.delete_object(event.delete, f"{where}.delete")
        elif event.command is not None:
            self._command(event.command, f"{where}.command")
        elif event.config is not None:
            try:
                self.use_config(read_config(event.config, f"{where}.config"))
            except ConfigError as error:
                raise FieldError(f"{where}.config", f"line {error.line}: {error.message}") from None

    def use_config(self, config: SchedulerConfig) -> None:
        """Use another configuration from the next cycle on; raises ConfigError."""
        self._cluster.reconfigure(config)
        self._admission.view.cluster_queue = config.default_queue

    # --- tasks finish -------------------------------------------------------------------------------------------

    def _finish(self, finish: FinishEvent, where: str) -> None:
        running = self._cluster.running_tasks()
        if finish.tasks is None:
            home = finish.job.partition("/")[0] if finish.job is not None else "default"
            wanted = {pod if "/" in pod else f"{home}/{pod}" for pod in finish.pods}
            ending = [task for task in running if task.key in wanted]
            missing = sorted(wanted - {task.key for task in ending})
            if missing:
                raise FieldError(f"{where}.pods", f"not running in this cycle: {', '.join(missing)}")
        else:
            ending = sorted((task for task in running if task.job == finish.job), key=lambda task: task.started)
            if len(ending) < finish.tasks:
                known = self._cluster.objects.jobs
                hint = "" if finish.job in known else did_you_mean(finish.job or "", known)
                message = f"cannot finish {finish.tasks} tasks of {finish.job}: {len(ending)} running in this cycle"
                raise FieldError(f"{where}.tasks", message + hint)
            del ending[finish.tasks :]
        for task in ending:
            self._cluster.finish_task(task)

    # --- objects come and change ----------------------------------------------------------------------------------

    def apply_object(self, document: Mapping[str, Any]) -> None:
        """Create or change an object; raises RefusedError, or ObjectError if it cannot be decoded."""
        cluster = self._cluster
        translated = translate_manifest(document, cluster.registry, cluster.now)
        self._admission.refresh(cluster)
        after = cluster.objects.copy()
        admitted: Object | None = None
        if translated.kind == "Queue":
            translated, admitted = self._admitted_queue(translated, document, after)
        elif translated.podgroup is not None:
            translated, admitted = self._admitted_job(translated, document, after)
        elif translated.kind == "HyperNode" and (refusals := self._admission.hyper_node_refusals(document)):
            raise RefusedError(translated.name, refusals)
        parts = [self._merged(part, document) for part in translated.parts]
        slots = _object_keys(parts)
        for kind, key in self._objects_of_manifest.get(translated.name, ()):
            if (kind, key) not in slots:
                after.drop(kind, key)
        for part in parts:
            if isinstance(part, Queue) and part.name in after.queues:
                before = after.queues[part.name]
                for child in without_given_hierarchies(before, after.queues):
                    after.put(child)
                for child in without_given_fields(before, after.queues, self._queue_manifests):
                    after.put(child)
            after.put(part)
        for owner in [queue for queue in after.queues.values() if queue.hierarchy]:
            put_expanded_queues(after, after.queues[owner.name])
        self._check_groups(translated, after)
        self._queue_manifests |= {part.name: part for part in parts if isinstance(part, Queue)}
        self._replace_objects(after)
        self._objects_of_manifest[translated.name] = slots
        cluster.recreated_pods.update(pods_of_job(translated))
        self._record_admitted(translated, document, admitted)

    def _admitted_queue(
        self, translated: TranslatedManifest, document: Mapping[str, Any], after: ObjectSet
    ) -> tuple[TranslatedManifest, Object]:
        """A queue with what admission fills in; raises RefusedError."""
        placed = placed_by_hierarchy(document, parents_by_hierarchy(after.queues.values()))
        admitted, refusals = self._admission.admit_queue(placed)
        if refusals:
            raise RefusedError(translated.name, refusals)
        queue = admitted_queue(admitted, self._cluster.registry, self._cluster.now)
        return TranslatedManifest(translated.name, (queue,)), admitted

    def _admitted_job(
        self, translated: TranslatedManifest, document: Mapping[str, Any], after: ObjectSet
    ) -> tuple[TranslatedManifest, Object]:
        """A Job, PodGroup or Pod in the queue to which admission sends it; raises RefusedError."""
        if self._admission.needs_default_queue(translated, document):
            after.put(Queue(DEFAULT_QUEUE))
            self._admission.put_queue(after.queues[DEFAULT_QUEUE])
        admitted, refusals = self._admission.admit_job(translated, document)
        if refusals:
            raise RefusedError(translated.name, refusals)
        return translated.with_defaults(admitted), admitted

    def _record_admitted(
        self, translated: TranslatedManifest, document: Mapping[str, Any], admitted: Object | None
    ) -> None:
        """Add the stored object to the view of the admission rules."""
        group = translated.podgroup
        if group is not None and admitted is not None:
            self._admission.put_job(group.key, translated, admitted)
        elif translated.kind == "Queue" and admitted is not None:
            queue = self._cluster.objects.queues.get(admitted["metadata"]["name"])
            if queue is not None:
                self._admission.put_queue(queue, admitted)
        else:
            self._admission.put_other(document)

    def _merged(self, part: Described, document: Mapping[str, Any]) -> Described:
        """A part of a manifest, with what the cluster itself has written on the object so far."""
        before = self._cluster.objects.of_type(type(part)).get(object_key(part))
        if before is None:
            return part
        metadata, status = document.get("metadata") or {}, document.get("status") or {}
        if not metadata.get("creationTimestamp") and not isinstance(
            part, Quota | PriorityClass | DisruptionBudget | HyperNode
        ):
            part = replace(part, created=before.created)
        if isinstance(part, Queue):
            same = (part.path, part.path_weights) == (before.path, before.path_weights)
            self._writes += not same
            part = replace(part, weights_written=before.weights_written if same else self._cluster.now + self._writes)
            if not status.get("state"):
                part = replace(part, state=before.state)
        elif isinstance(part, JobSpec) and not status.get("phase"):
            part = replace(part, phase=self._cluster.engine.state.jobs[part.key].phase)
        elif isinstance(part, TaskSpec) and part.status is TaskStatus.PENDING:
            part = replace(part, node=before.node, status=before.status, started=before.started)
        return part

    def _check_groups(self, translated: TranslatedManifest, after: ObjectSet) -> None:
        """Refuse a pod whose PodGroup does not exist, and a change that leaves other pods without theirs."""
        before = self._cluster.objects
        own = {part.key for part in translated.parts if isinstance(part, TaskSpec)}
        for task in after.tasks.values():
            if task.job is None or task.job in after.jobs:
                continue
            message = f"there is no PodGroup {task.job}{did_you_mean(task.job, after.jobs)}"
            field = f"metadata.annotations[{GROUP_NAME}]"
            if task.key in own:
                raise ObjectError(translated.name, field, message)
            if task.job in before.jobs:
                raise ObjectError(
                    translated.name, "", f"Pod/{task.key} would be left without its PodGroup: {field}: {message}"
                )

    def _replace_objects(self, after: ObjectSet) -> None:
        """Replace the objects of the cluster by these."""
        cluster, before = self._cluster, self._cluster.objects.copy()
        for kind in reversed(SPEC_TYPES.values()):
            for key in before.of_type(kind).keys() - after.of_type(kind).keys():
                cluster.drop(kind, key)
        for described in after:
            if before.of_type(type(described)).get(object_key(described)) != described:
                cluster.put(described)
        cluster.refresh_phases(after.jobs)
        named = parents_by_hierarchy(after.queues.values()).keys()
        for name in sorted(cluster.withdrawn_queues.keys() & named):
            cluster.restore_queue(name)
        for name in sorted(parents_by_hierarchy(before.queues.values()).keys() - named - {DEFAULT_QUEUE}):
            if name in cluster.objects.queues:  # it may have been deleted with a queue above it
                cluster.withdraw_queue(name)

    # --- objects go -----------------------------------------------------------------------------------------------

    def delete_object(self, delete: DeleteEvent, where: str) -> None:
        """Delete an object; raises RefusedError, or FieldError below ``where`` if there is none."""
        if delete.kind not in KNOWN_KINDS:
            hint = did_you_mean(delete.kind, KNOWN_KINDS) or f"; write one of {', '.join(KNOWN_KINDS)}"
            raise FieldError(f"{where}.kind", f"'{delete.kind}' is not known{hint}")
        cluster, kind = self._cluster, SPEC_TYPES.get(delete.kind)
        if kind is Queue:
            self._admission.refresh(cluster)
            refusals = self._admission.queue_deletion_refusals(delete.name)
            if refusals:
                raise RefusedError(f"Queue/{delete.name}", refusals)
        name = manifest_name({"kind": delete.kind, "metadata": {"name": delete.name, "namespace": delete.namespace}})
        key = f"{delete.namespace}/{delete.name}" if delete.kind in NAMESPACED_KINDS else delete.name
        made = [*self._objects_of_manifest.pop(name, ()), *([(kind, key)] if kind is not None else [])]
        there = [slot for slot in dict.fromkeys(made) if slot[1] in cluster.objects.of_type(slot[0])]
        if not there:
            known = cluster.objects.of_type(kind) if kind is not None else ()
            raise FieldError(f"{where}.name", f"there is no {name}{did_you_mean(key, known)}")
        if kind is Queue:
            for queue in cluster.subtree(key):
                self._queue_manifests.pop(queue, None)
            cluster.drop_queue(key)
        else:
            for slot in there:
                cluster.drop(*slot)
            self._admission.drop_other(delete.kind, delete.name)
            cluster.refresh_phases(cluster.objects.jobs)

    # --- commands -------------------------------------------------------------------------------------------------

    def _command(self, command: CommandEvent, where: str) -> None:
        cluster = self._cluster
        queue = cluster.objects.queues.get(command.queue)
        if queue is None:
            hint = did_you_mean(command.queue, cluster.objects.queues)
            raise FieldError(f"{where}.queue", f"there is no queue '{command.queue}'{hint}")
        cluster.command_queue(queue.name, command.action)


def _object_keys(parts: Iterable[Described]) -> tuple[ObjectKey, ...]:
    return tuple((type(part), object_key(part)) for part in parts)
