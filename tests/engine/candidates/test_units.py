"""Units: what a job must start together, and which of its tasks that are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.candidates.units import (
    AllocationUnit,
    GangCapacity,
    UnitTable,
    gang_runs,
    gang_size,
    gang_tasks,
    missing_to_start,
    parts_of,
    runs_of,
    sum_asks,
)
from pumice.engine.events import Changed
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.model.specs import JobSpec, TaskSpec, TaskStatus

R, S, F = TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED
P = TaskStatus.PENDING


def job(
    statuses: list[TaskStatus],
    min_member: int = 1,
    roles: Mapping[str, int] | None = None,
    **more: list[object],
) -> Job:
    """A job with a task for each status; ``more`` gives fields task by task."""
    state = ClusterState()
    state.apply(Changed(JobSpec("ns", "j", "q", min_member=min_member, min_task_member=roles or {})))
    for i, status in enumerate(statuses):
        spec = TaskSpec("ns", f"t{i}", (1, 0, 1), job="ns/j", created=i, status=status)
        if status in (R, S):
            spec = replace(spec, node="n")
        for name, values in more.items():
            spec = replace(spec, **{name: values[i]})
        state.apply(Changed(spec))
    return state.jobs["ns/j"]


def names(tasks: list[object] | None) -> list[str] | None:
    return None if tasks is None else [task.spec.name for task in tasks]


@pytest.mark.parametrize(
    ("statuses", "min_member", "size", "missing"),
    [
        ([P] * 5, 3, 3, 3),  # nothing runs: the whole gang
        ([R, P, P, P], 3, 3, 2),  # what is missing to it
        ([R, R, R, P], 3, 3, 0),  # started: from here one by one
        ([S, P, P, P], 3, 2, 2),  # what has succeeded need not run again
        ([S, S, S, P], 3, 0, 0),
        ([P, P], 5, 2, 2),  # at most what is unfinished
        ([F, P, P], 3, 2, 2),
        ([S, S, R, P], 4, 2, 1),
        ([P], 1, 1, 1),
    ],
)
def test_gang_size_follows_task_statuses(statuses: list[TaskStatus], min_member: int, size: int, missing: int) -> None:
    found = job(statuses, min_member)
    assert gang_size(found, min_member) == size and missing_to_start(found, min_member) == missing


def test_a_role_that_lost_a_task_is_missing_again() -> None:
    # Three of three run, but the one parameter server is gone and waits again.
    found = job([R, R, R, P], 3, {"ps": 1}, role=["w", "w", "w", "ps"])
    assert missing_to_start(found, 3) == 1
    assert names(gang_tasks(found, 1)) == ["t3"]


def test_a_gang_is_its_first_tasks() -> None:
    found = job([P] * 4, 2, priority=[None, None, 9, None])
    assert names(gang_tasks(found, 2)) == ["t2", "t0"]


def test_roles_come_first_and_the_rest_in_order() -> None:
    found = job([P] * 5, 3, {"ps": 1}, role=["w", "w", "w", "w", "ps"])
    assert names(gang_tasks(found, 3)) == ["t0", "t1", "t4"]


def test_roles_may_ask_for_more_than_the_minimum() -> None:
    found = job([P] * 4, 1, {"ps": 1, "w": 2}, role=["w", "w", "w", "ps"])
    assert names(gang_tasks(found, 1)) == ["t0", "t1", "t3"]


def test_a_role_with_too_few_tasks_has_no_gang() -> None:
    assert gang_tasks(job([P] * 3, 3, {"ps": 1}, role=["w", "w", "w"]), 3) is None
    assert gang_tasks(job([P] * 2, 3), 3) is None


def test_tasks_that_ask_for_nothing_are_taken_before_those_that_do() -> None:
    found = job([P] * 4, 2, request=[(1, 0, 1), (1, 0, 1), (0, 0, 1), (1, 0, 1)])
    assert names(gang_tasks(found, 2)) == ["t0", "t2"]


def test_shapes_that_fit_nowhere_are_left_out() -> None:
    found = job([P] * 4, 2, request=[(9, 0, 1), (1, 0, 1), (1, 0, 1), (9, 0, 1)])
    large = next(shape for shape in found.pending if dict(shape.ask)[CPU] == 9)
    assert names(gang_tasks(found, 2, {large})) == ["t1", "t2"]
    assert gang_tasks(found, 3, {large}) is None


requests = st.sampled_from([(1, 0, 1), (2, 5, 1), (3, 1, 1), (0, 0, 1)])


@given(
    st.lists(st.tuples(requests, st.sampled_from([0, 0, 0, 1]), st.sampled_from("ab")), min_size=1, max_size=12),
    st.integers(1, 12),
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
    st.sampled_from([{}, {}, {"a": 2}]),
    st.booleans(),
)
def test_the_runs_of_a_gang_are_those_of_its_tasks(tasks, missing, most, capacity, roles, is_sorted) -> None:
    found = job(
        [P] * len(tasks),
        1,
        roles,
        request=[request for request, _, _ in tasks],
        priority=[priority for _, priority, _ in tasks],
        role=[role for _, _, role in tasks],
    )
    if is_sorted:
        found.sort_pending()
    at_most = {shape: number for shape, number in zip(found.pending, most, strict=False) if number < 4}
    barred = [shape for shape, number in zip(found.pending, most, strict=False) if number == 0]

    def room() -> GangCapacity:
        return GangCapacity(at_most, [*capacity, 0])

    assert gang_runs(found, missing) == runs_of(gang_tasks(found, missing) or [])
    assert gang_runs(found, missing, barred, room()) == runs_of(gang_tasks(found, missing, barred, room()) or [])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=8), st.integers(0, 6), st.integers(0, 20))
def test_capacity_for_many_tasks_is_that_for_one_after_another(steps, most, capacity) -> None:
    shapes = list(job([P] * 3, request=[(1, 0, 1), (3, 0, 1), (0, 2, 1)]).pending)
    together, single = (GangCapacity({shapes[0]: most}, [capacity, 9, 0]) for _ in range(2))
    for which, wanted in steps:
        assert together.take(shapes[which], wanted) == sum(single.take(shapes[which]) for _ in range(wanted))


def test_parts_count_by_shape() -> None:
    found = job([P] * 4, 1, request=[(1, 0, 1), (2, 5, 1), (1, 0, 1), (0, 0, 1)])
    parts = parts_of(gang_tasks(found, 4))
    by_ask = sorted((shape.ask, count) for shape, count in parts)
    assert by_ask == [((), 1), (((CPU, 1),), 2), (((CPU, 2), (MEMORY, 5)), 1)]
    assert sum_asks(parts) == ((CPU, 4), (MEMORY, 5)) == AllocationUnit(parts).ask
    assert AllocationUnit(parts).size == 4


def test_equal_units_are_one() -> None:
    found = job([P] * 4, 1, request=[(1, 0, 1), (2, 5, 1), (1, 0, 1), (1, 0, 1)])
    one, two = found.pending
    table = UnitTable()
    unit, new = table.unit(((one, 2), (two, 1)))
    assert new and table.unit(((one, 2), (two, 1))) == (unit, False)
    other, new = table.unit(((one, 3),))
    assert new and other is not unit and list(table) == [unit, other]
    assert table.of_shape[one] == [unit, other]
    table.drop(unit)
    table.drop(unit)
    assert list(table) == [other] and two not in table.of_shape


@given(
    st.lists(st.tuples(st.sampled_from([P, P, P, R, S, F]), st.sampled_from("abc"), st.booleans()), max_size=9),
    st.integers(0, 6),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), max_size=2),
)
def test_a_unit_completes_the_minimum_and_no_task_in_it_is_spare(
    tasks: list[tuple[TaskStatus, str, bool]], min_member: int, roles: dict[str, int]
) -> None:
    found = job(
        [status for status, _, _ in tasks],
        min_member,
        roles,
        role=[role for _, role, _ in tasks],
        request=[(1, 0, 1) if asks else (0, 0, 1) for _, _, asks in tasks],
    )
    start = max(min_member, sum(roles.values()))
    missing = missing_to_start(found, start)
    unit = gang_tasks(found, missing) if missing > 0 else []
    if unit is None:
        return

    def satisfied(started: list[object]) -> bool:
        there = [task for task in found.tasks.values() if task.status in (R, S)] + started
        enough = len(started) + found.running >= gang_size(found, start)
        return enough and all(sum(task.spec.role == role for task in there) >= n for role, n in roles.items())

    assert satisfied(unit) or missing <= 0
    for task in unit:
        assert task.status is P and not satisfied([other for other in unit if other is not task])
