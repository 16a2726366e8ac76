"""Pipelined tasks: they wait on a node for room that is being freed, and start as soon as it is there.

What they wait for is theirs: ``ClusterNode.idle`` leaves it out. A gang that has not started starts whole, so its
tasks wait for one another. A task whose room will not come (its node is lost or cordoned, or a victim stays after
all), or whose queue starts nothing any more, waits no longer: it is pending again, and so is the rest of a gang that
could then not start.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pumice.model.accounts import ClusterNode, Job, Task
from pumice.model.objects import TaskStatus
from pumice.scheduling.decisions import Bind, Pipeline
from pumice.scheduling.units import makes_a_gang

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


Room = dict[ClusterNode, dict[int, int]]
"""Amounts by node and resource."""


def follow_pipelined(engine: Engine) -> None:
    """At the start of a cycle: send back those who wait in vain, start those whose room is there."""
    if engine.pipelined:
        _send_back(engine)
        start_pipelined(engine)


def start_pipelined(engine: Engine) -> None:
    """Bind the tasks that waited for room and have it now, in the order in which they came."""
    spoken_for: Room = {}  # what is free, and meant for those who came first, whether they start now or wait on
    ready: dict[Job, list[Task]] = {}
    for task in engine.pipelined:
        assert task.job is not None
        if _has_room(engine, task, spoken_for):
            ready.setdefault(task.job, []).append(task)
        else:
            _keep(engine, task, spoken_for)
    for job, tasks in ready.items():
        if _starts_with(engine, job, tasks):
            for task in tasks:
                _start(engine, task)


def _by_job(engine: Engine) -> dict[Job, list[Task]]:
    jobs: dict[Job, list[Task]] = {}
    for task in engine.pipelined:
        assert task.job is not None
        jobs.setdefault(task.job, []).append(task)
    return jobs


def _starts_with(engine: Engine, job: Job, tasks: Collection[Task]) -> bool:
    """Whether a job has what it must start with, once these tasks of it start as well."""
    seated = [task for task in job.tasks.values() if task.status.held and task.status is not TaskStatus.PIPELINED]
    return engine.policy.job_valid(job) is None and makes_a_gang(job, [*seated, *tasks], engine.policy.start_size(job))


def _start(engine: Engine, task: Task) -> None:
    node = task.node
    assert node is not None and task.job is not None
    engine.state.promote(task)
    del engine.pipelined[task]
    engine.awaited.pop(task.spec.key, None)
    index = engine.nodes.touch(node)
    engine.nodes.lost(index, engine.candidates.shape_full)
    engine.held_changed()
    decisions, bind = engine.decisions, Bind(task.spec.key, node.name, task.job.key)
    if task in engine.just_pipelined:  # what it was to wait for is there already
        said = (i for i, d in enumerate(decisions) if isinstance(d, Pipeline) and d.task == task.spec.key)
        decisions[next(said)] = bind
    else:
        decisions.append(bind)


def _keep(engine: Engine, task: Task, spoken_for: Room) -> None:
    """A task waits on: what its own victims will not free of what it needs, others must leave."""
    node = task.node
    assert node is not None
    coming: dict[int, int] = {}
    for name in engine.awaited.get(task.spec.key, ()):
        victim = engine.state.tasks.get(name)
        if victim is not None and victim.node is node and victim.status is TaskStatus.RELEASING:
            for j, amount in victim.shape.items:
                coming[j] = coming.get(j, 0) + amount
    here = spoken_for.setdefault(node, {})
    for j, amount in task.shape.items:
        here[j] = here.get(j, 0) + max(0, amount - coming.get(j, 0))


def _has_room(engine: Engine, task: Task, taken: Room) -> bool:
    """Whether nobody occupies the room any more that a task waits for; if so, it counts as taken."""
    node = task.node
    assert node is not None
    here = taken.get(node, {})
    if any(_is_leaving(engine, victim) for victim in engine.awaited.get(task.spec.key, ())):
        return False
    if any(node.free(j) - here.get(j, 0) < amount for j, amount in task.shape.items):
        return False
    if task.shape.coupled and not engine.allows_now(task, node):
        return False
    mine = taken.setdefault(node, {})
    for j, amount in task.shape.items:
        mine[j] = mine.get(j, 0) + amount
    return True


def _is_leaving(engine: Engine, victim: str) -> bool:
    """Whether a victim is still being released; its place may be free before, but not what its queue may hold."""
    task = engine.state.tasks.get(victim)
    return task is not None and task.status is TaskStatus.RELEASING


def _send_back(engine: Engine) -> None:
    """Make those pending again whose room will not come; who came last goes first."""
    changed: dict[Job, None] = {}
    for task in reversed(list(engine.pipelined)):
        node, job = task.node, task.job
        assert job is not None
        lost = node is None or not node.schedulable or not engine.takes_work(job) or _somebody_stays(engine, task)
        if lost or (node is not None and any(node.future(j) < 0 for j, _ in task.shape.items)):
            _unpipeline(engine, task)
            changed[job] = None
    for job, tasks in _by_job(engine).items():
        if not _starts_with(engine, job, tasks):
            for task in tasks:
                _unpipeline(engine, task)
            changed[job] = None
    if changed:
        engine.room_came()
    for job in changed:
        engine.refresh_job(job)


def _somebody_stays(engine: Engine, task: Task) -> bool:
    """Whether a victim that a task waits for goes on after all; forgets those that are gone."""
    victims = [engine.state.tasks.get(name) for name in engine.awaited.get(task.spec.key, ())]
    there = [victim for victim in victims if victim is not None and victim.status is not TaskStatus.PENDING]
    engine.awaited[task.spec.key] = tuple(v.spec.key for v in there if v.status is TaskStatus.RELEASING)
    return any(victim.status.held for victim in there)


def _unpipeline(engine: Engine, task: Task) -> None:
    """A task is pending again."""
    node = task.node
    assert node is not None and task.job is not None
    for plugin in engine.policy.followers:
        plugin.removed(task, node)
    leaf, started, owed = engine.tree.jobs.get(task.job.key), task.started, task.owed
    engine.state.unplace(task)
    task.owed = True
    if leaf is not None:  # a job whose queue is gone holds nothing there any more
        engine.order.release(leaf, task.shape.ask, started, 1, owed)
    engine.pipelined.pop(task, None)
    engine.awaited.pop(task.spec.key, None)
    engine.room_grew(node)
