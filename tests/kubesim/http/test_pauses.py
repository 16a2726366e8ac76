"""No request keeps others waiting: every expensive input known is sent, and the longest pause of the server measured.

It is measured in time of the processor that the event loop spends without a turn for others. A clock on the wall would
measure what else runs on the machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.kubesim.http import raw_client
from tests.kubesim.http.expensive_requests import (
    CONFIG_MAPS,
    EXPENSIVE,
    MERGE_PATCH,
    PODS,
    Sent,
    config_map,
    patch,
    pod,
    post,
)
from tests.kubesim.http.raw_client import Loop, RawClient, RawResponse, RunningServer

LONGEST_PAUSE = 0.25
"""Seconds. On a quiet machine none takes 0.1; beside many other processes the same work takes up to twice the time."""
BEAT_SECONDS = 0.01

QUICK = ("containers", "definition with many fields", "insertions into a list", "values of a strategic patch")
"""Those that once took the longest."""


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    thread = Loop()
    yield thread
    thread.stop()


class Pauses:
    """Measures the longest time that a loop spends without a turn."""

    def __init__(self, loop: Loop) -> None:
        self.longest = 0.0
        self._ends = False
        self._beating = asyncio.run_coroutine_threadsafe(self._beat(), loop.loop)

    async def _beat(self) -> None:
        last = time.thread_time()
        while not self._ends:
            await asyncio.sleep(BEAT_SECONDS)
            now = time.thread_time()
            self.longest, last = max(self.longest, now - last), now

    def end(self) -> float:
        self._ends = True
        self._beating.result(60)
        return self.longest


def ask(server: RunningServer, sent: Sent) -> RawResponse:
    client = RawClient(server.port, patience=120)
    head = f"{sent.method} {sent.path} HTTP/1.1\r\nHost: localhost\r\nAccept: {sent.accept}\r\n"
    head += f"Content-Type: {sent.media}\r\nContent-Length: {len(sent.body)}\r\n\r\n"
    client.send(head.encode() + sent.body)
    said = client.read()
    client.close()
    assert said is not None
    return said


def measured_pause(loop: Loop, requests: list[Sent]) -> float:
    with raw_client.bare_server(loop) as server:
        pauses = Pauses(loop)
        for sent in requests:
            said = ask(server, sent)
            assert said.code == sent.code, said.body[:500]
        return pauses.end()


@pytest.mark.parametrize("name", QUICK)
def test_expensive_request_does_not_keep_others_waiting(
    loop: Loop, name: str, record_property: Callable[[str, object], None]
) -> None:
    longest = measured_pause(loop, EXPENSIVE[name]())
    record_property("longest pause in ms", round(longest * 1000))
    assert longest < LONGEST_PAUSE


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in EXPENSIVE if name not in QUICK])
def test_no_expensive_request_keeps_others_waiting(
    loop: Loop, name: str, record_property: Callable[[str, object], None]
) -> None:
    longest = measured_pause(loop, EXPENSIVE[name]())
    record_property("longest pause in ms", round(longest * 1000))
    assert longest < LONGEST_PAUSE


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
def test_list_with_a_selector_is_long_but_keeps_nobody_waiting(loop: Loop, accept: str) -> None:
    count, chosen = 2000, 1500
    with raw_client.bare_server(loop) as server:

        async def fill() -> None:
            for n in range(count):
                about = {"name": f"c{n:05}", "labels": {"half": str(n >= count - chosen)}}
                await server.api.create("configmaps", "default", {"metadata": about, "data": {"k": "v" * 200}})

        loop.run(fill())
        pauses = Pauses(loop)
        found = json.loads(
            ask(server, Sent("GET", f"{CONFIG_MAPS}?labelSelector=half%3DTrue", 200, accept=accept)).body
        )
        page = ask(server, Sent("GET", f"{CONFIG_MAPS}?labelSelector=half%3DTrue&limit=700", 200, accept=accept))
        longest = pauses.end()
    assert len(found.get("items") or found["rows"]) == chosen
    first = json.loads(page.body)
    assert len(first.get("items") or first["rows"]) == 700 and first["metadata"]["continue"]
    assert longest < LONGEST_PAUSE


# ---- what a large write computes beside others ----------------------------------------------------------------------


def test_large_and_small_updates_of_one_object_lose_nothing(loop: Loop) -> None:
    """A large patch that others overtake is computed anew: all changes are there in the end."""
    with raw_client.bare_server(loop) as server:
        assert ask(server, post(CONFIG_MAPS, config_map(keys=3000))).code == 201
        large = patch(f"{CONFIG_MAPS}/c", {"data": {f"l{n}": "large" for n in range(3000)}}, MERGE_PATCH)
        client = RawClient(server.port, patience=120)
        head = f"PATCH {large.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {MERGE_PATCH}\r\n"
        client.send(f"{head}Content-Length: {len(large.body)}\r\n\r\n".encode() + large.body)
        codes = [
            ask(server, patch(f"{CONFIG_MAPS}/c", {"data": {f"s{n}": "small"}}, MERGE_PATCH)).code for n in range(10)
        ]
        said = client.read()
        client.close()
        found = server.api.read("configmaps", "default", "c")
    assert found is not None and set(codes) <= {200, 409} and said is not None and said.code in {200, 409}
    for number, code in enumerate(codes):
        assert (f"s{number}" in found["data"]) == (code == 200)
    assert ("l0" in found["data"]) == (said.code == 200)
    assert codes.count(200) + (said.code == 200) >= 5


def test_large_object_is_refused_if_its_namespace_goes_meanwhile(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_client.bare_server(loop) as server:
        assert ask(server, post("/api/v1/namespaces", {"metadata": {"name": "going"}})).code == 201
        run, steps = server.api.writes.side_thread.run, 0

        async def delete_meanwhile(work: Callable[[], object]) -> object:
            nonlocal steps
            steps += 1
            if steps == 3:  # the body and the object are decoded, and the namespace was there
                await server.api.delete("namespaces", "", "going")
            return await run(work)

        monkeypatch.setattr(server.api.writes.side_thread, "run", delete_meanwhile)
        said = ask(server, post("/api/v1/namespaces/going/configmaps", config_map(keys=3000)))
        found = server.api.read("configmaps", "going", "c")
    assert steps >= 3
    assert said.code == 403 and b"it is being terminated" in said.body
    assert found is None


def test_small_requests_stay_in_the_loop(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unexpected(work: Callable[[], object]) -> object:
        raise AssertionError("a small request needs no thread")

    with raw_client.bare_server(loop) as server:
        monkeypatch.setattr(server.api.writes.side_thread, "run", unexpected)
        assert ask(server, post(PODS, pod())).code == 201
        assert ask(server, patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)).code == 200
