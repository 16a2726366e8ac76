"""Candidates: who has something to start and whether it fits, at any moment, against counting node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from pumice.engine.decisions import Condition, Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.plugins.plugin import Plugin
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Constraints, JobPhase, JobSpec, NodeSpec, PodTerm, Queue, TaskSpec, TaskStatus
from tests.support.engines import ENGINES, run
from tests.support.examples import fewer_examples
from tests.support.histories import History, seeds
from tests.support.pools import make_engine


def fits(engine: Engine, shape: TaskShape) -> bool:
    nodes = [node for node in engine.state.nodes.values() if node.schedulable]
    return any(all(node.idle[j] >= amount for j, amount in shape.items) for node in nodes)


@pytest.mark.parametrize("make", list(ENGINES.values()), ids=list(ENGINES))
@fewer_examples(3)
@given(seed=seeds)
def test_what_is_known_to_be_full_is_full(make: Callable[[], Engine], seed: int) -> None:
    engine = make()

    def check(_: list[Decision]) -> None:
        candidates = engine.candidates
        for shape in candidates.infeasible_shapes:
            assert not fits(engine, shape)
        for leaf in engine.tree.jobs.values():
            unit = leaf.unit
            if unit is None:
                assert leaf.ask is None and not leaf.able
                continue
            line = leaf.waiting_line
            assert (leaf in unit.waiting) is (line is None) and (line is None or line in unit.lines)
            assert leaf.ask == unit.ask or (line is not None and leaf is not line.head)
            assert leaf.placeable is (candidates.is_open(unit) and leaf not in candidates.gated_jobs)
            if unit.tried and unit.size == 1:
                assert not fits(engine, unit.parts[0][0])  # what was tried in vain is in vain
            for shape, count in unit.parts:
                assert len(leaf.job.pending[shape]) >= count
        for unit in candidates.units:
            assert all(leaf.unit is unit for leaf in unit.waiting)
            assert unit.wanted or unit.tried  # that it was tried in vain must not be forgotten; no other is kept

    history = History(seed)
    for step in history.steps():
        run(engine, [step], check)
        for event in history.events(4):
            engine.apply(event)
        engine.prepare()  # and in the middle of things
        check([])


def cluster(*objects: Any, plugins: tuple[str, ...] = ("gang",)) -> Engine:
    engine = make_engine(plugins=plugins, actions="allocate, backfill")
    for described in (Queue("q"), NodeSpec("n", (10, 10, 10)), *objects):
        engine.apply(Changed(described))
    return engine


def job(name: str, queue: str = "q", **more: Any) -> JobSpec:
    return JobSpec("ns", name, queue, phase=JobPhase.INQUEUE, **more)


def task(name: str, job_name: str, request: tuple[int, ...] = (1, 0, 1), **more: Any) -> TaskSpec:
    return TaskSpec("ns", name, request, job=f"ns/{job_name}", **more)


def running(engine: Engine) -> dict[str, int]:
    return {found.key[3:]: found.running for found in engine.state.jobs.values()}


def test_unlike_tasks_one_after_another_as_they_fit() -> None:
    # 3 cpu, 4 memory: the first shape fills the cpu, the second goes on where the first stopped.
    engine = cluster(
        NodeSpec("n", (3, 4, 99)),
        job("m"),
        *[task(f"c{i}", "m", (1, 0, 1), created=i) for i in range(9)],
        *[task(f"m{i}", "m", (0, 1, 1), created=20 + i) for i in range(9)],
    )
    engine.cycle(1)
    assert engine.state.nodes["n"].idle[:2] == [0, 0]


def test_a_shape_that_opens_again_opens_for_all_who_wait_with_it() -> None:
    engine = cluster(
        NodeSpec("n", (3, 4, 99)),
        job("m"),
        *[task(f"c{i}", "m", (1, 0, 1), created=i) for i in range(9)],
        *[task(f"m{i}", "m", (0, 1, 1), created=20 + i) for i in range(9)],
        job("g", created=1, min_member=3),
        *[task(f"g{i}", "g") for i in range(3)],
        job("h", created=1, min_member=3),
        *[task(f"h{i}", "h") for i in range(3)],
        job("hog"),
        task("hog", "hog", (3, 4, 1), node="n", status=TaskStatus.RUNNING),
    )
    engine.cycle(1)
    assert running(engine) == {"m": 0, "g": 0, "h": 0, "hog": 1}
    for described in ("hog", *(f"c{i}" for i in range(9)), *(f"m{i}" for i in range(9))):
        engine.apply(Gone(TaskSpec, f"ns/{described}"))
    engine.cycle(2)
    assert running(engine)["g"] == 3
    for i in range(3):
        engine.apply(Gone(TaskSpec, f"ns/g{i}"))
    engine.cycle(3)
    assert running(engine)["h"] == 3


def test_a_gang_is_tried_again_only_when_room_grew() -> None:
    engine = cluster(
        NodeSpec("m", (2, 9, 9)),
        NodeSpec("n", (3, 9, 9)),
        job("g", min_member=2),
        *[task(f"g{i}", "g", (2, 0, 1)) for i in range(2)],
        job("x"),
        task("x", "x", (2, 0, 1), node="n", status=TaskStatus.RUNNING),
    )
    engine.cycle(1)
    unit = engine.tree.jobs["ns/g"].unit
    assert unit.tried and running(engine)["g"] == 0
    engine.apply(Changed(task("late", "x", (0, 1, 1))))  # nothing to do with it
    engine.cycle(2)
    assert engine.tree.jobs["ns/g"].unit is unit and unit.tried
    engine.apply(Gone(TaskSpec, "ns/x"))
    engine.cycle(3)
    assert running(engine)["g"] == 2


def test_which_task_finds_no_place_depends_on_the_order_of_a_jobs_own_tasks() -> None:
    # 3 cpu on one node, 1 on another. A gang of 2 cpu (with memory) and 2 cpu (without) finds room for one of them.
    # The first job has them in one order and nothing else; the second in the other, and could do with a small one. What
    # the first has tried says nothing about which of its own tasks the second has to pass over.
    plain, other, small = (2, 0, 1), (2, 1, 1), (1, 0, 1)
    engine = cluster(
        NodeSpec("n", (3, 9, 9)),
        NodeSpec("m", (1, 9, 9)),
        job("a", min_member=2),
        *[task(f"a{i}", "a", request, created=i) for i, request in enumerate([plain, other])],
        job("b", created=1, min_member=2),
        *[task(f"b{i}", "b", request, created=i) for i, request in enumerate([other, plain, small])],
    )
    engine.cycle(1)
    assert {key for key, found in engine.state.tasks.items() if found.status.held} == {"ns/b0", "ns/b2"}


@pytest.mark.parametrize("affinity", [(), (PodTerm("zone", (), None),)], ids=["plain", "coupled"])
def test_unschedulable_task_does_not_move_its_queue_ahead(affinity: tuple[PodTerm, ...]) -> None:
    # Three queues, 12 cpu: 4 each. No task of c is there yet; of its 4, rounding hands one to a and one to b (at most
    # one a job), and two are lent. Neither a nor b lacks cpu more than the other: 4 + 1 + 1 each. Queue a lacks 4 of
    # memory too, but the one task there that asks for memory asks for more than any node has.
    engine = cluster(
        NodeSpec("n", (12, 12, 99)),
        *[Queue(name, created=1) for name in "abc"],
        job("a", queue="a"),
        *[task(f"a{i}", "a", priority=1) for i in range(9)],
        job("never", queue="a"),
        task("never", "never", (0, 13, 1), constraints=Constraints(affinity=affinity)),
        job("soon", queue="a", min_resources=(0, 4, 0)),
        job("b", queue="b"),
        *[task(f"b{i}", "b", priority=1) for i in range(9)],
        job("later", queue="c", min_resources=(12, 0, 0)),
        plugins=("priority", "gang"),
    )
    engine.cycle(1)
    assert running(engine) == {"a": 6, "never": 0, "soon": 0, "b": 6, "later": 0}


class Gatekeeper(Plugin):
    """Refuses a job by name, as a limit would."""

    name = "gatekeeper"
    refuses = ""

    def allocatable(self, leaf: Any, unit: Any) -> str | None:
        return "over its limit" if leaf.job.key == self.refuses else None


def test_a_job_that_a_gate_refuses_is_passed_over_and_asked_again() -> None:
    engine = cluster(
        job("a"), *[task(f"a{i}", "a") for i in range(9)], job("b"), *[task(f"b{i}", "b") for i in range(9)]
    )
    gate = Gatekeeper({})
    engine.policy._allocatable.append(gate)
    gate.refuses = "ns/a"
    decisions = engine.cycle(1)
    assert running(engine) == {"a": 0, "b": 9}
    assert [d.message for d in decisions if isinstance(d, Condition) and d.job == "ns/a"] == ["over its limit"]
    gate.refuses = ""
    engine.cycle(2)
    assert running(engine) == {"a": 1, "b": 9}


def test_why_a_job_waits_is_said_once() -> None:
    engine = cluster(job("first"), task("first", "first", (5, 0, 1)), job("a"), task("a", "a", (10, 0, 1)))
    said = [decision for now in range(3) for decision in engine.cycle(now) if isinstance(decision, Condition)]
    assert [(d.job, d.type, d.message) for d in said] == [
        ("ns/a", "Unschedulable", "no node has enough idle capacity for one task (cpu 10m)")
    ]


def test_priority_is_read_again_when_a_job_changes() -> None:
    engine = cluster(
        job("a"),
        *[task(f"a{i}", "a", priority=1) for i in range(9)],
        job("b"),
        *[task(f"b{i}", "b", priority=2) for i in range(9)],
        plugins=("priority", "gang"),
    )
    engine.cycle(1)
    assert running(engine) == {"a": 1, "b": 9}
