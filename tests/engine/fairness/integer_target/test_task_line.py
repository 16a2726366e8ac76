"""The line of a job: tasks it holds first, then those that wait; what starts together is one unit."""

from __future__ import annotations

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.integer_target.task_line import UnitRun, line_of
from pumice.engine.fairness.share_tree.share_node import JobNode
from tests.support.groves import Grove

SMALL, LARGE = ((CPU, 100),), ((CPU, 300), (MEMORY, 100))


def job(parts: list[tuple[tuple[tuple[int, int], ...], int]], *, gang: int = 1, held: int = 0) -> JobNode:
    grove = Grove([10_000, 10_000, 0, 0])
    leaf = grove.job(grove.group(), parts, gang=gang)
    for stamp in range(held):
        grove.start(grove.tree, leaf, parts[0][0], stamp + 1)
    return leaf


def test_equal_tasks_are_two_runs() -> None:
    assert line_of(job([(SMALL, 5)], held=2)) == (UnitRun(SMALL, 1, 2, True), UnitRun(SMALL, 1, 3, False))


def test_a_gang_comes_first_and_whole() -> None:
    together = ((CPU, 300),)
    assert line_of(job([(SMALL, 5)], gang=3)) == (UnitRun(together, 3, 1, False), UnitRun(SMALL, 1, 2, False))


def test_a_gang_is_held_only_if_all_of_it_is() -> None:
    together = ((CPU, 300),)
    assert line_of(job([(SMALL, 5)], gang=3, held=2)) == (UnitRun(together, 3, 1, False), UnitRun(SMALL, 1, 2, False))
    assert line_of(job([(SMALL, 5)], gang=3, held=4)) == (
        UnitRun(together, 3, 1, True),
        UnitRun(SMALL, 1, 1, True),
        UnitRun(SMALL, 1, 1, False),
    )


def test_pods_that_are_still_to_come_are_a_last_unit_of_no_task() -> None:
    grove = Grove([10_000, 10_000, 0, 0])
    leaf = grove.job(grove.group(), [(SMALL, 2)], floor=((CPU, 500),))
    assert line_of(leaf) == (UnitRun(SMALL, 1, 2, False), UnitRun(((CPU, 300),), 0, 1, False))


def test_job_without_tasks_has_empty_line() -> None:
    assert line_of(job([])) == ()
