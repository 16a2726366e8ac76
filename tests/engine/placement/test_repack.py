"""Arrange: what it finds is right, and it finds what there is, within its number of steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.engine.engine import Engine
from pumice.engine.placement import repack as module
from pumice.engine.placement.repack import repack_tasks
from pumice.engine.state.task import Task
from pumice.engine.transaction import Transaction
from pumice.model.specs import FREE, Constraints, PodTerm
from tests.support.taking import Shell, taking_engine

seeds = st.integers(0, 2**32 - 1)
HOST = "kubernetes.io/hostname"
Need = tuple[tuple[int, int], Constraints]


def claimed(sizes: Sequence[tuple[int, int]], needs: Sequence[Need], homes: Sequence[int], **more: Any) -> Any:
    """An engine with such nodes, and tasks that wait on them, whether or not there is room."""
    shell = Shell(taking_engine(plugins=("gang", "predicates")), audited=False)
    for i, (cpu, memory) in enumerate(sizes):
        shell.node(f"n{i}", cpu, memory, labels={HOST: f"n{i}", "zone": str(i % 2)})
    shell.queue("root/q")
    for i, (request, constraints) in enumerate(needs):
        shell.job("q", [request], name=f"j{i}", constraints=constraints, **more)
    engine = shell.engine
    engine.prepare()
    tasks = [engine.state.tasks[f"ns/j{i}-t-0"] for i in range(len(needs))]
    transaction = Transaction(engine.context)
    for task, home in zip(tasks, homes, strict=True):
        transaction.pipeline(task, home, 1)
    return engine, tasks


def works(engine: Engine, tasks: list[Task], way: Sequence[int]) -> bool:
    """Whether the tasks fit on these nodes, each where it may be."""
    left = {i: list(node.allocatable) for i, node in enumerate(engine.nodes.nodes)}
    for task, i in zip(tasks, way, strict=True):
        if not engine.nodes.view(task.shape).mask[i]:
            return False
        for j, amount in task.shape.items:
            left[i][j] -= amount
    return all(amount >= 0 for amounts in left.values() for amount in amounts)


@given(seed=seeds)
def test_it_finds_what_there_is_and_nothing_else(seed: int) -> None:
    # Up to 4 tasks on up to 3 nodes, with little room to spare: at most 4 * 3^4 steps, far below the limit.
    chance = random.Random(seed)
    sizes = [(chance.randint(1, 5), chance.randint(1, 5)) for _ in range(chance.randint(1, 3))]
    needs: list[Need] = []
    for _ in range(chance.randint(1, 4)):
        selector = Constraints(node_selector=(("zone", chance.choice("01")),)) if chance.random() < 0.3 else FREE
        needs.append(((chance.randint(0, 4), chance.randint(0, 4)), selector))
    homes = [chance.randrange(len(sizes)) for _ in needs]
    engine, tasks = claimed(sizes, needs, homes)
    indices = chance.sample(range(len(sizes)), chance.randint(1, len(sizes)))
    if not set(homes) <= set(indices):  # it is asked about the nodes that are claimed
        indices = list(range(len(sizes)))
    ways = [way for way in product(indices, repeat=len(tasks)) if works(engine, tasks, way)]
    found = repack_tasks(engine.context, tasks, indices)
    if ways:
        assert found is not None, f"seed {seed}: missed {ways[0]}"
        assert works(engine, tasks, [found[task] for task in tasks]), f"seed {seed}: {found}"
        assert set(found.values()) <= set(indices)
    else:
        assert found is None, f"seed {seed}: {found} does not work"


def test_repack_keeps_tasks_on_their_nodes_when_possible() -> None:
    # 4 + 4 cpu; tasks of 3, 2 and 1 where they are: fine as it is.
    engine, tasks = claimed([(4, 9), (4, 9)], [((3, 0), FREE), ((2, 0), FREE), ((1, 0), FREE)], [0, 1, 1])
    assert repack_tasks(engine.context, tasks, [0, 1]) == {tasks[0]: 0, tasks[1]: 1, tasks[2]: 1}


def test_the_small_make_way_for_the_large() -> None:
    # 4 + 2 cpu. The 1 and the 2 wait on n0 with the 3: 6 of 4. The 2 goes to n1.
    engine, tasks = claimed([(4, 9), (2, 9)], [((3, 0), FREE), ((1, 0), FREE), ((2, 0), FREE)], [0, 0, 0])
    assert repack_tasks(engine.context, tasks, [0, 1]) == {tasks[0]: 0, tasks[1]: 0, tasks[2]: 1}


def test_nodes_with_equal_room_may_differ_in_whom_they_allow() -> None:
    only_there = Constraints(node_selector=(("zone", "0"),))
    engine, tasks = claimed([(2, 9), (2, 9)], [((2, 0), FREE), ((1, 0), only_there)], [0, 0])
    assert repack_tasks(engine.context, tasks, [0, 1]) == {tasks[0]: 1, tasks[1]: 0}


def test_repack_leaves_room_of_other_tasks_untouched() -> None:
    engine, tasks = claimed([(4, 9), (4, 9)], [((3, 0), FREE), ((3, 0), FREE), ((2, 0), FREE)], [0, 1, 1])
    # Of the last alone: 1 cpu is left beside each of the others.
    assert repack_tasks(engine.context, tasks[2:], [0, 1]) is None
    assert repack_tasks(engine.context, tasks[:1], [0]) == {tasks[0]: 0}


def test_pods_that_keep_away_from_one_another_are_never_put_together() -> None:
    apart = Constraints(anti_affinity=(PodTerm(HOST, (Requirement("app", "In", ("x",)),)),))
    needs = [((1, 0), apart), ((1, 0), apart)]
    engine, tasks = claimed([(1, 9), (1, 9), (2, 9)], needs, [0, 1], labels={"app": "x"})
    found = repack_tasks(engine.context, tasks, [0, 1, 2])
    assert found is None or found[tasks[0]] != found[tasks[1]]


def test_repack_gives_up_at_step_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = [((3, 0), FREE), ((1, 0), FREE), ((2, 0), FREE)]
    engine, tasks = claimed([(4, 9), (2, 9)], needs, [0, 0, 0])
    monkeypatch.setattr(module, "STEPS", 2)
    assert repack_tasks(engine.context, tasks, [0, 1]) is None
