"""The ledger: what jobs ask for, were promised and could spare, and that it adds up at every level, always."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from kubebase.resource_vector import CPU
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind
from pumice.engine.fairness.share_tree.usage_ledger import Ledger, counters
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.engines import run
from tests.support.histories import History, registry, seeds
from tests.support.policies import policy_engine

POLICIES = ("capacity", "proportion", "drf and capacity", "drf and overcommit")


class World:
    """A queue with one job of 2-cpu tasks on a node of 20 cpu."""

    def __init__(self, **job: Any) -> None:
        self.engine = policy_engine("capacity")
        self.engine.apply(Changed(NodeSpec("n", (20, 0, 99))))
        self.engine.apply(Changed(Queue("q")))
        self.engine.apply(Changed(JobSpec("ns", "j", "q", **{"phase": JobPhase.INQUEUE, **job})))

    def task(self, number: int, status: TaskStatus = TaskStatus.PENDING) -> None:
        where: dict[str, Any] = {"node": "n", "started": number + 1} if status.on_node else {}
        self.engine.apply(Changed(TaskSpec("ns", f"t{number}", (2, 0, 1), job="ns/j", status=status, **where)))

    @property
    def counts(self) -> tuple[int, int, int]:
        """Request, inqueue and elastic of the queue, in cpu."""
        self.engine.prepare()
        self.engine.policy.set_bounds()
        queue = self.engine.tree.root.children[(NodeKind.QUEUE, "q")]
        return queue.request[CPU], queue.inqueue[CPU], queue.elastic[CPU]


def test_a_job_without_pods_asks_for_its_minimum() -> None:
    assert World(min_resources=(6,), min_member=3, phase=JobPhase.PENDING).counts == (6, 0, 0)
    assert World(min_resources=(6,), min_member=3).counts == (6, 6, 0)  # let in: that much is promised
    assert World(min_member=3).counts == (0, 0, 0)


def test_held_resources_reduce_promise_and_excess_counts_as_elastic() -> None:
    world = World(min_resources=(6,), min_member=3)
    for number in range(5):
        world.task(number)
    assert world.counts == (10, 6, 0)  # 5 tasks of 2
    for number in range(2):
        world.task(number, TaskStatus.RUNNING)
    assert world.counts == (10, 2, 0)  # 4 of its 6
    for number in range(5):
        world.task(number, TaskStatus.RUNNING)
    assert world.counts == (10, 0, 4)  # 10 - 6


def test_a_job_that_is_ending_frees_its_promise() -> None:
    world = World(min_resources=(6,), min_member=3, phase=JobPhase.RUNNING)
    world.task(0, TaskStatus.SUCCEEDED)
    world.task(1, TaskStatus.RUNNING)
    world.task(2)
    assert world.counts == (6, 2, 0)  # of 6 it holds 2, but only one more task of 2 is still to start
    world.task(2, TaskStatus.SUCCEEDED)
    assert world.counts == (6, 0, 0)


def test_ledger_uses_first_tasks_as_minimum_without_min_resources() -> None:
    world = World(min_member=2)
    for number in range(5):
        world.task(number, TaskStatus.RUNNING)
    assert world.counts == (10, 0, 6)  # 10 less two tasks
    world = World(min_member=1)
    for number in range(2):
        world.task(number, TaskStatus.RUNNING)
    assert world.counts == (4, 0, 2)


def test_a_job_that_is_gone_counts_no_longer() -> None:
    world = World(min_resources=(6,), min_member=3)
    world.task(0, TaskStatus.RUNNING)
    assert world.counts == (6, 4, 0)
    world.engine.apply(Gone(JobSpec, "ns/j"))
    assert world.counts == (0, 0, 0)


def assert_counters_add_up(engine: Engine) -> None:
    """Every job counts what its state says, every node what its children do."""
    assert engine.policy.ledger is not None
    engine.policy.ledger.sync()
    for node in engine.tree.root.walk():
        counted = (node.request, node.inqueue, node.elastic)
        if isinstance(node, JobNode):
            assert counted == counters(node), node.path
            continue
        below = list(node.children.values())
        for mine, theirs in zip(
            (*counted, node.held),
            (
                [child.request for child in below],
                [child.inqueue for child in below],
                [child.elastic for child in below],
                [child.held for child in below],
            ),
            strict=True,
        ):
            assert mine == [sum(column) for column in zip(*theirs, strict=True)] or (not theirs and not any(mine))


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=seeds)
@settings(max_examples=40)
def test_counters_add_up_whatever_happens(policy: str, seed: int) -> None:
    engine = policy_engine(policy, registry())
    run(engine, History(seed).steps(), lambda _: assert_counters_add_up(engine))
    engine.validate()


def test_engine_keeps_no_ledger_unless_a_plugin_reads_one() -> None:
    engine = policy_engine("drf")
    assert engine.policy.ledger is None
    assert engine.tree.touched is None


def test_a_ledger_opened_late_counts_everything() -> None:
    engine = policy_engine("drf", registry())
    run(engine, History(3).steps())
    Ledger(engine.tree).sync()
    assert engine.tree.touched == {}
    assert engine.tree.root.request == [
        sum(c) for c in zip(*(counters(j)[0] for j in engine.tree.jobs.values()), strict=True)
    ]
