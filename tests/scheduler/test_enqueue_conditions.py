"""Podgroups that are not admitted say why: late, once, at a bounded rate, and not while bindings are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pumice.engine.decisions import Condition, Decision, Enqueue
from pumice.engine.events import Gone
from pumice.engine.explain.pending_reason import PendingReasons
from pumice.kube.decode import api_types
from pumice.kube.event_recorder import Subject
from pumice.kube.resources import POD_GROUPS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase, JobSpec, Queue, QueueState
from pumice.scheduler import enqueue_conditions as module
from pumice.scheduler.enqueue_conditions import EnqueueConditions
from tests.support.taking import SECOND, Shell, taking_engine

# The node has 10 (thousandths of a) cpu, all of which queue q deserves, and "first" is promised all of them.
FULL = (
    "The job is not admitted to queue root/q: queue q cannot admit more cpu: "
    "0 in use by required tasks, 10m promised and 4m requested exceed 10m."
)


class Cluster:
    """A binder and an event recorder; keeps what is written."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.written: list[tuple[str, list[dict[str, Any]]]] = []
        self.events: list[tuple[str, str, str]] = []

    def write_podgroup_status(self, job: str, status: dict[str, Any]) -> None:
        assert status.keys() == {"conditions"}
        self.written.append((job, status["conditions"]))

    def record(self, subject: Subject, reason: str, message: str, *, kind: str) -> None:
        assert (subject.kind, reason, kind) == ("PodGroup", "Unschedulable", "Warning")
        self.events.append((subject.name, subject.uid, message))


class World:
    """An engine with a full cluster, podgroups as its scheduler sees them, and the conditions that it writes."""

    def __init__(self, monotonic: Callable[[], float] | None = None) -> None:
        self.cluster = Cluster()
        self.shell = Shell(
            taking_engine("proportion", actions="enqueue, allocate", last=("overcommit",)), audited=False
        )
        self.shell.child("q")
        self.shell.node("n", 10)
        self.conditions = EnqueueConditions(
            lambda: self.shell.engine,
            self.cluster,
            self.cluster,  # type: ignore[arg-type]  # it records what it is told
            **({"now": monotonic} if monotonic is not None else {}),
        )
        self._number = 0
        self.group("first", 10)
        assert self.cycle() == [Enqueue("ns/first")]

    def group(self, name: str, cpu: int, queue: str = "q", **condition: str) -> str:
        """A podgroup without pods, as its controller creates it."""
        self._number += 1
        self.shell.put(JobSpec("ns", name, queue, self._number, 1, min_resources=(cpu,), phase=JobPhase.PENDING))
        self.conditions.note_cycle([self.seen(name, **condition)], [])
        return f"ns/{name}"

    def seen(self, name: str, *, phase: str = "Pending", **condition: str) -> Change[Any]:
        conditions = (api_types.PodCondition("Unschedulable", "True", **condition),) if condition else ()
        status = api_types.PodGroupStatus(phase, conditions)
        group = api_types.PodGroup(api_types.Metadata(name, "ns"), api_types.PodGroupSpec(), status)
        return Change(POD_GROUPS.name, f"ns/{name}", f"uid of {name}", "1", None, group)

    def cycle(self) -> list[Decision]:
        decisions = self.shell.cycle()
        self.conditions.note_cycle([], decisions)
        return decisions

    def check(self, key: str) -> None:
        self.conditions.check(key, PendingReasons(self.shell.engine))

    def said(self) -> list[tuple[str, str, str]]:
        return [(job, one["reason"], one["message"]) for job, all_of in self.cluster.written for one in all_of]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"FIRST_CHECK": 0.05, "TICK": 0.02, "CHECK_AGAIN": 0.1, "BIND_WAIT": 0.4}.items():
        monkeypatch.setattr(module, name, seconds)


def play(check: Callable[[World], Awaitable[None]], world: World | None = None) -> World:
    async def run() -> World:
        found = world or World()
        work = asyncio.create_task(found.conditions.run())
        try:
            async with asyncio.timeout(30):
                await check(found)
        finally:
            work.cancel()
        return found

    return asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_a_group_that_is_not_admitted_says_why_once() -> None:
    async def check(world: World) -> None:
        world.group("late", 4)
        assert world.cycle() == []
        await until(lambda: bool(world.cluster.written))
        await asyncio.sleep(0.3)  # it is checked again several times
        assert world.said() == [("ns/late", "NotEnoughResources", FULL)]
        assert world.cluster.events == [("late", "uid of late", FULL)]

    play(check)


def test_a_closed_queue_is_a_reason() -> None:
    async def check(world: World) -> None:
        world.shell.put(Queue("shut", 90, parent="root", state=QueueState.CLOSED))
        world.group("late", 1, "shut")
        assert world.cycle() == []
        await until(lambda: bool(world.cluster.written))
        assert world.said() == [("ns/late", "QueueClosed", "Queue shut is Closed.")]

    play(check)


def test_a_group_that_is_admitted_soon_gets_no_condition() -> None:
    async def check(world: World) -> None:
        world.group("late", 4)
        world.cycle()
        world.shell.engine.apply(Gone(JobSpec, "ns/first"))
        assert world.cycle() == [Enqueue("ns/late")]
        await asyncio.sleep(0.3)
        assert world.cluster.written == [] and world.cluster.events == []

    play(check)


def test_the_condition_goes_when_the_group_is_admitted() -> None:
    async def check(world: World) -> None:
        world.group("late", 4)
        world.cycle()
        await until(lambda: bool(world.cluster.written))
        world.shell.engine.apply(Gone(JobSpec, "ns/first"))
        assert world.cycle() == [Enqueue("ns/late")]
        assert world.cluster.written[1:] == [("ns/late", [])]

    play(check)


def test_a_condition_that_the_engine_writes_with_the_admission_stays() -> None:
    world = World()
    world.group("late", 4, reason="NotEnoughResources", message=FULL)
    world.conditions.note_cycle(
        [], [Enqueue("ns/late"), Condition("ns/late", "Unschedulable", "NoNodeFits", "no node")]
    )
    assert world.cluster.written == []


def test_an_obstacle_that_the_engine_has_reported_stays() -> None:
    async def check(world: World) -> None:
        world.group("huge", 11_000)  # more than the cluster has
        (obstacle,) = world.cycle()
        assert isinstance(obstacle, Condition) and obstacle.reason == "ClusterTooSmall"
        await asyncio.sleep(0.3)
        assert world.cluster.written == []

    play(check)


def test_a_restarted_scheduler_does_not_repeat_what_the_group_says() -> None:
    async def check(world: World) -> None:
        world.group("late", 4, reason="NotEnoughResources", message=FULL)
        world.cycle()
        await asyncio.sleep(0.3)
        assert world.cluster.written == [] and world.cluster.events == []

    play(check)


def test_a_new_text_alone_is_written_only_after_a_while() -> None:
    clock = [0.0]

    async def check(world: World) -> None:
        key = world.group("late", 4, reason="NotEnoughResources", message="an older text")
        world.cycle()
        clock[0] = module.REWRITE - 1
        world.check(key)
        await asyncio.sleep(0.1)
        assert world.cluster.written == []
        clock[0] = module.REWRITE
        world.check(key)
        await until(lambda: bool(world.cluster.written))
        assert world.said() == [(key, "NotEnoughResources", FULL)]

    play(check, World(lambda: clock[0]))


def test_many_waiting_groups_are_written_at_a_bounded_rate() -> None:
    async def check(world: World) -> None:
        for number in range(2000):
            world.group(f"late-{number}", 4)
        assert world.cycle() == []
        began = asyncio.get_running_loop().time()
        await until(lambda: len(world.cluster.written) > module.RATE)
        await asyncio.sleep(0.5)
        # A burst of as many as fit into a second, then RATE a second; the oldest first.
        passed = asyncio.get_running_loop().time() - began
        assert len(world.cluster.written) <= module.RATE * (1 + passed) + 1
        assert [key for key, _ in world.cluster.written[:3]] == ["ns/late-0", "ns/late-1", "ns/late-2"]

    play(check)


def test_writes_wait_while_bindings_are_in_flight() -> None:
    async def check(world: World) -> None:
        world.cluster.in_flight = 1
        for number in range(20):
            world.group(f"late-{number}", 4)
        world.cycle()
        await until(lambda: bool(world.cluster.written))
        assert len(world.cluster.written) == 1  # after BIND_WAIT
        world.cluster.in_flight = 0
        await until(lambda: len(world.cluster.written) == 20)

    play(check)


def test_a_deleted_group_is_forgotten() -> None:
    async def check(world: World) -> None:
        key = world.group("late", 4)
        world.cycle()
        world.shell.engine.apply(Gone(JobSpec, key))
        world.conditions.note_cycle([Change(POD_GROUPS.name, key, "uid of late", "2", None, None)], [])
        await asyncio.sleep(0.3)
        assert world.cluster.written == []

    play(check)


def test_decisions_are_the_same_whether_or_not_reasons_are_looked_for() -> None:
    def decided(*, looks: bool) -> list[list[Decision]]:
        world = World()
        found = []
        for step in range(12):
            key = world.group(f"job-{step}", 1 + step % 5)
            if step == 6:
                world.shell.engine.apply(Gone(JobSpec, "ns/first"))
            if looks:
                world.check(key)
            world.shell.now += SECOND
            found.append(world.cycle())
            if looks:
                for each in range(step + 1):
                    world.check(f"ns/job-{each}")
        return found

    quiet = decided(looks=False)
    assert any(quiet) and decided(looks=True) == quiet
