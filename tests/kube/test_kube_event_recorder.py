"""Events: counted, paced, bounded, and never in anybody's way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from kubesim.api import client
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff, TokenBucket
from pumice.kube.client.transport import Limits, Session
from pumice.kube.event_recorder import AT_A_TIME, FORGOTTEN_SECONDS, EventRecorder, Subject
from tests.support.apiserver import memory_api
from tests.support.served_api import served
from tests.support.unsteady_proxy import Proxy, unsteady

POD = Subject("v1", "Pod", "p", "default", "u1")
QUEUE = Subject("scheduling.volcano.sh/v1beta1", "Queue", "dev", uid="u2")
FULL = TokenBucket(1e6, 10_000)


class Clock:
    time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


@contextlib.asynccontextmanager
async def recording(**more: Any) -> AsyncIterator[tuple[EventRecorder, client.InProcessClient, Proxy, Clock]]:
    clock = Clock()
    async with (
        memory_api() as behind,
        served(behind) as port,
        unsteady(port) as proxy,
        Session(Access(f"http://127.0.0.1:{proxy.port}"), Limits(attempts=1)) as session,
    ):
        given = {"bucket": FULL, "backoff": Backoff(0.001, 0.01), **more}
        yield EventRecorder(Api(session), "pumice", now=clock, **given), behind, proxy, clock


@contextlib.asynccontextmanager
async def writing(recorder: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(recorder.run())
    try:
        yield
        assert await recorder.flush(20)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def found(behind: client.InProcessClient) -> list[tuple[str, str, str, int]]:
    events = [e for e in behind.list("events") if e.get("reportingComponent") == "pumice"]
    return [(e["involvedObject"]["name"], e["reason"], e["message"], e["count"]) for e in events]


def test_the_same_thing_said_again_is_a_higher_count() -> None:
    async def test() -> None:
        async with recording() as (recorder, behind, _, clock):
            async with writing(recorder):
                recorder.record(POD, "Waits", "no room")
                recorder.record(POD, "Waits", "no room")
                recorder.record(QUEUE, "Full", "at its limit", kind="Warning")
            assert sorted(found(behind)) == [("dev", "Full", "at its limit", 1), ("p", "Waits", "no room", 2)]
            clock.time += 60
            async with writing(recorder):
                recorder.record(POD, "Waits", "no room")
                recorder.record(POD, "Waits", "other words")
            assert sorted(found(behind))[1:] == [("p", "Waits", "no room", 3), ("p", "Waits", "other words", 1)]
            event = next(e for e in behind.list("events") if e.get("count") == 3)
            assert event["firstTimestamp"] == "1970-01-12T13:46:40Z"  # 1,000,000 s are 11 d 13 h 46 min 40 s
            assert event["lastTimestamp"] == "1970-01-12T13:47:40Z"
            assert event["involvedObject"]["uid"] == "u1" and event["source"] == {"component": "pumice"}
            queue = next(e for e in behind.list("events") if e["involvedObject"]["kind"] == "Queue")
            assert (queue["metadata"]["namespace"], queue["type"]) == ("default", "Warning")

    asyncio.run(test())


def test_after_a_while_or_when_the_server_has_forgotten_it_is_a_new_event() -> None:
    async def test() -> None:
        async with recording() as (recorder, behind, _, clock):
            async with writing(recorder):
                recorder.record(POD, "Waits", "no room")
            clock.time += FORGOTTEN_SECONDS + 1
            async with writing(recorder):
                recorder.record(POD, "Waits", "no room")
            assert [event[3] for event in found(behind)] == [1, 1]
            for event in behind.list("events"):
                await behind.delete("events", "default", event["metadata"]["name"])
            async with writing(recorder):
                recorder.record(POD, "Waits", "no room")
            assert [event[3] for event in found(behind)] == [2]

    asyncio.run(test())


def test_events_beyond_queue_limit_are_dropped() -> None:
    async def test() -> None:
        async with recording(waiting=3, remembered=2) as (recorder, behind, _, _):
            for number in range(10):
                recorder.record(POD, "Waits", f"for {number}")
            recorder.record(POD, "Waits", "for 1")  # this one waits already
            assert recorder.dropped == 7
            async with writing(recorder):
                pass
            assert sorted(found(behind)) == [("p", "Waits", f"for {n}", 2 if n == 1 else 1) for n in range(3)]
            for number in range(10, 30):
                async with writing(recorder):
                    recorder.record(POD, "Waits", f"for {number}")
            assert len(recorder._events) == 3  # one that was the last to wait and two that are remembered

    asyncio.run(test())


def test_a_warning_takes_the_place_of_the_oldest_event_that_is_none() -> None:
    async def test() -> None:
        async with recording(waiting=3, remembered=9) as (recorder, behind, _, _):
            recorder.record(POD, "Fails", "1", kind="Warning")
            recorder.record(POD, "Starts", "1")
            recorder.record(POD, "Starts", "2")
            recorder.record(POD, "Fails", "2", kind="Warning")
            assert recorder.dropped == 1
            recorder.record(POD, "Starts", "3")
            assert recorder.dropped == 2
            recorder.record(POD, "Fails", "3", kind="Warning")
            recorder.record(POD, "Fails", "4", kind="Warning")  # only warnings wait now
            assert recorder.dropped == 4
            async with writing(recorder):
                pass
            assert sorted(found(behind)) == [("p", "Fails", str(n), 1) for n in (1, 2, 3)]

    asyncio.run(test())


class Slow:
    """An API in which every event takes a moment; how many were under way at a time, and what was written."""

    def __init__(self) -> None:
        self.within = self.most = 0
        self.counts: dict[str, int] = {}

    async def create(self, resource: Any, document: dict[str, Any]) -> None:
        assert document["message"] not in self.counts, "it is written already"
        await self._write(document["message"], document["count"])

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], namespace: str) -> None:
        message = name.partition(".")[0]
        assert patch["count"] > self.counts[message]
        await self._write(message, patch["count"])

    async def _write(self, message: str, count: int) -> None:
        self.within += 1
        self.most = max(self.most, self.within)
        await asyncio.sleep(0.001)
        self.within -= 1
        self.counts[message] = count


def test_a_few_are_written_at_a_time_but_never_one_beside_itself() -> None:
    async def test() -> None:
        api = Slow()
        recorder = EventRecorder(api, "pumice", bucket=FULL)  # type: ignore[arg-type]  # as much of it as is needed
        async with writing(recorder):
            for _ in range(50):
                for name in ("a", "b", "c", "d", "e", "f"):
                    recorder.record(Subject("v1", "Pod", name, "default"), "Waits", name)
                await asyncio.sleep(0.0003)
        assert api.counts == dict.fromkeys("abcdef", 50)
        assert 1 < api.most <= AT_A_TIME
        assert recorder.dropped == 0

    asyncio.run(test())


def test_events_of_thousands_of_pods_are_not_dropped() -> None:
    api = Slow()
    recorder = EventRecorder(api, "pumice")  # type: ignore[arg-type]  # nothing is written here
    for number in range(5000):
        recorder.record(Subject("v1", "Pod", f"p{number}", "default"), "Scheduled", "to n")
    recorder.record(POD, "Evict", "from n", kind="Warning")
    assert recorder.dropped == 0


def test_events_are_neither_lost_nor_duplicated_during_server_outage() -> None:
    async def test() -> None:
        async with recording() as (recorder, behind, proxy, _):
            async with writing(recorder):
                proxy.refusals = 3
                for number in range(5):
                    recorder.record(POD, "Waits", f"for {number}")
                await asyncio.sleep(0.02)
                proxy.allowance = 10  # an answer that breaks off: the event is there all the same
                recorder.record(POD, "Waits", "for 5")
                recorder.record(POD, "Waits", "for 0")
            assert sorted(found(behind)) == [("p", "Waits", f"for {n}", 2 if n == 0 else 1) for n in range(6)]

    asyncio.run(test())


def test_an_event_that_is_refused_is_dropped() -> None:
    async def test() -> None:
        async with recording() as (recorder, behind, _, _):
            async with writing(recorder):
                recorder.record(Subject("v1", "Pod", "p", "nowhere"), "Waits", "no room")
                recorder.record(POD, "Waits", "x" * 5000)
            assert recorder.dropped == 1
            assert [len(event[2]) for event in found(behind)] == [1024]

    asyncio.run(test())


def test_events_keep_to_their_pace() -> None:
    async def test() -> None:
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            pauses.append(seconds)

        bucket = TokenBucket(10, 2, now=lambda: 0.0, pause=pause)
        async with recording(bucket=bucket) as (recorder, _, _, _), writing(recorder):
            for number in range(4):
                recorder.record(POD, "Waits", f"for {number}")
        assert [round(seconds, 3) for seconds in pauses[:2]] == [0.1, 0.2]

    asyncio.run(test())
