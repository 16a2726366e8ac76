"""Keeps the status of Queue objects up to date: written when it changes, and again after another writer changed it.

The statuses are computed in one pass over the share tree (``queue_status``) after a change, at most once per period,
and written only where they differ from what was written before. An informer shows the present status: if a field had
the value we wrote and then has another one, another writer has overwritten it, and we write it again in the next
period.

The status of ``root`` also contains the scheduler's configuration, so that a client that can read queues can apply the
same rules (``pumice why`` does). Admission reads the default queue there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pumice.kube.decode import api_types
from pumice.kube.resources import QUEUES
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import ROOT
from pumice.scheduler.queue_status import Status, statuses

if TYPE_CHECKING:
    from pumice.engine.config.scheduler_config import SchedulerConfig
    from pumice.engine.engine import Engine
    from pumice.scheduler.binder import Binder

EVERY = 1.0
"""Seconds between two updates."""


class QueueStatusUpdater:
    """Computes and writes the status of queues."""

    def __init__(self, binder: Binder, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._binder = binder
        self._written: dict[str, Status] = {}
        self._seen: dict[str, Status] = {}  # the objects' status as informers show it
        self._scheduler: Status | None = None
        self._next = 0.0
        self._moved = True

    def announce(self, config: SchedulerConfig, names: Collection[str]) -> None:
        """Publish the configuration in force, and the names of our schedulers, in the status of ``root``."""
        self._scheduler = {
            "source": config.source,
            "configuration": config.text,
            "names": sorted(names),
            "defaultQueue": config.default_queue,
        }
        self._moved = True

    def refresh(self, engine: Engine, changes: Iterable[Change[Any]], *, moved: bool) -> None:
        """Update the queues, if something changed and the last update is at least a period ago."""
        for change in changes:
            if change.resource == QUEUES.name:
                self._note(change)
        self._moved = self._moved or moved
        if not self._moved or self._clock() < self._next:
            return
        self._moved, self._next = False, self._clock() + EVERY
        found = statuses(engine)
        if ROOT in found and self._scheduler is not None:
            found[ROOT]["scheduler"] = self._scheduler
        for name in self._written.keys() - found.keys():
            del self._written[name]
        for name, status in found.items():
            if self._written.get(name) != status:
                self._written[name] = status
                self._binder.write_queue_status(name, _patch(status, self._seen.get(name, {})))

    def _note(self, change: Change[api_types.Queue]) -> None:
        """Record an object's status; forget what was written if the object is new or another writer changed it."""
        if change.old is None or change.new is None:
            self._written.pop(change.key, None)  # a new queue of that name has no status yet
        if change.new is None:
            self._seen.pop(change.key, None)
            return
        before, after = self._seen.get(change.key, {}), _said(change.new)
        self._seen[change.key] = after
        written = self._written.get(change.key, {})
        if any(before.get(field) == value != after.get(field) for field, value in written.items()):
            self._written.pop(change.key, None)


def _said(queue: api_types.Queue) -> Status:
    """The fields of a Queue's status that are kept here."""
    status = queue.status
    found = {field: getattr(status, name) for name, field in _NAMES.items()}
    return {field: value for field, value in found.items() if value is not None}


_NAMES = {
    name: field
    for name, field in zip(
        api_types.QueueStatus.__struct_fields__, api_types.QueueStatus.__struct_encode_fields__, strict=True
    )
    if name != "state"
}
"""Our names of the fields of a queue's status, and those on the wire."""


def _patch(status: Status, seen: Mapping[str, Any]) -> Status:
    """The merge patch that leaves exactly this status; it also removes resources that only the object names."""
    patch = dict(status)
    for field, value in status.items():
        there = seen.get(field)
        if isinstance(value, dict) and isinstance(there, Mapping):
            patch[field] = {**dict.fromkeys(there.keys() - value.keys()), **value}
    return patch
