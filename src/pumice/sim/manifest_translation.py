"""Translate a manifest into the objects that the controllers of a cluster would create for it.

Most manifests are one object of the model, which ``pumice.kube`` decodes. Two are more: a Job is a PodGroup with pods
(``job_expansion``), and a pending Pod without a PodGroup gets one of its own. Defaults from admission (the queue of a
job that names none, the number of pods that start together) are added afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from pumice.input_errors import did_you_mean
from pumice.kube.decode import api_types
from pumice.kube.decode.convert import decode
from pumice.kube.decode.hierarchy_entries import check_entries
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.preemption_annotations import longest_wait, queue_name, user
from pumice.kube.decode.struct_decode import read
from pumice.model.root_queue import fields_without_effect
from pumice.model.specs import DEFAULT_QUEUE, ROOT, Described, JobSpec, Queue, TaskSpec, TaskStatus
from pumice.sim.job_expansion import expand_job
from pumice.sim.object_set import SPEC_TYPES

NAMESPACED_KINDS = ("Job", "Pod", "PodDisruptionBudget", "PodGroup", "ResourceQuota")
KNOWN_KINDS = tuple(dict.fromkeys((*SPEC_TYPES, "Job", "Namespace", "PodDisruptionBudget", "Scenario")))


@dataclass(frozen=True, slots=True)
class TranslatedManifest:
    """The objects of a manifest. ``name`` identifies it in errors: Queue/dev, Job/default/train."""

    name: str
    parts: tuple[Described, ...]

    @property
    def kind(self) -> str:
        """The kind of the manifest."""
        return self.name.partition("/")[0]

    @property
    def podgroup(self) -> JobSpec | None:
        """The PodGroup among its parts, where it is the first."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], JobSpec) else None

    def with_defaults(self, admitted: Mapping[str, Any]) -> TranslatedManifest:
        """The same Job, PodGroup or Pod with what admission has written into the spec of the job."""
        group, *others = self.parts
        if not isinstance(group, JobSpec):
            raise TypeError(f"{self.name} is no job")
        spec = admitted["spec"]
        least = spec.get("minAvailable") if self.kind == "Job" else None
        filled = replace(group, queue=spec["queue"], min_member=group.min_member if least is None else least)
        return TranslatedManifest(self.name, (filled, *others))


def pods_of_job(translated: TranslatedManifest) -> list[str]:
    """The pods of a Job, which its controller creates again after they are deleted."""
    is_job = translated.kind == "Job"
    return [part.key for part in translated.parts if isinstance(part, TaskSpec) and is_job]


def translate_manifest(document: Mapping[str, Any], registry: Registry, created: int) -> TranslatedManifest:
    """Translate a manifest into its objects; raises ObjectError."""
    kind = document.get("kind")
    if kind not in KNOWN_KINDS:
        hint = did_you_mean(str(kind), KNOWN_KINDS) or f"; write one of {', '.join(KNOWN_KINDS)}"
        raise ObjectError(manifest_name(document), "kind", f"{kind!r} is not known{hint}")
    name = manifest_name(document)
    if kind == "Job":
        return TranslatedManifest(name, tuple(expand_job(document, name, registry, created)))
    if kind == "Queue":
        _check_entries(document, name)
    described = decode(document, registry=registry, created=created)
    if isinstance(described, Queue) and described.name == ROOT:
        for field, message in fields_without_effect(described):
            raise ObjectError(name, field, message)
    if isinstance(described, TaskSpec) and _needs_group(described):
        group = _group_of_one(described, read(document["metadata"], api_types.Metadata), name)
        return TranslatedManifest(name, (group, replace(described, job=group.key)))
    return TranslatedManifest(name, () if described is None else (described,))


def _check_entries(document: Mapping[str, Any], name: str) -> None:
    """Refuse misspelt keys at any depth of a hierarchy, as admission does."""
    spec = document.get("spec")
    try:
        check_entries(spec.get("hierarchy") if isinstance(spec, Mapping) else None)
    except FieldError as error:
        raise ObjectError(name, error.field, error.message) from None


def manifest_name(document: Mapping[str, Any]) -> str:
    """Kind, namespace (where the kind has one) and name of an object that may lack any of them."""
    kind, metadata = document.get("kind"), document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    parts = [kind or "?", metadata.get("name") or "?"]
    if kind in NAMESPACED_KINDS:
        parts.insert(1, metadata.get("namespace") or "default")
    return "/".join(map(str, parts))


def _needs_group(task: TaskSpec) -> bool:
    return task.job is None and task.managed and task.status is TaskStatus.PENDING


def _group_of_one(task: TaskSpec, metadata: api_types.Metadata, subject: str) -> JobSpec:
    try:
        return JobSpec(
            namespace=task.namespace,
            name=task.name,
            queue=queue_name(metadata.annotations, metadata.labels) or DEFAULT_QUEUE,
            created=task.created,
            user=user(metadata),
            longest_wait=longest_wait(metadata),
        )
    except FieldError as error:
        raise ObjectError(subject, error.field, error.message) from None
