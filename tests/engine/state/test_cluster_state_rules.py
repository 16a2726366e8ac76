"""Rules of a job: part of its tasks' shapes, for as long as they wait."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from pumice.engine.events import BindFailed, Changed
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task_shapes import ShapeTable
from pumice.model.specs import JobSpec, NodeSpec, TaskSpec, TaskStatus
from tests.support.histories import build_state

POD = TaskSpec("ns", "t", (1, 0, 1), job="ns/j")
NODE = NodeSpec("n", (9, 9, 9))
JOB = JobSpec("ns", "j", "q")
HERE, THERE = (("plugin", "here"),), (("plugin", "there"),)


def told(*objects: object) -> ClusterState:
    return build_state(objects, Registry())


def test_a_shape_carries_the_rules() -> None:
    table = ShapeTable()
    plain, here = table.of(POD), table.of(POD, HERE)
    assert plain is not here and here is table.of(replace(POD, name="u"), HERE)
    assert (plain.rule_of("plugin"), here.rule_of("plugin"), here.rule_of("other")) == (None, "here", None)


def test_waiting_tasks_follow_the_rules_of_their_job() -> None:
    state = told(NODE, JOB, POD, replace(POD, name="u", request=(2, 0, 1)))
    job = state.jobs["ns/j"]
    for rules in (HERE, THERE, ()):
        state.set_rules(job, rules)
        state.validate()
        assert {task.shape.rules for task in job.tasks.values()} == {rules}
        assert sorted(shape.items for shape in job.pending) == [((0, 1), (2, 1)), ((0, 2), (2, 1))]


def test_a_task_that_comes_later_is_under_the_rules_of_its_job() -> None:
    state = told(NODE, JOB, POD)
    state.set_rules(state.jobs["ns/j"], HERE)
    state.apply(Changed(replace(POD, name="u")))
    assert state.tasks["ns/u"].shape is state.tasks["ns/t"].shape


def test_a_task_that_runs_stays_what_it_is_until_it_waits_again() -> None:
    state = told(NODE, JOB, POD)
    job, task = state.jobs["ns/j"], state.tasks["ns/t"]
    state.place(task, state.nodes["n"], 5)
    placed_as = task.shape
    state.set_rules(job, HERE)
    # The bind is confirmed: the same task, with the same start and the same shape.
    state.apply(Changed(replace(POD, node="n", status=TaskStatus.RUNNING, started=9)))
    assert state.tasks["ns/t"] is task and task.shape is placed_as and task.started == 5
    state.validate()
    state.apply(Changed(replace(POD, node="n", status=TaskStatus.BINDING)))
    state.apply(BindFailed("ns/t"))
    assert task.status is TaskStatus.PENDING and task.shape.rules == HERE
    state.validate()


@given(st.lists(st.sampled_from(["pod t", "pod u", "job", HERE, THERE, ()]), max_size=12))
def test_who_waits_always_has_the_shape_it_would_get_now(steps: list[object]) -> None:
    state = told(NODE, POD)
    for step in steps:
        if step == "job":
            state.apply(Changed(JOB))
        elif isinstance(step, str):
            state.apply(Changed(replace(POD, name=step[-1], created=state.pods_version)))
        else:
            state.set_rules(state.jobs["ns/j"], step)
        for task in state.tasks.values():
            assert task.shape is state.shapes.of(task.spec, state.jobs["ns/j"].rules)
        state.validate()
