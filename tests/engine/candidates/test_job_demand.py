"""What counts in a job's demand, in which order, and when it is looked at again."""

from __future__ import annotations

from typing import Any

import pytest

from kubebase.label_selector import Requirement
from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.model.specs import (
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    PodTerm,
    Queue,
    QueueState,
    TaskSpec,
    TaskStatus,
)
from tests.support.pools import make_engine

CPU_TASK, MEMORY_TASK = (1, 0, 1), (0, 1, 1)


def cluster(*objects: Any) -> Engine:
    engine = make_engine(plugins=("gang", "predicates"))
    for described in (Queue("q"), NodeSpec("n", (10, 10, 10)), *objects):
        engine.apply(Changed(described))
    return engine


def job(**more: Any) -> JobSpec:
    return JobSpec("ns", "j", "q", phase=JobPhase.INQUEUE, **more)


def task(number: int, request: tuple[int, ...], **more: Any) -> TaskSpec:
    return TaskSpec("ns", f"t{number}", request, job="ns/j", created=number, **more)


def path(engine: Engine) -> list[tuple[int, int]]:
    """Of each piece of the demand the resource it asks for, and how many tasks."""
    engine.prepare()
    return [(items[0][0], count) for items, count in engine.tree.jobs["ns/j"].demand.pieces]


def test_closed_queue_demand_contains_only_running_tasks_in_order() -> None:
    # The first task asks for cpu and waits: what it asks for does not come before the memory that the second holds.
    on_node = {"node": "n", "status": TaskStatus.RUNNING}
    engine = cluster(
        job(), task(0, CPU_TASK), task(1, MEMORY_TASK, **on_node), task(2, CPU_TASK, **on_node), task(3, MEMORY_TASK)
    )
    assert path(engine) == [(CPU, 1), (MEMORY, 1), (CPU, 1), (MEMORY, 1)]
    engine.apply(Changed(Queue("q", state=QueueState.CLOSED)))
    assert path(engine) == [(MEMORY, 1), (CPU, 1)]


def test_a_task_that_fits_no_node_does_not_move_its_equals_ahead() -> None:
    # Two tasks ask for 1 cpu; the first may only run where there are no nodes.
    nowhere = Constraints(node_selector=(("disk", "ssd"),))
    engine = cluster(job(), task(0, CPU_TASK, constraints=nowhere), task(1, MEMORY_TASK), task(2, CPU_TASK))
    assert path(engine) == [(MEMORY, 1), (CPU, 1)]


def test_a_gang_that_asks_for_more_than_there_is_asks_for_nothing() -> None:
    # 10 cpu: a task of 6 fits, so does one of 5, and both must start together. Of three, 6 and 4 will do.
    engine = cluster(job(min_member=2), task(0, (6, 0, 1)), task(1, (5, 0, 1)))
    assert path(engine) == []
    engine.apply(Changed(task(2, (4, 0, 1))))
    assert path(engine) == [(CPU, 1), (CPU, 1), (CPU, 1)]
    assert [ask[0][1] for ask, _ in engine.tree.jobs["ns/j"].demand.pieces] == [6, 4, 5]


def test_a_gang_that_other_pods_keep_apart_asks_for_no_more_than_there_is_either() -> None:
    apart = Constraints(anti_affinity=(PodTerm("hostname", (Requirement("app", "In", ("x",)),), None),))
    engine = cluster(job(min_member=3), *[task(i, (4, 0, 1), constraints=apart) for i in range(3)])
    assert path(engine) == []


def test_a_minimum_that_is_more_than_there_is_counts_once_the_job_has_started() -> None:
    # It could never be let in with that; but it runs, and the pods that are missing may come and be served.
    engine = cluster(job(min_resources=(12, 0, 0)), task(0, CPU_TASK))
    assert path(engine) == [(CPU, 1)]
    engine.cycle(1)
    assert path(engine) == [(CPU, 1), (CPU, 1)]  # one task, and 11 cpu


def foreign(cpu: int) -> TaskSpec:
    return TaskSpec("kube", "foreign", (cpu, 0, 1), node="n", status=TaskStatus.RUNNING, managed=False)


@pytest.mark.parametrize("asks", ["minimum", "gang"])
def test_demand_follows_when_others_pods_take_of_the_capacity(asks: str) -> None:
    # It needs 8 of 10 cpu, as the minimum of pods that are still to come or in two unlike tasks.
    engine = cluster(job(min_resources=(8, 0, 0)))
    if asks == "gang":
        engine = cluster(job(min_member=2), task(0, (5, 0, 1)), task(1, (3, 0, 1)))
    needed = path(engine)
    assert needed
    engine.apply(Changed(foreign(3)))
    assert path(engine) == []
    engine.apply(Gone(TaskSpec, "kube/foreign"))
    assert path(engine) == needed
