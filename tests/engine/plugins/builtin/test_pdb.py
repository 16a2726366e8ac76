"""pdb: a budget is never overdrawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.builtin.pdb import PdbPlugin, demanded
from pumice.model.specs import DisruptionBudget, JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.clusters import Cluster, is_in
from tests.support.taking import Shell, taking_engine

WEB = (is_in("app", "web"),)


@pytest.mark.parametrize(
    ("numbers", "expected", "demands"),
    [
        ({"min_available": 3}, 5, 3),
        ({"min_available": 3}, 2, 3),
        ({"min_available": 0}, 5, 0),
        # half of 5 is 2.5, rounded up
        ({"min_available": 50, "percent": True}, 5, 3),
        ({"min_available": 50, "percent": True}, 4, 2),
        ({"min_available": 100, "percent": True}, 7, 7),
        ({"max_unavailable": 1}, 5, 4),
        ({"max_unavailable": 9}, 5, 0),
        ({"max_unavailable": 0}, 5, 5),
        # a third of 5 is 1.65, rounded up: 2 may be missing
        ({"max_unavailable": 33, "percent": True}, 5, 3),
        ({"max_unavailable": 0, "percent": True}, 5, 5),
        ({"max_unavailable": 1, "percent": True}, 0, 0),
    ],
)
def test_budget_demands_expected_number_of_healthy_pods(numbers: dict[str, int], expected: int, demands: int) -> None:
    assert demanded(DisruptionBudget("ns", "b", WEB, **numbers), expected) == demands


def cluster() -> Cluster:
    made = Cluster(PdbPlugin({}))
    made.plugin.state = made.state
    made.node("n")
    return made


def told(made: Cluster, **budget: object) -> None:
    made.state.apply(Changed(DisruptionBudget("default", "b", **({"selector": WEB} | budget))))


@pytest.mark.parametrize(
    ("healthy", "others", "budget", "evictable"),
    [
        (3, {}, {"min_available": 2}, True),
        (2, {}, {"min_available": 2}, False),
        (1, {}, {"min_available": 2}, False),
        # Waiting and leaving pods are expected, but not healthy: 6 expected, 3 healthy.
        (3, {TaskStatus.PENDING: 2, TaskStatus.RELEASING: 1}, {"max_unavailable": 3}, False),
        (3, {TaskStatus.PENDING: 2, TaskStatus.RELEASING: 1}, {"max_unavailable": 4}, True),
        (3, {TaskStatus.PENDING: 3}, {"min_available": 50, "percent": True}, False),
        # Finished ones are neither: of 3 expected 2 must stay.
        (3, {TaskStatus.SUCCEEDED: 3, TaskStatus.FAILED: 3}, {"min_available": 50, "percent": True}, True),
        # Bound and not seen running yet is healthy.
        (1, {TaskStatus.BOUND: 1}, {"min_available": 1}, True),
        # Nobody is selected.
        (1, {}, {"min_available": 5, "selector": None}, True),
        (1, {}, {"min_available": 5, "selector": (is_in("app", "db"),)}, True),
        (1, {}, {"min_available": 5, "selector": ()}, False),
        (1, {}, {"min_available": 5, "selector": (Requirement("app", "Exists"),)}, False),
    ],
)
def test_evictable(healthy: int, others: dict[TaskStatus, int], budget: dict[str, object], evictable: bool) -> None:
    made = cluster()
    tasks = [made.pod(f"p{i}", {"app": "web"}, on="n") for i in range(healthy)]
    for status, count in others.items():
        for i in range(count):
            on = None if status is TaskStatus.PENDING else "n"
            made.pod(f"{status.name}{i}".lower(), {"app": "web"}, on=on, status=status)
    told(made, **budget)
    assert {made.plugin.evictable(task) for task in tasks} == {evictable}


def test_unhealthy_pod_is_always_evictable() -> None:
    made = cluster()
    waits = made.pod("p", {"app": "web"})
    told(made, min_available=5)
    assert made.plugin.evictable(waits)


def test_budgets_are_of_their_namespace_and_all_of_them_count() -> None:
    made = cluster()
    task = made.pod("p", {"app": "web"}, on="n")
    elsewhere = made.pod("p", {"app": "web"}, on="n", namespace="elsewhere")
    told(made, min_available=1)
    assert (made.plugin.evictable(task), made.plugin.evictable(elsewhere)) == (False, True)
    made.pod("q", {"app": "web"}, on="n")
    assert made.plugin.evictable(task)
    made.state.apply(Changed(DisruptionBudget("default", "other", (), max_unavailable=0)))
    assert not made.plugin.evictable(task)
    made.state.apply(Gone(DisruptionBudget, "default/other"))
    assert made.plugin.evictable(task)


def test_victims_already_chosen_are_gone_when_the_next_is_judged() -> None:
    made = cluster()
    tasks = [made.pod(f"p{i}", {"app": "web"}, on="n") for i in range(4)]
    told(made, min_available=2)
    chosen = []
    for task in tasks:
        if made.plugin.evictable(task):
            chosen.append(task)
            made.plugin.removed(task, task.node)
            task.status = TaskStatus.RELEASING
    assert chosen == tasks[:2]
    # One is spared after all: it counts again, and another may go in its place.
    chosen[0].status = TaskStatus.RUNNING
    made.plugin.placed(chosen[0], chosen[0].node)
    assert made.plugin.evictable(tasks[3])
    # On its way out it occupies its node, which makes it no healthier.
    made.plugin.placed(chosen[1], chosen[1].node)
    made.plugin.removed(tasks[3], tasks[3].node)
    tasks[3].status = TaskStatus.RELEASING
    assert not made.plugin.evictable(tasks[2])


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["run", "wait", "leave", "gone", "ask"])), max_size=20)
)
def test_counts_that_follow_are_counts_made_anew(steps: list[tuple[str, str]]) -> None:
    made = cluster()
    told(made, max_unavailable=50, percent=True)
    for name, step in steps:
        if step == "gone":
            made.state.apply(Gone(TaskSpec, f"default/{name}"))
        elif step != "ask":
            status = {"run": TaskStatus.RUNNING, "wait": TaskStatus.PENDING, "leave": TaskStatus.RELEASING}[step]
            made.pod(name, {"app": "web"}, on=None if step == "wait" else "n", status=status)
        fresh = PdbPlugin({})
        fresh.state = made.state
        for task in made.state.tasks.values():
            if step == "ask" or task.spec.name != name:
                assert made.plugin.evictable(task) == fresh.evictable(task)


def engine(pdb: bool) -> Engine:
    """8 cpu; queue old runs eight 1-cpu pods, queue new wants four and is entitled to them."""
    more = "- plugins: [{name: pdb}]" if pdb else ""
    text = f"""
actions: "allocate, reclaim"
tiers:
- plugins: [{{name: gang}}]
- plugins: [{{name: drf, enableHierarchy: true}}, {{name: predicates}}]
{more}
"""
    made = Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN, Registry())
    made.apply(Changed(NodeSpec("n", (8, 0, 100))))
    for age, queue in enumerate(("old", "new")):
        made.apply(Changed(Queue(queue, created=age)))
        made.apply(Changed(JobSpec("ns", queue, queue, created=age, min_member=1, phase=JobPhase.INQUEUE)))
    for i in range(8):
        spec = TaskSpec("ns", f"old-t-{i}", (1, 0, 1), job="ns/old", created=i, labels={"app": "web"})
        made.apply(Changed(replace(spec, node="n", status=TaskStatus.RUNNING, started=i + 1)))
    for i in range(4):
        made.apply(Changed(TaskSpec("ns", f"new-t-{i}", (1, 0, 1), job="ns/new", created=i)))
    return made


@pytest.mark.parametrize(
    ("pdb", "budget", "evicted"),
    [
        (False, {"min_available": 8}, 4),
        (True, {"min_available": 0}, 4),
        # 8 run and 7 must stay; 3 of 8 may be missing
        (True, {"min_available": 7}, 1),
        (True, {"max_unavailable": 3}, 3),
        # 75 % of 8 are 6
        (True, {"min_available": 75, "percent": True}, 2),
        (True, {"max_unavailable": 0}, 0),
    ],
)
def test_reclaim_leaves_what_a_budget_demands(pdb: bool, budget: dict[str, int], evicted: int) -> None:
    made = engine(pdb)
    made.apply(Changed(DisruptionBudget("ns", "b", WEB, **budget)))
    hour = 3_600 * 10**6
    count = sum(isinstance(decision, Evict) for now in (1, 2, 3) for decision in made.cycle(now * hour))
    assert count == evicted
    made.validate()


@pytest.mark.parametrize(
    ("budget", "evicted"),
    [
        # One task of 2 cpu needs two victims at once: both or none.
        ({"min_available": 6}, 2),
        ({"min_available": 7}, 0),
    ],
)
def test_victims_for_one_task_are_counted_together(budget: dict[str, int], evicted: int) -> None:
    made = engine(pdb=True)
    for i in range(4):
        made.apply(Gone(TaskSpec, f"ns/new-t-{i}"))
    made.apply(Changed(TaskSpec("ns", "new-t-0", (2, 0, 1), job="ns/new")))
    made.apply(Changed(DisruptionBudget("ns", "b", WEB, **budget)))
    hour = 3_600 * 10**6
    count = sum(isinstance(decision, Evict) for now in (1, 2, 3) for decision in made.cycle(now * hour))
    assert count == evicted


@pytest.mark.parametrize(("least", "evicted"), [(0, 2), (1, 0), (2, 0)])
def test_victims_for_one_task_within_job_are_counted_together(least: int, evicted: int) -> None:
    # 4 cpu, two tasks of 2; a more important one of 4 needs the room of both, of whom so many must stay.
    shell = Shell(taking_engine("flat", plugins=("priority", "gang", "pdb")))
    shell.node("n", 4)
    shell.queue("root/q")
    job = shell.job("q", [(2,)] * 2, priority=0, labels={"app": "web"})
    shell.cycle()
    shell.put(DisruptionBudget("ns", "b", WEB, min_available=least))
    shell.put(TaskSpec("ns", "large", (4, 0, 1), job=job, created=9, priority=9))
    shell.settle()
    assert len(shell.evictions) == evicted
    assert ("ns/large" in shell.running_tasks(job)) == (evicted > 0)
