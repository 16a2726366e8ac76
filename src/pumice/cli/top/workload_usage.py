"""Usage by job, user, namespace and node, from the pods themselves.

A pod counts as running from the moment it has a node, and as waiting while it has none. Jobs, users and namespaces
count only pods that Pumice schedules; nodes count all pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from kubebase.field_error import FieldError
from kubebase.resource_vector import PODS, Registry, ResourceError, Vector, add, dominant_share
from pumice.admission.cluster_view import template_request
from pumice.cli.cluster.measured_use import add_use
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.decode.preemption_annotations import USER

Document = dict[str, Any]
JobKey = tuple[str, str]
"""Namespace and name of a PodGroup."""

NO_USER = "-"
_ENDED = frozenset({"Succeeded", "Failed"})


class View(Enum):
    """What a line of the screen is about."""

    QUEUES = "queues"
    JOBS = "jobs"
    USERS = "users"
    NAMESPACES = "namespaces"
    NODES = "nodes"

    def next(self) -> View:
        """The view after this one."""
        views = list(View)
        return views[(views.index(self) + 1) % len(views)]


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A pod that has not ended."""

    namespace: str
    job: JobKey | None
    user: str
    node: str
    """Empty: it waits."""
    request: Vector
    ours: bool
    name: str = ""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A PodGroup, under the name of its Job if it has one."""

    name: str
    queue: str
    user: str
    phase: str


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """A line of a view. The share is that of the cluster or, of a node, of itself; None: not known."""

    name: str
    used: float | None
    running: int
    waiting: int
    allocated: Vector
    offered: Vector = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Further columns by their heading."""
    measured: Mapping[str, int] = field(default_factory=dict)
    """What its pods really use, in nano units, where that is measured."""


class PodRequests:
    """The requests of pods, computed once for each version of a pod: the screen is drawn several times a second."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._known: dict[str, tuple[str, Vector]] = {}

    def of(self, pod: Document) -> Vector:
        """The request of a pod; empty if it cannot be read."""
        about = pod.get("metadata") or {}
        uid, version = str(about.get("uid") or ""), str(about.get("resourceVersion") or "")
        known = self._known.get(uid)
        if known is not None and known[0] == version:
            return known[1]
        try:
            request = template_request(pod.get("spec") or {}, self.registry, "spec")
        except (FieldError, ResourceError):
            request = ()
        self._known[uid] = (version, request)
        return request


@dataclass(frozen=True, slots=True)
class Workloads:
    """The jobs and pods that the user may list."""

    jobs: Mapping[JobKey, JobSummary]
    pods: Sequence[PodUsage]
    measured: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    """What pods really use, by namespace and name, where that is measured."""

    def waiting_by_queue(self) -> Counter[tuple[str, str]]:
        """The number of waiting pods by queue and namespace."""
        waiting = (pod for pod in self.pods if pod.ours and not pod.node and pod.job in self.jobs)
        return Counter((self.jobs[pod.job].queue, pod.namespace) for pod in waiting if pod.job is not None)


def workloads(
    groups: Iterable[Document],
    pods: Iterable[Document],
    requests: PodRequests,
    measured: Mapping[tuple[str, str], Mapping[str, int]] | None = None,
) -> Workloads:
    """Jobs and pods from their objects."""
    jobs = {_key(group): _job(group) for group in groups}
    return Workloads(jobs, [found for pod in pods if (found := _pod(pod, requests)) is not None], measured or {})


def usage_groups(
    view: View, found: Workloads, nodes: Iterable[Document], registry: Registry, capacity: Sequence[int]
) -> list[UsageGroup]:
    """The lines of a view other than the queues, the largest share first."""
    if view is View.NODES:
        by_node = _measured_sums(found, found.pods, lambda pod: pod.node)
        groups = [replace(each, measured=by_node.get(each.name, {})) for each in _node_groups(found, nodes, registry)]
        return sorted(groups, key=_order)
    ours = [pod for pod in found.pods if pod.ours]
    groups = []
    if view is View.JOBS:
        by_job = _sums(ours, lambda pod: pod.job)
        by_job_measured = _measured_sums(found, ours, lambda pod: pod.job)
        for key, job in found.jobs.items():
            running, waiting, held = by_job.get(key, (0, 0, ()))
            if running or waiting or job.phase in ("Pending", "Inqueue"):
                texts = {"QUEUE": job.queue or "-", "USER": job.user, "PHASE": job.phase}
                group = _group(f"{key[0]}/{job.name}", running, waiting, held, capacity, texts)
                groups.append(replace(group, measured=by_job_measured.get(key, {})))
    else:
        by_user = view is View.USERS
        number = Counter(_user_of(pod, found) if by_user else pod.namespace for pod in _one_per_job(ours))

        def owner(pod: PodUsage) -> str:
            return _user_of(pod, found) if by_user else pod.namespace

        used = _measured_sums(found, ours, owner)
        for name, (running, waiting, held) in _sums(ours, owner).items():
            group = _group(str(name), running, waiting, held, capacity, {"JOBS": str(number[str(name)])})
            groups.append(replace(group, measured=used.get(name, {})))
    return sorted(groups, key=_order)


def _order(group: UsageGroup) -> tuple[float, int, str]:
    return (-(group.used or 0.0), -group.waiting, group.name)


def _group(
    name: str, running: int, waiting: int, held: Vector, capacity: Sequence[int], texts: Mapping[str, str]
) -> UsageGroup:
    share = dominant_share(held, capacity) if any(capacity) else None
    return UsageGroup(name, share, running, waiting, held, texts=texts)


def _sums(pods: Iterable[PodUsage], key: Callable[[PodUsage], object]) -> dict[object, tuple[int, int, Vector]]:
    """Running pods, waiting pods and the requests of the running ones, by a key."""
    found: dict[object, tuple[int, int, Vector]] = {}
    for pod in pods:
        running, waiting, held = found.get(key(pod), (0, 0, ()))
        if pod.node:
            found[key(pod)] = (running + 1, waiting, add(held, pod.request))
        else:
            found[key(pod)] = (running, waiting + 1, held)
    return found


def _measured_sums(
    found: Workloads, pods: Iterable[PodUsage], key: Callable[[PodUsage], object]
) -> dict[object, dict[str, int]]:
    """What pods really use, by a key; nothing for those that nobody measures."""
    sums: dict[object, dict[str, int]] = {}
    for pod in pods:
        if measured := found.measured.get((pod.namespace, pod.name)):
            add_use(sums.setdefault(key(pod), {}), measured)
    return sums


def _one_per_job(pods: Iterable[PodUsage]) -> Iterator[PodUsage]:
    seen = set()
    for pod in pods:
        if pod.job is not None and pod.job not in seen:
            seen.add(pod.job)
            yield pod


def _user_of(pod: PodUsage, found: Workloads) -> str:
    """The user of a pod, or of its job: a pod that a controller created may name none."""
    if pod.user == NO_USER and pod.job is not None and pod.job in found.jobs:
        return found.jobs[pod.job].user
    return pod.user


def _node_groups(found: Workloads, nodes: Iterable[Document], registry: Registry) -> Iterator[UsageGroup]:
    sums = _sums((pod for pod in found.pods if pod.node), lambda pod: pod.node)
    for node in nodes:
        name, status = str((node.get("metadata") or {}).get("name") or ""), node.get("status") or {}
        try:
            offered = registry.vector(status.get("allocatable") or {}, where="")
        except ResourceError:
            offered = ()
        running, _, held = sums.get(name, (0, 0, ()))
        state = _node_state(node)
        yield UsageGroup(name, dominant_share(held, offered), running, 0, held, offered, {"STATE": state})


def _node_state(node: Document) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")
    cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    return ("Ready" if ready else "NotReady") + (",SchedulingDisabled" if cordoned else "")


def _key(group: Document) -> JobKey:
    about = group.get("metadata") or {}
    return str(about.get("namespace") or ""), str(about.get("name") or "")


def _job(group: Document) -> JobSummary:
    about = group.get("metadata") or {}
    owner: Document = next((one for one in about.get("ownerReferences") or () if one.get("kind") == "Job"), {})
    return JobSummary(
        str(owner.get("name") or about.get("name") or ""),
        str((group.get("spec") or {}).get("queue") or ""),
        str((about.get("annotations") or {}).get(USER) or NO_USER),
        str((group.get("status") or {}).get("phase") or "Pending"),
    )


def _pod(pod: Document, requests: PodRequests) -> PodUsage | None:
    about, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return None
    annotations, namespace = about.get("annotations") or {}, str(about.get("namespace") or "")
    group = annotations.get(GROUP_NAME)
    return PodUsage(
        namespace,
        (namespace, str(group)) if group else None,
        str(annotations.get(USER) or NO_USER),
        str(spec.get("nodeName") or ""),
        requests.of(pod),
        spec.get("schedulerName") in SCHEDULERS,
        str(about.get("name") or ""),
    )


def resource_amounts(vector: Sequence[int], registry: Registry) -> dict[str, int]:
    """The amounts of a vector by resource, without places for pods."""
    return {name: vector[j] for j, name in enumerate(registry.names) if j < len(vector) and j != PODS}
