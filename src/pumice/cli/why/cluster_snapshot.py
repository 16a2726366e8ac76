"""A snapshot of a cluster: its objects, read once, and an engine that knows them.

State that a scheduler keeps in memory (the last turn of a queue, waiting times) is missing, except for what it writes
into objects: the condition of a PodGroup says since when it is unschedulable.

A user with rights in one namespace sees the objects there; what is missing then is in ``denied``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from pumice.cli.cluster.denied_lists import list_if_allowed
from pumice.cli.why.job_precheck import creation_refusal, ended_message, missing_pods_message, phase_of
from pumice.cli.why.scheduler_policy import published_scheduler
from pumice.config.plugin_loader import plugin_factories
from pumice.controllers.podgroups import PREFIX
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint, PreemptorsCheckpoint, ReservationsCheckpoint
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.engine import Engine
from pumice.engine.preemption.cooldown import LIVE
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client, Document
from pumice.kube.decode.container_states import BlockedContainer, blocked_containers
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.decode.struct_decode import microseconds, read
from pumice.kube.resources import (
    HYPER_NODES,
    JOBS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
    Resource,
)
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase
from pumice.scheduler.cluster_cache import ClusterCache
from pumice.scheduler.volumes.volume_cache import STORAGE_RESOURCES

WATCHED_RESOURCES: tuple[Resource[Any], ...] = (
    HYPER_NODES,
    NODES,
    QUEUES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    *STORAGE_RESOURCES,
)
"""The resources that the scheduler watches."""

NEEDED_RESOURCES: tuple[Resource[Any], ...] = (NODES, QUEUES, POD_GROUPS, PODS)
"""The resources without which the scheduler's decision cannot be repeated."""

BATCH_JOBS = "/apis/batch/v1"
CONTROLLERS_HINT = "PodGroups are created by pumice controllers: is it running?"


class NoSuchJobError(Exception):
    """No object of that name exists."""


@dataclass(frozen=True, slots=True)
class JobLookup:
    """The result of a lookup by name: the key of a PodGroup or, if there is none, an explanation."""

    key: str
    verdict: str = ""
    notes: list[str] = field(default_factory=list)
    requested_name: str = ""  # the name in the request, if it is not the name of the PodGroup


class ClusterSnapshot:
    """All objects that a scheduler would know."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        self._client = client
        self.denied: list[Resource[Any]] = []
        """Resources that the user may not list in the whole cluster."""
        self.documents = {resource.name: self._list(resource, namespace) for resource in WATCHED_RESOURCES}
        self.scheduler = published_scheduler(self.documents[QUEUES.name])  # as the scheduler publishes it
        self._scheduler_names = frozenset(map(str, self.scheduler.get("names") or SCHEDULERS))  # of its pods
        self.unreadable: list[str] = []

    def _list(self, resource: Resource[Any], namespace: str) -> list[Document]:
        """All objects of a resource, else those of the namespace, else none."""
        try:
            found = list_if_allowed(self._client, resource.path())
            if found is None:
                self.denied.append(resource)
                found = list_if_allowed(self._client, resource.path(namespace)) if _has_own(resource, namespace) else []
            return found or []
        except ApiError as error:
            if error.not_found:  # a cluster without the CRDs has no such objects
                return []
            raise

    @property
    def _sees_volumes(self) -> bool:
        """Whether the volumes of pods can be judged. Without all storage objects every claim would look lost."""
        return not any(resource in self.denied for resource in STORAGE_RESOURCES)

    @property
    def can_explain(self) -> bool:
        """Whether an engine can repeat the scheduler's decision: it needs all queues, nodes and jobs."""
        return not any(resource in self.denied for resource in NEEDED_RESOURCES)

    def denied_notes(self, namespace: str) -> list[str]:
        """A line about the objects that are missing, and what that means; none if all could be read."""
        missing = [one for one in self.denied if self.can_explain or one in NEEDED_RESOURCES]
        if not missing:
            return []
        everywhere = ", ".join(one.plural for one in missing if not _has_own(one, namespace))
        outside = ", ".join(one.plural for one in missing if _has_own(one, namespace))
        outside = f"outside namespace {namespace} {outside}" if outside else ""
        effect = (
            "the answer disregards them"
            if self.can_explain
            else "the answer is what the scheduler wrote into objects that you may read"
        )
        return [f"you may not list {' and '.join(filter(None, (everywhere, outside)))}; {effect}"]

    def engine(self, config: SchedulerConfig, now: int) -> Engine:
        """An engine that knows the objects, and what is written down of what the scheduler remembers."""
        registry = Registry()
        engine = Engine(config, plugin_factories(config), registry, LIVE)
        engine.context.now = now
        cache = ClusterCache(registry, lambda error: self.unreadable.append(str(error)), self._scheduler_names)
        for resource in WATCHED_RESOURCES:
            for document in self.documents[resource.name]:
                try:
                    shown = read(document, resource.shape)
                except FieldError as error:
                    self.unreadable.append(f"{resource.kind} {key_of(document)}: {error}")
                    continue
                if resource is PODS and not self._sees_volumes:
                    shown = replace(shown, spec=replace(shown.spec, volumes=()))
                for event in cache.events_for(_appearance(resource, document, shown)):
                    engine.apply(event)
        for event in cache.settled_events():
            engine.apply(event)
        engine.prepare()
        engine.restore(self._checkpoint(engine, now))
        return engine

    def _checkpoint(self, engine: Engine, now: int) -> EngineCheckpoint:
        since: dict[str, int] = {}
        for group in self.documents[POD_GROUPS.name]:
            status = group.get("status") or {}
            if status.get("phase") in (None, "", JobPhase.PENDING.value):
                continue  # a job that is not admitted does not wait for capacity yet
            for condition in status.get("conditions") or ():
                if condition.get("type") == "Unschedulable" and (
                    time := timestamp(condition.get("lastTransitionTime"))
                ):
                    patience = engine.order.patience if condition.get("reason") == "HoldsRoom" else 0
                    since[key_of(group)] = min(time, now) - max(patience, 0)
        preemptors, holds = PreemptorsCheckpoint(since), ReservationsCheckpoint(waiting=since)
        return EngineCheckpoint(now=now, stamp=engine.context.last_start, reclaims=preemptors, holds=holds)

    # ---- names ------------------------------------------------------------------------------------------------

    def find(self, name: str, namespace: str) -> JobLookup:
        """Find a PodGroup by its own name, or by the name of its Job, another owner or one of its pods.

        ``KIND/NAME`` selects the kind.
        """
        kind, _, name = name.rpartition("/")
        wanted = _KIND_ALIASES.get(kind.lower()) if kind else ""
        if wanted is None:
            kinds = ", ".join(sorted(set(_KIND_ALIASES.values())))
            raise NoSuchJobError(f"unknown kind {kind!r}; must be one of {kinds}")
        if wanted in ("", "podgroup") and self._has_podgroup(namespace, name):
            return JobLookup(f"{namespace}/{name}")
        if wanted in ("", "job") and (found := self._find_vcjob(namespace, name)) is not None:
            return found
        if wanted not in ("podgroup", "pod") and (found := self._find_by_owner(namespace, name, wanted)) is not None:
            return found
        if wanted in ("", "job") and (found := self._find_batch_job(namespace, name)) is not None:
            return found
        if wanted in ("", "pod") and (found := self._find_pod(namespace, name)) is not None:
            return found
        raise NoSuchJobError(self._not_found_message(name, namespace, wanted))

    def job_names(self) -> dict[str, str]:
        """Namespace and name of the jobs whose controllers made PodGroups for them, by the keys of the PodGroups."""
        found = {}
        for group in self.documents[POD_GROUPS.name]:
            about = group["metadata"]
            for owner in _owners(group):
                if owner.get("apiVersion") == JOBS.api_version or about["name"].startswith(PREFIX):
                    found[key_of(group)] = f"{about['namespace']}/{owner['name']}"
        return found

    def in_namespace(self, resource: Resource[Any], namespace: str) -> Iterator[Document]:
        """The objects of a resource in a namespace."""
        for document in self.documents[resource.name]:
            if document["metadata"].get("namespace") == namespace:
                yield document

    def _has_podgroup(self, namespace: str, name: str) -> bool:
        return any(group["metadata"]["name"] == name for group in self.in_namespace(POD_GROUPS, namespace))

    def _find_by_owner(self, namespace: str, name: str, kind: str) -> JobLookup | None:
        """The PodGroup of objects with this owner, also through the ReplicaSet of a Deployment."""
        for resource in (POD_GROUPS, PODS):
            for document in self.in_namespace(resource, namespace):
                template = (document["metadata"].get("labels") or {}).get("pod-template-hash")
                for owner in _owners(document):
                    own = owner["name"] == name and kind in ("", owner["kind"].lower())
                    deployed = kind in ("", "deployment") and template and owner["name"] == f"{name}-{template}"
                    if own or deployed:
                        group = document["metadata"]["name"] if resource is POD_GROUPS else pod_group_of(document)
                        if group:
                            return JobLookup(f"{namespace}/{group}", requested_name=f"{namespace}/{name}")
        return None

    def _find_vcjob(self, namespace: str, name: str) -> JobLookup | None:
        """Find a Volcano Job: it may have finished, or the API may refuse its dependents."""
        job = self._get(JOBS.path(namespace, name))
        if job is None:
            return None
        if (said := ended_message(job)) is not None:
            return JobLookup("", *said)
        uid = job["metadata"]["uid"]  # a Job of Kubernetes may have the same name
        group = next((group for group in self.in_namespace(POD_GROUPS, namespace) if uid in _owner_uids(group)), None)
        if group is not None:
            there = sum(uid in _owner_uids(pod) for pod in self.in_namespace(PODS, namespace))
            return JobLookup(key_of(group), "", missing_pods_message(self._client, job, there), f"{namespace}/{name}")
        words = f"waits: it has no PodGroup yet; its phase is {phase_of(job) or 'Pending'}."
        return JobLookup("", f"vcjob {namespace}/{name} {words}", self._missing_group_notes(job))

    def _missing_group_notes(self, found: Document) -> list[str]:
        """Notes about a missing PodGroup."""
        why = creation_refusal(self._client, found, POD_GROUPS.kind)
        return [f"the API refused to create its PodGroup: {why}"] if why else [CONTROLLERS_HINT]

    def _find_batch_job(self, namespace: str, name: str) -> JobLookup | None:
        """Explain a Kubernetes Job without a PodGroup."""
        job = self._get(f"{BATCH_JOBS}{_batch_job_path(namespace, name)}")
        if job is None:
            return None
        suspended = bool((job.get("spec") or {}).get("suspend"))
        words = "waits: it has no PodGroup yet." + (" It is suspended." if suspended else "")
        uid = job["metadata"]["uid"]
        pod = next((pod for pod in self.in_namespace(PODS, namespace) if uid in _owner_uids(pod)), None)
        notes = [CONTROLLERS_HINT] if pod is None else self._missing_group_notes(pod)
        return JobLookup("", f"Job {namespace}/{name} {words}", [] if suspended else notes)

    def _get(self, path: str) -> Document | None:
        try:
            return self._client.get(path)
        except ApiError as error:
            if not (error.not_found or error.forbidden):
                raise
            return None

    def _find_pod(self, namespace: str, name: str) -> JobLookup | None:
        pod = next((pod for pod in self.in_namespace(PODS, namespace) if pod["metadata"]["name"] == name), None)
        if pod is None:
            return None
        scheduler = pod["spec"].get("schedulerName") or ""
        if scheduler and scheduler not in self._scheduler_names:
            ours = " or ".join(sorted(self._scheduler_names))
            return JobLookup(
                "", f"pod {namespace}/{name} is not scheduled by Pumice: its schedulerName is {scheduler}, not {ours}"
            )
        group = pod_group_of(pod)
        if not group:
            words = "waits: it has no PodGroup, so the scheduler ignores it"
            return JobLookup("", f"pod {namespace}/{name} {words}", self._missing_group_notes(pod))
        node, phase = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("phase") or "Pending"
        where = f"is on node {node}, {phase}" if node else "has no node yet"
        return JobLookup(f"{namespace}/{group}", notes=[f"pod {namespace}/{name} {where}"])

    def _not_found_message(self, name: str, namespace: str, wanted: str) -> str:
        what = {"": "PodGroup, Job or pod", "podgroup": "PodGroup", "job": "Job"}.get(wanted, wanted)
        known = {
            document["metadata"]["name"]
            for kind in (POD_GROUPS, PODS)
            for document in self.in_namespace(kind, namespace)
        }
        known |= {o["name"] for group in self.in_namespace(POD_GROUPS, namespace) for o in _owners(group)}
        close = get_close_matches(name, sorted(known), 1)
        elsewhere = sorted(
            {
                group["metadata"]["namespace"]
                for group in self.documents[POD_GROUPS.name]
                if name in (group["metadata"]["name"], *(o["name"] for o in _owners(group)))
            }
        )
        hint = f"; did you mean {close[0]}?" if close else ""
        if elsewhere:
            hint = f"; found in namespace {', '.join(elsewhere)} (use -n)"
        return f'{what} "{name}" not found in namespace {namespace}{hint}'

    def blocked_containers(self, key: str) -> tuple[list[BlockedContainer], int]:
        """The containers of a PodGroup that cannot start, and how many of its pods have a node and are not over."""
        namespace, name = key.split("/")
        pods = [
            pod
            for pod in self.in_namespace(PODS, namespace)
            if pod_group_of(pod) == name
            and pod["spec"].get("nodeName")
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]
        return [found for pod in pods for found in blocked_containers(pod)], len(pods)

    def gated_pods(self, key: str) -> list[tuple[str, list[str]]]:
        """The pods of a PodGroup that have scheduling gates, each with the names of the gates."""
        namespace, name = key.split("/")
        found = []
        for pod in self.in_namespace(PODS, namespace):
            gates = pod["spec"].get("schedulingGates")
            if gates and pod_group_of(pod) == name:
                found.append((str(pod["metadata"]["name"]), [str(gate.get("name")) for gate in gates]))
        return found

    def exhausted_quotas(self, namespace: str) -> list[str]:
        """The quotas of a namespace that are used up, and of what: pods that exceed one are not created."""
        found = []
        for quota in self.in_namespace(RESOURCE_QUOTAS, namespace):
            status = quota.get("status") or {}
            hard, used = status.get("hard") or {}, status.get("used") or {}
            full = [
                f"{name} {used[name]}"
                for name in sorted(hard)
                if name in used and _is_exhausted(used[name], hard[name])
            ]
            if full:
                name = quota["metadata"]["name"]
                found.append(f"ResourceQuota {name} of namespace {namespace} is exhausted: {', '.join(full)}")
        return found


_KIND_ALIASES = {
    name: kind
    for kind, names in {
        "podgroup": ("pg", "podgroup", "podgroups"),
        "job": ("job", "jobs", "vcjob", "vj"),
        "pod": ("po", "pod", "pods"),
        "deployment": ("deploy", "deployment", "deployments"),
        "replicaset": ("rs", "replicaset", "replicasets"),
        "statefulset": ("sts", "statefulset", "statefulsets"),
    }.items()
    for name in names
}


def key_of(document: Document) -> str:
    """Namespace and name."""
    about = document.get("metadata") or {}
    return "/".join(filter(None, (about.get("namespace"), about.get("name"))))


def _appearance(resource: Resource[Any], document: Document, shown: Any) -> Change[Any]:
    """An object of a snapshot as a change that a scheduler would see."""
    about = document["metadata"]
    return Change(resource.name, key_of(document), about.get("uid", ""), about.get("resourceVersion", ""), None, shown)


def _has_own(resource: Resource[Any], namespace: str) -> bool:
    """Whether a namespace has objects of a resource."""
    return bool(resource.namespaced and namespace)


def _owners(document: Document) -> list[Document]:
    return document["metadata"].get("ownerReferences") or []


def _owner_uids(document: Document) -> list[str]:
    return [str(owner.get("uid") or "") for owner in _owners(document)]


def pod_group_of(pod: Document) -> str:
    """The name of the PodGroup of a pod; empty: none."""
    return str((pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or "")


def _batch_job_path(namespace: str, name: str) -> str:
    return f"/namespaces/{quote(namespace, safe='')}/jobs/{quote(name, safe='')}"


def timestamp(text: object) -> int:
    """The time in a field, in microseconds; 0 if there is none."""
    try:
        return microseconds(datetime.fromisoformat(str(text)))
    except (ValueError, TypeError):
        return 0


def _is_exhausted(used: str, hard: str) -> bool:
    from kubebase.quantity import QuantityError, parse

    try:
        return parse(hard).nano <= parse(used).nano
    except QuantityError:
        return False
