"""Pipelined tasks: they wait on a node for room that is being freed, and start as soon as it is there.

What they wait for is theirs: ``ClusterNode.idle`` leaves it out. A gang that has not started starts whole, so its
tasks wait for one another. A task whose room will not come (its node is lost or cordoned, or a victim stays after
all), or whose queue starts nothing any more, waits no longer: it is pending again, and so is the rest of a gang that
could then not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.accounts import ClusterNode, Job, Task
from pumice.model.objects import TaskStatus
from pumice.scheduling.decisions import Bind, Pipeline
from pumice.scheduling.units import gang_size

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def follow_pipelined(engine: Engine) -> None:
    """At the start of a cycle: send back those who wait in vain, start those whose room is there."""
    if engine.pipelined:
        _send_back(engine)
        start_pipelined(engine)


def start_pipelined(engine: Engine) -> None:
    """Bind the tasks that waited for room and have it now, in the order in which they came."""
    jobs: dict[Job, list[Task]] = {}
    for task in engine.pipelined:
        assert task.job is not None
        jobs.setdefault(task.job, []).append(task)
    for job, tasks in jobs.items():
        taken: dict[ClusterNode, dict[int, int]] = {}
        ready = [task for task in tasks if _has_room(engine, task, taken)]
        seated = job.running - len(tasks)
        roles = job.spec is not None and bool(job.spec.min_task_member)
        needed = max(1, gang_size(job, engine.policy.start_size(job)) - seated)
        if len(ready) < (len(tasks) if roles else min(needed, len(tasks))):
            continue
        for task in ready:
            _start(engine, task)


def _start(engine: Engine, task: Task) -> None:
    node = task.node
    assert node is not None and task.job is not None
    engine.state.promote(task)
    del engine.pipelined[task]
    index = engine.nodes.touch(node)
    engine.nodes.lost(index, engine.candidates.shape_full)
    engine.held_changed()
    decisions, bind = engine.decisions, Bind(task.spec.key, node.name, task.job.key)
    for i, said in enumerate(decisions):
        if isinstance(said, Pipeline) and said.task == task.spec.key:
            decisions[i] = bind  # what it was to wait for is there already
            return
    decisions.append(bind)


def _has_room(engine: Engine, task: Task, taken: dict[ClusterNode, dict[int, int]]) -> bool:
    """Whether nobody occupies the room any more that a task waits for; if so, it counts as taken."""
    node = task.node
    assert node is not None
    here = taken.get(node, {})
    if any(victim.status is TaskStatus.RELEASING and _is_there(engine, victim) for victim in engine.pipelined[task]):
        return False
    if any(node.free(j) - here.get(j, 0) < amount for j, amount in task.shape.items):
        return False
    if task.shape.coupled and not engine.allows_now(task, node):
        return False
    mine = taken.setdefault(node, {})
    for j, amount in task.shape.items:
        mine[j] = mine.get(j, 0) + amount
    return True


def _is_there(engine: Engine, victim: Task) -> bool:
    """Whether a victim is still being released; its place may be free before, but not what its queue may hold."""
    return engine.state.tasks.get(victim.spec.key) is victim


def _send_back(engine: Engine) -> None:
    lost: dict[Task, None] = {}
    for task in reversed(engine.pipelined):
        node = task.node
        assert task.job is not None
        if node is None or not node.schedulable or not engine.takes_work(task.job):
            lost[task] = None
        elif any(node.future(j) < 0 for j, _ in task.shape.items):
            # The one who came last goes, and the accounts of the node say whether that is enough.
            lost[task] = None
            _unpipeline(engine, task)
    for job in {task.job: None for task in lost}:
        assert job is not None
        waiting = [task for task in engine.pipelined if task.job is job]
        for task in waiting:
            if task in lost:
                _unpipeline(engine, task)
        left = [task for task in waiting if task not in lost]
        if left and job.running < gang_size(job, engine.policy.start_size(job)):
            for task in left:
                _unpipeline(engine, task)
        engine.refresh_job(job)


def _unpipeline(engine: Engine, task: Task) -> None:
    """A task is pending again."""
    if task.status is not TaskStatus.PIPELINED:
        return
    node = task.node
    assert node is not None and task.job is not None
    for plugin in engine.policy.followers:
        plugin.removed(task, node)
    leaf = engine.tree.jobs.get(task.job.key)
    if leaf is not None:  # a job whose queue is gone holds nothing there any more
        engine.order.release(leaf, task.shape.ask, task.started, 1, task.owed)
    engine.state.unplace(task)
    task.owed = True
    engine.pipelined.pop(task, None)
    engine.room_grew(node)
