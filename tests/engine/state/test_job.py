"""A job's accounts: whatever happens to its tasks, they are those of a recount."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, PODS
from pumice.engine.state.job import Job
from pumice.engine.state.pending_tasks import FEW
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import FREE, JobSpec, TaskSpec, TaskStatus

SHAPES = [TaskShape(0, ((CPU, 2), (PODS, 1)), FREE, None), TaskShape(1, ((CPU, 3), (PODS, 1), (4, 7)), FREE, None)]
STATUSES = [TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED]


def new_task(number: int, shape: int, status: TaskStatus, priority: int = 0) -> Task:
    task = Task(TaskSpec("ns", f"j-{number}", (), "ns/j"), SHAPES[shape], priority)
    task.status = status
    return task


@given(st.data())
def test_accounts_are_those_of_a_recount_whatever_happens(data: st.DataObject) -> None:
    job, here = Job("ns/j"), list[Task]()
    priorities = data.draw(st.sampled_from([[0], [0, 0, 0, 5, -1]]))
    for number in range(data.draw(st.integers(1, 40))):
        waiting = [task for task in here if task.status is TaskStatus.PENDING]
        placed = [task for task in here if task.status is TaskStatus.BINDING]
        match data.draw(st.sampled_from(["enter", "enter", "leave", "start", "unstart", "sort", "settle"])):
            case "enter":
                priority = data.draw(st.sampled_from(priorities))
                here.append(
                    new_task(number, data.draw(st.integers(0, 1)), data.draw(st.sampled_from(STATUSES)), priority)
                )
                here[-1].job = job
                job.enter(here[-1])
            case "leave" if here:
                job.leave(here.pop(data.draw(st.integers(0, len(here) - 1))))
            case "start" if waiting:
                task = data.draw(st.sampled_from(waiting))
                job.start(task)
                task.status = TaskStatus.BINDING
            case "unstart" if placed:
                task = data.draw(st.sampled_from(placed))
                task.status = TaskStatus.PENDING
                job.unstart(task)
            case "sort":
                job.sort_pending()
            case "settle":
                job.settle()
        assert all(job.awaits(shape) == (shape in job.pending) for shape in SHAPES)
        waiting = [task for task in here if task.status is TaskStatus.PENDING]
        assert job.in_order() == sorted(waiting, key=lambda task: task.order)
        assert job.priority == max((task.priority for task in here if task.status.unfinished), default=None)
    job.sort_pending()
    if data.draw(st.booleans()):
        job.settle()
    held = [task for task in here if task.status.held]
    assert job.tasks == {task.key: task for task in here} and job.task_count == len(here) == len(job.each_task())
    assert job.placed == Counter(task.shape for task in held)
    assert job.unfinished == Counter(task.shape for task in here if task.status.unfinished)
    assert job.unfinished_tasks == sum(task.status.unfinished for task in here)
    amounts = Counter[int]()
    for task in held:
        amounts.update(dict(task.shape.items))
    assert {j: amount for j, amount in enumerate(job.held) if amount} == amounts
    for shape, tasks in job.pending.items():
        expected = [task for task in here if task.shape is shape and task.status is TaskStatus.PENDING]
        assert tasks == sorted(expected, key=lambda task: task.order, reverse=True)
    job.validate()


def test_a_job_of_few_tasks_keeps_them_in_the_order_of_its_groups() -> None:
    job = Job("ns/j")
    tasks = [new_task(number, number % 2, TaskStatus.PENDING) for number in range(FEW)]
    for task in tasks:
        job.enter(task)
    job.sort_pending()
    before = job.pending
    job.settle()
    assert job.pending == before and list(job.pending) == list(before) and job.pending is not before
    assert job.each_task() == [*reversed(tasks[::2]), *reversed(tasks[1::2])]
    job.start(tasks[0])
    assert job.pending[SHAPES[0]] == [tasks[2]]


def test_jobs_have_no_containers_of_their_own_for_what_they_do_not_have() -> None:
    waiting, ended = Job("ns/a"), Job("ns/b")
    waiting.enter(new_task(1, 0, TaskStatus.PENDING))
    task = new_task(1, 0, TaskStatus.RUNNING)
    ended.enter(task)
    assert ended.placed == {task.shape: 1} and ended.placed is task.shape.alone(1)
    ended.leave(task)
    assert ended.placed is waiting.placed is waiting.evicted
    assert JobSpec("ns", "a", "q").min_task_member is JobSpec("ns", "b", "q").min_task_member
    assert TaskSpec("ns", "a", ()).labels is TaskSpec("ns", "b", ()).labels
