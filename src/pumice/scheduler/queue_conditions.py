"""Writes the scheduler's conditions of queues, beside those of the controllers.

A queue's conditions are one list, which a patch replaces as a whole. So the list is read, changed and written at the
resourceVersion that was read, and again after a conflict. At most one write per queue is in flight. A condition keeps
its transition time while it does not change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from kubebase.timestamps import stamp
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError, retry_after_seconds
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.resources import QUEUES, Document
from pumice.scheduler.status_writer import WRONG

log = logging.getLogger(__name__)

Condition = dict[str, Any]


class QueueConditions:
    """Writes conditions, retrying until all are written."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: dict[str, dict[str, Condition]] = {}  # by queue and type
        self._writing: dict[str, asyncio.Task[None]] = {}

    def say(self, queue: str, kind: str, reason: str, message: str) -> None:
        """Write a condition: True if its reason equals its type, False when it has ended."""
        status = "True" if reason == kind else "False"
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        self._waiting.setdefault(queue, {})[kind] = condition
        if queue not in self._writing:
            self._writing[queue] = asyncio.create_task(self._write(queue))

    async def retire(self, over: Mapping[str, tuple[str, str]], holds: Callable[[str, str], bool]) -> None:
        """After a start: end conditions of queues that an earlier scheduler wrote and that no longer hold.

        ``over``: by type, reason and message of the end; ``holds``: whether a queue's condition of a type still holds.
        """
        try:
            queues = (await self._api.list(QUEUES.raw)).items
        except (UnreachableError, ApiError) as error:
            log.warning('Failed to list queues for their conditions: error="%s"', error)
            return
        for queue in queues:
            name = queue["metadata"]["name"]
            for condition in _conditions(queue):
                kind = str(condition.get("type"))
                if kind in over and condition.get("status") == "True" and not holds(name, kind):
                    self.say(name, kind, *over[kind])

    async def done(self) -> None:
        """Wait until everything is written."""
        while self._writing:
            await asyncio.wait(set(self._writing.values()))

    async def _write(self, queue: str) -> None:
        backoff = Backoff()
        while news := self._waiting.pop(queue, None):
            try:
                await self._patch(queue, news)
            except (UnreachableError, ApiError) as error:
                if isinstance(error, ApiError) and (error.not_found or error.code in WRONG):
                    if not error.not_found:
                        log.warning('Failed to update the conditions of a queue: queue=%s error="%s"', queue, error)
                    continue
                self._waiting[queue] = {**news, **self._waiting.get(queue, {})}
                await asyncio.sleep(backoff.next(retry_after_seconds(error)))
        del self._writing[queue]

    async def _patch(self, queue: str, news: dict[str, Condition]) -> None:
        found = await self._api.get(QUEUES.raw, queue)
        there = _conditions(found)
        conditions = renewed(there, news, stamp(time.time()))
        if conditions != there:
            revision = {"resourceVersion": found["metadata"]["resourceVersion"]}
            patch = {"metadata": revision, "status": {"conditions": conditions}}
            await self._api.patch(QUEUES.raw, queue, patch, subresource="status")


def _conditions(queue: Document) -> list[Condition]:
    """The conditions of a queue; none if its status cannot be read, which a CRD of another version may have allowed."""
    status = queue.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def renewed(there: list[Condition], news: dict[str, Condition], now: str) -> list[Condition]:
    """A queue's conditions, updated with these. A condition that never held is not added just to say that it ended."""
    kept = [condition for condition in there if condition.get("type") not in news]
    before = {condition.get("type"): condition for condition in there}
    for kind, new in news.items():
        old = before.get(kind)
        if old is None and new["status"] == "False":
            continue
        same = old is not None and all(old.get(field) == new[field] for field in ("status", "reason", "message"))
        kept.append(old if old is not None and same else {"lastTransitionTime": now, **new})
    return kept
