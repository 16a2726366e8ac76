"""A queue that somebody has deleted: it waits until everything in it and below it is gone (see ``deletion_plan``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.admission.request import annotations_of, spec_of
from pumice.controllers.queues.deletion_plan import remains
from pumice.controllers.queues.expansion import without
from pumice.controllers.queues.queue_cache import Picture
from pumice.controllers.queues.queue_writer import Pen
from pumice.controllers.queues.state_sync import STAY
from pumice.kube.client.api_errors import RefusedError
from pumice.kube.resources import Document

FORGOTTEN: Final = "pumice.dev/forgotten"
"""The annotation of a queue that was taken out of the hierarchies that named it."""


async def clear(
    name: str,
    picture: Picture,
    pen: Pen,
    jobs: Iterable[Document],
    groups: Iterable[Document],
    pods: Iterable[Document],
) -> None:
    """Delete what has to go next; if nothing has, let the queue go. Nothing goes with ``root`` or ``default``."""
    queue = picture.queues[name]
    if name not in STAY:
        if FORGOTTEN not in annotations_of(queue):
            await _forget(name, picture, pen)
            await pen.change(queue, {"metadata": {"annotations": {FORGOTTEN: "true"}}})
        below = [picture.queues[child] for child in picture.children(name)]
        left = remains(name, below, jobs, groups, pods)
        for one in left:
            if not one.leaving:
                try:
                    await pen.delete(one)
                except RefusedError as error:
                    message = f"waits for {one.resource.kind} {one.name}: {error.message}"
                    await pen.complain(queue, "DeletionWaits", message)
                    raise
        if left or not await pen.is_empty(name):
            return
    await pen.let_go(picture.queues.get(name, queue))


async def _forget(name: str, picture: Picture, pen: Pen) -> None:
    """Take a queue out of the hierarchies that name it: whoever deletes it does not want it made again.

    Who puts it back while it is going wants it made when it is gone, so this is done once. Those further up come first:
    they would hand down what was taken out below.
    """
    tree = picture.tree
    for owner in sorted(picture.queues, key=lambda owner: (len(tree.path(owner) or ()), owner)):
        queue = picture.queues.get(owner)
        if queue is not None and "deletionTimestamp" not in queue["metadata"]:
            hierarchy = spec_of(queue).get("hierarchy") or []
            rest = without(hierarchy, name)
            if rest is not hierarchy:
                await pen.change(queue, {"spec": {"hierarchy": rest or None}}, exact=True)
