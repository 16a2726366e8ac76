"""Compose the report: the questions to ask, their order, and the conclusion.

The order is that in which the engine would hit obstacles: the queue, enqueue, the pods, an empty cluster that would be
too small, first-come order, the limits, free capacity, the serving order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubebase.resource_vector import PODS
from pumice.engine.actions import ACTIONS
from pumice.engine.candidates.job_demand import barred_shapes, can_ever_start, volume_wait
from pumice.engine.candidates.oversized_jobs import find_oversize
from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.explain.competition import find_competition, fitting_now
from pumice.engine.explain.forecast import run_ahead
from pumice.engine.explain.limit_report import limits_of
from pumice.engine.explain.node_fit import places, places_of, slots_when_empty
from pumice.engine.explain.summary import summarize
from pumice.engine.explain.wait_report import Missing, NodeFit, WaitReport
from pumice.engine.explain.wording import AmountFormatter, count, listed, said, seconds
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.placement.domain_placement import no_domain, say_largest
from pumice.engine.placement.reservations import find_reservation
from pumice.engine.state.job import Job
from pumice.engine.state.succession import WAIT
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.queue_states import stopped_by
from pumice.model.specs import JobPhase, Queue, QueueState, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.engine import Engine


def explain(engine: Engine, key: str, now: int) -> WaitReport | None:
    """Why the job of that key waits, or what it has; None: the job is unknown.

    The engine runs ahead and must not be used for anything else afterwards.
    """
    engine.context.now = max(engine.now, now)
    engine.prepare()
    job = engine.state.jobs.get(key)
    if job is None:
        return None
    answer = _about(engine, job)
    awaited = _awaited_successors(engine, job)
    others = [other.key for other in engine.state.successions.jobs if other is not job and _awaits(other)]
    leaf = engine.tree.jobs.get(key)
    if leaf is None:
        _homeless(engine, job, answer)
    else:
        _placed(engine, leaf, answer)
    answer.notes += awaited
    if others and answer.owed is False:
        answer.notes.append(
            f"{listed(sorted(others))} {'has' if len(others) == 1 else 'have'} evicted tasks whose successors do not "
            "exist yet: others may borrow what is kept for these, but are not owed it"
        )
    summarize(answer)
    return answer


def _about(engine: Engine, job: Job) -> WaitReport:
    """The part of the report that applies to any job."""
    spec, say = job.spec, AmountFormatter(engine.state.registry)
    tasks = job.each_task()
    started = [task.started for task in tasks if task.status.on_node and task.status.held]
    return WaitReport(
        job.key,
        "room",
        queue=spec.queue if spec is not None else "",
        user=(spec.user or spec.namespace) if spec is not None else "",
        phase=job.phase.value if spec is not None else "",
        now=engine.now,
        created=spec.created if spec is not None else min((task.spec.created for task in tasks), default=0),
        running_since=min(started, default=0),
        last_start=max(started, default=0),
        running=len(started),
        starting=sum(task.status is TaskStatus.PIPELINED for task in tasks),
        pending=sum(task.status is TaskStatus.PENDING for task in tasks),
        succeeded=job.succeeded,
        minimum=spec.min_member if spec is not None else 1,
        holds=say.vector(job.held),
    )


def _awaits(job: Job) -> int:
    """How many successors of evicted tasks that are gone a job expects."""
    return len(job.succession.awaited) if job.succession is not None else 0


def _awaited_successors(engine: Engine, job: Job) -> list[str]:
    """That the job expects successors of evicted tasks, and for how long they count."""
    number = _awaits(job)
    if not number or job.succession is None:
        return []
    ends = [one.until if one.until is not None else engine.now + WAIT for one in job.succession.awaited]
    gone, counts, them = ("is gone and has", "it counts", "it")
    if number > 1:
        gone, counts, them = ("are gone and have", "they count", "them")
    left = seconds(max(ends) - engine.now)
    return [
        f"{count(number, 'evicted task')} {gone} not been created again; {counts} for {left} more at most, and others "
        f"may borrow what the job is entitled to for {them}"
    ]


# ---- jobs that are not in the tree -----------------------------------------------------------------------------


def _homeless(engine: Engine, job: Job, answer: WaitReport) -> None:
    if job.spec is None:
        answer.cause = "no group"
        answer.needs.append(f"create PodGroup {job.key}, which the pods of the job name")
        return
    answer.cause = "no queue"
    queue = job.spec.queue
    refusal = next(
        (found for found in engine.context.sync.queue_tree.refusals if found.queue == queue and found.refused), None
    )
    if refusal is not None:
        answer.notes.append(f"queue {queue} has no valid place in the tree: {refusal.field}: {refusal.message}")
        answer.needs.append(f"correct the spec of queue {queue}")
    else:
        answer.needs.append(f"create queue {queue}, or send the job to another queue")


# ---- jobs that are ---------------------------------------------------------------------------------------------


def _placed(engine: Engine, leaf: JobNode, answer: WaitReport) -> None:
    job = leaf.job
    answer.path = leaf.queue.path
    if "enqueue" in engine.policy.config.actions:
        ACTIONS["enqueue"](engine.context)  # as at the start of the next cycle
        answer.phase = job.phase.value
    _target(engine, leaf, answer)
    if not _waits(job, answer) or _queue_is_shut(engine, leaf, answer) or _kept_out(engine, leaf, answer):
        return
    if _never(engine, leaf, answer):
        return
    unit: AllocationUnit | None = leaf.unit
    if unit is None:
        _only_best_effort(engine, job, answer)
    else:
        _unit(engine, leaf, unit, answer)
    outlook = answer.outlook = run_ahead(engine, job.key)
    if outlook.starts_at == answer.now and not outlook.evictions:
        # Perhaps only its tasks without requests start, or its capacity is still being released.
        answer.cause = "starting" if outlook.waits_for_room else "next"
    elif answer.cause == "next":
        answer.cause = "turn"
        if leaf.unit is not None:  # its state once the others have started
            answer.places = places_of(engine.nodes, leaf.unit, engine.state.registry)
            answer.limits = limits_of(engine, leaf, leaf.unit)
        elif unit is None:
            answer.places = _best_effort_places(engine, job)


def _target(engine: Engine, leaf: JobNode, answer: WaitReport) -> None:
    if engine.order.has_targets:
        answer.target = leaf.target
        answer.whole = AmountFormatter(engine.state.registry).vector(leaf.integer_target)


def _waits(job: Job, answer: WaitReport) -> bool:
    """Whether some task of the job is still to be started."""
    if job.phase is JobPhase.COMPLETED or (
        job.task_count and all(task.status > TaskStatus.RELEASING for task in job.each_task())
    ):
        answer.cause = "finished"
    elif answer.starting and not answer.pending:
        answer.cause = "starting"
    elif job.running and not answer.pending:
        answer.cause = "running"
    else:
        return True
    return False


def _queue_is_shut(engine: Engine, leaf: JobNode, answer: WaitReport) -> bool:
    queue = leaf.queue
    if not engine.context.sync.is_leaf_queue(queue):
        answer.cause = "queue"
        answer.notes.append(f"queue {queue.path} is not a leaf queue, and only leaf queues accept jobs")
        answer.needs.append("send the job to a leaf queue")
        return True
    if engine.context.sync.closed_queue_above(queue) is None:
        return False
    answer.cause = "queue"
    path = _queues_down_to(engine, queue)
    for stopped in stopped_by(path):
        answer.notes.append(f"{_which(stopped, queue)} is {stopped.state.value}")
        how = "resume" if stopped.state is QueueState.PAUSED else "open"
        answer.needs.append(f"{how} queue {stopped.name}")
    for refused in path:
        if refused.name in engine.context.sync.refused_queues:
            answer.notes.append(
                f"{_which(refused, queue)} starts no jobs: {engine.context.sync.refused_queues[refused.name]}"
            )
            answer.needs.append(f"correct the spec of queue {refused.name}")
    return True


def _queues_down_to(engine: Engine, queue: ShareNode) -> list[Queue]:
    """The Queue objects from the root down to a queue, itself included."""
    found: list[Queue] = []
    node: ShareNode | None = queue
    while node is not None:
        if (described := engine.context.sync.queue_of(node)) is not None:
            found.append(described)
        node = node.parent
    return found[::-1]


def _which(named: Queue, own: ShareNode) -> str:
    return f"queue {named.name}" + ("" if named.name == own.queue_name else ", an ancestor of its queue,")


def _kept_out(engine: Engine, leaf: JobNode, answer: WaitReport) -> bool:
    """Whether the job is not enqueued, or its pods do not exist."""
    job, policy = leaf.job, engine.policy
    if job.phase is JobPhase.PENDING and policy.enqueues:
        if _is_too_large(engine, job, answer):
            return True
        answer.cause = "not let in"
        reason = policy.enqueueable(leaf, engine.now)
        answer.notes.append(reason or "it will be enqueued in the next cycle")
        answer.needs.append("wait until running or enqueued jobs end, or add nodes")
        answer.outlook = run_ahead(engine, job.key)
        return True
    reason = policy.job_valid(job)
    if reason is None and not job.task_count:
        reason = "none of its pods exists"
    if reason is not None:
        answer.cause = "pods"
        answer.notes.append(reason)
        answer.needs.append("wait until the controller of its pods has created the rest")
        return True
    return False


def _is_too_large(engine: Engine, job: Job, answer: WaitReport) -> bool:
    """Whether the job's minResources exceed the cluster."""
    assert job.spec is not None
    say, has = AmountFormatter(engine.state.registry), engine.state.capacity
    asked = {j: amount for j, amount in enumerate(job.spec.min_resources) if j != PODS and amount > has[j]}
    if not asked:
        return False
    answer.cause = "never"
    least, most = said(say.items(tuple(asked.items()))), said(say.vector(has, asked))
    answer.notes.append(f"its minResources request {least}, but the whole cluster has {most}")
    answer.needs.append("add nodes, or request less")
    return True


def _never(engine: Engine, leaf: JobNode, answer: WaitReport) -> bool:
    """Whether no pending task fits an empty cluster."""
    job, nodes = leaf.job, engine.nodes
    beyond = find_oversize(leaf, engine.policy.start_size(job))
    if beyond is not None:
        answer.cause = "never"
        answer.notes.append(beyond.message(engine.state.registry).removeprefix("the job can never start: "))
        answer.needs.append(f"raise the capability of queue {beyond.queue.path}, or request less")
        return True
    barred = barred_shapes(job, nodes)
    without_volume = volume_wait(barred)
    if without_volume:
        answer.notes.append(without_volume)
    elif barred:
        waiting = count(sum(len(job.pending[shape]) for shape in barred), "task")
        answer.notes.append(f"{waiting} would not fit any node, not even an empty one")
    can_start = can_ever_start(job, engine.policy.start_size(job), barred, nodes, engine.state.capacity)
    if can_start and len(barred) < len(job.pending):
        return False
    if without_volume:
        answer.cause = "volume"
        answer.needs.append("create the claims that its pods name, or see why they are not bound: kubectl describe pvc")
        return True
    answer.cause = "never"
    shapes = barred or frozenset(job.pending)
    answer.places = [_when_empty(engine, job, shape) for shape in sorted(shapes, key=lambda shape: shape.index)]
    if not can_start and leaf.unit is not None and (outside := _no_domain_when_empty(engine, leaf.unit)):
        answer.notes.append(outside)
    elif not can_start and leaf.unit is not None:
        for shape, tasks in leaf.unit.parts:
            slots = slots_when_empty(nodes, shape)
            if slots < tasks and tasks > 1:
                answer.notes.append(
                    f"it must start {tasks} tasks together, but the empty cluster has capacity for {slots}"
                )
    answer.notes = answer.notes or ["the tasks that it must start together do not fit an empty cluster"]
    answer.needs.append("add or change nodes so that it fits, or change its requests")
    return True


def _no_domain_when_empty(engine: Engine, unit: AllocationUnit) -> str:
    """That a gang is larger than every domain it may use; empty if it may use all nodes."""
    rule = unit.topology
    if rule is None or not rule.hard:
        return ""
    largest = say_largest(engine.nodes, unit.parts, rule, empty=True)
    return f"no HyperNode of tier <= {rule.highest} could hold its {unit.size} tasks if it were empty{largest}"


def _when_empty(engine: Engine, job: Job, shape: TaskShape) -> NodeFit:
    return places(engine.nodes, shape, engine.state.registry, tasks=len(job.pending[shape]), empty=True)


def _only_best_effort(engine: Engine, job: Job, answer: WaitReport) -> None:
    """Tasks without requests wait for any free pod slot."""
    answer.places = _best_effort_places(engine, job)
    answer.unit_tasks = sum(found.tasks for found in answer.places)
    answer.cause = "next" if any(found.fitting for found in answer.places) else "room"


def _best_effort_places(engine: Engine, job: Job) -> list[NodeFit]:
    shapes = [shape for shape in job.pending if shape.best_effort]
    return [places(engine.nodes, shape, engine.state.registry, tasks=len(job.pending[shape])) for shape in shapes]


def _unit(engine: Engine, leaf: JobNode, unit: AllocationUnit, answer: WaitReport) -> None:
    """The job's next unit, and what blocks it."""
    say, candidates = AmountFormatter(engine.state.registry), engine.candidates
    answer.unit_tasks, answer.unit = unit.size, say.items(unit.ask)
    answer.owed = engine.order.is_owed(leaf, unit.ask)
    answer.limits = limits_of(engine, leaf, unit)
    answer.places = places_of(engine.nodes, unit, engine.state.registry)
    answer.fitting_now = fitting_now(engine, leaf, unit)
    answer.contest = find_competition(engine, leaf)
    has_room = answer.fitting_now == unit.size
    if not has_room:
        needs, _ = find_reservation(engine.nodes, unit, engine.state.capacity)
        for index, items in sorted(needs.items()):
            node = engine.nodes.nodes[index]
            lacking = tuple((j, amount - node.idle[j]) for j, amount in items if amount > node.idle[j])
            if lacking:
                answer.missing.append(Missing(node.name, say.items(lacking) or {"pods": "1"}))
    if not candidates.fifo_queues.is_head(leaf):
        answer.cause = "line"
        answer.notes.append(
            f"queue {leaf.queue.path} is FIFO (dequeueStrategy: fifo), and {_head(engine, leaf)} is at its head"
        )
    elif answer.limits:
        answer.cause = "limit"
    elif not has_room:
        answer.cause = "room"
        answer.no_domain = no_domain(engine.nodes, unit) or ""
    else:
        answer.cause = "next"


def _head(engine: Engine, leaf: JobNode) -> str:
    below = (node for node in leaf.queue.walk() if isinstance(node, JobNode) and node.unit is not None)
    return next(node.name for node in below if engine.candidates.fifo_queues.is_head(node))
