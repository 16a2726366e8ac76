"""Freeable: never says that more have to go than really must, nor that it is hopeless where it is not."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.engine import Engine
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.freeable_capacity import INFEASIBLE, FreeableCapacity
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks, is_running
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.transaction import Transaction
from pumice.model.specs import Constraints, NodeSpec, TaskStatus
from tests.support.taking import SECOND, Shell, taking_engine

seeds = st.integers(0, 2**32 - 1)


def fewest(node: ClusterNode, shape: TaskShape, among: list[Task]) -> int:
    """By trying: how many of these tasks must go from a node at the least."""
    for count in range(len(among) + 1):
        for gone in combinations(among, count):
            freed = [sum(dict(task.shape.items).get(j, 0) for task in gone) for j in range(len(node.idle))]
            if all(node.future(j) + freed[j] >= amount for j, amount in shape.items):
                return count
    return INFEASIBLE


def random_cluster(seed: int) -> tuple[Shell, random.Random]:
    """Three nodes with a few tasks each, some on their way out, some waiting there; one node may be closed."""
    chance = random.Random(seed)
    shell = Shell(taking_engine(plugins=("gang", "predicates")), audited=False)
    for i in range(3):
        shell.node(f"n{i}", chance.randint(2, 8), chance.randint(2, 8), chance.randint(3, 8), labels={"zone": str(i)})
    shell.queue("root/a")
    shell.queue("root/b")
    for _ in range(chance.randint(2, 5)):
        requests = [(chance.randint(0, 3), chance.randint(0, 3)) for _ in range(chance.randint(1, 3))]
        shell.job(chance.choice("ab"), requests)
    shell.cycle()
    for spec in list(shell.tasks.values()):
        if spec.status is TaskStatus.RUNNING and chance.random() < 0.2:
            shell.put(replace(spec, status=TaskStatus.RELEASING))
    for queue in "ab":
        selector = (("zone", str(chance.randrange(3))),) if chance.random() < 0.3 else ()
        request = (chance.randint(1, 6), chance.randint(0, 6))
        shell.job(queue, [request], name=f"wants-{queue}", constraints=Constraints(node_selector=selector))
    if chance.random() < 0.3:
        shell.put(NodeSpec("n2", (8, 8, 8), labels={"zone": "2"}, unschedulable=True))
    shell.engine.context.now = shell.now + SECOND
    shell.engine.prepare()
    for task in [shell.engine.state.tasks[f"ns/wants-{queue}-t-0"] for queue in "ab"]:
        if chance.random() < 0.3 and task.status is TaskStatus.PENDING:
            Transaction(shell.engine.context).pipeline(task, chance.randrange(2), 9)
    shell.engine.nodes.find_freeing()
    return shell, chance


def freeable_of(engine: Engine, leaves: Iterable[JobNode]) -> FreeableCapacity:
    leaves = list(leaves)
    return FreeableCapacity(engine.context, PreemptibleTasks(engine.context, leaves), leaves)


def held_against_trying(engine: Engine, freeable: FreeableCapacity, jobs: set[str]) -> int:
    """How many answers were looked at."""
    looked = 0
    for shape in list(engine.state.shapes):
        said = freeable.victims_for(shape)
        for i, node in enumerate(engine.nodes.nodes):
            among = [
                task
                for task in node.tasks.values()
                if is_running(engine.context, task) and task.job and task.job.key in jobs
            ]
            truth = fewest(node, shape, among) if engine.nodes.allows(shape, i) else INFEASIBLE
            # One task at least: where nobody has to go nobody asks.
            assert said[i] <= max(1, truth), f"{node.name}: {shape.items} needs {truth}, not {said[i]}"
            slots = freeable.slots_for(shape, i)
            if truth < INFEASIBLE:
                assert slots >= 1
            looked += 1
    return looked


@given(seed=seeds)
def test_a_lower_bound_of_who_has_to_go(seed: int) -> None:
    shell, _ = random_cluster(seed)
    engine = shell.engine
    freeable = freeable_of(engine, engine.tree.jobs.values())
    assert held_against_trying(engine, freeable, set(engine.tree.jobs))


@given(seed=seeds)
def test_only_these_jobs_can_be_asked(seed: int) -> None:
    shell, chance = random_cluster(seed)
    engine = shell.engine
    some = {key: leaf for key, leaf in engine.tree.jobs.items() if chance.random() < 0.5}
    held_against_trying(engine, freeable_of(engine, some.values()), set(some))


@given(seed=seeds)
def test_a_node_that_is_looked_at_again_is_as_if_all_were(seed: int) -> None:
    shell, chance = random_cluster(seed)
    engine = shell.engine
    kept = freeable_of(engine, engine.tree.jobs.values())
    for shape in chance.sample(list(engine.state.shapes), 1):
        kept.victims_for(shape)  # from now on it is counted again only on refreshed nodes
    transaction = Transaction(engine.context)
    running = [task for task in engine.state.tasks.values() if is_running(engine.context, task)]
    for task in chance.sample(running, min(len(running), 3)):
        transaction.evict(task)
    for i in transaction.changed_nodes():
        kept.refresh(i)
    engine.nodes.find_freeing()
    anew = freeable_of(engine, engine.tree.jobs.values())
    for shape in list(engine.state.shapes):
        assert kept.victims_for(shape).tolist() == anew.victims_for(shape).tolist()
        for i in range(len(engine.nodes.nodes)):
            assert kept.slots_for(shape, i) == anew.slots_for(shape, i)


@pytest.mark.parametrize(
    ("tasks", "asks", "said"),
    [
        # 6 cpu, all held. To free 4 of them by tasks of 1: 4 go; by one of 3 and three of 1: 2; by one of 6: 1.
        ([1] * 6, 4, 4),
        ([3, 1, 1, 1], 4, 2),
        ([6], 4, 1),
        # One is idle: 3 are lacking.
        ([1] * 5, 4, 3),
        # More than there is, whoever goes.
        ([1] * 6, 7, INFEASIBLE),
    ],
)
def test_freeable_capacity_gives_fewest_victims_for_request(tasks: list[int], asks: int, said: int) -> None:
    shell = Shell(taking_engine(), audited=False)
    shell.node("n", 6)
    shell.queue("root/a")
    for cpu in tasks:
        shell.job("a", [(cpu,)])
    shell.cycle()
    shell.job("a", [(asks,)], name="wants")
    shell.engine.cycle(shell.now + SECOND)
    freeable = freeable_of(shell.engine, shell.engine.tree.jobs.values())
    assert freeable.victims_for(shell.engine.state.tasks["ns/wants-t-0"].shape).tolist() == [said]
