"""The state: whatever order events come in, it says what the objects that are left say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from kubebase.label_selector import Requirement
from kubebase.resource_vector import CPU, MEMORY, PODS, Registry
from pumice.engine.events import BindFailed, Changed, Gone
from pumice.engine.state.cluster_state import ClusterState
from pumice.model.specs import (
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    PodTerm,
    PriorityClass,
    Queue,
    Quota,
    TaskSpec,
    TaskStatus,
)
from tests.support.histories import History, build_state, final_objects, key_of, picture, registry, seeds

NODE = NodeSpec("n", (10, 10, 10))
JOB = JobSpec("ns", "j", "q")


def task(name: str = "t", cpu: int = 1, **more: object) -> TaskSpec:
    return replace(TaskSpec("ns", name, (cpu, 0, 1), job="ns/j"), **more)


def running(name: str = "t", cpu: int = 1, node: str = "n", **more: object) -> TaskSpec:
    return task(name, cpu, node=node, status=TaskStatus.RUNNING, **more)


def told(*objects: object) -> ClusterState:
    return build_state(objects, Registry())


# --- histories ----------------------------------------------------------------------------------------------------


@given(seeds)
def test_a_history_leaves_what_its_last_objects_say(seed: int) -> None:
    state = ClusterState(registry())
    for event in History(seed).events(60):
        state.apply(event)
        state.validate()
    assert picture(build_state(final_objects(state), registry())) == picture(state)


@given(seeds)
def test_the_order_of_arrival_does_not_matter(seed: int) -> None:
    # An event for each object, twice, in any order: references may point to what is not there yet.
    history = History(seed)
    objects = {(type(found), key_of(found)): found for found in (history.described() for _ in range(60))}
    shuffled = [*objects.values(), *objects.values()]
    history.rng.shuffle(shuffled)
    assert picture(build_state(shuffled, registry())) == picture(build_state(objects.values(), registry()))


@given(seeds)
def test_what_all_goes_leaves_nothing(seed: int) -> None:
    state = ClusterState(registry())
    for event in History(seed).events(60):
        state.apply(event)
    for kind, keys in (
        (TaskSpec, list(state.tasks)),
        (JobSpec, list(state.jobs)),
        (NodeSpec, list(state.nodes)),
    ):
        for key in keys:
            state.apply(Gone(kind, key))
            state.validate()
    assert not state.tasks and not state.jobs and not state.nodes
    assert not any(state.capacity)


@given(seeds)
def test_the_same_event_again_changes_nothing(seed: int) -> None:
    state = ClusterState(registry())
    for event in History(seed).events(60):
        state.apply(event)
        before = picture(state)
        state.apply(event)
        assert picture(state) == before


# --- capacity (docs/fairness.md, section 1.1) -----------------------------------------------------------------------


def test_capacity_is_what_ready_nodes_offer_less_what_others_hold() -> None:
    # 10 + 10 cpu, another scheduler's pod holds 3; our own running task does not reduce what is shared.
    foreign = replace(running("f", 3), job=None, managed=False)
    state = told(NODE, NodeSpec("m", (10, 10, 10)), foreign, JOB, running("t", 4))
    assert state.capacity == [17, 20, 19]
    assert state.nodes["n"].idle == [3, 10, 8]


@pytest.mark.parametrize("away", [{"unschedulable": True}, {"ready": False}], ids=["cordoned", "lost"])
def test_a_node_that_takes_no_more_counts_as_what_our_tasks_hold_there(away: dict[str, bool]) -> None:
    # 10 cpu + 4 held on the node that is away; the foreign 3 there are nobody's business.
    foreign = replace(running("f", 3), job=None, managed=False)
    state = told(NodeSpec("m", (10, 10, 10)), NODE, JOB, running("t", 4), foreign)
    state.apply(Changed(replace(NODE, **away)))
    state.validate()
    assert state.capacity == [14, 10, 11]
    state.apply(Changed(running("u", 2)))
    assert state.capacity[CPU] == 16  # what is seen to run there counts, however it came there
    state.apply(Gone(TaskSpec, "ns/t"))
    assert state.capacity[CPU] == 12
    state.apply(Changed(NODE))
    assert state.capacity[CPU] == 17


def test_a_deleted_node_counts_until_our_tasks_are_gone() -> None:
    state = told(NODE, JOB, running("t", 4))
    state.apply(Gone(NodeSpec, "n"))
    assert state.capacity == [4, 0, 1]
    state.apply(Gone(TaskSpec, "ns/t"))
    assert state.capacity == [0, 0, 0] and not state.nodes


def test_a_node_crowded_by_others_gives_nothing_rather_than_less() -> None:
    foreign = replace(running("f", 12), job=None, managed=False)
    state = told(NODE, foreign)
    assert state.capacity == [0, 10, 9]


def test_a_pod_that_is_released_still_takes_room_but_is_not_held() -> None:
    state = told(NODE, JOB, running("t", 4))
    state.apply(Changed(replace(running("t", 4), status=TaskStatus.RELEASING)))
    assert state.jobs["ns/j"].held == [0, 0, 0]
    assert state.nodes["n"].idle[CPU] == 6


def test_a_pending_pod_of_another_scheduler_waits_with_nobody() -> None:
    state = told(NODE, JOB, replace(task(), managed=False))
    assert not state.jobs["ns/j"].pending and not state.jobs["ns/j"].unfinished


# --- finished pods remember their node ---------------------------------------------------------------------------


def test_a_finished_pod_does_not_bring_back_its_node() -> None:
    state = told(JOB, replace(running(), status=TaskStatus.SUCCEEDED))
    state.validate()
    assert not state.nodes


def test_a_finished_pod_does_not_take_a_new_node_of_that_name_with_it() -> None:
    state = told(NODE, JOB, replace(running(), status=TaskStatus.SUCCEEDED))
    state.apply(Gone(NodeSpec, "n"))
    state.apply(Changed(NODE))
    state.apply(Gone(TaskSpec, "ns/t"))
    state.validate()
    assert state.capacity == [10, 10, 10]


# --- what we decided and nobody has seen yet -----------------------------------------------------------------------


def assumed(stamp: int = 7) -> ClusterState:
    """A task that we just placed."""
    state = told(NODE, JOB, task())
    placed = state.tasks["ns/t"]
    state.place(placed, state.nodes["n"], stamp)
    return state


def test_an_update_from_before_does_not_undo_a_bind() -> None:
    state = assumed()
    state.apply(Changed(task(labels={"seen": "late"})))
    state.validate()
    bound = state.tasks["ns/t"]
    assert (bound.status, bound.node, bound.started) == (TaskStatus.BINDING, state.nodes["n"], 7)
    assert bound.spec.labels == {"seen": "late"}
    assert state.jobs["ns/j"].held[CPU] == 1


def test_a_bind_is_confirmed_and_keeps_its_start() -> None:
    state = assumed()
    state.apply(Changed(task(node="n", status=TaskStatus.BOUND)))
    state.apply(Changed(running(started=99)))
    state.validate()
    assert (state.tasks["ns/t"].status, state.tasks["ns/t"].started) == (TaskStatus.RUNNING, 7)


def test_task_seen_on_another_node_is_moved_there() -> None:
    state = assumed()
    state.apply(Changed(NodeSpec("m", (10, 10, 10))))
    state.apply(Changed(running(node="m")))
    state.validate()
    assert state.nodes["n"].idle[CPU] == 10 and state.nodes["m"].idle[CPU] == 9


def test_a_failed_bind_waits_again() -> None:
    state = assumed()
    state.apply(BindFailed("ns/t"))
    state.validate()
    waiting = state.tasks["ns/t"]
    assert (waiting.status, waiting.node, waiting.started) == (TaskStatus.PENDING, None, 0)
    assert state.nodes["n"].idle == [10, 10, 10] and state.jobs["ns/j"].held[CPU] == 0
    state.apply(BindFailed("ns/t"))  # and nothing more
    state.apply(BindFailed("ns/unknown"))
    state.validate()


def test_a_failure_that_comes_late_changes_nothing() -> None:
    state = assumed()
    state.apply(Changed(running()))
    state.apply(BindFailed("ns/t"))
    assert state.tasks["ns/t"].status is TaskStatus.RUNNING


def test_a_task_that_comes_back_is_who_it_is_now() -> None:
    # While it was on its way somebody came who keeps pods like it away: it must carry its identity.
    state = told(NODE, JOB, task(labels={"app": "x"}))
    state.place(state.tasks["ns/t"], state.nodes["n"], 1)
    term = PodTerm("zone", (Requirement("app", "In", ("x",)),))
    state.apply(Changed(replace(running("p"), constraints=Constraints(anti_affinity=(term,)))))
    state.apply(BindFailed("ns/t"))
    assert state.tasks["ns/t"].shape is state.shapes.of(state.tasks["ns/t"].spec)


@pytest.mark.parametrize("phase", [JobPhase.INQUEUE, JobPhase.RUNNING], ids=lambda phase: phase.value)
def test_an_update_from_before_does_not_send_a_job_back(phase: JobPhase) -> None:
    state = told(JOB, task())
    state.jobs["ns/j"].phase = phase  # as enqueue and the end of a cycle write it
    state.apply(Changed(replace(JOB, user="somebody")))
    assert state.jobs["ns/j"].phase is not JobPhase.PENDING


def test_a_job_that_is_made_anew_starts_anew() -> None:
    state = told(JOB)
    state.jobs["ns/j"].phase = JobPhase.INQUEUE
    state.apply(Gone(JobSpec, "ns/j"))
    state.apply(Changed(JOB))
    assert state.jobs["ns/j"].phase is JobPhase.PENDING


# --- the rest --------------------------------------------------------------------------------------------------------


def test_a_resource_named_late_gets_a_place_in_every_account() -> None:
    known = Registry()
    state = build_state([NODE, JOB, running("t", 4), task("u")], known)
    gpu = known.index("gpu")
    state.apply(Changed(NodeSpec("g", (4, 4, 4, 2))))
    state.apply(Changed(replace(task("v"), request=(1, 0, 1, 1))))
    state.apply(Changed(replace(running("w", node="g"), request=(1, 0, 1, 1))))
    state.validate()
    assert state.capacity == [14, 14, 14, 2]
    assert state.jobs["ns/j"].held == [5, 0, 2, 1]
    assert state.nodes["g"].idle[gpu] == 1 and state.nodes["n"].idle == [6, 10, 9, 0]


def test_the_order_of_waiting_tasks_is_priority_number_age_name() -> None:
    classes = PriorityClass("high", 100), PriorityClass("usual", 10, default=True)
    specs = [
        task("j-w-10"),
        task("j-w-9"),
        task("old", created=1),
        task("young", created=2),
        task("aged", created=2),
        task("j-w-99", priority_class="high"),
        task("own", priority=50, priority_class="high"),
    ]
    state = told(JOB, *classes, *specs)
    job = state.jobs["ns/j"]
    job.sort_pending()
    # 100, then 50, then the default 10: names without a number at the end first (-1), then 9 before 10.
    order = ["j-w-99", "own", "old", "aged", "young", "j-w-9", "j-w-10"]
    assert [t.spec.name for t in reversed(job.pending[state.shapes.of(specs[0])])] == order
    state.apply(Gone(PriorityClass, "high"))
    job.sort_pending()
    state.validate()
    order = ["own", "old", "aged", "young", "j-w-9", "j-w-10", "j-w-99"]
    assert [t.spec.name for t in reversed(job.pending[state.shapes.of(specs[0])])] == order


def test_a_job_is_as_important_as_its_class_or_its_most_important_task() -> None:
    high, usual = PriorityClass("high", 100), PriorityClass("usual", 10, default=True)
    state = told(JOB, high, usual, task("a", priority=30), replace(running("b"), priority=70))
    assert state.job_priority(state.jobs["ns/j"]) == 70
    state.apply(Changed(replace(running("b"), priority=70, status=TaskStatus.SUCCEEDED)))
    assert state.job_priority(state.jobs["ns/j"]) == 30  # finished tasks do not count
    state.apply(Changed(replace(JOB, priority_class="high")))
    assert state.job_priority(state.jobs["ns/j"]) == 100
    state.apply(Changed(replace(JOB, priority_class="unheard-of")))
    assert state.job_priority(state.jobs["ns/j"]) == 30
    state.apply(Gone(TaskSpec, "ns/a"))
    assert state.job_priority(state.jobs["ns/j"]) == 10


def test_a_namespace_weighs_as_its_heaviest_valid_quota() -> None:
    state = told(Quota("ns", "a", 3), Quota("ns", "b", 0), Quota("ns", "c", None), Quota("other", "a", 9))
    assert state.namespace_weight("ns") == 3
    state.apply(Changed(Quota("ns", "b", 5)))
    assert state.namespace_weight("ns") == 5
    state.apply(Gone(Quota, "ns/b"))
    state.apply(Gone(Quota, "ns/a"))
    state.apply(Gone(Quota, "ns/never-there"))
    assert state.namespace_weight("ns") == 1
    assert state.namespace_weight("elsewhere") == 1


def test_a_task_may_change_its_job_and_its_request() -> None:
    state = told(NODE, JOB, replace(JOB, name="k"), running("t", 4))
    state.apply(Changed(replace(running("t", 3), job="ns/k")))
    state.validate()
    assert not state.jobs["ns/j"].tasks and state.jobs["ns/k"].held[CPU] == 3
    assert state.nodes["n"].idle[CPU] == 7
    state.apply(Changed(replace(running("t", 3), job=None)))
    state.validate()
    assert not state.jobs["ns/k"].tasks


def test_queues_that_did_not_change_are_not_followed() -> None:
    state = told(Queue("q"))
    state.queues_changed = False
    state.apply(Changed(Queue("q")))
    state.apply(Gone(Queue, "unknown"))
    assert not state.queues_changed
    state.apply(Changed(Queue("q", weight=2)))
    assert state.queues_changed


def test_pods_take_places_on_nodes() -> None:
    state = told(NodeSpec("n", (10, 10, 2)), JOB, running("t"), running("u"))
    assert state.nodes["n"].idle[PODS] == 0 and state.nodes["n"].idle[MEMORY] == 10
