"""Record an Event when admission routed a job to another queue than it named (docs/fairness.md, section 11).

Admission annotates the object with the queue and the reason. The Event is recorded once. An annotation older than the
lifetime of Events is ignored: its Event was recorded, or is no longer of interest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from kubebase.timestamps import stamp
from kubebase.work_queue import WorkQueue
from pumice.admission import ROUTED
from pumice.admission.request import annotations_of
from pumice.controllers import COMPONENT
from pumice.controllers.manager import SharedInformers
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.rate_limit import TokenBucket
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import JOBS, POD_GROUPS, Document
from pumice.kube.watch.change_queue import Change

NEWS_SECONDS = 3600.0
"""As long as a server keeps events."""

RATE, BURST = 50.0, 200
"""Events per second, and burst: many jobs may arrive together."""


def is_news(found: Document, now: float) -> bool:
    """Whether an object was routed to a queue recently."""
    made = found["metadata"].get("creationTimestamp")
    age = now - datetime.fromisoformat(made).timestamp() if made else 0.0
    return bool(annotations_of(found).get(ROUTED)) and age < NEWS_SECONDS


class RoutingEvents:
    """Records Events about routed jobs."""

    def __init__(self, api: Api, informers: SharedInformers, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._bucket = TokenBucket(RATE, BURST)
        self._caches = {resource.name: informers.all(resource) for resource in (POD_GROUPS, JOBS)}
        self.work_queue = WorkQueue(self._reconcile, workers=1, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue a new or rerouted job or podgroup."""
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
