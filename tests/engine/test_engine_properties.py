"""What holds of every cluster after every cycle, whatever events came before.

Histories are random (``tests/support/histories``) with cycles in between. What the engine keeps by the difference is
compared with an engine that starts now and reads the final objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from pumice.engine.decisions import Bind, Decision, Enqueue
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, Gone
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.state.job import Job
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, QueueState, TaskSpec, TaskStatus
from tests.support.engines import ENGINES, WITH_HOLDS, carried_out, everything, run, started_now
from tests.support.examples import fewer_examples
from tests.support.histories import History, as_seen, seeds

each_engine = pytest.mark.parametrize("make", list(ENGINES.values()), ids=list(ENGINES))
ALL = ENGINES | WITH_HOLDS
each_engine_and_holds = pytest.mark.parametrize("make", list(ALL.values()), ids=list(ALL))

# --- after every cycle --------------------------------------------------------------------------------------------


@each_engine_and_holds
@fewer_examples(3)
@given(seed=seeds)
def test_accounts_add_up_and_nobody_gets_what_is_not_there(make: Callable[[], Engine], seed: int) -> None:
    engine = make()

    def check(decisions: list[Decision]) -> None:
        engine.validate()
        for decision in decisions:
            if isinstance(decision, Bind):
                task, node = engine.state.tasks[decision.task], engine.state.nodes[decision.node]
                assert task.status is TaskStatus.BINDING and task.node is node and node.schedulable
                # Pods that run already may have filled a node too far; what we add must find room.
                assert all(node.idle[j] >= 0 for j, _ in task.shape.items)

    run(engine, History(seed).steps(), check)


@each_engine_and_holds
@fewer_examples(3)
@given(seed=seeds)
def test_a_job_starts_whole_or_not_at_all(make: Callable[[], Engine], seed: int) -> None:
    engine = make()

    def check(decisions: list[Decision]) -> None:
        for key in {decision.job for decision in decisions if isinstance(decision, Bind)}:
            job = engine.state.jobs[key]
            assert job.running >= min(minimum(job) - job.succeeded, sum(job.unfinished.values()))
            for role, least in job.spec.min_task_member.items():
                there = [task for task in job.tasks.values() if task.spec.role == role]
                assert sum(task.status.held or task.status is TaskStatus.SUCCEEDED for task in there) >= least

    run(engine, History(seed).steps(), check)


@each_engine
@fewer_examples(3)
@given(seed=seeds)
def test_nothing_waits_that_could_run(make: Callable[[], Engine], seed: int) -> None:
    engine = make()

    def check(decisions: list[Decision]) -> None:
        while any(isinstance(decision, Bind) for decision in decisions):
            decisions = engine.cycle(engine.now)  # what backfill started may grow in the next cycle
        for job in engine.state.jobs.values():
            if may_start(engine, job):
                for shape, count in could_start(job):
                    assert room(engine, shape) < count, f"{job.key} could start {count} of {shape}"

    run(engine, History(seed).steps(), check)


def minimum(job: Job) -> int:
    return max(job.spec.min_member, sum(job.spec.min_task_member.values()))


def may_start(engine: Engine, job: Job) -> bool:
    """Whether nothing but room stands between a job and its next task."""
    if job.spec is None or job.spec.queue not in engine.context.sync.queue_tree.path_of:
        return False
    if job.phase is JobPhase.PENDING and "enqueue" in engine.policy.config.actions:
        return False
    path = engine.context.sync.queue_tree.path_of[job.spec.queue]
    if any(
        len(other) > len(path) and other[: len(path)] == path for other in engine.context.sync.queue_tree.placements
    ):
        return False  # not a leaf
    queues = [engine.context.sync.queue_tree.placements[path[:depth]].queue for depth in range(2, len(path) + 1)]
    if any(engine.state.queues[name].state is not QueueState.OPEN for name in queues if name is not None):
        return False
    there = [task for task in job.tasks.values() if task.status is not TaskStatus.FAILED]
    there = [task for task in there if task.status is not TaskStatus.RELEASING]
    if len(there) < job.spec.min_member:
        return False
    roles = job.spec.min_task_member.items()
    return all(sum(task.spec.role == role for task in there) >= least for role, least in roles)


def could_start(job: Job) -> list[tuple[TaskShape, int]]:
    """What a job would start next, where a count is enough to tell whether it fits."""
    missing = min(minimum(job) - job.succeeded, sum(job.unfinished.values())) - job.running
    if job.spec.min_task_member and (missing > 0 or roles_missing(job)):
        return []
    if missing > 1:
        # Tasks that are alike: so many places are needed. (Unlike ones may be packed badly.)
        return [(shape, missing) for shape in job.pending] if len(job.pending) == 1 else []
    return [(shape, 1) for shape in job.pending]


def roles_missing(job: Job) -> bool:
    for role, least in job.spec.min_task_member.items():
        there = [task for task in job.tasks.values() if task.spec.role == role]
        if sum(task.status.held or task.status is TaskStatus.SUCCEEDED for task in there) < least:
            return True
    return False


def room(engine: Engine, shape: TaskShape) -> int:
    """How many tasks of a shape fit now, node by node."""
    nodes = [node for node in engine.state.nodes.values() if node.schedulable]
    return sum(max(0, min(node.idle[j] // amount for j, amount in shape.items)) for node in nodes)


# --- the same, always ---------------------------------------------------------------------------------------------


@each_engine_and_holds
@fewer_examples(3)
@given(seed=seeds)
def test_the_same_events_give_the_same_decisions(make: Callable[[], Engine], seed: int) -> None:
    history = History(seed).steps()
    one: list[list[Decision]] = []
    other: list[list[Decision]] = []
    engine, again = make(), make()
    run(engine, history, one.append)
    elsewhere = [object() for _ in range(1000)]  # objects of the second run lie elsewhere in memory
    run(again, history, other.append)
    assert one == other and elsewhere


@each_engine
@fewer_examples(3)
@given(seed=seeds)
def test_an_engine_that_starts_now_sees_and_does_the_same(make: Callable[[], Engine], seed: int) -> None:
    engine, history = make(), History(seed)
    run(engine, history.steps())
    fresh = started_now(make, engine)
    for task in list(engine.state.tasks.values()):
        engine.apply(Changed(as_seen(task)))  # what was decided is carried out
    # First with nothing new: the fresh one finds out what was tried in vain. Then with some events more.
    for now, step in enumerate([[], history.events(6)], 98):
        for event in step:
            engine.apply(event)
            fresh.apply(event)
        assert carried_out(fresh.cycle(now * 1_000_000)) == carried_out(engine.cycle(now * 1_000_000))
        assert everything(fresh) == everything(engine)


# --- one at a time ----------------------------------------------------------------------------------------------------


def cluster(make: Callable[[], Engine], *objects: Any) -> Engine:
    engine = make()
    for described in (Queue("q"), NodeSpec("n", (10, 10, 10)), *objects):
        engine.apply(Changed(described))
    return engine


def job(name: str, **more: Any) -> JobSpec:
    return JobSpec("ns", name, "q", phase=more.pop("phase", JobPhase.INQUEUE), **more)


def tasks(job_name: str, count: int, request: tuple[int, ...], **more: Any) -> list[TaskSpec]:
    return [TaskSpec("ns", f"{job_name}-t-{i}", request, job=f"ns/{job_name}", **more) for i in range(count)]


@each_engine
def test_a_job_that_does_not_fit_does_not_stop_the_others(make: Callable[[], Engine]) -> None:
    large = tasks("large", 3, (11, 0, 1))  # fits no node
    gang = tasks("gang", 4, (3, 0, 1))  # 12 cpu together
    engine = cluster(
        make,
        job("large", created=1),
        *large,
        job("gang", created=2, min_member=4),
        *gang,
        job("small", created=3),
        *tasks("small", 20, (1, 0, 1)),
    )
    engine.cycle(1)
    running = {key: found.running for key, found in engine.state.jobs.items()}
    assert running == {"ns/large": 0, "ns/gang": 0, "ns/small": 10}


@each_engine
def test_waiting_jobs_are_let_in_and_then_started(make: Callable[[], Engine]) -> None:
    engine = cluster(make, job("a", phase=JobPhase.PENDING), *tasks("a", 2, (1, 0, 1)))
    decisions = engine.cycle(1)
    assert [d for d in decisions if isinstance(d, Enqueue)] == [Enqueue("ns/a")]  # without enqueue by allocate
    assert engine.state.jobs["ns/a"].running == 2 and engine.state.jobs["ns/a"].phase is JobPhase.RUNNING
    assert carried_out(engine.cycle(2)) == []


@each_engine
def test_tasks_that_ask_for_nothing_are_served_and_count_towards_the_minimum(make: Callable[[], Engine]) -> None:
    free = [TaskSpec("ns", f"free-{i}", (0, 0, 1), job="ns/a") for i in range(2)]
    engine = cluster(make, job("a", min_member=3), *tasks("a", 1, (1, 0, 1)), *free)
    engine.cycle(1)
    assert engine.state.jobs["ns/a"].running == 3


@each_engine
def test_gang_starts_only_when_pod_slots_suffice_for_minimum(make: Callable[[], Engine]) -> None:
    free = [TaskSpec("ns", f"free-{i}", (0, 0, 1), job="ns/a") for i in range(2)]
    engine = cluster(make, NodeSpec("n", (10, 10, 2)), job("a", min_member=3), *tasks("a", 1, (1, 0, 1)), *free)
    engine.cycle(1)
    assert engine.state.jobs["ns/a"].running == 0
    engine.apply(Changed(NodeSpec("n", (10, 10, 3))))
    engine.cycle(2)
    assert engine.state.jobs["ns/a"].running == 3


@each_engine
def test_a_job_of_tasks_that_ask_for_nothing(make: Callable[[], Engine]) -> None:
    engine = cluster(make, job("a", min_member=2), *tasks("a", 3, (0, 0, 1)))
    engine.cycle(1)
    assert engine.state.jobs["ns/a"].running == 3


@each_engine
@pytest.mark.parametrize("state", [QueueState.CLOSED, QueueState.CLOSING, QueueState.PAUSED], ids=lambda s: s.value)
def test_a_queue_that_is_not_open_starts_nothing(make: Callable[[], Engine], state: QueueState) -> None:
    engine = cluster(make, Queue("q", state=state), job("a"), *tasks("a", 2, (1, 0, 1)), *tasks("b", 2, (0, 0, 1)))
    assert carried_out(engine.cycle(1)) == []
    engine.apply(Changed(Queue("q")))
    assert len(carried_out(engine.cycle(2))) == 2


@each_engine
def test_only_leaf_queues_take_jobs(make: Callable[[], Engine]) -> None:
    engine = cluster(make, Queue("below", parent="q"), job("a"), *tasks("a", 2, (1, 0, 1)))
    assert carried_out(engine.cycle(1)) == []
    engine.apply(Changed(JobSpec("ns", "a", "below", phase=JobPhase.INQUEUE)))
    assert len(carried_out(engine.cycle(2))) == 2


@each_engine
def test_a_job_of_no_queue_waits_until_there_is_one(make: Callable[[], Engine]) -> None:
    lost = JobSpec("ns", "a", "nowhere", phase=JobPhase.INQUEUE)
    engine = cluster(make, lost, *tasks("a", 2, (1, 0, 1)))
    assert carried_out(engine.cycle(1)) == []
    engine.apply(Changed(Queue("nowhere")))
    assert len(carried_out(engine.cycle(2))) == 2
    engine.validate()


@each_engine
def test_a_job_that_goes_and_comes_again_between_two_cycles(make: Callable[[], Engine]) -> None:
    engine = cluster(make, job("a"))  # the only one of its namespace, which goes and comes with it
    engine.cycle(1)
    engine.apply(Gone(JobSpec, "ns/a"))
    engine.apply(Changed(job("a")))
    for task in tasks("a", 2, (1, 0, 1)):
        engine.apply(Changed(task))
    assert len(carried_out(engine.cycle(2))) == 2
    engine.apply(Gone(JobSpec, "ns/a"))
    engine.cycle(3)
    engine.validate()


@each_engine
def test_a_job_that_is_over_is_entitled_to_nothing(make: Callable[[], Engine]) -> None:
    asked = JobSpec("ns", "a", "q", min_resources=(5, 0, 0), phase=JobPhase.RUNNING)
    engine = cluster(make, asked)
    engine.cycle(1)
    assert engine.tree.jobs["ns/a"].demand.total == ((0, 5),)
    engine.apply(Changed(replace(asked, phase=JobPhase.COMPLETED)))
    engine.cycle(2)
    assert engine.tree.jobs["ns/a"].demand.total == ()


@each_engine
def test_a_pod_of_another_scheduler_is_left_alone(make: Callable[[], Engine]) -> None:
    engine = cluster(make, job("a"), *tasks("a", 2, (1, 0, 1), managed=False))
    assert carried_out(engine.cycle(1)) == []


@each_engine
def test_a_resource_named_late_is_shared_like_any_other(make: Callable[[], Engine]) -> None:
    engine = cluster(make, job("a"), *tasks("a", 2, (1, 0, 1)))
    engine.cycle(1)
    tpu = engine.state.registry.index("tpu")
    request = [1, 0, 1] + [0] * (tpu - 3) + [2]
    offered = [10, 10, 10] + [0] * (tpu - 3) + [4]
    # A running task that asks for it comes before anybody offers any.
    late = TaskSpec("ns", "late", tuple(request), job="ns/a", node="n", status=TaskStatus.RUNNING, started=5)
    engine.apply(Changed(late))
    engine.cycle(2)
    engine.validate()
    engine.apply(Changed(NodeSpec("n", tuple(offered))))
    for described in (job("b"), *tasks("b", 3, tuple(request))):
        engine.apply(Changed(described))
    engine.cycle(3)
    engine.validate()
    assert engine.state.capacity[tpu] == 4 and engine.state.nodes["n"].idle[tpu] == 0
    assert engine.state.jobs["ns/b"].running == 1 and engine.tree.root.held[tpu] == 4


@each_engine
def test_a_failed_bind_is_tried_again(make: Callable[[], Engine]) -> None:
    engine = cluster(make, job("a"), *tasks("a", 1, (1, 0, 1)))
    first = engine.cycle(1)
    engine.apply(BindFailed("ns/a-t-0"))
    again = engine.cycle(2)
    assert [d.task for d in first if isinstance(d, Bind)] == [d.task for d in again if isinstance(d, Bind)]


def test_reported_binds_change_nothing() -> None:
    # A shell that carries out binds and reports them changes nothing.
    engine = cluster(ENGINES["steer"], job("a"), *tasks("a", 4, (1, 0, 1)))
    engine.cycle(1)
    before = everything(engine)["tree"]
    for task in list(engine.state.tasks.values()):
        engine.apply(Changed(as_seen(task)))
    assert carried_out(engine.cycle(2)) == []
    assert everything(engine)["tree"] == before


def test_the_namespace_level_is_there_only_if_asked_for() -> None:
    for name, kinds in (
        ("steer", {NodeKind.QUEUE, NodeKind.NAMESPACE, NodeKind.JOB}),
        ("paper", {NodeKind.QUEUE, NodeKind.JOB}),
    ):
        engine = cluster(ENGINES[name], job("a"), *tasks("a", 1, (1, 0, 1)))
        engine.cycle(1)
        assert {node.kind for node in engine.tree.root.walk()} == kinds
