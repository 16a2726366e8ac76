"""Conditions of pending pods: few, late, and never on a pod that is bound."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pumice.engine.decisions import Decision
from pumice.engine.events import Gone
from pumice.kube.decode import api_types
from pumice.kube.event_recorder import Subject
from pumice.kube.resources import PODS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import Queue
from pumice.scheduler import pod_conditions as module
from pumice.scheduler.pod_conditions import PodConditions
from tests.support.taking import SECOND, Shell, taking_engine

Written = dict[str, Any]


class Cluster:
    """A binder, an event recorder and a cache; keeps what is written."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.written: list[tuple[str, Written, str]] = []
        self.events: list[tuple[str, str, str, str]] = []

    def write_pod_condition(self, key: str, condition: Written, *, uid: str, revision: str) -> None:
        assert uid == f"uid of {key}"
        self.written.append((key, condition, revision))

    def record(self, subject: Subject, reason: str, message: str, *, kind: str) -> None:
        assert reason == "FailedScheduling" and kind == "Warning"
        self.events.append((subject.kind, subject.name, subject.uid, message))

    def uid(self, resource: str, key: str) -> str:
        return f"uid of {key}"


class World:
    """An engine, pods as its scheduler sees them, and the conditions that it writes."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.shell = Shell(taking_engine(last=("predicates", "nodeorder")), audited=False)
        self.shell.child("q")
        self.conditions = PodConditions(
            lambda: self.shell.engine,
            self.cluster,
            self.cluster,  # type: ignore[arg-type]  # it records what it is told
            self.cluster,
        )

    def job(self, name: str, pods: int, *, gang: int = 1) -> list[str]:
        key = self.shell.job("q", [(1,)] * pods, gang, name=name)
        keys = [task.key for task in self.shell.engine.state.jobs[key].tasks.values()]
        self.conditions.note_cycle([self.seen(pod, name) for pod in keys], [])
        return keys

    def seen(self, key: str, job: str, revision: str = "1", node: str = "", **condition: str) -> Change[Any]:
        namespace, name = key.split("/")
        metadata = api_types.Metadata(name, namespace, annotations={"scheduling.k8s.io/group-name": job})
        conditions = (api_types.PodCondition("PodScheduled", **condition),) if condition else ()
        pod = api_types.Pod(
            metadata, api_types.PodSpec(node_name=node), api_types.PodStatus("Pending", None, conditions)
        )
        return Change(PODS.name, key, f"uid of {key}", revision, None, pod)

    def cycle(self) -> list[Decision]:
        decisions = self.shell.cycle()
        self.conditions.note_cycle([], decisions)
        return decisions

    def said(self) -> Counter[tuple[str, str]]:
        return Counter((condition["reason"], condition["message"]) for _, condition, _ in self.cluster.written)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"FIRST_CHECK": 0.05, "TICK": 0.02, "CHECK_AGAIN": 0.1, "BIND_WAIT": 0.4}.items():
        monkeypatch.setattr(module, name, seconds)


def play(check: Callable[[World], Awaitable[None]]) -> World:
    async def run() -> World:
        world = World()
        work = asyncio.create_task(world.conditions.run())
        try:
            await check(world)
        finally:
            work.cancel()
        return world

    return asyncio.run(run())


FULL = "0/1 nodes are available: 1 Insufficient cpu."


def test_a_pod_that_waits_gets_a_condition_and_an_event_once() -> None:
    async def check(world: World) -> None:
        world.shell.node("n", 1)
        world.job("first", 1)
        world.shell.settle()
        world.job("more", 1)
        world.cycle()
        await asyncio.sleep(0.4)

    world = play(check)
    ((key, condition, revision),) = world.cluster.written
    assert (key, revision) == ("ns/more-t-0", "1")
    assert condition.pop("lastTransitionTime")
    assert condition == {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
    assert world.cluster.events == [("Pod", "more-t-0", "uid of ns/more-t-0", FULL)]


def test_the_pods_of_a_gang_have_one_text_and_one_event_on_their_podgroup() -> None:
    async def check(world: World) -> None:
        world.shell.node("n", 1)
        world.job("gang", 50, gang=50)
        world.cycle()
        await asyncio.sleep(0.4)

    world = play(check)
    message = "1/1 nodes are available, but only for 1 of the 50 pods that must start together."
    assert world.said() == {("Unschedulable", message): 50}
    assert world.cluster.events == [("PodGroup", "gang", "uid of ns/gang", message)]


def test_2000_waiting_pods_are_written_at_a_bounded_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = 200.0
    monkeypatch.setattr(module, "RATE", rate)

    async def check(world: World) -> None:
        for number in range(20):
            world.job(f"j{number}", 100)
        loop = asyncio.get_running_loop()
        start = loop.time()
        world.cycle()
        counts = []
        for _ in range(4):
            await asyncio.sleep(0.5)
            counts.append((loop.time() - start, len(world.cluster.written)))
        for seconds, count in counts:  # as measured: a busy machine may sleep longer
            assert count <= rate + rate * seconds + 5, counts  # the burst, and what the rate allows
        assert counts[-1][1] > 2 * rate, counts

    world = play(check)
    assert len({key for key, _, _ in world.cluster.written}) == len(world.cluster.written)
    assert len(world.cluster.events) == 20


def test_pods_of_a_job_that_goes_on_are_written_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    # One of 200 pods starts: the others are written at the lower rate, until the job has not gone on for a while.
    monkeypatch.setattr(module, "RATE", 1000.0)
    monkeypatch.setattr(module, "REWRITE_RATE", 5.0)
    monkeypatch.setattr(module, "GOES_ON", 600.0)

    async def check(world: World) -> None:
        world.shell.node("n", 1)
        world.job("long", 200)
        world.cycle()
        await asyncio.sleep(0.5)
        assert 1 <= len(world.cluster.written) < 20
        monkeypatch.setattr(module, "GOES_ON", 0.0)
        for _ in range(100):
            await asyncio.sleep(0.05)
            if len(world.cluster.written) >= 199:
                return

    world = play(check)
    assert world.said() == {("Unschedulable", FULL): 199}


def test_conditions_wait_while_bindings_are_in_flight_but_not_for_ever() -> None:
    async def check(world: World) -> None:
        world.cluster.in_flight = 7
        world.job("more", 1)
        world.cycle()
        await asyncio.sleep(0.3)
        assert not world.cluster.written
        await asyncio.sleep(0.6)
        assert len(world.cluster.written) == 1

    play(check)


def test_a_pod_that_starts_soon_or_is_bound_meanwhile_gets_none() -> None:
    async def check(world: World) -> None:
        world.shell.node("n", 1)
        world.job("quick", 1)
        world.cycle()
        world.cluster.in_flight = 1  # the condition of the next pod waits
        (late,) = world.job("late", 1)
        world.cycle()
        await asyncio.sleep(0.2)
        world.shell.node("n2", 1)
        world.cycle()
        assert world.shell.engine.state.tasks[late].node is not None
        world.cluster.in_flight = 0
        await asyncio.sleep(0.3)

    assert not play(check).cluster.written


def test_the_same_condition_as_seen_is_not_written_again() -> None:
    # As after a restart of the scheduler.
    async def check(world: World) -> None:
        (key,) = world.job("more", 1)
        seen = {"status": "False", "reason": "Unschedulable", "message": "no nodes available to schedule pods"}
        world.conditions.note_cycle([world.seen(key, "more", "2", **seen)], [])
        world.cycle()
        await asyncio.sleep(0.4)

    world = play(check)
    assert not world.cluster.written and not world.cluster.events


def test_another_reason_is_written_soon_and_another_text_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(world: World) -> None:
        world.shell.node("n", 1)
        world.job("first", 1)
        world.shell.settle()
        world.job("more", 1)
        world.cycle()
        await asyncio.sleep(0.3)
        world.shell.node("n2", 1, unschedulable=True)
        world.cycle()
        await asyncio.sleep(0.3)
        assert world.said() == {("Unschedulable", FULL): 1}
        world.shell.engine.apply(Gone(Queue, "q"))
        world.cycle()
        await asyncio.sleep(0.3)
        assert world.said() == {("Unschedulable", FULL): 1, ("QueueNotFound", "Queue q does not exist."): 1}
        assert "lastTransitionTime" not in world.cluster.written[-1][1]  # the status is False as before
        world.shell.child("q")
        world.cycle()
        await asyncio.sleep(0.3)
        both = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
        assert ("Unschedulable", both) in world.said()
        monkeypatch.setattr(module, "REWRITE", 0.0)
        world.shell.node("n2", 1, ready=False)
        world.cycle()
        await asyncio.sleep(0.3)
        assert (
            "Unschedulable",
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were not ready.",
        ) in world.said()

    play(check)


def test_a_pod_that_waits_for_victims_needs_no_node() -> None:
    async def check(world: World) -> None:
        shell = world.shell
        shell.grace = 100
        shell.child("rival")
        shell.node("n", 2)
        world.job("rich", 2)
        shell.settle()
        key = shell.job("rival", [(1,)], name="poor")
        world.conditions.note_cycle([world.seen(f"{key}-t-0", "poor")], [])
        shell.now += 600 * SECOND
        for _ in range(3):
            world.cycle()
        await asyncio.sleep(0.4)
        assert [condition["reason"] for name, condition, _ in world.cluster.written if "poor" in name] == ["Preempting"]

    play(check)


def test_pods_that_are_bound_or_gone_are_forgotten() -> None:
    async def check(world: World) -> None:
        one, two = world.job("more", 2)
        gone = Change(PODS.name, two, f"uid of {two}", "3", world.seen(two, "more").new, None)
        world.conditions.note_cycle([world.seen(one, "more", "2", "n1"), gone], [])
        world.cycle()
        await asyncio.sleep(0.3)

    assert not play(check).cluster.written
