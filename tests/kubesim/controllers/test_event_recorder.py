from __future__ import annotations

from kubesim.clock import Clock, stamp
from kubesim.controllers.events import EventRecorder, is_expired
from tests.support.apiserver import memory_api
from tests.support.simulated import run
from tests.support.still_clock import NOON


def test_the_same_event_again_raises_the_count_of_the_first():
    async def scenario():
        async with memory_api() as api:
            namespace = api.read("namespaces", "", "default")
            recorder = EventRecorder(api, "tester", Clock())
            for _ in range(3):
                await recorder.record_normal(namespace, "Seen", "again")
            await recorder.record_warning(namespace, "Seen", "otherwise", host="n1")
            return api.list("events")

    first, second = sorted(run(scenario()), key=lambda event: event["message"])
    assert (first["count"], first["type"], first["source"]) == (3, "Normal", {"component": "tester"})
    assert (second["count"], second["type"]) == (1, "Warning")
    assert second["source"] == {"component": "tester", "host": "n1"}
    assert first["involvedObject"]["kind"] == "Namespace"


def test_failed_event_write_is_ignored():
    async def scenario():
        async with memory_api() as api:
            gone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "nowhere", "uid": "u"}}
            await EventRecorder(api, "tester", Clock()).record_normal(gone, "Seen", "never")
            return api.list("events")

    assert run(scenario()) == []


def test_events_are_kept_for_an_hour():
    event = {"metadata": {"creationTimestamp": stamp(NOON)}, "lastTimestamp": stamp(NOON)}
    assert not is_expired(event, NOON + 3600)
    assert is_expired(event, NOON + 3601)
    assert not is_expired(event | {"lastTimestamp": stamp(NOON + 60)}, NOON + 3601)
    assert not is_expired(event | {"lastTimestamp": stamp(NOON - 10_000_000)}, NOON + 3600)  # it was written at noon
    assert is_expired(event | {"lastTimestamp": "yesterday"}, NOON + 3601)
