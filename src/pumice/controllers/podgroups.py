"""Which group does a pod belong to that says nothing about it?

The scheduler thinks in podgroups. Pods of a Volcano Job name theirs; those of a batch Job, a ReplicaSet or nobody at
all do not. They get one here: all pods of one owner share a group, which the owner owns, so that it goes with it; a
pod without an owner has one of its own. Such a group starts one pod at a time: nobody has said how many belong
together.
"""

from __future__ import annotations

from pumice.controllers.keys import Keys
from pumice.controllers.together import Seen
from pumice.kube.api import Api
from pumice.kube.convert import SCHEDULERS
from pumice.kube.feed import Change
from pumice.kube.pods import GROUP_NAME
from pumice.kube.refusals import RefusedError
from pumice.kube.resources import POD_GROUPS, PODS, Document

QUEUE = "scheduling.volcano.sh/queue-name"
COPIED = ("volcano.sh/user", "volcano.sh/preemptable", "sla-waiting-time")
"""What a pod says about itself that the scheduler reads from its group."""

FINISHED = ("Succeeded", "Failed")
OTHER_POD = 422  # how a server refuses a patch with a uid that is not the object's


def lacks_group(pod: Document) -> bool:
    """Whether a pod is ours to place and belongs to no group, and will run."""
    about = pod["metadata"]
    return (
        pod["spec"].get("schedulerName") in SCHEDULERS
        and not (about.get("annotations") or {}).get(GROUP_NAME)
        and not about.get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in FINISHED
    )


def group_of(pod: Document) -> Document:
    """The group for a pod that has none: that of its owner, or one of its own."""
    about = pod["metadata"]
    owner = next((o for o in about.get("ownerReferences") or () if o.get("controller")), None)
    reference = {
        "apiVersion": owner["apiVersion"] if owner else "v1",
        "kind": owner["kind"] if owner else "Pod",
        "name": owner["name"] if owner else about["name"],
        "uid": owner["uid"] if owner else about["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    annotations = about.get("annotations") or {}
    spec: Document = {"minMember": 1}
    if annotations.get(QUEUE):
        spec["queue"] = annotations[QUEUE]
    if pod["spec"].get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    metadata: Document = {
        "name": f"podgroup-{reference['uid']}",
        "namespace": about["namespace"],
        "ownerReferences": [reference],
    }
    copied = {name: annotations[name] for name in COPIED if name in annotations}
    if copied:
        metadata["annotations"] = copied
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": metadata, "spec": spec}


class PodGroups:
    """Gives groups to pods."""

    def __init__(self, api: Api, seen: Seen) -> None:
        self._api = api
        self._pods = seen.all(PODS)
        self.keys = Keys(self._look)

    def take(self, change: Change[Document]) -> None:
        """A pod has come, or has changed."""
        if change.resource == PODS.name and change.new is not None and lacks_group(change.new):
            self.keys.add(change.key)

    async def _look(self, key: str) -> None:
        known = self._pods.get(key)
        if known is None or not lacks_group(known.object):
            return
        group = group_of(known.object)
        namespace, name = key.split("/")
        try:
            await self._api.create(POD_GROUPS.raw, group, namespace)
        except RefusedError as error:
            if not error.exists:
                raise
        patch = {"metadata": {"uid": known.uid, "annotations": {GROUP_NAME: group["metadata"]["name"]}}}
        try:
            await self._api.patch(PODS.raw, name, patch, namespace)
        except RefusedError as error:
            if not (error.absent or error.conflict or error.code == OTHER_POD):
                raise
