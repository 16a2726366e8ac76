"""The stream: the same bytes for all viewers, compressed or not, and what a viewer with few rights gets."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator

from pumice.ui.board import restricted_event
from pumice.ui.stream import GZIP_HEADER, RING_EVENTS, TOPICS, StreamHub, deflated
from pumice.ui.values import Document
from pumice.ui.viewer import EVERYTHING, ViewerScope

FEW = ViewerScope(queues=False, nodes=False, namespaces=frozenset({"a"}))
EVENTS: list[tuple[str, Document]] = [
    ("tree", {"version": 2}),
    ("nodes", {"version": 2}),
    ("changed", {"jobs": 3, "queues": ["root/q"], "keys": ["a/x", "b/y"], "nodes": ["n"]}),
    ("decisions", {"version": 1, "decisions": [{"task": "a/x", "preemptor": "b/y"}, {"task": "b/z"}]}),
]


def parsed(content: bytes) -> list[tuple[str, Document]]:
    found = []
    for block in content.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields["event"], json.loads(fields["data"])))
    return found


async def first(events: AsyncIterator[bytes]) -> bytes:
    return await asyncio.wait_for(anext(events), 30)


async def sent(scope: ViewerScope, events: list[tuple[str, Document]], *, compressed: bool = False) -> bytes:
    hub = StreamHub("e", restricted_event)
    following = hub.follow(TOPICS, scope, compressed=compressed)
    hub.publish(events)
    content = await first(following)
    await following.aclose()
    return content


def test_everybody_gets_everything() -> None:
    assert parsed(asyncio.run(sent(EVERYTHING, EVENTS))) == EVENTS


def test_viewer_with_few_rights_gets_what_it_may_see() -> None:
    assert parsed(asyncio.run(sent(FEW, EVENTS))) == [
        ("changed", {"jobs": 3, "queues": [], "keys": ["a/x"], "nodes": []}),
        (
            "decisions",
            {
                "version": 1,
                "decisions": [
                    {"task": "a/x", "preemptor": None, "preemptorQueue": None, "preemptorQueuePath": None},
                ],
            },
        ),
    ]


def test_compressed_parts_join_to_one_stream() -> None:
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    text = reader.decompress(GZIP_HEADER + deflated(b"retry: 1000\n\n"))
    text += reader.decompress(asyncio.run(sent(EVERYTHING, EVENTS, compressed=True)))
    text += reader.decompress(asyncio.run(sent(EVERYTHING, EVENTS[:1], compressed=True)))
    assert parsed(text.removeprefix(b"retry: 1000\n\n")) == [*EVENTS, EVENTS[0]]


def test_viewer_who_falls_behind_is_disconnected() -> None:
    async def run() -> list[bytes]:
        hub = StreamHub("e", restricted_event)
        events = hub.follow(TOPICS, EVERYTHING)
        hub.publish(EVENTS[:1])
        got = [await first(events)]
        assert hub.viewers == 1
        for _ in range(RING_EVENTS + 1):
            hub.publish(EVENTS[:1])
        got += [content async for content in events]
        assert hub.viewers == 0
        return got

    assert len(asyncio.run(run())) == 1


def test_large_events_do_not_pile_up() -> None:
    async def run() -> int:
        hub = StreamHub("e", restricted_event)
        for _ in range(100):
            hub.publish([("tree", {"text": "x" * 100_000})])
        return sum(event.size for event in hub._ring)

    assert asyncio.run(run()) <= 2 << 20
