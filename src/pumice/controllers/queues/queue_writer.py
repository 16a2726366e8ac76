"""How queues are written: never unconditionally.

A patch names the uid of the queue it is for, and its revision where it replaces a list: what was decided from something
old is refused, and looked at again. A queue that is gone is nobody's trouble. What a write makes of a queue is known as
soon as it is answered.
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
"""How a server refuses a patch with a uid that is not the object's."""


class QueueWriter:
    """Writes queues, and keeps the cache true to what was written."""

    def __init__(self, api: Api, cache: QueueCache, clock: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock

    async def create(self, queue: Document) -> None:
        """Make a queue."""
        self._cache.apply_write(await self._api.create(QUEUES.raw, queue))

    async def change(self, queue: Object, patch: Document, *, exact: bool = False) -> None:
        """Change a queue; ``exact``: only at the revision that is known. Nothing to change is nothing to write."""
        if patch:
            about = {**(patch.get("metadata") or {}), **_identity(queue, exact=exact)}
            await self._patch(queue, {**patch, "metadata": about})

    async def change_status(self, queue: Object, status: Document) -> None:
        """Change parts of the status of a queue."""
        patch = {"metadata": _identity(queue, exact="conditions" in status), "status": status}
        await self._patch(queue, patch, subresource="status")

    async def add_finalizer(self, queue: Object) -> None:
        """Let a queue wait for us when it is deleted."""
        finalizers = metadata_of(queue).get("finalizers") or []
        if QUEUE_FINALIZER not in finalizers:
            await self.change(queue, {"metadata": {"finalizers": [*finalizers, QUEUE_FINALIZER]}}, exact=True)

    async def remove_finalizer(self, queue: Object) -> None:
        """Let a queue wait for us no longer."""
        finalizers = metadata_of(queue).get("finalizers") or []
        if QUEUE_FINALIZER in finalizers:
            rest = [name for name in finalizers if name != QUEUE_FINALIZER]
            await self.change(queue, {"metadata": {"finalizers": rest}}, exact=True)

    async def delete(self, one: DeletionTarget, revision: str = "") -> None:
        """Delete this very object, whatever it is; with a revision only if nobody has changed it since."""
        try:
            await self._api.delete(
                one.resource, one.name, one.namespace, uid=one.uid, revision=revision, propagation="Background"
            )
        except ApiError as error:
            if not error.not_found:  # a conflict: if it is another of that name by now, that will be seen
                raise

    async def warn(self, queue: Object, reason: str, message: str) -> None:
        """Tell people of something about a queue that they should see to."""
        await record_once(self._api, COMPONENT, queue, reason, message, self.now(), "Warning")

    async def tell_failure(self, command: Document, why: str) -> None:
        """Tell people that a command is not carried out."""
        await record_failure(self._api, command, why, self.now())

    def now(self) -> str:
        """The time, as objects have it."""
        return stamp(self._clock())

    # ---- looking twice ------------------------------------------------------------------------------------

    async def find(self, name: str) -> Object | None:
        """A queue that somebody else knows of already."""
        try:
            self._cache.apply_write(await self._api.get(QUEUES.raw, name))
        except ApiError as error:
            if not error.not_found:
                raise
        return self._cache.queues.get(name)

    async def is_empty(self, name: str) -> bool:
        """Whether nothing is in a queue or below it. Asked anew: what came last may not have been seen yet.

        Asked of a queue that takes nothing any more, so nothing comes after the answer either. If there is something
        after all it will be seen, and the queue looked at again when it goes.
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
    """Whether a patch was for an object that is gone; another has its name."""
    causes = error.details.get("causes") or []
    return error.code == ANOTHER and any(cause.get("field") == "metadata.uid" for cause in causes)
