"""Records Events on objects, as ``kubectl describe`` shows them, without delaying the caller.

``record`` only queues an Event. An Event with the same object, reason and message as an earlier one increases its count
instead. Events are written in order, a few at a time and within a rate limit; the counts of queued ones keep rising.
If the queue is full, an Event is dropped and counted: nothing may depend on an Event. But a warning is not dropped in
favour of a normal Event: it replaces the oldest normal one in the queue.

``record_once`` is for controllers, which reconcile the same object again and again: an Event that exists is not written
a second time, and its count does not rise.
"""

from __future__ import annotations

import asyncio
import logging
import time
from _blake2 import blake2b  # hashlib would load OpenSSL, 4 MB
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kubebase.timestamps import stamp
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.rate_limit import Backoff, TokenBucket
from pumice.kube.resources import EVENTS, Document

WAITING = 10_000  # events that wait to be written before more are dropped: as many as pods start in a bad minute
RATE = 200.0  # a second, so that those of 10,000 pods are written within a minute
AT_A_TIME = 4  # few, so that they wait behind whatever else is written: each costs the server as much as a binding
REMEMBERED = 5000  # events beside them that can still be counted up
FORGOTTEN_SECONDS = 600.0  # said again after so long it is a new event
LONGEST_MESSAGE = 1024  # characters; the API takes no more
LONGEST_NAME = 253

log = logging.getLogger(__name__)


class Subject(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


EventType = Literal["Normal", "Warning"]


def subject_of(about: Document) -> Subject:
    """The subject of events about an object."""
    metadata = about["metadata"]
    named = {key: metadata.get(key) or "" for key in ("name", "namespace", "uid")}
    return Subject(about["apiVersion"], about["kind"], **named)


def event_document(
    subject: Subject,
    name: str,
    component: str,
    kind: str,
    reason: str,
    message: str,
    *,
    first: str,
    last: str,
    count: int = 1,
) -> Document:
    """The Event object that a component writes about a subject. Times are time stamps."""
    about = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "name": subject.name,
        "namespace": subject.namespace,
        "uid": subject.uid,
    }
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": subject.namespace or "default"},
        "involvedObject": {field: value for field, value in about.items() if value},
        "type": kind,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "count": count,
        "firstTimestamp": first,
        "lastTimestamp": last,
        "source": {"component": component},
        "reportingComponent": component,
    }


def _event_name(subject: Subject, suffix: str) -> str:
    """The name of an Event: the name of its subject, shortened if necessary, and a unique suffix."""
    return f"{subject.name[: LONGEST_NAME - len(suffix) - 1]}.{suffix}"


# ---- events that are written once --------------------------------------------------------------------------


def one_shot_event(
    component: str, about: Document, reason: str, message: str, now: str, kind: EventType = "Normal"
) -> Document:
    """An Event whose name is derived from subject, reason and message, so that it is created only once."""
    subject = subject_of(about)
    digest = blake2b(f"{subject.uid}\0{reason}\0{message}".encode(), digest_size=8).hexdigest()
    name = _event_name(subject, digest)
    return event_document(subject, name, component, kind, reason, message, first=now, last=now)


async def record_once(
    api: Api, component: str, about: Document, reason: str, message: str, now: str, kind: EventType = "Normal"
) -> None:
    """Write an event unless it exists. A controller that reconciles again, or after a crash, does not repeat it."""
    with suppress(ApiError):  # it exists already, or its namespace is being deleted: an event is a courtesy
        await api.create(EVENTS, one_shot_event(component, about, reason, message, now, kind))


# ---- events that are counted -------------------------------------------------------------------------------


class _Topic(NamedTuple):
    """The key by which Events are aggregated."""

    subject: Subject
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Event:
    """The count and the times of an aggregated Event."""

    name: str  # of the Event object
    first: float
    last: float
    count: int = 0
    written: bool = False


async def _nothing_to_wait_for() -> None:
    pass


class EventRecorder:
    """Writes events in the name of one component; ``run`` does the writing until cancelled."""

    def __init__(
        self,
        api: Api,
        component: str,
        *,
        bucket: TokenBucket | None = None,
        backoff: Backoff | None = None,
        waiting: int = WAITING,
        remembered: int = REMEMBERED,
        now: Callable[[], float] = time.time,
        let_pass: Callable[[], Awaitable[None]] = _nothing_to_wait_for,
    ) -> None:
        self.dropped = 0
        self._let_pass = let_pass  # waits for what is more important
        self._api = api
        self._component = component
        self._bucket = bucket or TokenBucket(RATE, burst=200)
        self._backoff = backoff or Backoff()
        self._most_waiting = waiting
        self._most_remembered = remembered
        self._now = now
        self._events: OrderedDict[_Topic, _Event] = OrderedDict()  # what was said longest ago comes first
        self._waiting: OrderedDict[_Topic, None] = OrderedDict()  # those that have something to be written
        self._normal: OrderedDict[_Topic, None] = OrderedDict()  # those of them that are no warnings
        self._writing: set[_Topic] = set()
        self._turn = asyncio.Lock()  # of those who write
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._number = 0

    def record(self, subject: Subject, reason: str, message: str, *, kind: EventType = "Normal") -> None:
        """Note an event. Never waits."""
        topic = _Topic(subject, kind, reason, message[:LONGEST_MESSAGE])
        if not self._finds_room(topic):
            self.dropped += 1
            return
        now = self._now()
        event = self._events.get(topic)
        if event is not None:
            self._events.move_to_end(topic)
        if event is None or now - event.last > FORGOTTEN_SECONDS:
            event = self._events[topic] = _Event(self._name(subject, now), now, now)
        event.count += 1
        event.last = now
        if topic not in self._writing:  # else whoever writes it sees that there is more to say
            self._wait(topic)
        while len(self._events) - len(self._waiting) > self._most_remembered:  # not as many more as could wait
            del self._events[next(known for known in self._events if known not in self._waiting)]

    def _finds_room(self, topic: _Topic) -> bool:
        """Whether an event may join the line; a warning in the place of the oldest that is none."""
        if len(self._waiting) < self._most_waiting or topic in self._waiting or topic in self._writing:
            return True
        if topic.type != "Warning" or not self._normal:
            return False
        oldest, _ = self._normal.popitem(last=False)
        del self._waiting[oldest]
        self.dropped += 1
        return True

    def _wait(self, topic: _Topic, *, first: bool = False) -> None:
        lines = (self._waiting, self._normal) if topic.type == "Normal" else (self._waiting,)
        for line in lines:
            line[topic] = None
            if first:
                line.move_to_end(topic, last=False)
        self._some.set()
        self._idle.clear()

    async def run(self) -> None:
        """Write the pending Events, the oldest first."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_A_TIME):
                tasks.create_task(self._write_on())

    async def _write_on(self) -> None:
        while True:
            await self._some.wait()
            await self._let_pass()
            async with self._turn:
                await self._some.wait()
                await self._bucket.take()
                topic, _ = self._waiting.popitem(last=False)
                if not self._waiting:
                    self._some.clear()
            self._normal.pop(topic, None)
            event = self._events[topic]
            count, arrived = event.count, True
            self._writing.add(topic)
            try:
                await self._write(topic, event)
                self._backoff.reset()
            except ApiError as error:  # its namespace is going, say
                self.dropped += 1
                log.debug(
                    'Dropped an Event that the API rejected: reason=%s object=%s error="%s"',
                    topic.reason,
                    topic.subject,
                    error,
                )
            except UnreachableError as error:
                log.debug(
                    'Failed to write an Event: reason=%s object=%s error="%s"',
                    topic.reason,
                    topic.subject,
                    error,
                )
                arrived = False
            finally:
                self._writing.discard(topic)
            said = self._events.get(topic)  # unless that was too long ago to matter
            if said is not None and (not arrived or said is not event or said.count > count):
                self._wait(topic, first=not arrived)
            elif not self._waiting and not self._writing:
                self._idle.set()
            if not arrived:
                await asyncio.sleep(self._backoff.next())

    async def flush(self, seconds: float) -> bool:
        """Wait until all pending Events are written, within a timeout; returns whether they are."""
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _write(self, topic: _Topic, event: _Event) -> None:
        namespace = topic.subject.namespace or "default"
        if event.written:
            counted = {"count": event.count, "lastTimestamp": stamp(event.last)}
            try:
                await self._api.patch(EVENTS, event.name, counted, namespace)
                return
            except ApiError as error:
                if not error.not_found:
                    raise
            # The server has forgotten it, as it does after an hour: this is a new one.
            event.name, event.first, event.written = self._name(topic.subject, event.last), event.last, False
        try:
            await self._api.create(EVENTS, self._document(topic, event))
        except ApiError as error:
            if not error.already_exists:
                raise
            event.written = True  # the answer to an earlier attempt was lost, and the count may have risen since
            await self._write(topic, event)
        event.written = True

    def _document(self, topic: _Topic, event: _Event) -> Document:
        first, last = stamp(event.first), stamp(event.last)
        return event_document(
            topic.subject, event.name, self._component, *topic[1:], first=first, last=last, count=event.count
        )

    def _name(self, subject: Subject, now: float) -> str:
        """A name that no event had before: from the time, and a number for those of one moment."""
        self._number = (self._number + 1) % 0x1000
        return _event_name(subject, f"{int(now * 1e6):013x}{self._number:03x}")
