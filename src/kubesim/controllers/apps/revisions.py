"""The templates that a StatefulSet or DaemonSet has had, as ControllerRevisions.

Pods carry the hash of their revision, which is how a rollout tells new pods from old ones, and ``kubectl rollout
undo`` applies the data of an earlier revision as a patch.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.controllers.apps.rollout import template_hash
from kubesim.controllers.controller_refs import controller_of, new_controller_ref
from kubesim.registry.registry import Object

REVISIONS: Final = "controllerrevisions.apps"
HASH_LABEL: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """The revisions of one owner, oldest first, and the one of its present template."""

    revisions: list[Object]
    newest: Object

    def template_of(self, name: str, owner: Object) -> Object:
        """The template of a revision; that of the owner if the revision is gone."""
        found = next((one for one in self.revisions if one["metadata"]["name"] == name), None)
        return _template_in(found) if found else copy.deepcopy(owner["spec"]["template"])


def revision_data(owner: Object) -> Object:
    """The data of the revision of an owner's present template: a patch that brings the template back."""
    return {"spec": {"template": {**copy.deepcopy(owner["spec"]["template"]), "$patch": "replace"}}}


def _template_in(revision: Object) -> Object:
    template: Object = copy.deepcopy(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


async def sync_history(api: InProcessClient, owner: Object) -> RevisionHistory:
    """The revisions of an owner, after recording its present template; an earlier template becomes the newest again."""
    namespace, data = owner["metadata"]["namespace"], revision_data(owner)
    revisions = _owned(api, owner)
    last = revisions[-1]["revision"] if revisions else 0
    same = next((one for one in revisions if one["data"] == data), None)
    if same is None:
        same = await _create(api, owner, data, last + 1)
    elif same["revision"] != last:
        number = last + 1

        def edit(found: Object) -> None:
            found["revision"] = number

        same = await api.modify(REVISIONS, namespace, same["metadata"]["name"], edit) or same
    name = same["metadata"]["name"]
    return RevisionHistory([*(one for one in revisions if one["metadata"]["name"] != name), same], same)


async def delete_beyond_limit(
    api: InProcessClient, owner: Object, history: RevisionHistory, live: Collection[str]
) -> None:
    """Delete the oldest revisions that no pod has, beyond the limit of the owner. ``live``: names of those in use."""
    names = [one["metadata"]["name"] for one in history.revisions]
    unused = [name for name in names if name not in live and name != history.newest["metadata"]["name"]]
    for name in unused[: max(0, len(unused) - owner["spec"]["revisionHistoryLimit"])]:
        await api.delete(REVISIONS, owner["metadata"]["namespace"], name)


def _owned(api: InProcessClient, owner: Object) -> list[Object]:
    uid = owner["metadata"]["uid"]
    found = (one for one in api.list(REVISIONS, owner["metadata"]["namespace"]))
    return sorted(
        (one for one in found if (controller_of(one) or {}).get("uid") == uid), key=lambda one: int(one["revision"])
    )


async def _create(api: InProcessClient, owner: Object, data: Object, number: int) -> Object:
    about = owner["metadata"]
    short = template_hash(owner)
    labels = {**((owner["spec"]["template"].get("metadata") or {}).get("labels") or {}), HASH_LABEL: short}
    wanted = {
        "metadata": {
            "name": f"{about['name']}-{short}",
            "labels": labels,
            "ownerReferences": [new_controller_ref(owner)],
        },
        "data": data,
        "revision": number,
    }
    try:
        return await api.create(REVISIONS, about["namespace"], wanted)
    except ApiError as error:
        if error.reason == "AlreadyExists":
            await _count_collision(api, owner)
        raise  # the work queue tries again, with another hash


async def _count_collision(api: InProcessClient, owner: Object) -> None:
    """Count another object that has the name of a revision: the next hash is another one."""
    about, resource = owner["metadata"], api.registry.of_kind(owner["apiVersion"], owner["kind"])
    assert resource is not None  # its object is being reconciled

    def edit(found: Object) -> None:
        found["status"]["collisionCount"] = found["status"].get("collisionCount", 0) + 1

    await api.modify(resource.qualified, about["namespace"], about["name"], edit, subresource="status")
