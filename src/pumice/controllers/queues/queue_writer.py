"""Write queues, never unconditionally.

A patch carries the uid of its queue, and the resourceVersion where it replaces a list: the API rejects a write based on
stale data, and the queue is reconciled again. A write to a deleted queue is ignored. The cache applies the response of
every write at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubebase.timestamps import stamp
from pumice.admission import QUEUE_FINALIZER, Object
from pumice.admission.request import metadata_of, spec_of
from pumice.controllers import COMPONENT
from pumice.controllers.commands import record_failure
from pumice.controllers.queues.deletion_plan import DeletionTarget
from pumice.controllers.queues.queue_cache import QueueCache
from pumice.controllers.queues.workload_counts import queue_of
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import JOBS, POD_GROUPS, QUEUES, Document, Resource

ANOTHER: Final = 422
"""Status code of a rejected patch whose uid is not the object's."""


class QueueWriter:
    """Writes queues, and updates the cache with the responses."""

    def __init__(self, api: Api, cache: QueueCache, clock: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock

    async def create(self, queue: Document) -> None:
        """Create a queue."""
        self._cache.apply_write(await self._api.create(QUEUES.raw, queue))

    async def change(self, queue: Object, patch: Document, *, exact: bool = False) -> None:
        """Patch a queue; ``exact``: only at the known resourceVersion. An empty patch is not sent."""
        if patch:
            about = {**(patch.get("metadata") or {}), **_identity(queue, exact=exact)}
            await self._patch(queue, {**patch, "metadata": about})

    async def change_status(self, queue: Object, status: Document) -> None:
        """Patch the status of a queue."""
        patch = {"metadata": _identity(queue, exact="conditions" in status), "status": status}
        await self._patch(queue, patch, subresource="status")

    async def add_finalizer(self, queue: Object) -> None:
        """Add our finalizer, so that the deletion of a queue waits for us."""
        finalizers = metadata_of(queue).get("finalizers") or []
        if QUEUE_FINALIZER not in finalizers:
            await self.change(queue, {"metadata": {"finalizers": [*finalizers, QUEUE_FINALIZER]}}, exact=True)

    async def remove_finalizer(self, queue: Object) -> None:
        """Remove our finalizer."""
        finalizers = metadata_of(queue).get("finalizers") or []
        if QUEUE_FINALIZER in finalizers:
            rest = [name for name in finalizers if name != QUEUE_FINALIZER]
            await self.change(queue, {"metadata": {"finalizers": rest}}, exact=True)

    async def delete(self, one: DeletionTarget, revision: str = "") -> None:
        """Delete this very object; with a revision only if it is unchanged."""
        try:
            await self._api.delete(
                one.resource, one.name, one.namespace, uid=one.uid, revision=revision, propagation="Background"
            )
        except ApiError as error:
            if not error.not_found:  # a conflict: if another object has that name by now, an event will show it
                raise

    async def warn(self, queue: Object, reason: str, message: str) -> None:
        """Record a warning Event about a queue."""
        await record_once(self._api, COMPONENT, queue, reason, message, self.now(), "Warning")

    async def tell_failure(self, command: Document, why: str) -> None:
        """Record an Event about a command that is not executed."""
        await record_failure(self._api, command, why, self.now())

    def now(self) -> str:
        """The current time, as objects store it."""
        return stamp(self._clock())

    # ---- uncached reads -----------------------------------------------------------------------------------

    async def find(self, name: str) -> Object | None:
        """Read a queue from the API, which may know more than the cache."""
        try:
            self._cache.apply_write(await self._api.get(QUEUES.raw, name))
        except ApiError as error:
            if not error.not_found:
                raise
        return self._cache.queues.get(name)

    async def is_empty(self, name: str) -> bool:
        """Whether a queue and its descendants are empty, by the API: the cache may miss the latest objects.

        Called for a queue that accepts no work any more, so nothing is added after the answer either. If there is an
        object after all, an event will show it, and the queue is reconciled again when the object is deleted.
        """
        for resource in (POD_GROUPS, JOBS):
            if any(queue_of(found) == name for found in await self._all(resource)):
                return False
        return not any(spec_of(found).get("parent") == name for found in await self._all(QUEUES))

    async def _all(self, resource: Resource[Any]) -> list[Document]:
        return (await self._api.list(resource.raw)).items

    async def _patch(self, queue: Object, patch: Document, *, subresource: str = "") -> None:
        name = queue["metadata"]["name"]
        try:
            self._cache.apply_write(await self._api.patch(QUEUES.raw, name, patch, subresource=subresource))
        except ApiError as error:
            if not (error.not_found or _is_another(error)):
                raise


def _identity(queue: Object, *, exact: bool) -> Document:
    about = queue["metadata"]
    return {"uid": about["uid"], **({"resourceVersion": about["resourceVersion"]} if exact else {})}


def _is_another(error: ApiError) -> bool:
    """Whether a patch was for a deleted object whose name another object has now."""
    causes = error.details.get("causes") or []
    return error.code == ANOTHER and any(cause.get("field") == "metadata.uid" for cause in causes)
