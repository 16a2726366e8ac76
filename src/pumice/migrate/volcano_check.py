"""Check the objects of a cluster with Volcano: which would work, differ or be lost if Pumice took over.

Finished jobs, podgroups and pods are left out: nothing happens to them any more. The scheduler configuration counts
only while no other one is given for the installation, because Volcano's is not carried over by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from kubebase.resource_vector import Registry
from pumice.admission import CREATE, ClusterView, Request, mutate
from pumice.admission.effectless_fields import values_at
from pumice.admission.request import JOBS, PODGROUPS, PODS, QUEUES
from pumice.admission.rules import warnings
from pumice.admission.volcano_support import FIELDS, JOB_PLUGINS, Feature, Support
from pumice.input_errors import Problem
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.resources import Document
from pumice.migrate.report import SEVERITY_OF_SUPPORT, MigrationReport, Severity
from pumice.migrate.source_objects import (
    KUEUE_GROUP,
    VOLCANO_DOMAIN,
    SourceObjects,
    display_name,
    supported_kinds,
)
from pumice.migrate.volcano_config_check import CONFIGURATION, check_configuration
from pumice.model.specs import DEFAULT_QUEUE, ROOT
from pumice.sim.manifest_admission import ManifestEntry, admit_manifests
from pumice.sim.manifest_files import Manifest
from pumice.sim.manifest_translation import translate_manifest

SCHEDULING, BATCH = "scheduling.volcano.sh", "batch.volcano.sh"
SUPPORTED_KINDS = supported_kinds()

_RESOURCES = {
    (SCHEDULING, "Queue"): QUEUES,
    (SCHEDULING, "PodGroup"): PODGROUPS,
    (BATCH, "Job"): JOBS,
    ("", "Pod"): PODS,
}
_FINISHED = frozenset({"Completed", "Failed", "Aborted", "Terminated", "Succeeded"})
_PLUGINS_FIELD = "spec.plugins"  # its entries are checked one by one
_ROOT_FIELDS = ("hierarchy", "affinity")  # the other fields of root have no effect, here or in Volcano


def check_volcano(objects: SourceObjects, *, configured: bool = False) -> MigrationReport:
    """The report about a takeover; ``configured``: the installation gets a configuration of its own."""
    report = MigrationReport()
    _check_kinds(report, objects)
    _check_fields(report, objects)
    for problem in admission_problems(objects):
        kind, _, name = problem.object.partition("/")
        report.add(Severity.LOST, kind, name, f"admission would refuse it: {problem.reason}")
    _check_schedulers(report, objects)
    if not configured:
        for source, text in objects.configurations.items():
            check_configuration(report, source, text)
            if objects.of("", "ConfigMap"):
                advice = "to keep it, write it to a file and install with --config FILE"
                report.add(Severity.DIFFERS, CONFIGURATION, source, "is not carried over by itself", advice)
    _mention_kueue(report, objects)
    return report


def _check_kinds(report: MigrationReport, objects: SourceObjects) -> None:
    """Objects of kinds that no controller of Pumice handles would be orphaned."""
    for (group, kind), found in objects.objects.items():
        if not group.endswith(f".{VOLCANO_DOMAIN}"):
            continue
        report.checked[kind] += len(found)
        feature = SUPPORTED_KINDS.get((group, kind))
        severity = Severity.LOST if feature is None else SEVERITY_OF_SUPPORT.get(feature.support)
        if severity is None:
            continue
        note = feature.note if feature is not None else ""
        message = note if severity is Severity.DIFFERS else f"no controller of Pumice handles {group} {kind}"
        for one in found:
            report.add(severity, kind, display_name(one), message, "" if severity is Severity.DIFFERS else note)


def _check_fields(report: MigrationReport, objects: SourceObjects) -> None:
    """Fields, annotations and job plugins that admission warns of."""
    world = ClusterView(registry=Registry())
    for group_kind, resource in _RESOURCES.items():
        kind = group_kind[1]
        for one in _unfinished(objects.of(*group_kind)):
            if resource in (PODS, PODGROUPS) and _has_job_owner(one):
                continue  # the Job is checked
            if resource == PODS and not _is_ours(one):
                continue
            if resource == PODS:
                report.checked["Pod"] += 1
            for warning in warnings(Request(CREATE, resource, one), world):
                report.add(Severity.LOST, kind, display_name(one), warning)
            for feature in _differing_features(resource, one):
                report.add(Severity.DIFFERS, kind, display_name(one), f"{feature.name}: {feature.note}")


def _differing_features(resource: str, document: Document) -> Iterator[Feature]:
    """The fields and job plugins in use that work in another way than in Volcano."""
    for feature in FIELDS.get(resource, ()):
        differs = feature.support is Support.DIFFERS and feature.name.startswith("spec.")
        if differs and feature.name != _PLUGINS_FIELD and any(values_at(document, tuple(feature.name.split(".")), "")):
            yield feature
    plugins = (document.get("spec") or {}).get("plugins") or {}
    if resource == JOBS:
        yield from (one for one in JOB_PLUGINS if one.support is Support.DIFFERS and one.name in plugins)


def admission_problems(objects: SourceObjects) -> Iterator[Problem]:
    """The queues, jobs and podgroups that admission would refuse, each judged with all the others."""
    registry = Registry()
    entries: list[ManifestEntry] = []
    for position, one in enumerate(_admitted_objects(objects)):
        try:
            entries.append(ManifestEntry(Manifest("", one), translate_manifest(one, registry, position), position))
        except ObjectError as error:
            yield Problem("", error.object, error.field, error.message)
    yield from admit_manifests(entries, registry, set(), DEFAULT_QUEUE).problems


def _admitted_objects(objects: SourceObjects) -> Iterator[Document]:
    yield from objects.of("", "Node")
    yield from objects.of("", "Namespace")
    for queue in objects.of(SCHEDULING, "Queue"):
        if (queue.get("metadata") or {}).get("name") == ROOT:
            spec = queue.get("spec") or {}
            yield {**queue, "spec": {name: spec[name] for name in _ROOT_FIELDS if name in spec}}
        else:
            yield queue
    for job in _unfinished(objects.of(BATCH, "Job")):
        yield _with_defaults(job)
    yield from (one for one in _unfinished(objects.of(SCHEDULING, "PodGroup")) if not _has_job_owner(one))


def _with_defaults(job: Document) -> Document:
    """A Job with the defaults of admission, which would otherwise count as changes of a stored Job; in its queue."""
    spec = job.get("spec") or {}
    filled = mutate(Request(CREATE, JOBS, job), ClusterView(registry=Registry()))["spec"]
    return {**job, "spec": {**filled, **({"queue": spec["queue"]} if "queue" in spec else {})}}


def _unfinished(documents: Iterable[Document]) -> Iterator[Document]:
    for one in documents:
        status = one.get("status") or {}
        state = status.get("state")
        phase = state.get("phase") if isinstance(state, Mapping) else status.get("phase")
        if phase not in _FINISHED:
            yield one


def _has_job_owner(document: Mapping[str, Any]) -> bool:
    owners = (document.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("kind") == "Job" and str(one.get("apiVersion")).startswith(BATCH) for one in owners)


def _is_ours(pod: Mapping[str, Any]) -> bool:
    return (pod.get("spec") or {}).get("schedulerName") in SCHEDULERS


def _check_schedulers(report: MigrationReport, objects: SourceObjects) -> None:
    """Scheduler names that Pumice does not serve: of Volcano's own schedulers, and of other pods."""
    served = ", ".join(sorted(SCHEDULERS))
    for deployment in objects.of("apps", "Deployment"):
        for name in sorted(set(_scheduler_names(deployment)) - SCHEDULERS):
            message = f"schedules pods with schedulerName {name}, and Pumice serves {served}"
            report.add(
                Severity.LOST, "Deployment", display_name(deployment), message, f"create the pods with one of {served}"
            )
    others: Counter[str] = Counter()
    for pod in _unfinished(objects.of("", "Pod")):
        if _is_ours(pod):
            continue
        name = str((pod.get("spec") or {}).get("schedulerName") or "default-scheduler")
        if GROUP_NAME in ((pod.get("metadata") or {}).get("annotations") or {}):
            message = f"belongs to a PodGroup and names the scheduler {name}, which does not know podgroups"
            report.add(Severity.INFO, "Pod", display_name(pod), message, f"Pumice serves {served}")
        others[name] += 1
    for name, number in sorted(others.items()):
        message = f"{number} of scheduler {name} stay with it; their requests count as used capacity of their nodes"
        report.add(Severity.INFO, "Pods", "", message)


def _scheduler_names(deployment: Mapping[str, Any]) -> Iterator[str]:
    template = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in template.get("containers") or ():
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        for word, following in pairwise([*words, ""]):
            if word.startswith("--scheduler-name="):
                yield word.partition("=")[2]
            elif word == "--scheduler-name":
                yield following


def _mention_kueue(report: MigrationReport, objects: SourceObjects) -> None:
    for one in objects.of(KUEUE_GROUP, "ClusterQueue"):
        message = "stays with Kueue"
        advice = "'pumice migrate --from kueue' prints Queues for it"
        report.add(Severity.INFO, "ClusterQueue", display_name(one), message, advice)
