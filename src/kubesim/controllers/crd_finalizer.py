"""Deletion of the custom resources of a deleted CustomResourceDefinition.

A finalizer keeps the definition until none of its objects is left. They are deleted like any other object: objects
with finalizers of their own delay the definition, and its condition ``Terminating`` reports that.
"""

from __future__ import annotations

import asyncio

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.clock import Clock, stamp
from kubesim.controllers.conditions import set_condition
from kubesim.controllers.gc.garbage_collector import remove_finalizer
from kubesim.controllers.retry_policy import RETRY_POLICY
from kubesim.registry.registry import Object

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
RETRY_SECONDS = 0.2
AT_ONCE = 200


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the controller until cancelled."""

    async def reconcile(name: str) -> float | None:
        return await finalize_definition(api, clock, name)

    work_queue = WorkQueue(reconcile, workers=4, retries=RETRY_POLICY)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work_queue.run())
        async for batch in api.follow(DEFINITIONS):
            for change in batch:
                if "deletionTimestamp" in change.object["metadata"] and not change.deleted:
                    work_queue.add(change.object["metadata"]["name"])


async def finalize_definition(api: InProcessClient, clock: Clock, name: str) -> float | None:
    """Delete the objects of a definition that is being deleted; when none is left, remove its finalizer."""
    definition = api.read(DEFINITIONS, "", name)
    about = definition["metadata"] if definition else {}
    if "deletionTimestamp" not in about or FINALIZER not in about.get("finalizers", ()):
        return None
    uid = about["uid"]
    left = await _delete_all(api, name) if api.registry.stored(name) else 0
    if not left:
        await api.modify(DEFINITIONS, "", name, lambda found: remove_finalizer(found, FINALIZER), uid=uid)
        return None
    now = stamp(clock.now())
    text = "CustomResource deletion is in progress"
    entry = {"type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress", "message": text}

    def edit(found: Object) -> None:
        set_condition(found.setdefault("status", {}), entry, now)

    await api.modify(DEFINITIONS, "", name, edit, subresource="status", uid=uid)
    return RETRY_SECONDS


async def _delete_all(api: InProcessClient, resource: str) -> int:
    """Delete the objects that are not being deleted yet. Returns how many are left."""
    places = [
        (found["metadata"].get("namespace", ""), found["metadata"]["name"])
        for found in api.list(resource)
        if "deletionTimestamp" not in found["metadata"]
    ]
    for start in range(0, len(places), AT_ONCE):
        batch = places[start : start + AT_ONCE]
        await asyncio.gather(*(api.delete(resource, *where, propagation="Background") for where in batch))
    known = api.registry.stored(resource)
    return api.store.count(known.prefix()) if known else 0
