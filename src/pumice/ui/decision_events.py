"""Binds and evictions from the Events of a cluster, for a server that cannot read a decision log.

The scheduler writes an Event for each pod that it binds or evicts. An Event has no numbers, and the API server deletes
it after an hour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from pumice.kube.client.api import Api, ListOptions
from pumice.kube.decode import api_types
from pumice.kube.reduced_resource import reduced_resource
from pumice.kube.resources import EVENTS, Resource
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer
from pumice.ui.decisions import DecisionFeed, DecisionSeen
from pumice.ui.object_decode import microseconds_of
from pumice.ui.picture import ClusterPicture

BIND, EVICT = "Scheduled", "Evict"
UNBOUNDED = 1 << 30
"""Changes that may wait: Events are read before anything takes them."""
COMPONENT = "pumice"
_BOUND = re.compile(r"Successfully assigned (?P<task>\S+) to (?P<node>\S+)")
_EVICTED = re.compile(
    r"Evicted from node (?P<node>\S+) (?:to make room for job (?P<preemptor>\S+)|.*?) ?\(action (?P<action>[a-z-]+)\)"
)


class _Subject(api_types.Wire, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Source(api_types.Wire, frozen=True):
    component: str = ""


class _Event(api_types.Object, frozen=True):
    involved_object: _Subject = _Subject()
    reason: str = ""
    message: str = ""
    source: _Source = _Source()
    reporting_component: str = ""
    event_time: api_types.Time | None = None
    first_timestamp: api_types.Time | None = None


class EventSeen(Struct, frozen=True, gc=False):
    """An Event about a pod that was bound or evicted."""

    task: str
    kind: str
    node: str
    preemptor: str
    action: str
    time: int


def _reduce(event: _Event) -> EventSeen | None:
    """The decision that an Event tells; None: it tells none."""
    subject = event.involved_object
    if subject.kind != "Pod" or COMPONENT not in (event.source.component, event.reporting_component):
        return None
    time = microseconds_of(event.event_time or event.first_timestamp or event.metadata.creation_timestamp)
    task = f"{subject.namespace}/{subject.name}"
    if event.reason == BIND and (found := _BOUND.fullmatch(event.message)):
        return EventSeen(task, "bind", found["node"], "", "", time)
    if event.reason == EVICT and (found := _EVICTED.fullmatch(event.message)):
        return EventSeen(task, "evict", found["node"], found["preemptor"] or "", found["action"], time)
    return None


SCHEDULING_EVENTS: Resource[EventSeen | None] = reduced_resource(EVENTS.decoded_as(_Event), _reduce)


class DecisionEvents:
    """Follows the Events of binds and evictions."""

    def __init__(self, api: Api, feed: DecisionFeed, picture: ClusterPicture) -> None:
        self._feed = feed
        self._picture = picture
        self._changes = ChangeQueue(UNBOUNDED)
        self.informers: Sequence[Informer[Any]] = [
            Informer(api, SCHEDULING_EVENTS, self._changes, ListOptions(fields=f"reason={reason}"))
            for reason in (BIND, EVICT)
        ]

    def close(self) -> None:
        """Nothing is open: the informers end with their tasks."""

    def poll(self) -> None:
        """Take the Events that have come, oldest first."""
        fresh: list[EventSeen] = [
            change.new for change in self._changes.drain() if change.new is not None and change.old is None
        ]
        fresh.sort(key=lambda event: event.time)
        self._feed.add(self._decision(event) for event in fresh)

    def _decision(self, event: EventSeen) -> DecisionSeen:
        job = self._picture.job_of(event.task)
        return DecisionSeen(event.time, None, event.kind, event.task, event.node, job, event.action, event.preemptor)
