"""Which jobs belong to an object: an index over the informer of Jobs, for controllers of objects that make Jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import JOBS, Document, Resource
from pumice.kube.watch.change_queue import Change
from pumice.kube.watch.informer import CachedObject


class OwnedJobs:
    """The jobs of each owner. ``owner_of`` tells the key of a job's owner, or nothing."""

    def __init__(self, jobs: Mapping[str, CachedObject[Document]], owner_of: Callable[[Document], str]) -> None:
        self._jobs = jobs
        self._owner_of = owner_of
        self._keys: dict[str, set[str]] = {}
        self._complete = False

    def note(self, change: Change[Document]) -> str:
        """Take a change of any resource; returns the key of the owner that it concerns, or nothing."""
        if change.resource != JOBS.name:
            return ""
        either = change.new or change.old
        assert either is not None  # something has changed
        owner = self._owner_of(either)
        if owner and change.key in self._jobs:
            self._keys.setdefault(owner, set()).add(change.key)
        elif owner in self._keys:
            self._keys[owner].discard(change.key)
            if not self._keys[owner]:
                del self._keys[owner]
        return owner

    def of(self, owner: str) -> list[Document]:
        """The jobs of an owner, by name. The first call looks at all jobs: their events may still be pending."""
        if not self._complete:
            self._complete = True
            for key, known in self._jobs.items():
                if found := self._owner_of(known.object):
                    self._keys.setdefault(found, set()).add(key)
        known_jobs = (self._jobs.get(key) for key in sorted(self._keys.get(owner, ())))
        return [known.object for known in known_jobs if known is not None]


async def delete_job(api: Api, job: Document) -> bool:
    """Delete a job and, in the background, its pods; False if it is gone already."""
    about = job["metadata"]
    try:
        await api.delete(JOBS, about["name"], about["namespace"], uid=about["uid"], propagation="Background")
    except ApiError as error:
        if not error.not_found:
            raise
        return False
    return True


def controller_key(job: Document, resource: Resource[Document]) -> str:
    """The key of the object of a resource that controls a job; empty if there is none."""
    for owner in job["metadata"].get("ownerReferences") or ():
        same = (owner.get("apiVersion"), owner.get("kind")) == (resource.api_version, resource.kind)
        if same and owner.get("controller"):
            return f"{job['metadata']['namespace']}/{owner['name']}"
    return ""


def controller_reference(about: Document, resource: Resource[Document]) -> Document:
    """The owner reference to an object that controls a job; ``about`` is its metadata."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": about["name"],
        "uid": about["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
