"""Bindings are sent in the order of the decisions, a few at a time, and one that fails holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pumice.engine.decisions import Bind, Enqueue
from pumice.engine.events import BindFailed, Event
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.event_recorder import Subject
from pumice.kube.resources import POD_GROUPS
from pumice.scheduler import binder as module
from pumice.scheduler.binder import SENDERS, Binder
from tests.support.cluster_caches import mirror_of

CONFLICT = ApiError(409, "Conflict", "pod is already assigned to node n2")
LOST = UnreachableError("the connection broke")


class Api:
    """Answers bindings when told to; notes what is asked, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open: list[tuple[str, asyncio.Future[None]]] = []
        self.nodes: dict[str, str] = {}

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str, annotations: dict[str, str]) -> None:
        self.asked.append(pod)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.open.append((pod, answer))
        await answer
        self.nodes[pod] = node

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any]:
        node = self.nodes.get(name)
        return {"metadata": {"uid": ""}, "spec": {"nodeName": node} if node else {}}

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str) -> None:
        self.asked.append(f"{name}: {patch['status']['phase']}")

    async def patch_status(self, resource: Any, name: str, status: Any) -> None:
        self.asked.append(f"queue {name}")

    async def answer(self, count: int, failing: Callable[[str], Exception | None] = lambda pod: None) -> None:
        """Answer the oldest calls; those that come up meanwhile too, if so many are wanted."""
        for _ in range(count):
            pod, answer = self.open.pop(0)
            error = failing(pod)
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)
            await settle()


class Recorder:
    def __init__(self) -> None:
        self.scheduled: list[str] = []

    def record(self, subject: Subject, reason: str, message: str, *, kind: str = "Normal") -> None:
        self.scheduled.append(subject.name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def binder(api: Api, report: Callable[[Iterable[Event]], None] = lambda events: None) -> tuple[Binder, Recorder]:
    recorder = Recorder()
    return Binder(api, mirror_of(running=False), recorder, report), recorder  # type: ignore[arg-type]  # as much of them as is needed


def binds(count: int) -> list[Bind]:
    return [Bind(f"ns/{number}", "n1", "ns/g") for number in range(count)]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quick(module.Backoff):
        def next(self, least: float = 0.0) -> float:
            return super().next(least) / 1000

    monkeypatch.setattr(module, "Backoff", Quick)


def test_as_many_are_sent_as_may_be_in_flight_and_the_next_when_one_is_answered() -> None:
    async def run() -> None:
        api = Api()
        hands, recorder = binder(api)
        hands.execute(binds(SENDERS + 3))
        await settle()
        assert api.asked == [str(number) for number in range(SENDERS)]
        assert hands.in_flight == SENDERS + 3
        await api.answer(2)
        assert api.asked == [str(number) for number in range(SENDERS + 2)]
        assert hands.in_flight == SENDERS + 1 and hands.bound == 2
        await api.answer(SENDERS + 1)
        await hands.done()
        assert (hands.bound, hands.failed, hands.in_flight) == (SENDERS + 3, 0, 0)
        assert recorder.scheduled == [str(number) for number in range(SENDERS + 3)]
        hands.execute(binds(1))  # the senders have ended, and begin again
        await settle()
        await api.answer(1)
        await hands.done()
        assert hands.bound == SENDERS + 4

    asyncio.run(run())


def test_bindings_that_are_repeated_hold_up_no_others() -> None:
    async def run() -> None:
        api = Api()
        hands, _ = binder(api)
        hands.execute(binds(SENDERS + 5))
        await settle()
        await api.answer(SENDERS, lambda pod: LOST)
        assert {str(number) for number in range(SENDERS, SENDERS + 5)} < set(api.asked) and hands.bound == 0
        async with asyncio.timeout(20):
            while hands.in_flight:
                if api.open:
                    await api.answer(1)
                await asyncio.sleep(0.001)
        assert hands.bound == SENDERS + 5 and set(api.nodes) == {str(number) for number in range(SENDERS + 5)}

    asyncio.run(run())


def test_a_binding_that_is_refused_is_reported_and_the_others_go_on() -> None:
    async def run() -> None:
        api, reported = Api(), list[Event]()
        hands, _ = binder(api, reported.extend)
        hands.execute([Bind("ns/a", "n1", "ns/g"), *binds(SENDERS)])
        await settle()
        await api.answer(SENDERS + 1, lambda pod: CONFLICT if pod == "a" else None)
        await hands.done()
        assert (hands.bound, hands.failed_binds) == (SENDERS, 1)
        assert reported[0] == BindFailed("ns/a")

    asyncio.run(run())


def test_a_status_waits_for_the_bindings_before_it_unless_somebody_waits_for_it() -> None:
    async def run() -> None:
        api = Api()
        hands, _ = binder(api)
        hands.execute(binds(SENDERS + 2))
        hands.write_podgroup_status("ns/g", {"phase": "Running"})
        hands.write_queue_status("q", {"share": 0.5})
        hands.execute([Enqueue("ns/h")])
        await settle()
        assert api.asked[:1] == ["0"] and set(api.asked[SENDERS:]) == {"h: Inqueue"}
        await api.answer(1)
        assert "g: Running" not in api.asked
        await api.answer(1)  # the last of them is sent
        assert {"g: Running", "queue q"} < set(api.asked)
        await api.answer(SENDERS)
        await hands.done()

    asyncio.run(run())


def test_an_eviction_of_a_whole_job_does_not_wait_for_bindings() -> None:
    async def run() -> None:
        api = Api()
        hands, _ = binder(api)
        hands.execute(binds(SENDERS + 2))
        hands.write_podgroup_status("ns/g", {"phase": "Pending"})
        await settle()
        assert "g: Pending" not in api.asked
        await hands._statuses.wait_written(POD_GROUPS.name, "ns/g")
        assert "g: Pending" in api.asked
        hands.write_queue_status("q", {"share": 0.5})
        await settle()
        await hands._statuses.done()  # at the end nothing is held
        assert "queue q" in api.asked
        await api.answer(SENDERS + 2)
        await hands.done()

    asyncio.run(run())
