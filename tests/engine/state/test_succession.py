"""Successors of evicted tasks: which exist, which are expected, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubebase.resource_vector import Registry
from pumice.engine.events import Changed, EvictFailed, Gone
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.succession import WAIT
from pumice.model.specs import JobSpec, NodeSpec, TaskSpec, TaskStatus
from tests.support.histories import build_state

NODE = NodeSpec("n", (10, 10, 10))
JOB = JobSpec("ns", "j", "q", min_member=2)


def pod(name: str, cpu: int = 1, **more: Any) -> TaskSpec:
    return replace(TaskSpec("ns", name, (cpu, 0, 1), job="ns/j", returns=True), **more)


def running(name: str, cpu: int = 1, **more: Any) -> TaskSpec:
    return pod(name, cpu, node="n", status=TaskStatus.RUNNING, started=3, **more)


def told(*objects: Any) -> tuple[ClusterState, Job]:
    state = build_state((NODE, JOB, *objects), Registry())
    return state, state.jobs["ns/j"]


def evict(state: ClusterState, name: str) -> None:
    task = state.tasks[f"ns/{name}"]
    state.evict(task)
    state.apply(Changed(replace(task.spec, status=TaskStatus.RELEASING)))


def gone(state: ClusterState, name: str) -> None:
    state.apply(Gone(TaskSpec, f"ns/{name}"))
    state.validate()


def come(state: ClusterState, spec: TaskSpec) -> None:
    state.apply(Changed(spec))
    state.validate()


def again(job: Job) -> list[str]:
    """The tasks that count until their successors exist."""
    assert sum(job.unreplaced.values()) == len(job.unreplaced_tasks())
    return [task.spec.name for task in job.unreplaced_tasks()]


def test_evicted_task_counts_until_its_successor_exists() -> None:
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    assert again(job) == ["a"] and job.succession is None
    gone(state, "a")
    assert again(job) == ["a"]
    come(state, pod("a"))
    assert again(job) == [] and job.succession is None
    assert state.successions.pass_time(1) == [] and not state.successions.jobs


@pytest.mark.parametrize("successor", [pod("new"), running("new")])
def test_task_of_another_name_that_asks_for_the_same_is_the_successor(successor: TaskSpec) -> None:
    state, job = told(running("a"), running("b", 2))
    for name in "ab":
        evict(state, name)
        gone(state, name)
    come(state, pod("other", 3))
    assert again(job) == ["a", "b"]
    come(state, successor)
    assert again(job) == ["b"]


def test_task_of_the_same_name_is_the_successor_of_no_other() -> None:
    state, job = told(running("a"), running("b"))
    for name in "ab":
        evict(state, name)
        gone(state, name)
    come(state, pod("b", 7))  # its controller changed its request
    assert again(job) == ["a"]


def test_successor_may_come_while_the_task_terminates() -> None:
    # The controllers of ReplicaSets and Jobs do not wait until it is gone.
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    come(state, pod("c"))
    assert again(job) == []
    state.apply(Changed(replace(running("a"), status=TaskStatus.RELEASING, labels={"late": "news"})))
    assert again(job) == []
    gone(state, "a")
    assert again(job) == [] and job.succession is None


def test_successor_may_take_the_place_of_a_task_of_its_name_at_once() -> None:
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    come(state, pod("a", created=9))
    assert again(job) == [] and job.pending_count == 1


@pytest.mark.parametrize(("status", "expected"), [(TaskStatus.FAILED, ["a"]), (TaskStatus.SUCCEEDED, [])])
def test_evicted_task_that_ends_comes_again_unless_it_ended_well(status: TaskStatus, expected: list[str]) -> None:
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    come(state, replace(running("a"), status=status))
    assert again(job) == expected
    gone(state, "a")
    assert again(job) == expected
    come(state, pod("a"))
    assert again(job) == []


def test_failed_task_and_its_successor_of_the_same_name() -> None:
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    come(state, replace(running("a"), status=TaskStatus.FAILED))
    come(state, pod("a"))  # the deletion between the two was not seen
    assert again(job) == []


def test_nobody_is_expected_for_a_pod_without_a_controller() -> None:
    state, job = told(running("a", returns=False), running("b", returns=False))
    evict(state, "a")
    assert again(job) == ["a"]
    gone(state, "a")
    assert again(job) == []


def test_nobody_is_expected_for_a_pod_that_somebody_else_deleted() -> None:
    state, job = told(running("a"), running("b"))
    state.apply(Changed(replace(running("a"), status=TaskStatus.RELEASING)))
    gone(state, "a")
    assert again(job) == []


def test_failed_eviction_of_a_task_with_a_successor() -> None:
    state, job = told(running("a"), running("b"))
    state.evict(state.tasks["ns/a"])
    come(state, pod("c"))
    state.apply(EvictFailed("ns/a"))
    state.validate()
    assert again(job) == [] and job.succession is None and job.running == 2


def test_wait_ends_after_its_time_in_the_first_cycle_without_the_task() -> None:
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    gone(state, "a")
    assert state.successions.next_end() is None
    assert state.successions.pass_time(500) == []
    assert state.successions.next_end() == 500 + WAIT
    assert state.successions.pass_time(499 + WAIT) == [] and again(job) == ["a"]
    assert state.successions.pass_time(500 + WAIT) == [job] and again(job) == []
    assert not state.successions.jobs and job.succession is None
    state.validate()


@pytest.mark.parametrize(("least", "expected"), [(1, []), (2, ["a"]), (3, ["a"])])
def test_job_that_was_made_smaller_expects_nobody(least: int, expected: list[str]) -> None:
    state, job = told(running("a"), running("b"))
    evict(state, "a")
    gone(state, "a")
    come_job = replace(JOB, min_member=least)
    state.apply(Changed(come_job))
    assert again(job) == expected


def test_job_that_is_gone_expects_nobody() -> None:
    state, _ = told(running("a"), running("b"))
    evict(state, "a")
    gone(state, "a")
    state.apply(Gone(JobSpec, "ns/j"))
    gone(state, "b")
    assert not state.jobs
    state.successions.pass_time(1)
    assert not state.successions.jobs


def test_priority_of_a_job_is_that_of_the_tasks_that_come_again() -> None:
    state, job = told(running("a", priority=7))
    evict(state, "a")
    assert job.priority == 7
    gone(state, "a")
    assert job.priority == 7
