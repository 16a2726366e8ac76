"""Waiting lines: of equal jobs that wait, only the first is a candidate, and what is decided is the same."""

from __future__ import annotations

import pytest

from pumice.engine.decisions import Condition
from pumice.model.specs import Constraints
from tests.support.taking import Shell, taking_engine


def full_cluster(jobs: int, tasks: list[tuple[int, ...]], least: int = 1) -> tuple[Shell, list[str]]:
    """A node of 4 cpu that jobs of 1 cpu fill, and equal jobs that wait in the same queue."""
    shell = Shell(taking_engine(actions="allocate"))
    shell.node("n", 4)
    shell.queue("root/q")
    first = [shell.job("q", [(1,)]) for _ in range(4)]
    shell.cycle()
    late = [shell.job("q", tasks, least) for _ in range(jobs)]
    shell.cycle()
    assert [shell.running(job) for job in first + late] == [1] * 4 + [0] * jobs
    return shell, late


def lines_of(shell: Shell, jobs: list[str]) -> set[object]:
    return {shell.engine.tree.jobs[job].waiting_line for job in jobs}


@pytest.mark.parametrize(
    ("tasks", "least"), [([(1,)], 1), ([(1,)] * 2, 2), ([(3,), (2,)], 1)], ids=["one task", "gang", "unlike tasks"]
)
def test_equal_waiting_jobs_stand_in_one_line_and_start_by_age(tasks: list[tuple[int, ...]], least: int) -> None:
    shell, late = full_cluster(5, tasks, least)
    waiting = [job for job in late if shell.engine.tree.jobs[job].waiting_line is not None]
    assert len(waiting) >= 3 and len(lines_of(shell, waiting)) == 1
    order: list[str] = []
    for task in list(shell.tasks):
        if task in shell.engine.state.tasks and shell.engine.state.tasks[task].status.held:
            shell.end(task)
        shell.cycle()
        shell.engine.validate()
        order += [job for job in late if shell.running(job) and job not in order]
    assert order == late[: len(order)] and len(order) >= 2


def test_only_the_head_of_a_line_is_a_candidate() -> None:
    shell, late = full_cluster(5, [(1,)])
    leaves = [shell.engine.tree.jobs[job] for job in late]
    line = leaves[-1].waiting_line
    assert line is not None and line.head is None and not any(leaf.placeable for leaf in leaves)
    shell.node("more", 1)
    for task in range(2):  # the job that is owed the new cpu, if any, and the first of the line
        shell.engine.prepare()
        assert all(leaf.placeable for leaf in leaves if leaf.waiting_line is not None), task
    assert [leaf.able for leaf in line.members.values()] == [True] + [False] * (len(line.members) - 1)
    shell.engine.validate()


def test_every_job_of_a_line_is_told_once_why_it_waits() -> None:
    shell = Shell(taking_engine(actions="allocate"))
    shell.node("n", 1)
    shell.queue("root/q")
    jobs = [shell.job("q", [(1,)]) for _ in range(6)]
    told = [each.job for each in shell.cycle() if isinstance(each, Condition)]
    assert sorted(told) == sorted(jobs[1:])
    # A task ends, the next job starts: the unit was placeable for a moment, but nobody has to be told again.
    shell.end(shell.running_tasks(jobs[0])[0])
    again = [each for each in shell.cycle() if isinstance(each, Condition)]
    assert [(each.job, each.type) for each in again] == [(jobs[1], "Scheduled")]
    late = shell.job("q", [(1,)])
    assert [each.job for each in shell.cycle() if isinstance(each, Condition)] == [late]


def test_job_that_gets_a_limit_leaves_its_line() -> None:
    shell, late = full_cluster(4, [(1,)])
    shell.queue("root/q", capability=(4,))
    shell.cycle()
    shell.engine.validate()
    shell.end(next(task for task in shell.tasks if shell.engine.state.tasks[task].status.held))
    shell.cycle()
    shell.engine.validate()
    assert sum(shell.running(job) for job in late) == 1


def test_job_of_a_line_starts_its_first_task_that_fits_after_nodes_have_changed() -> None:
    # On ssd 3 cpu are idle but reserved for the task of 8, so of the tasks that wait in ours only that of 3 could ever
    # start there. Then 6 cpu come free on hdd, whose label changes in the same cycle: the task of 4 is first.
    shell = Shell(taking_engine(actions="allocate", plugins=("gang", "predicates"), arguments={"drf.patience": 0}))
    shell.node("ssd", 8, labels={"disk": "ssd"})
    shell.node("hdd", 6)
    shell.queue("root/ours", "1/1")
    shell.queue("root/theirs", "1/13")
    on_ssd = Constraints(node_selector=(("disk", "ssd"),))
    shell.job("theirs", [(1,)] * 5, constraints=on_ssd)
    shell.cycle()
    early = shell.job("ours", [(6,)])
    shell.cycle()
    shell.job("theirs", [(8,)], constraints=on_ssd)
    late = shell.job("ours", [(4,), (3,)])
    shell.cycle()
    assert shell.running(late) == 0
    shell.end_job(early)
    shell.node("hdd", 6, labels={"disk": "hdd"})
    shell.cycle()
    assert shell.running_tasks(late) == [f"{late}-t-0"]
