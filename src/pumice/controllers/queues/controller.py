"""The queue controller: maps changes to the queues to reconcile.

Keys are the names of queues, each reconciled on its own (``reconcile``, ``finalize``), and two for all queues:
``MOVED``, which determines the queues to reconcile after changes, and ``STATES``, because a state depends on the queues
above and below, and commands must not overtake each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from kubebase.work_queue import WorkQueue
from pumice.admission import Object
from pumice.admission.request import annotations_of, spec_of
from pumice.controllers.commands import in_order, is_for
from pumice.controllers.manager import SharedInformers
from pumice.controllers.queues.commands import obeyed, why_not
from pumice.controllers.queues.deletion_plan import deletion_target
from pumice.controllers.queues.expansion import EXPANDED_BY
from pumice.controllers.queues.finalize import finalize_queue
from pumice.controllers.queues.queue_cache import QueueCache, said
from pumice.controllers.queues.queue_writer import QueueWriter
from pumice.controllers.queues.reconcile import reconcile_queue
from pumice.controllers.queues.state_sync import (
    conditions_of,
    is_readable,
    own_state,
    state_of,
    statuses,
    with_own_state,
)
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, PODS, QUEUES, Document
from pumice.kube.watch.change_queue import Change
from pumice.model.queue_tree import HIERARCHY
from pumice.model.specs import ROOT, QueueState

STATES: Final = "/states-of-all-queues"
"""The key for all states; not a valid queue name."""

MOVED: Final = "/moved-queues"
"""The key for all queues that have changed since it was last reconciled."""

CLOSED: Final = frozenset({QueueState.CLOSING, QueueState.CLOSED})


class QueueController:
    """Reconciles queues."""

    def __init__(self, api: Api, informers: SharedInformers, clock: Callable[[], float] = time.time) -> None:
        self._cache = QueueCache()
        self._writer = QueueWriter(api, self._cache, clock)
        self._commands: dict[str, Document] = {}
        self._moved: set[str] = set()
        self._contents = [informers.all(resource) for resource in (JOBS, POD_GROUPS, PODS)]
        informers.all(QUEUES)
        informers.all(COMMANDS)
        self.work_queue = WorkQueue(self.reconcile, retries=RETRY_POLICY)

    # ---- watch events -------------------------------------------------------------------------------------

    def on_change(self, change: Change[Document]) -> None:
        """Queue the keys that a changed object concerns."""
        match change.resource:
            case QUEUES.name:
                self._take_queue(change)
            case POD_GROUPS.name | JOBS.name:
                for queue in self._cache.work.note(change.resource, change.key, change.new):
                    self._take_work(queue)
            case COMMANDS.name:
                self._take_command(change)

    def _take_queue(self, change: Change[Document]) -> None:
        old = self._cache.queues.get(change.key)
        if not self._cache.on_change(change):
            old = change.old  # the response to our own write came first: its consequences are handled now
        new = self._cache.queues.get(change.key)
        if said(old) != said(new) or is_readable(old) != is_readable(new):
            self._moved |= {change.key, *_named_above(old)}
            self.work_queue.add(MOVED)
            self.work_queue.add(STATES)
        elif _stands(old) != _stands(new):
            self.work_queue.add(change.key)
            self.work_queue.add(STATES)

    def _take_work(self, queue: str) -> None:
        """Update the workload counts of a queue."""
        found = self._cache.queues.get(queue)
        if found is None:
            return
        if self._cache.view.is_leaving(queue) or EXPANDED_BY in annotations_of(found):
            self.work_queue.add(queue)
        if own_state(found) in CLOSED or state_of(found) in CLOSED:
            self.work_queue.add(STATES)

    def _take_command(self, change: Change[Document]) -> None:
        if change.new is None:
            self._commands.pop(change.uid, None)
        elif change.old is None and is_for(change.new, QUEUES):
            self._commands[change.uid] = change.new
            self.work_queue.add(STATES)

    # ---- reconciling --------------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> None:
        """Reconcile a key."""
        if key == MOVED:
            self._pass_on()
        elif key == STATES:
            await self._rule()
        elif key in self._cache.queues:
            if self._cache.view.is_leaving(key):
                contents = ([known.object for known in copy.values()] for copy in self._contents)
                await finalize_queue(key, self._cache, self._writer, *contents)
            else:
                await reconcile_queue(key, self._cache, self._writer)

    def _pass_on(self) -> None:
        """Queue a changed queue itself, its parent and all its descendants.

        Changes come in bursts, with a list or a hierarchy: the tree is computed once for all of them.
        """
        moved, self._moved = self._moved, set()
        for name in moved:
            for concerned in (name, self._cache.parent(name), *self._cache.tree.below(name)):
                self.work_queue.add(concerned)

    async def _rule(self) -> None:
        """Execute commands, and update all states. A failed write does not block other queues."""
        trouble = await self._obey()
        for queue, status in list(statuses(self._cache, self._writer.now())):
            try:
                await self._writer.change_status(queue, status)
            except ApiError as error:
                trouble = error
        if trouble is not None:
            raise trouble

    async def _obey(self) -> Exception | None:
        """Execute commands, up to the first that cannot be executed now: none may overtake another."""
        for command in in_order(self._commands.values()):
            try:
                await self._carry_out(command)
            except (ApiError, UnreachableError) as error:
                return error
        return None

    async def _carry_out(self, command: Document) -> None:
        name = command["target"].get("name")
        queue = self._cache.queues.get(name) if name else None
        if name and why_not(command, queue):
            queue = await self._writer.find(name)  # the API may know a newer queue, or another of that name
        if why := why_not(command, queue):
            await self._writer.tell_failure(command, why)
        elif queue is not None:
            own = obeyed(own_state(queue), command["action"])
            if own is not own_state(queue):
                await self._writer.change_status(queue, with_own_state(queue, own, self._writer.now()))
        await self._writer.delete(deletion_target(COMMANDS, command))
        self._commands.pop(command["metadata"]["uid"], None)  # the informer may still show it for a while


def _named_above(queue: Object | None) -> list[str]:
    """The queues that a queue may have been a child of."""
    if queue is None:
        return []
    path = str(annotations_of(queue).get(HIERARCHY) or "")
    return [*path.split("/"), str(spec_of(queue).get("parent") or ROOT)]


def _stands(queue: Object | None) -> Any:
    """The fields of a queue's status that its state depends on."""
    return queue and ((queue.get("status") or {}).get("state"), conditions_of(queue))
