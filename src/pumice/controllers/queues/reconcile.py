"""Reconcile a live queue: ensure our finalizer, keep user limits on leaf queues, create and update child queues.

The child queues are those that ``spec.hierarchy`` lists. A queue that a hierarchy created and no longer lists is
deleted once it is closed, empty and without children.
"""

from __future__ import annotations

from kubebase.field_error import FieldError
from pumice.admission import PROTECTED, Object, with_user_limits_settled
from pumice.admission.request import annotations_of
from pumice.controllers.queues.deletion_plan import deletion_target
from pumice.controllers.queues.expansion import contradiction, entries, expanded_queue, released_queue
from pumice.controllers.queues.merge_diff import merge_patch
from pumice.controllers.queues.queue_cache import QueueCache
from pumice.controllers.queues.queue_writer import QueueWriter
from pumice.controllers.queues.state_sync import STAY, state_of
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import QUEUES
from pumice.model.specs import QueueState


async def reconcile_queue(name: str, cache: QueueCache, writer: QueueWriter) -> None:
    """Bring a queue and its children into the state that its spec describes."""
    if name in cache.withdrawn and _is_deserted(name, cache):
        if await writer.is_empty(name):
            await _end(name, cache, writer)
        return
    await writer.add_finalizer(cache.queues[name])
    if name in cache.queues and cache.tree.path(name) is not None:
        queue = cache.queues[name]
        if _is_named(name, cache):
            settled = with_user_limits_settled(queue, leaf=cache.is_leaf(name))
        else:
            settled = released_queue(queue, childless=cache.tree.is_leaf(name))
        await writer.change(queue, merge_patch(queue, settled))
        if name not in cache.withdrawn:
            await _expand(name, cache, writer)


def _is_named(name: str, cache: QueueCache) -> bool:
    """Whether a known hierarchy names a queue: then the inherited fields stay."""
    above = cache.queues.get(cache.parent(name))
    return above is None or name in cache.withdrawn or any(entry["name"] == name for entry in entries(above))


def _is_deserted(name: str, cache: QueueCache) -> bool:
    """Whether a queue is closed, and empty as far as the cache shows."""
    queue = cache.queues[name]
    return (
        state_of(queue) is QueueState.CLOSED
        and not cache.work.present[name]
        and not cache.children(name)
        and annotations_of(queue).get(PROTECTED) != "true"
        and name not in STAY
    )


async def _end(name: str, cache: QueueCache, writer: QueueWriter) -> None:
    """Delete an empty queue at once: it must not look like one that a user deleted (see ``finalize``)."""
    if (queue := cache.queues.get(name)) is not None:  # a user may have deleted it during the check
        await writer.remove_finalizer(queue)
    if (queue := cache.queues.get(name)) is not None:
        await writer.delete(deletion_target(QUEUES, queue), revision=queue["metadata"]["resourceVersion"])


async def _expand(name: str, cache: QueueCache, writer: QueueWriter) -> None:
    """Create and update the queues that a hierarchy names, in as many rounds as it takes.

    Admission checks them one by one. If one queue gives up what another gains, only one of the two orders is admitted.
    """
    waiting = entries(cache.queues.get(name, {}))
    while waiting:
        parents = {cache.parent(child) for child in cache.queues}
        refused: list[tuple[Object, str]] = []
        for entry in waiting:
            queue = cache.queues.get(name)
            if queue is None or cache.view.is_leaving(name):
                return
            childless = entry["name"] not in parents
            if why := await _write(queue, entry, cache, writer, childless=childless):
                refused.append((entry, why))
        queue = cache.queues.get(name)
        if queue is None:
            return
        if len(refused) == len(waiting):
            for entry, why in refused:
                message = f"entry '{entry['name']}' of spec.hierarchy cannot be applied: {why}"
                await writer.warn(queue, "HierarchyNotApplied", message)
            raise ApiError(403, "Forbidden", f"the hierarchy of queue '{name}' cannot be applied: {refused[0][1]}")
        waiting = [entry for entry, _ in refused]


async def _write(queue: Object, entry: Object, cache: QueueCache, writer: QueueWriter, *, childless: bool) -> str:
    """Create or update the queue of an entry; returns the reason if that is not possible."""
    there = cache.queues.get(entry["name"])
    if there is not None and "deletionTimestamp" in there["metadata"]:
        return ""  # it is recreated once it is gone
    if there is not None and (wrong := contradiction(queue, there)):
        return wrong
    try:
        child = expanded_queue(queue, entry, there, childless=childless)
        if there is None:
            await writer.create(child)
        else:
            await writer.change(there, merge_patch(there, child))
    except FieldError as error:
        return f"{error.field}: {error.message}"
    except ApiError as error:
        if error.conflict:
            raise
        return "" if error.already_exists else error.message
    return ""
