"""Create podgroups for pods that name none.

The scheduler works on podgroups. Pods of a Volcano Job name theirs; those of a batch Job, a ReplicaSet or without an
owner do not. This controller gives them one: all pods of one owner share a podgroup, which the owner owns, so that it
is garbage-collected with it; a pod without an owner has one of its own. Such a group starts one pod at a time, unless a
pod or its owner states a minimum; but it never waits for pods that its owner does not want yet, as in the middle of a
rolling update.

The owner of a Deployment's pods is a ReplicaSet: every revision of the Deployment has a podgroup. When a ReplicaSet has
no pods any more, because a newer one has replaced them, its group is deleted as well: the ReplicaSet is kept for
rollbacks, and a group without pods would wait in its queue for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from kubebase.timestamps import stamp
from kubebase.work_queue import WorkQueue
from pumice.controllers import COMPONENT
from pumice.controllers.manager import SharedInformers
from pumice.controllers.parallel import gather_limited
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.decode.preemption_annotations import QUEUE_NAMES, USER, queue_name
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import POD_GROUPS, PODS, Document, Resource
from pumice.kube.watch.change_queue import Change

QUEUE: Final = QUEUE_NAMES[1]
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
COPIED: Final = (USER, "volcano.sh/preemptable", "sla-waiting-time", "volcano.sh/sla-waiting-time")
"""Annotations of a pod, or its owner, that the scheduler reads from its podgroup."""

PREFIX: Final = "podgroup-"
FINISHED: Final = ("Succeeded", "Failed")
OTHER_POD: Final = 422  # status code of a rejected patch whose uid is not the object's
UNSEEN: Final = (403, 404, 405)
"""Status codes for an owner that cannot be read."""
MOST: Final = 10**9


def is_ours(pod: Document, schedulers: Collection[str] = SCHEDULERS) -> bool:
    """Whether a pod is ours to schedule, and neither terminating nor finished."""
    return (
        pod["spec"].get("schedulerName") in schedulers
        and not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in FINISHED
    )


def lacks_group(pod: Document, schedulers: Collection[str] = SCHEDULERS) -> bool:
    """Whether a pod is ours to schedule (see ``is_ours``) and has no podgroup."""
    return is_ours(pod, schedulers) and not _annotations(pod).get(GROUP_NAME)


def owner_of(pod: Document) -> Document | None:
    """The controller reference of a pod."""
    return next((o for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def group_name(pod: Document) -> str:
    """The name of a pod's podgroup: that of its owner, or one of its own."""
    return PREFIX + str((owner_of(pod) or pod["metadata"])["uid"])


def group_of(pod: Document, made_by: Document | None = None) -> Document:
    """The podgroup for a pod without one, from the pod and, if it could be read, its owner."""
    about, owner = pod["metadata"], owner_of(pod)
    reference = {
        "apiVersion": owner["apiVersion"] if owner else "v1",
        "kind": owner["kind"] if owner else "Pod",
        "name": owner["name"] if owner else about["name"],
        "uid": owner["uid"] if owner else about["uid"],
        # No blockOwnerDeletion: deleting the owner need not wait for the group, and where
        # OwnerReferencesPermissionEnforcement is on it would require a permission on every kind of owner.
        "controller": True,
    }
    said = {**(_annotations(made_by) if made_by else {}), USER: "", **_annotations(pod)}  # not verified on owners
    spec: Document = {"minMember": min(_count(said.get(MIN_MEMBER, "")), _wanted(made_by))}
    if queue := queue_name(_annotations(pod), pod["metadata"].get("labels")) or queue_name(said):
        spec["queue"] = queue
    if pod["spec"].get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    metadata: Document = {"name": group_name(pod), "namespace": about["namespace"], "ownerReferences": [reference]}
    copied = {name: said[name] for name in COPIED if said.get(name)}
    if copied:
        metadata["annotations"] = copied
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": metadata, "spec": spec}


def is_left_behind(group: Document) -> bool:
    """Whether a podgroup without pods was created here, for an owner that may have pods again."""
    about = group["metadata"]
    owner = owner_of(group)
    return owner is not None and owner.get("kind") != PODS.kind and about["name"] == PREFIX + str(owner.get("uid"))


class PodGroupController:
    """Creates podgroups for pods. Keys name podgroups, so that none is deleted while a pod is added to it."""

    def __init__(
        self,
        api: Api,
        informers: SharedInformers,
        schedulers: Collection[str] = SCHEDULERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._clock = clock
        self._schedulers = schedulers
        self._pods = informers.all(PODS)
        self._groups = informers.all(POD_GROUPS)
        self._pods_of: dict[str, set[str]] = {}  # by podgroup, the keys of its current and future pods
        self.work_queue = WorkQueue(self._reconcile, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue the podgroup that a changed pod or podgroup concerns."""
        if change.resource == POD_GROUPS.name:
            self.work_queue.add(change.key)
        elif change.resource == PODS.name:
            pod = change.new or change.old
            assert pod is not None  # something has changed
            if _annotations(pod).get(GROUP_NAME) not in (None, "", group_name(pod)):
                return  # another controller handles it
            group = f"{pod['metadata']['namespace']}/{group_name(pod)}"
            if change.key in self._pods:
                self._pods_of.setdefault(group, set()).add(change.key)
                if change.old is None or lacks_group(pod, self._schedulers):
                    self.work_queue.add(group)
            elif group in self._pods_of:
                self._pods_of[group].discard(change.key)
                if not self._pods_of[group]:
                    del self._pods_of[group]
                    self.work_queue.add(group)

    async def _reconcile(self, key: str) -> None:
        namespace, name = key.split("/")
        found = (self._pods.get(pod) for pod in sorted(self._pods_of.get(key, ())))
        pods = [known.object for known in found if known is not None and group_name(known.object) == name]
        group = self._groups.get(key)
        if not pods:
            if group is not None and is_left_behind(group.object) and not self._is_named(namespace, name):
                await self._remove(namespace, name, group.uid)
            return
        ours = [pod for pod in pods if is_ours(pod, self._schedulers)]
        if ours and group is None:
            await self._make(namespace, ours[0])
        await gather_limited(self._join(namespace, pod, name) for pod in ours if lacks_group(pod, self._schedulers))

    def _is_named(self, namespace: str, group: str) -> bool:
        """Whether any pod is in a podgroup, of whatever scheduler: a rare query, before a deletion."""
        pods = (known.object for key, known in self._pods.items() if key.startswith(f"{namespace}/"))
        return any(group in (_annotations(pod).get(GROUP_NAME), group_name(pod)) for pod in pods)

    async def _make(self, namespace: str, pod: Document) -> None:
        try:
            await self._api.create(POD_GROUPS.raw, group_of(pod, await self._owner(pod)), namespace)
        except ApiError as error:
            if error.already_exists:
                return
            # The owner has other pods, but users look at the one that is pending.
            subject = {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": pod["metadata"]}
            words = f"Failed to create {POD_GROUPS.kind} {group_name(pod)}: {error.message}"
            await record_once(self._api, COMPONENT, subject, "FailedCreate", words, stamp(self._clock()), "Warning")
            raise

    async def _owner(self, pod: Document) -> Document | None:
        """The owner of a pod, if it can be read."""
        owner = owner_of(pod)
        if owner is None:
            return None
        kind = str(owner["kind"])
        resource: Resource[Document] = Resource(str(owner["apiVersion"]), f"{kind.lower()}s", kind, dict)
        try:
            return await self._api.get(resource, owner["name"], pod["metadata"]["namespace"])
        except ApiError as error:
            if error.code not in UNSEEN:
                raise
            return None

    async def _join(self, namespace: str, pod: Document, group: str) -> None:
        about = pod["metadata"]
        patch = {"metadata": {"uid": about["uid"], "annotations": {GROUP_NAME: group}}}
        try:
            await self._api.patch(PODS.raw, about["name"], patch, namespace)
        except ApiError as error:
            if not (error.not_found or error.code == OTHER_POD):
                raise

    async def _remove(self, namespace: str, name: str, uid: str) -> None:
        try:
            await self._api.delete(POD_GROUPS.raw, name, namespace, uid=uid)
        except ApiError as error:
            if not error.not_found:
                raise


def _annotations(found: Document) -> dict[str, str]:
    return found["metadata"].get("annotations") or {}


def _wanted(owner: Document | None) -> int:
    """How many pods an owner wants at a time, if it says so."""
    spec = (owner or {}).get("spec") or {}
    wanted = spec.get("replicas", spec.get("parallelism"))
    return max(wanted, 1) if isinstance(wanted, int) else MOST


def _count(text: str) -> int:
    """The minimum of a podgroup; 1 without a valid value."""
    return int(text) if text.isdecimal() and 0 < len(text) < 10 and int(text) > 0 else 1
