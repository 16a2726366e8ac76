"""Finalize a deleted queue: it waits until everything in it and below it is gone (see ``deletion_plan``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.admission.request import annotations_of, spec_of
from pumice.controllers.queues.deletion_plan import next_to_delete
from pumice.controllers.queues.expansion import without_entry
from pumice.controllers.queues.queue_cache import QueueCache
from pumice.controllers.queues.queue_writer import QueueWriter
from pumice.controllers.queues.state_sync import STAY
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import Document

FORGOTTEN: Final = "pumice.dev/forgotten"
"""The annotation of a queue that was removed from the hierarchies that named it."""


async def finalize_queue(
    name: str,
    cache: QueueCache,
    writer: QueueWriter,
    jobs: Iterable[Document],
    groups: Iterable[Document],
    pods: Iterable[Document],
) -> None:
    """Delete the next targets; if there are none, remove the finalizer. ``root`` and ``default`` do not cascade."""
    queue = cache.queues[name]
    if name not in STAY:
        if FORGOTTEN not in annotations_of(queue):
            await _forget(name, cache, writer)
            await writer.change(queue, {"metadata": {"annotations": {FORGOTTEN: "true"}}})
        below = [cache.queues[child] for child in cache.children(name)]
        left = next_to_delete(name, below, jobs, groups, pods)
        for one in left:
            if not one.leaving:
                try:
                    await writer.delete(one)
                except ApiError as error:
                    message = f"Waiting to delete {one.resource.kind} {one.name}: {error.message}"
                    await writer.warn(queue, "DeletionBlocked", message)
                    raise
        if left or not await writer.is_empty(name):
            return
    await writer.remove_finalizer(cache.queues.get(name, queue))


async def _forget(name: str, cache: QueueCache, writer: QueueWriter) -> None:
    """Remove a queue from the hierarchies that name it: a deleted queue must not be created again.

    A user who adds it back while it is terminating wants it recreated afterwards, so this is done only once.
    Hierarchies further up come first: they would hand down again what was removed below.
    """
    tree = cache.tree
    for owner in sorted(cache.queues, key=lambda owner: (len(tree.path(owner) or ()), owner)):
        queue = cache.queues.get(owner)
        if queue is not None and "deletionTimestamp" not in queue["metadata"]:
            hierarchy = spec_of(queue).get("hierarchy") or []
            rest = without_entry(hierarchy, name)
            if rest is not hierarchy:
                await writer.change(queue, {"spec": {"hierarchy": rest or None}}, exact=True)
