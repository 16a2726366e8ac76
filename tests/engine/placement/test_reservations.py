"""Holds: room for an owed job that finds none, when it begins, what it keeps out, and when it ends.

See docs/fairness.md, section 3.4.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from pumice.engine.decisions import Bind, Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.placement.reservations import find_reservation, missing_on
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, PriorityClass, Queue, TaskSpec, TaskStatus
from tests.support.engines import ALL_ACTIONS, FIRST, run
from tests.support.histories import History, registry, seeds
from tests.support.pools import make_engine

SECOND = 1_000_000


class Cluster:
    """Queue ``large`` wants big things, queue ``small`` runs small ones everywhere and always has more."""

    def __init__(self, *objects: Any, patience: float = 0, limit: float = 120, nodes: int = 1, size: int = 8) -> None:
        arguments = {"drf.patience": patience, "drf.holdLimit": limit}
        self.engine = make_engine(arguments=arguments, plugins=("priority", "gang"))
        self.number = 0
        self.tell(Queue("large"), Queue("small"), self.job("small", "small"))
        for i in range(nodes):
            self.tell(NodeSpec(f"n{i}", (size, 100, 100)))
            for _ in range(size):
                self.small(node=f"n{i}", status=TaskStatus.RUNNING, started=1)
        for _ in range(2 * nodes * size):
            self.small()
        self.tell(*objects)

    def tell(self, *objects: Any) -> None:
        for described in objects:
            self.engine.apply(Changed(described))

    @staticmethod
    def job(name: str, queue: str = "large", **more: Any) -> JobSpec:
        return JobSpec("ns", name, queue, phase=JobPhase.INQUEUE, **more)

    def small(self, **more: Any) -> None:
        self.number += 1
        self.tell(TaskSpec("ns", f"s{self.number:03d}", (1, 0, 1), job="ns/small", created=self.number, **more))

    def end_one(self, node: str = "n0") -> None:
        """A small task on a node ends, and one more is asked for."""
        running = [t for t in self.engine.state.nodes[node].tasks.values() if t.spec.job == "ns/small"]
        self.engine.apply(Gone(TaskSpec, min(running, key=lambda task: (task.started, task.key)).key))
        self.small()

    def cycle(self, seconds: float) -> list[str]:
        """Run a cycle; the jobs that started something."""
        decisions = self.engine.cycle(int(seconds * SECOND))
        return [decision.job for decision in decisions if isinstance(decision, Bind)]

    def running(self, job: str) -> int:
        return self.engine.state.jobs[f"ns/{job}"].running

    def idle(self, node: str = "n0") -> int:
        return self.engine.state.nodes[node].idle[0]


def big(job: str = "big", cpu: int = 4, count: int = 1) -> list[TaskSpec]:
    return [TaskSpec("ns", f"{job}-t-{i}", (cpu, 0, 1), job=f"ns/{job}") for i in range(count)]


# --- when it begins and what it does --------------------------------------------------------------------------------


def test_large_task_never_starts_without_reservations() -> None:
    # Entitled to half of 8 cpu, one task of 4. Whatever comes free, one cpu at a time, is lent at once.
    cluster = Cluster(Cluster.job("big"), *big(), patience=-1)
    cluster.cycle(1)
    for now in range(2, 30):
        cluster.end_one()
        assert cluster.cycle(now) == ["ns/small"]
    assert cluster.running("big") == 0


def test_reservation_accumulates_room_for_large_task() -> None:
    cluster = Cluster(Cluster.job("big"), *big())
    cluster.cycle(1)
    for now in range(2, 5):
        cluster.end_one()
        assert cluster.cycle(now) == [] and cluster.idle() == now - 1
    cluster.end_one()
    assert cluster.cycle(5) == ["ns/big"]
    # The hold is over: room is lent again.
    assert cluster.engine.context.reservations.active == {}
    cluster.end_one()
    assert cluster.cycle(6) == ["ns/small"]


def test_a_hold_begins_after_the_patience() -> None:
    cluster = Cluster(Cluster.job("big"), *big(), patience=300)
    cluster.cycle(10)
    for now in (100, 200, 309):
        cluster.end_one()
        assert cluster.cycle(now) == ["ns/small"]
    cluster.end_one()
    assert cluster.cycle(310) == []


def test_the_wait_counts_from_the_last_start() -> None:
    cluster = Cluster(Cluster.job("big"), *big(cpu=2, count=3), patience=300, size=12)  # entitled to 6 cpu: all three
    cluster.cycle(1)
    for now in (250, 251):  # two cpu come free at once: the first of the three starts
        cluster.engine.apply(Gone(TaskSpec, "ns/s001" if now == 250 else "ns/s003"))
        cluster.engine.apply(Gone(TaskSpec, "ns/s002" if now == 250 else "ns/s004"))
        if now == 250:
            assert cluster.cycle(now) == ["ns/big"]
    assert cluster.cycle(251) == ["ns/big"]
    cluster.end_one()
    assert cluster.cycle(310) == ["ns/small"]  # 300 s since it first waited, but not since it was served
    cluster.end_one()
    assert cluster.cycle(551) == []


def test_reservation_without_patience_begins_in_cycle_of_last_start() -> None:
    # Entitled to half of 16 cpu, four tasks of 2. Of 5 cpu that come free at once two take 4: the third lacks one, and
    # the fifth cpu is kept for it. No two units start at the same instant: the second starts just after the cycle did.
    cluster = Cluster(Cluster.job("big"), *big(cpu=2, count=4), nodes=2)
    for _ in range(5):
        cluster.end_one()
    assert cluster.cycle(1) == ["ns/big", "ns/big"]
    assert cluster.idle() == 1


def test_job_beyond_entitlement_is_placed_outside_reservation() -> None:
    cluster = Cluster(Cluster.job("big"), *big(), nodes=2)
    cluster.cycle(1)
    cluster.end_one("n0")
    assert cluster.cycle(2) == []  # n0 is where big lacks least
    cluster.end_one("n1")
    assert cluster.cycle(3) == ["ns/small"] and cluster.idle("n1") == 0 and cluster.idle("n0") == 1


def test_only_what_the_unit_asks_for_is_kept() -> None:
    # big asks for no memory: a task that asks for nothing else may have it.
    cluster = Cluster(Cluster.job("big"), *big())
    cluster.cycle(1)
    cluster.tell(Cluster.job("memory", "small"), TaskSpec("ns", "m", (0, 50, 1), job="ns/memory"))
    assert cluster.cycle(2) == ["ns/memory"]


def test_the_owed_may_take_the_room() -> None:
    # A third queue is entitled to a third of 9 cpu and runs nothing: its small task takes what big waits for.
    cluster = Cluster(Cluster.job("big"), *big(cpu=3), size=9)
    cluster.cycle(1)
    cluster.end_one()
    assert cluster.cycle(2) == []
    cluster.tell(Queue("third"), Cluster.job("other", "third"), *big("other", cpu=1))
    assert cluster.cycle(3) == ["ns/other"]


def test_branch_reserves_once_by_priority_then_by_waiting_time() -> None:
    cluster = Cluster(
        PriorityClass("high", 100),
        Cluster.job("first", created=1),
        *big("first", cpu=2),
        Cluster.job("second", created=2),
        *big("second", cpu=2),
        Queue("third"),
        Cluster.job("elsewhere", "third"),
        *big("elsewhere", cpu=2),
    )
    engine = cluster.engine
    cluster.cycle(1)
    assert {leaf.name for leaf in engine.context.reservations.active} == {"ns/first", "ns/elsewhere"}
    cluster = Cluster(
        PriorityClass("high", 100),
        Cluster.job("first", created=1),
        *big("first", cpu=2),
        Cluster.job("second", created=2, priority_class="high"),
        *big("second", cpu=2),
    )
    cluster.cycle(1)
    assert {leaf.name for leaf in cluster.engine.context.reservations.active} == {"ns/second"}


# --- when it ends -----------------------------------------------------------------------------------------------------


def test_reservation_ends_when_job_is_deleted() -> None:
    cluster = Cluster(Cluster.job("big"), *big())
    cluster.cycle(1)
    cluster.engine.apply(Gone(JobSpec, "ns/big"))
    cluster.end_one()
    assert cluster.cycle(2) == ["ns/small"] and cluster.engine.context.reservations.active == {}


def test_reservation_ends_when_job_is_no_longer_owed() -> None:
    cluster = Cluster(Cluster.job("big"), *big())
    cluster.cycle(1)
    cluster.tell(Queue("small", weight=100))
    cluster.end_one()
    assert cluster.cycle(2) == ["ns/small"] and cluster.engine.context.reservations.active == {}


def test_reservation_without_progress_ends_and_doubles_next_wait() -> None:
    cluster = Cluster(Cluster.job("big"), *big(), patience=10, limit=60)
    cluster.cycle(0)
    cluster.cycle(10)
    cluster.end_one()
    assert cluster.cycle(20) == []  # it holds, and made progress at 20
    assert cluster.cycle(80) == []
    assert cluster.cycle(81) == ["ns/small"]  # more than 60 s without any
    cluster.end_one()
    assert cluster.cycle(100) == ["ns/small"]  # 10 s are over, 20 are not
    cluster.end_one()
    assert cluster.cycle(101) == []
    assert cluster.cycle(162) == ["ns/small"]
    cluster.end_one()
    assert cluster.cycle(201) == ["ns/small"]
    cluster.end_one()
    assert cluster.cycle(202) == []  # 40


def test_a_limit_of_minus_one_keeps_the_reservation_for_ever() -> None:
    cluster = Cluster(Cluster.job("big"), *big(), patience=10, limit=-1)
    cluster.cycle(0)
    cluster.cycle(10)
    cluster.end_one()
    assert cluster.cycle(20) == []  # it is reserved, and nothing more becomes free
    assert cluster.cycle(100_000) == []


def test_a_gang_that_gathers_room_node_by_node_makes_progress() -> None:
    # Six nodes of 2 cpu, a gang of 6 tasks of 2; one small task ends every 6 s, the limit is 10 s.
    cluster = Cluster(nodes=7, size=2, limit=10)
    cluster.tell(Queue("large", weight=1000), Cluster.job("gang", min_member=6), *big("gang", cpu=2, count=6))
    cluster.cycle(1)
    for step in range(12):
        cluster.end_one(f"n{step // 2}")
        cluster.cycle(7 + 6 * step)
    assert cluster.running("gang") == 6


def test_reservation_moves_only_to_node_lacking_strictly_less() -> None:
    cluster = Cluster(Cluster.job("big"), *big(), nodes=2)
    engine = cluster.engine
    cluster.cycle(1)
    (hold,) = engine.context.reservations.active.values()
    assert list(hold.needs) == [0]
    cluster.end_one("n0")
    cluster.cycle(2)
    assert list(hold.needs) == [0] and cluster.idle("n0") == 1
    # n1 gets as far, by tasks that end in one go: equal is not less.
    engine.apply(Gone(TaskSpec, "ns/s009"))
    cluster.cycle(3)
    assert list(hold.needs) == [0]
    for name in ("s010", "s011"):
        engine.apply(Gone(TaskSpec, f"ns/{name}"))
    cluster.cycle(4)
    assert list(hold.needs) == [1]


# --- what it needs ----------------------------------------------------------------------------------------------------


def test_reservation_needs_fit_the_allocatable_of_each_node() -> None:
    # Two nodes of 8 cpu, one empty, one full; 4 tasks of 3 cpu: two a node, whatever is idle.
    cluster = Cluster(nodes=1)
    cluster.tell(NodeSpec("empty", (8, 100, 100)), Cluster.job("gang", min_member=4), *big("gang", cpu=3, count=4))
    engine = cluster.engine
    engine.prepare()
    needs, lack = find_reservation(engine.nodes, engine.tree.jobs["ns/gang"].unit, engine.state.capacity)
    assert needs == {0: ((0, 6), (2, 2)), 1: ((0, 6), (2, 2))}
    assert lack == pytest.approx(missing_on(engine.nodes, needs, engine.state.capacity))


@given(seed=seeds)
def test_what_is_lent_never_eats_into_what_is_held(seed: int) -> None:
    engine: Engine = make_engine(
        "steer", actions=ALL_ACTIONS, plugins=FIRST, arguments={"drf.patience": 0}, registry=registry()
    )

    def check(decisions: list[Decision]) -> None:
        engine.validate()
        for hold in engine.context.reservations.active.values():
            for index, needs in hold.needs.items():
                node = engine.nodes.nodes[index]
                assert all(amount <= node.allocatable[j] for j, amount in needs)
                for decision in decisions:
                    task = engine.state.tasks[decision.task] if isinstance(decision, Bind) else None
                    if task is not None and task.node is node and not task.owed:
                        for j, _ in task.shape.items:
                            assert dict(needs).get(j, 0) <= node.idle[j]
        branches = [leaf.path.split("/")[1] for leaf in engine.context.reservations.active]
        assert len(branches) == len(set(branches))
        for leaf, hold in engine.context.reservations.active.items():
            assert sorted((shape.items, count) for shape, count in leaf.unit.parts) == list(hold.parts)
            assert not leaf.able and engine.order.is_owed(leaf, leaf.unit.ask)

    run(engine, History(seed).steps(), check)
