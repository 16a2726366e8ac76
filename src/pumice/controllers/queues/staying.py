"""A queue that stays: it is held for us, its user limits are where they belong, those below it are as it says.

Also one that its hierarchy names no more: it is deleted when it is closed and nothing is in it or below it.
"""

from __future__ import annotations

from kubebase.field_error import FieldError
from pumice.admission import PROTECTED, Object, with_user_limits_settled
from pumice.admission.request import annotations_of
from pumice.controllers.queues.clearing import remnant
from pumice.controllers.queues.expansion import contradiction, entries, expanded, released
from pumice.controllers.queues.patching import difference
from pumice.controllers.queues.picture import Picture
from pumice.controllers.queues.states import STAY, state_of
from pumice.controllers.queues.writing import Pen
from pumice.kube.refusals import RefusedError
from pumice.kube.resources import QUEUES
from pumice.model.objects import QueueState


async def tend(name: str, picture: Picture, pen: Pen) -> None:
    """Make true what a queue says."""
    if name in picture.withdrawn and _is_deserted(name, picture):
        if await pen.is_empty(name):
            await _end(name, picture, pen)
        return
    await pen.hold(picture.queues[name])
    if name in picture.queues and picture.tree.path(name) is not None:
        queue = picture.queues[name]
        if _is_named(name, picture):
            settled = with_user_limits_settled(queue, leaf=picture.is_leaf(name))
        else:
            settled = released(queue, childless=picture.tree.is_leaf(name))
        await pen.change(queue, difference(queue, settled))
        if name not in picture.withdrawn:
            await _expand(name, picture, pen)


def _is_named(name: str, picture: Picture) -> bool:
    """Whether a hierarchy names a queue, as far as is known: then what it gave the queue stays there."""
    above = picture.queues.get(picture.parent(name))
    return above is None or name in picture.withdrawn or any(entry["name"] == name for entry in entries(above))


def _is_deserted(name: str, picture: Picture) -> bool:
    """Whether a queue is closed for all, and nothing is in it that anybody has seen."""
    queue = picture.queues[name]
    return (
        state_of(queue) is QueueState.CLOSED
        and not picture.work.present[name]
        and not picture.children(name)
        and annotations_of(queue).get(PROTECTED) != "true"
        and name not in STAY
    )


async def _end(name: str, picture: Picture, pen: Pen) -> None:
    """Delete an empty queue at once: it must not be taken for one that somebody has deleted (see ``leaving``)."""
    if (queue := picture.queues.get(name)) is not None:  # somebody may have deleted it while we asked
        await pen.let_go(queue)
    if (queue := picture.queues.get(name)) is not None:
        await pen.delete(remnant(QUEUES, queue), revision=queue["metadata"]["resourceVersion"])


async def _expand(name: str, picture: Picture, pen: Pen) -> None:
    """Make and change the queues that a hierarchy names, as often as it takes.

    They are judged one by one. If one gives what another takes, only one of the two orders is let in.
    """
    waiting = entries(picture.queues.get(name, {}))
    while waiting:
        parents = {picture.parent(child) for child in picture.queues}
        refused: list[tuple[Object, str]] = []
        for entry in waiting:
            queue = picture.queues.get(name)
            if queue is None or picture.world.is_leaving(name):
                return
            childless = entry["name"] not in parents
            if why := await _write(queue, entry, picture, pen, childless=childless):
                refused.append((entry, why))
        queue = picture.queues.get(name)
        if queue is None:
            return
        if len(refused) == len(waiting):
            for entry, why in refused:
                message = f"the entry '{entry['name']}' of its hierarchy waits: {why}"
                await pen.complain(queue, "HierarchyWaits", message)
            raise RefusedError(403, "Forbidden", f"the hierarchy of queue '{name}' waits: {refused[0][1]}")
        waiting = [entry for entry, _ in refused]


async def _write(queue: Object, entry: Object, picture: Picture, pen: Pen, *, childless: bool) -> str:
    """Make or change the queue of an entry; why that cannot be, if so."""
    there = picture.queues.get(entry["name"])
    if there is not None and "deletionTimestamp" in there["metadata"]:
        return ""  # when it is gone it is made anew
    if there is not None and (wrong := contradiction(queue, there)):
        return wrong
    try:
        child = expanded(queue, entry, there, childless=childless)
        if there is None:
            await pen.create(child)
        else:
            await pen.change(there, difference(there, child))
    except FieldError as error:
        return f"{error.field}: {error.message}"
    except RefusedError as error:
        if error.conflict:
            raise
        return "" if error.exists else error.message
    return ""
