"""Server-sent events for all viewers: each event is encoded and compressed once, and all viewers get the same bytes.

The hub keeps the latest events in a ring. A viewer is a position in it; one that falls behind the ring is disconnected,
and its browser connects again and reads the documents anew.

A compressed stream is one gzip file without an end: its header, and the blocks of each event, which refer to nothing
outside of themselves and therefore fit into the stream of any viewer.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable

import msgspec

from pumice.ui.values import Document
from pumice.ui.viewer import EVERYTHING, ViewerScope

RING_EVENTS, RING_BYTES = 256, 2 << 20
"""Events, and bytes of them, that are kept for viewers who read slowly."""
TOPICS = ("tree", "nodes", "decisions", "changed")
CONTROL = frozenset({"hello", "beat"})
"""Events that every viewer gets."""
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\x03"
GZIP_LEVEL = 5

Restrict = Callable[[str, Document, ViewerScope], Document | None]


def deflated(content: bytes) -> bytes:
    """The blocks of a part of a compressed stream."""
    part = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return part.compress(content) + part.flush(zlib.Z_FULL_FLUSH)


def encode_event(topic: str, document: Document, number: str) -> bytes:
    """An event as it is sent. JSON has no line breaks outside of strings, and in strings they are escaped."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), topic.encode(), msgspec.json.encode(document))


class StreamEvent:
    """An event as bytes, plain and compressed, for everybody and for each scope that a viewer has asked for."""

    __slots__ = ("_compressed", "_number", "_plain", "_restrict", "topic")

    def __init__(self, topic: str, document: Document, number: str, restrict: Restrict) -> None:
        self.topic = topic
        self._number = number
        self._restrict = restrict
        self._plain: dict[ViewerScope, bytes] = {EVERYTHING: encode_event(topic, document, number)}
        self._compressed: dict[ViewerScope, bytes] = {}

    @property
    def size(self) -> int:
        """Bytes of the event."""
        return len(self._plain[EVERYTHING])

    def plain(self, scope: ViewerScope) -> bytes:
        """The bytes for a viewer; empty if there is nothing in it that the viewer may see."""
        found = self._plain.get(scope)
        if found is None:
            data = self._plain[EVERYTHING].partition(b"\ndata: ")[2]
            shown = self._restrict(self.topic, msgspec.json.decode(data), scope)
            found = encode_event(self.topic, shown, self._number) if shown is not None else b""
            self._plain[scope] = found
        return found

    def compressed(self, scope: ViewerScope) -> bytes:
        """The same for a compressed stream."""
        found = self._compressed.get(scope)
        if found is None:
            plain = self.plain(scope)
            found = self._compressed[scope] = deflated(plain) if plain else b""
        return found


class StreamHub:
    """Hands events to all viewers."""

    def __init__(self, epoch: str, restrict: Restrict) -> None:
        self._epoch = epoch
        self._restrict = restrict
        self._ring: deque[StreamEvent] = deque()
        self._bytes = 0
        self._published = 0
        self._news = asyncio.Event()
        self.viewers = 0

    @property
    def next_id(self) -> str:
        """The id of the event that comes next."""
        return f"{self._epoch}.{self._published}"

    def publish(self, events: Iterable[tuple[str, Document]]) -> int:
        """Send events to all viewers; returns their size in bytes."""
        size = 0
        for topic, document in events:
            event = StreamEvent(topic, document, self.next_id, self._restrict)
            self._ring.append(event)
            self._published += 1
            size += event.size
        self._bytes += size
        while len(self._ring) > RING_EVENTS or (self._bytes > RING_BYTES and len(self._ring) > 1):
            self._bytes -= self._ring.popleft().size
        self._news.set()
        self._news.clear()
        return size

    def follow(
        self, topics: Collection[str], scope: ViewerScope, *, compressed: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """The events from now on, as many at a time as have come; ends when the viewer is too slow."""
        return self._follow(self._published, topics, scope, compressed)

    async def _follow(
        self, position: int, topics: Collection[str], scope: ViewerScope, compressed: bool
    ) -> AsyncGenerator[bytes, None]:
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
                wanted = [event for event in fresh if event.topic in topics or event.topic in CONTROL]
                content = b"".join(each.compressed(scope) if compressed else each.plain(scope) for each in wanted)
                if content:
                    yield content
        finally:
            self.viewers -= 1
