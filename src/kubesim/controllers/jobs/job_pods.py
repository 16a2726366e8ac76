"""The pods of a Job: predicates on their state, and the template of a new one."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from kubesim.clock import parse_time
from kubesim.controllers.conditions import find_condition, is_condition_true
from kubesim.controllers.controller_refs import new_controller_ref
from kubesim.controllers.jobs.job_policies import failure_count_annotations
from kubesim.registry.registry import Object

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a pod until it has been counted."""

INDEX = "batch.kubernetes.io/job-completion-index"
MAX_BASE_LENGTH = 58  # what a generated name keeps of its beginning


def phase(pod: Object) -> str:
    """The phase of a pod; new ones are Pending."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_deleted(pod: Object) -> bool:
    """Whether the pod has a deletion timestamp."""
    return "deletionTimestamp" in pod["metadata"]


def is_pod_finished(pod: Object) -> bool:
    """Whether the pod has finished."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_active(pod: Object) -> bool:
    """Whether the pod runs, or will."""
    return not is_pod_finished(pod) and not is_deleted(pod)


def is_ready(pod: Object) -> bool:
    """Whether the pod is Ready."""
    return is_condition_true(pod.get("status") or {}, "Ready")


def is_tracked(pod: Object) -> bool:
    """Whether the pod is kept until it has been counted."""
    return TRACKING in pod["metadata"].get("finalizers", ())


def has_failed(pod: Object, job: Object) -> bool:
    """Whether the pod counts as failed. A pod that is being deleted does, unless only failed pods are replaced."""
    if phase(pod) == "Failed":
        return True
    return not replaces_only_failed(job) and is_deleted(pod) and phase(pod) != "Succeeded"


def replaces_only_failed(job: Object) -> bool:
    """Whether a pod that is being deleted keeps its place until it is over."""
    return job["spec"].get("podReplacementPolicy") == "Failed" or "podFailurePolicy" in job["spec"]


def index_of(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def finished_at(pod: Object) -> float:
    """When the pod finished, by the best information in its status."""
    status = pod.get("status") or {}
    ends = [((entry.get("state") or {}).get("terminated") or {}) for entry in status.get("containerStatuses") or ()]
    times = [end["finishedAt"] for end in ends if end.get("finishedAt")]
    if times and len(times) == len(ends):
        return max(map(parse_time, times))
    ready = find_condition(status, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    about = pod["metadata"]
    if "deletionTimestamp" in about:
        return parse_time(about["deletionTimestamp"]) - (about.get("deletionGracePeriodSeconds") or 0)
    return parse_time(about["creationTimestamp"])


def restarts(pods: Iterable[Object]) -> int:
    """How often containers of pods that are not over have been restarted."""
    return sum(
        entry.get("restartCount", 0)
        for pod in pods
        if phase(pod) in {"Running", "Pending"}
        for group in ("initContainerStatuses", "containerStatuses")
        for entry in (pod.get("status") or {}).get(group) or ()
    )


def least_advanced(pod: Object) -> tuple[Any, ...]:
    """A sort key: the least advanced pods first."""
    about = pod["metadata"]
    rank = {"Pending": 0, "Unknown": 1}.get(phase(pod), 2)
    placed = bool(pod["spec"].get("nodeName"))
    return placed, rank, is_ready(pod), -parse_time(about["creationTimestamp"]), about["name"]


def new_pod(job: Object, index: int | None, replaced: Object | None = None) -> Object:
    """A new pod of a Job, for a completion index or None; ``replaced``: the failed pod of that index."""
    template = copy.deepcopy(job["spec"]["template"])
    about, spec, name = template.get("metadata") or {}, template["spec"], job["metadata"]["name"]
    base = f"{name}-"
    if index is not None:
        tail = f"-{index}-"
        base = name[: MAX_BASE_LENGTH - len(tail)] + tail
        about["annotations"] = {**(about.get("annotations") or {}), INDEX: str(index)}
        if "backoffLimitPerIndex" in job["spec"]:
            about["annotations"] |= failure_count_annotations(job, replaced)
        about["labels"] = {**(about.get("labels") or {}), INDEX: str(index)}
        spec["hostname"] = f"{name}-{index}"
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            _set_index_variable(container)
    kept: Object = {key: about[key] for key in ("labels", "annotations") if about.get(key)}
    kept["finalizers"] = [*(about.get("finalizers") or ()), TRACKING]
    kept["generateName"] = base
    kept["namespace"] = job["metadata"]["namespace"]
    kept["ownerReferences"] = [new_controller_ref(job)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}


def _set_index_variable(container: Object) -> None:
    environment = container.setdefault("env", [])
    if all(variable.get("name") != "JOB_COMPLETION_INDEX" for variable in environment):
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        environment.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
