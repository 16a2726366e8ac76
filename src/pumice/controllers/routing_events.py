"""Where did a job go that named a parent queue, or none? An Event says so (docs/fairness.md, section 11).

Admission writes on the object itself where it sent it and why. That is said once. What is older than events live was
said, or is no news any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from kubebase.timestamps import stamp
from pumice.admission import ROUTED
from pumice.admission.request import annotations_of
from pumice.controllers import COMPONENT
from pumice.controllers.manager import SharedInformers
from pumice.controllers.work_queue import WorkQueue
from pumice.kube.client.api import Api
from pumice.kube.client.rate_limit import TokenBucket
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import JOBS, POD_GROUPS, Document
from pumice.kube.watch.change_queue import Change

NEWS_SECONDS = 3600.0
"""As long as a server keeps events."""

RATE, BURST = 50.0, 200
"""Events a second, and at once: many jobs may come together."""


def is_news(found: Document, now: float) -> bool:
    """Whether an object was sent to a queue, not long ago."""
    made = found["metadata"].get("creationTimestamp")
    age = now - datetime.fromisoformat(made).timestamp() if made else 0.0
    return bool(annotations_of(found).get(ROUTED)) and age < NEWS_SECONDS


class RoutingEvents:
    """Says where jobs went."""

    def __init__(self, api: Api, informers: SharedInformers, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._bucket = TokenBucket(RATE, BURST)
        self._caches = {resource.name: informers.all(resource) for resource in (POD_GROUPS, JOBS)}
        self.work_queue = WorkQueue(self._reconcile, workers=1)

    def on_change(self, change: Change[Document]) -> None:
        """A job or podgroup has come, or was sent elsewhere."""
        if change.resource in self._caches and change.new is not None:
            words = annotations_of(change.new).get(ROUTED)
            if words and (change.old is None or annotations_of(change.old).get(ROUTED) != words):
                self.work_queue.add(f"{change.resource}/{change.key}")

    async def _reconcile(self, key: str) -> None:
        resource, _, name = key.partition("/")
        known = self._caches[resource].get(name)
        now = self._clock()
        if known is not None and is_news(known.object, now):
            await self._bucket.take()
            await record_once(
                self._api, COMPONENT, known.object, "Routed", annotations_of(known.object)[ROUTED], stamp(now)
            )
