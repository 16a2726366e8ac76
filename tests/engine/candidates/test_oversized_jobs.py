"""A job that must start with more than its queue may hold is no demand, and is told so, unless it runs already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.decisions import Condition
from pumice.engine.events import Changed, Gone
from pumice.engine.explain.explain import explain
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.model.specs import JobPhase, Queue, TaskSpec, TaskStatus
from tests.support.queue_worlds import QueueWorld, cpu

POLICIES = pytest.mark.parametrize("policy", ["capacity", "drf and capacity"])


def told(world: QueueWorld) -> dict[str, str]:
    return {said.job: said.message for said in world.cycle() if isinstance(said, Condition)}


@POLICIES
def test_a_gang_above_the_capability_of_its_queue(policy: str) -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)), Queue("b"), policy=policy)
    gang = world.job("a", 6, min_member=5)
    world.job("b", 20)
    assert told(world)[gang] == (
        "the job can never start: its first 5 tasks request cpu 5m together, but queue a may hold at most cpu 4m"
    )
    assert (world.held("a"), world.held("b")) == (0, 10)
    assert world.engine.tree.jobs[gang].demand.pieces == ()
    assert not told(world), "said once"
    answer = explain(world.engine, gang, world.now)
    assert answer is not None and answer.cause == "never"
    assert "queue a may hold at most cpu 4m" in answer.verdict
    # With a higher capability it counts.
    world.change(Queue("a", capability=cpu(5)))
    world.engine.prepare()
    assert world.engine.tree.jobs[gang].demand.pieces


def test_others_are_entitled_to_what_it_can_never_use() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)), Queue("b"), policy="drf and capacity")
    world.job("a", 6, min_member=5)
    world.job("b", 20)
    world.engine.prepare()
    assert world.engine.tree.root.children[NodeKind.QUEUE, "b"].entitled[0] == 10


def test_gang_above_capacity_left_by_guarantees_is_oversized() -> None:
    # a may hold 4 of 10: b is guaranteed 6.
    world = QueueWorld(Queue("a"), Queue("b", guarantee=cpu(6)), Queue("a1", parent="a"))
    gang = world.job("a1", 5, min_member=5)
    assert told(world)[gang].endswith("but queue a1 may hold at most cpu 4m")


def test_a_gang_that_could_start_with_smaller_tasks_is_not_given_up() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)))
    small = world.job("a", 5, min_member=4)
    world.cycle()
    assert world.engine.state.jobs[small].running == 4


def test_a_group_that_is_not_let_in_for_it_is_told() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)))
    large = world.job("a", 0, phase=JobPhase.PENDING, min_member=5, min_resources=(5,))
    fits = world.job("a", 0, phase=JobPhase.PENDING, min_member=4, min_resources=(4,))
    assert told(world) == {
        large: "the job can never start: its first 5 tasks request cpu 5m together, but queue a may hold at most cpu 4m"
    }
    assert world.engine.state.jobs[fits].phase is JobPhase.INQUEUE


def has_demand(world: QueueWorld, job: str) -> bool:
    world.engine.prepare()
    return bool(world.engine.tree.jobs[job].demand.pieces)


@POLICIES
def test_a_running_gang_above_a_lowered_capability_is_no_demand(policy: str) -> None:
    world = QueueWorld(Queue("a"), Queue("b"), policy=policy)
    gang = world.job("a", 6, running=6, min_member=5)
    assert has_demand(world, gang)
    world.change(Queue("a", capability=cpu(5)))
    assert has_demand(world, gang), "5 of its 6 tasks would do"
    world.change(Queue("a", capability=cpu(4)))
    assert not has_demand(world, gang)
    assert not told(world), "it runs"
    world.change(Queue("a", capability=cpu(5)))
    assert has_demand(world, gang)


def test_a_job_counts_that_could_start_again_with_fewer_tasks() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)))
    job = world.job("a", 6, running=6, min_member=1)
    assert has_demand(world, job)


def test_what_has_succeeded_does_not_have_to_start_again() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)))
    gang = world.job("a", 5, running=5, min_member=5)
    assert not has_demand(world, gang)
    done = next(iter(world.engine.state.jobs[gang].tasks.values())).spec
    world.engine.apply(Changed(replace(done, status=TaskStatus.SUCCEEDED)))
    assert has_demand(world, gang)


def test_it_has_no_demand_while_its_evicted_pods_are_gone_one_by_one() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)))
    gang = world.job("a", 5, running=5, min_member=5, min_resources=(5,))
    tasks = [task.spec for task in world.engine.state.jobs[gang].tasks.values()]
    assert not has_demand(world, gang)
    for task in tasks:
        world.engine.apply(Changed(replace(task, status=TaskStatus.RELEASING)))
        assert not has_demand(world, gang)
    for task in tasks:
        world.engine.apply(Gone(TaskSpec, task.key))
        assert not has_demand(world, gang)
    for task in tasks:
        world.engine.apply(Changed(replace(task, status=TaskStatus.PENDING, node=None, started=0)))
        assert not has_demand(world, gang)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 6), st.integers(1, 9), st.booleans())
def test_demand_does_not_depend_on_what_runs(sizes: list[int], least: int, limit: int, runs: bool) -> None:
    least = min(least, len(sizes))
    world = QueueWorld(Queue("a", capability=cpu(limit)), room=30)
    key = world.job("a", 0, min_member=least)
    for n, size in enumerate(sizes):
        where: dict[str, Any] = {"node": "n", "status": TaskStatus.RUNNING, "started": 1} if runs else {}
        world.engine.apply(Changed(TaskSpec("ns", f"t-{n}", (size, 0, 1), job=key, created=n, **where)))
    assert has_demand(world, key) is (sum(sorted(sizes)[:least]) <= limit)
