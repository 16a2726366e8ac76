"""The queue controller: which queues a change concerns, and who looks at them.

Keys are the names of queues, each reconciled by itself (``reconcile``, ``finalize``), and two for all queues:
``MOVED``, from which it follows who has to be looked at, and ``STATES``, because a state depends on others above and
below, and commands must not overtake each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from pumice.admission import Object
from pumice.admission.request import annotations_of, spec_of
from pumice.controllers.commands import in_order, is_for
from pumice.controllers.manager import Seen
from pumice.controllers.queues.commands import obeyed, why_not
from pumice.controllers.queues.deletion_plan import remnant
from pumice.controllers.queues.expansion import EXPANDED_BY
from pumice.controllers.queues.finalize import clear
from pumice.controllers.queues.queue_cache import Picture, said
from pumice.controllers.queues.queue_writer import Pen
from pumice.controllers.queues.reconcile import tend
from pumice.controllers.queues.state_sync import (
    conditions_of,
    is_readable,
    own_state,
    state_of,
    statuses,
    with_own_state,
)
from pumice.controllers.work_queue import Keys
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import RefusedError, UnreachableError
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, PODS, QUEUES, Document
from pumice.kube.watch.change_queue import Change
from pumice.model.hierarchy import HIERARCHY
from pumice.model.objects import ROOT, QueueState

STATES: Final = "/states"
"""The key of all states; no queue has a name like that."""

MOVED: Final = "/moved"
"""The key of all queues that have changed since it was last looked at."""

CLOSED: Final = frozenset({QueueState.CLOSING, QueueState.CLOSED})


class Queues:
    """Makes true what is said about queues."""

    def __init__(self, api: Api, seen: Seen, clock: Callable[[], float] = time.time) -> None:
        self._picture = Picture()
        self._pen = Pen(api, self._picture, clock)
        self._commands: dict[str, Document] = {}
        self._moved: set[str] = set()
        self._contents = [seen.all(resource) for resource in (JOBS, POD_GROUPS, PODS)]
        seen.all(QUEUES)
        seen.all(COMMANDS)
        self.keys = Keys(self.look)

    # ---- what concerns whom -------------------------------------------------------------------------------

    def take(self, change: Change[Document]) -> None:
        """Something has changed."""
        match change.resource:
            case QUEUES.name:
                self._take_queue(change)
            case POD_GROUPS.name | JOBS.name:
                for queue in self._picture.work.note(change.resource, change.key, change.new):
                    self._take_work(queue)
            case COMMANDS.name:
                self._take_command(change)

    def _take_queue(self, change: Change[Document]) -> None:
        old = self._picture.queues.get(change.key)
        if not self._picture.take(change):
            old = change.old  # the answer to a write of ours came first: what follows from it is looked at now
        new = self._picture.queues.get(change.key)
        if said(old) != said(new) or is_readable(old) != is_readable(new):
            self._moved |= {change.key, *_named_above(old)}
            self.keys.add(MOVED)
            self.keys.add(STATES)
        elif _stands(old) != _stands(new):
            self.keys.add(change.key)
            self.keys.add(STATES)

    def _take_work(self, queue: str) -> None:
        """The work in a queue has become more or less."""
        found = self._picture.queues.get(queue)
        if found is None:
            return
        if self._picture.world.is_leaving(queue) or EXPANDED_BY in annotations_of(found):
            self.keys.add(queue)
        if own_state(found) in CLOSED or state_of(found) in CLOSED:
            self.keys.add(STATES)

    def _take_command(self, change: Change[Document]) -> None:
        if change.new is None:
            self._commands.pop(change.uid, None)
        elif change.old is None and is_for(change.new, QUEUES):
            self._commands[change.uid] = change.new
            self.keys.add(STATES)

    # ---- looking ------------------------------------------------------------------------------------------

    async def look(self, key: str) -> None:
        """Make true what a key stands for."""
        if key == MOVED:
            self._pass_on()
        elif key == STATES:
            await self._rule()
        elif key in self._picture.queues:
            if self._picture.world.is_leaving(key):
                contents = ([known.object for known in copy.values()] for copy in self._contents)
                await clear(key, self._picture, self._pen, *contents)
            else:
                await tend(key, self._picture, self._pen)

    def _pass_on(self) -> None:
        """A change of what a queue says concerns the queue itself, the one above it and all below it.

        Many come together, when a list or a hierarchy does: the tree is worked out once for all of them.
        """
        moved, self._moved = self._moved, set()
        for name in moved:
            for concerned in (name, self._picture.parent(name), *self._picture.tree.below(name)):
                self.keys.add(concerned)

    async def _rule(self) -> None:
        """Carry out what was commanded, and let all states follow. One that cannot be written keeps no other back."""
        trouble = await self._obey()
        for queue, status in list(statuses(self._picture, self._pen.now())):
            try:
                await self._pen.change_status(queue, status)
            except RefusedError as error:
                trouble = error
        if trouble is not None:
            raise trouble

    async def _obey(self) -> Exception | None:
        """Carry commands out, up to the first that cannot be now: none may overtake another."""
        for command in in_order(self._commands.values()):
            try:
                await self._carry_out(command)
            except (RefusedError, UnreachableError) as error:
                return error
        return None

    async def _carry_out(self, command: Document) -> None:
        name = command["target"].get("name")
        queue = self._picture.queues.get(name) if name else None
        if name and why_not(command, queue):
            queue = await self._pen.find(name)  # somebody else may know of it already, or of another of that name
        if why := why_not(command, queue):
            await self._pen.tell_failure(command, why)
        elif queue is not None:
            own = obeyed(own_state(queue), command["action"])
            if own is not own_state(queue):
                await self._pen.change_status(queue, with_own_state(queue, own, self._pen.now()))
        await self._pen.delete(remnant(COMMANDS, command))
        self._commands.pop(command["metadata"]["uid"], None)  # it may still be seen for a while


def _named_above(queue: Object | None) -> list[str]:
    """The queues that a queue may have stood below."""
    if queue is None:
        return []
    path = str(annotations_of(queue).get(HIERARCHY) or "")
    return [*path.split("/"), str(spec_of(queue).get("parent") or ROOT)]


def _stands(queue: Object | None) -> Any:
    """What the state of a queue follows from, of its status."""
    return queue and ((queue.get("status") or {}).get("state"), conditions_of(queue))
