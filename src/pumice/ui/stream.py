"""Server-sent events for all viewers: each event is encoded once, and every viewer is sent the same bytes.

The hub keeps the latest events in a ring. A viewer is a position in it; one that falls behind the ring is disconnected,
and its browser connects again and reads the documents anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable

import msgspec

from pumice.ui.values import Document
from pumice.ui.viewer import EVERYTHING, ViewerScope

RING = 256
"""Events that are kept for viewers who read slowly."""
TOPICS = ("tree", "nodes", "decisions", "changed")
CONTROL = frozenset({"hello", "beat"})
"""Events that every viewer gets."""

Restrict = Callable[[str, Document, ViewerScope], Document | None]


class StreamEvent:
    """An event, and its bytes for each scope that a viewer has asked for."""

    __slots__ = ("_bytes", "_document", "_number", "_restrict", "topic")

    def __init__(self, topic: str, document: Document, number: str, restrict: Restrict) -> None:
        self.topic = topic
        self._document = document
        self._number = number
        self._restrict = restrict
        self._bytes: dict[ViewerScope, bytes] = {EVERYTHING: encode_event(topic, document, number)}

    def for_viewer(self, scope: ViewerScope) -> bytes:
        """The bytes for a viewer; empty if there is nothing in it that the viewer may see."""
        found = self._bytes.get(scope)
        if found is None:
            shown = self._restrict(self.topic, self._document, scope)
            found = encode_event(self.topic, shown, self._number) if shown is not None else b""
            self._bytes[scope] = found
        return found


def encode_event(topic: str, document: Document, number: str) -> bytes:
    """An event as it is sent. JSON has no line breaks outside of strings, and in strings they are escaped."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), topic.encode(), msgspec.json.encode(document))


class StreamHub:
    """Hands events to all viewers."""

    def __init__(self, epoch: str, restrict: Restrict) -> None:
        self._epoch = epoch
        self._restrict = restrict
        self._ring: deque[StreamEvent] = deque(maxlen=RING)
        self._published = 0
        self._news = asyncio.Event()
        self.viewers = 0

    @property
    def next_id(self) -> str:
        """The id of the event that comes next."""
        return f"{self._epoch}.{self._published}"

    def publish(self, events: Iterable[tuple[str, Document]]) -> None:
        """Send events to all viewers."""
        for topic, document in events:
            self._ring.append(StreamEvent(topic, document, self.next_id, self._restrict))
            self._published += 1
        self._news.set()
        self._news.clear()

    async def follow(self, topics: Collection[str], scope: ViewerScope) -> AsyncIterator[bytes]:
        """The events from now on, as many at a time as have come; ends when the viewer is too slow."""
        position = self._published
        self.viewers += 1
        try:
            while True:
                while position == self._published:
                    await self._news.wait()
                behind = self._published - position
                if behind > len(self._ring):
                    return
                fresh = [self._ring[j] for j in range(len(self._ring) - behind, len(self._ring))]
                position = self._published
                content = b"".join(
                    event.for_viewer(scope) for event in fresh if event.topic in topics or event.topic in CONTROL
                )
                if content:
                    yield content
        finally:
            self.viewers -= 1
