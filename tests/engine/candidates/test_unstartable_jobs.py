"""Jobs that cannot start say so, once, and take it back when they can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from pumice.config.load import default_config, read_config
from pumice.engine.candidates.unstartable_jobs import REPORT_DELAY, obstacle_of
from pumice.engine.checkpoint.restore import restore_engine, snapshot_engine
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.decisions import Condition
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.hyper_nodes import NetworkTopology
from pumice.model.specs import Constraints, JobPhase, JobSpec, NodeSpec, Queue, TaskSpec

SECOND = 1_000_000
GPU = 3


def engine_with(*described: Any, config: SchedulerConfig | None = None) -> Engine:
    registry = Registry()
    registry.index("nvidia.com/gpu")
    engine = Engine(config or default_config(), BUILT_IN, registry)
    for found in (Queue("root"), Queue("q", 1), NodeSpec("n", (4000, 0, 110, 0)), *described):
        engine.apply(Changed(found))
    return engine


def group(name: str = "j", least: int = 1, **about: Any) -> JobSpec:
    return JobSpec("ns", name, about.pop("queue", "q"), 1, least, phase=about.pop("phase", JobPhase.INQUEUE), **about)


def pod(number: int, cpu: int = 1000, gpu: int = 0, *, job: str = "j", **about: Any) -> TaskSpec:
    return TaskSpec("ns", f"{job}-main-{number}", (cpu, 0, 1, gpu), job=f"ns/{job}", created=1, **about)


def told(engine: Engine, *seconds: int) -> list[tuple[str, str]]:
    """Reason and message of what is said of jobs in cycles at these times."""
    decisions = [decision for second in seconds for decision in engine.cycle(second * SECOND)]
    return [(each.reason, each.message) for each in decisions if isinstance(each, Condition)]


def test_a_resource_that_nobody_has() -> None:
    engine = engine_with(group(), pod(0, gpu=2000))
    message = "its tasks (cpu 1, nvidia.com/gpu 2) would fit no node, not even an empty one: no node has nvidia.com/gpu"
    assert told(engine, 1, 2, 3) == [("NoNodeFits", message)]
    engine.apply(Changed(NodeSpec("m", (4000, 0, 110, 1000))))
    fewer = message.replace("no node has nvidia.com/gpu", "the largest node has nvidia.com/gpu 1")
    assert told(engine, 4, 5) == [("NoNodeFits", fewer)]
    engine.apply(Changed(NodeSpec("m", (4000, 0, 110, 2000))))
    assert told(engine, 6, 7) == [("Scheduled", "all tasks are scheduled")]


def test_a_place_that_no_node_is() -> None:
    here = Constraints(node_selector=(("zone", "moon"),))
    engine = engine_with(group(), pod(0, constraints=here))
    lacks = "no node that is large enough matches the pod's node selector, node affinity and tolerations"
    message = f"its tasks (cpu 1) would fit no node, not even an empty one: {lacks}"
    assert told(engine, 1, 2) == [("NoNodeFits", message)]


@pytest.mark.parametrize(
    ("nodes", "lacks"),
    [
        (
            [NodeSpec("n", (4000, 0, 110, 0)), NodeSpec("m", (1000, 0, 110, 4000))],
            "no node has enough of every resource",
        ),
        (
            [NodeSpec("n", (4000, 0, 110, 0)), NodeSpec("m", (4000, 0, 110, 4000), unschedulable=True)],
            "every node that is large enough is cordoned or not ready",
        ),
    ],
)
def test_what_excludes_nodes_of_which_none_lacks_one_resource_alone(nodes: list[NodeSpec], lacks: str) -> None:
    engine = engine_with(*nodes, group(), pod(0, 2000, 1000))
    ((reason, message),) = told(engine, 1, 2)
    assert reason == "NoNodeFits" and message.endswith(f": {lacks}")


def test_a_network_without_hyper_nodes() -> None:
    engine = engine_with(group(topology=NetworkTopology(highest_tier=2)), pod(0))
    lacks = "no node that is large enough is in a HyperNode of tier <= 2"
    message = f"its tasks (cpu 1) would fit no node, not even an empty one: {lacks}"
    assert told(engine, 1, 2) == [("NoNodeFits", message)]


def test_more_together_than_an_empty_cluster_holds() -> None:
    engine = engine_with(group(least=5), *(pod(number) for number in range(5)))
    message = "the job must start 5 tasks together (cpu 5), more than the cluster could hold if it were empty"
    assert told(engine, 1, 2) == [("ClusterTooSmall", message)]


def test_min_resources_that_the_whole_cluster_has_not() -> None:
    engine = engine_with(group(phase=JobPhase.PENDING, min_resources=(9000, 0, 0, 1000)))
    ((reason, message),) = told(engine, 1, 2)
    assert (reason, message) == (
        "ClusterTooSmall",
        "spec.minResources asks for cpu 9, nvidia.com/gpu 1, but the cluster has cpu 4, nvidia.com/gpu 0",
    )


def test_an_obstacle_that_returns_before_the_job_is_admitted_is_told_again() -> None:
    config = read_config("actions: enqueue, allocate\ntiers:\n- plugins: [{name: gang}, {name: overcommit}]\n", "")
    engine = engine_with(group("first"), *(pod(number, job="first") for number in range(4)), config=config)
    engine.cycle(0)
    engine.apply(Changed(group(phase=JobPhase.PENDING, min_resources=(5000, 0, 0))))
    (found,) = told(engine, 1, 2)
    assert found == ("ClusterTooSmall", "spec.minResources asks for cpu 5, but the cluster has cpu 4")
    engine.apply(Changed(NodeSpec("m", (1000, 0, 110, 0))))
    assert told(engine, 3, 4) == [] and engine.state.jobs["ns/j"].phase is JobPhase.PENDING
    engine.apply(Gone(NodeSpec, "m"))
    assert told(engine, 5, 6) == [found]


def test_fewer_pods_than_its_minimum_are_told_when_that_lasts() -> None:
    engine = engine_with(group(least=3), pod(0), pod(1))
    message = "2 of 3 required pods (minMember) exist; the job can start after the remaining pods are created"
    assert told(engine, *range(1, 11)) == []
    assert told(engine, 11, 12) == [("NotEnoughTasks", message)]
    engine.apply(Changed(pod(2)))
    assert told(engine, 13) == [("Scheduled", "all tasks are scheduled")]


def test_pods_that_come_one_by_one_are_no_news() -> None:
    engine = engine_with(group(least=9))
    for number in range(8):
        engine.apply(Changed(pod(number, 100)))
        assert told(engine, 5 * number + 1) == []
    assert told(engine, 45) == [] and len(told(engine, 46)) == 1  # ten seconds after the last of them, at 36


def test_the_pods_of_a_job_that_is_not_let_in_need_not_exist() -> None:
    engine = engine_with(group("first"), pod(0, 4000, job="first"))
    engine.cycle(0)
    engine.apply(Changed(group(least=3, phase=JobPhase.PENDING, min_resources=(3000, 0, 0))))
    engine.cycle(0)
    assert engine.state.jobs["ns/j"].phase is JobPhase.PENDING
    assert told(engine, *range(1, 30)) == []


def test_a_queue_that_is_not_there_or_takes_no_jobs() -> None:
    engine = engine_with(group("a", queue="nowhere"), group("b", queue="q"), Queue("below", 2, parent="q"))
    assert told(engine, 1, 5) == []
    assert sorted(told(engine, 11)) == [
        ("QueueNotFound", "queue 'nowhere' not found; create it or use another queue"),
        ("QueueNotLeaf", "queue 'q' is a parent queue; use one of its leaf queues"),
    ]
    engine.apply(Changed(Queue("nowhere", 3)))
    engine.apply(Changed(pod(0, job="a")))
    assert told(engine, 12) == [("Scheduled", "all tasks are scheduled")]


def test_condition_is_replaced_when_missing_task_arrives() -> None:
    engine = engine_with(group(least=2), pod(0), Queue("q", 1))
    assert [reason for reason, _ in told(engine, 1, 11)] == ["NotEnoughTasks"]
    engine.apply(Changed(group("first")))
    engine.apply(Changed(pod(0, 4000, job="first")))
    told(engine, 12)
    engine.apply(Changed(pod(1)))
    assert told(engine, 13) == [("NotEnoughResources", "no node has enough idle capacity for 2 tasks together (cpu 2)")]


def test_a_job_that_is_over_or_gone_is_not_told_of() -> None:
    engine = engine_with(group("gone", least=2), group("over", least=2, phase=JobPhase.COMPLETED))
    engine.cycle(SECOND)
    engine.apply(Gone(JobSpec, "ns/gone"))
    assert told(engine, 2, 20, 30) == []


def test_restored_engine_keeps_report_delay_of_unstartable_job() -> None:
    engine = engine_with(group(least=3), pod(0))
    assert told(engine, 1, 6) == []
    after = restore_engine(snapshot_engine(engine), default_config(), BUILT_IN, engine.state.registry, engine.cooldown)
    assert told(after, 7, 10) == [] and len(told(after, 11)) == 1
    again = restore_engine(snapshot_engine(after), default_config(), BUILT_IN, after.state.registry, after.cooldown)
    assert told(again, 12, 30) == []


@given(
    least=st.integers(1, 6),
    pods=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 1)), max_size=6),
    nodes=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 1)), max_size=3),
)
def test_whoever_is_told_so_starts_nothing_and_whoever_starts_was_not_told(
    least: int, pods: list[tuple[int, int]], nodes: list[tuple[int, int]]
) -> None:
    """Alone on an empty cluster a job starts, or there is an obstacle: never both, never neither."""
    engine = engine_with(group(least=least), *(pod(i, cpu * 1000, gpu * 1000) for i, (cpu, gpu) in enumerate(pods)))
    engine.apply(Gone(NodeSpec, "n"))
    for i, (cpu, gpu) in enumerate(nodes):
        engine.apply(Changed(NodeSpec(f"n{i}", (cpu * 1000, 0, 110, gpu * 1000))))
    reasons = [reason for reason, _ in told(engine, 1, 2, 2 + REPORT_DELAY // SECOND)]
    job = engine.state.jobs["ns/j"]
    obstacle = obstacle_of(engine.context, job)
    if not job.running:
        # Each shape alone fits an empty cluster, all of them together may not: that is known when it is tried.
        assert obstacle is not None or reasons == ["NotEnoughResources"]
    assert obstacle is None or obstacle.reason in reasons
    if obstacle is not None:
        assert not job.running or obstacle.reason == "NoNodeFits"


def test_a_change_that_is_none_is_not_told_again() -> None:
    engine = engine_with(group(), pod(0, gpu=2000))
    assert len(told(engine, 1)) == 1
    engine.apply(Changed(replace(group(), priority_class="high")))
    assert told(engine, 2, 3) == []


def test_a_job_that_must_wait_for_its_turn_is_told_that_nothing_else_is_in_its_way() -> None:
    """4 cpu, 1 of them in use; the head of a first-come-first-served queue wants 4, and j behind it would fit."""
    engine = engine_with(Queue("line", 2, fifo=True), group("other"), pod(0, job="other"))
    engine.cycle(SECOND)
    engine.apply(Changed(replace(group("head", queue="line"), created=2)))
    engine.apply(Changed(pod(0, 4000, job="head")))
    engine.apply(Changed(replace(group(least=2, queue="line"), created=3)))
    engine.apply(Changed(pod(0)))
    assert [reason for reason, _ in told(engine, 2, 12)] == ["NotEnoughResources", "NotEnoughTasks"]
    engine.apply(Changed(pod(1)))
    assert told(engine, 13, 14) == [("Waiting", "the obstacle is gone; the job waits for its turn")]


def test_another_job_of_the_same_name_is_told_again() -> None:
    engine = engine_with(group(), pod(0, gpu=2000))
    assert len(told(engine, 1)) == 1
    engine.apply(Gone(JobSpec, "ns/j"))
    assert told(engine, 2) == []
    engine.apply(Changed(replace(group(), created=9)))
    assert len(told(engine, 3, 4)) == 1
    engine.apply(Gone(JobSpec, "ns/j"))
    engine.apply(Gone(TaskSpec, "ns/j-main-0"))
    assert (
        told(engine, 5) == [] and not engine.context.decided.conditions and not engine.context.unstartable.checkpoint()
    )


def test_deleted_job_without_queue_leaves_no_conditions() -> None:
    engine = engine_with(group(queue="nowhere"))
    assert [reason for reason, _ in told(engine, 1, 11)] == ["QueueNotFound"]
    engine.apply(Gone(JobSpec, "ns/j"))
    assert (
        told(engine, 12) == [] and not engine.context.decided.conditions and not engine.context.unstartable.checkpoint()
    )
