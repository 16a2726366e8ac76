"""The state of the cluster: the result of all events so far.

``apply`` takes events and touches only the objects they name: a changed task updates the accounts of its job and node
by the difference. Nothing is recomputed from scratch, and nothing is dropped because a related object is missing: tasks
wait for their job, jobs for their queue, and pods keep their place on a node whose Node object has not arrived. The
engine follows up on ``changed_jobs`` and the like and clears them, or observes usage. ``validate`` checks every account
against a full recount.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kubebase.resource_vector import Registry
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.job import Job
from pumice.engine.state.label_index import LabelIndex
from pumice.engine.state.succession import Awaited, Successions, eviction_failed, expect_nobody, group_shrank
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import Rules, ShapeTable, TaskShape, first_pair, selects
from pumice.model.hyper_nodes import HyperNode
from pumice.model.node_domains import NodeDomains
from pumice.model.specs import (
    Constraints,
    DisruptionBudget,
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

BEEN_WHOLE = (JobPhase.RUNNING, JobPhase.UNKNOWN, JobPhase.COMPLETED)
"""Phases that only a job whose minimum was complete at some time can have."""


class UsageObserver(Protocol):
    """Observes tasks as events move them (the engine accounts for its own moves itself)."""

    def task_entered(self, task: Task) -> None:
        """A task now counts according to its status."""

    def task_leaving(self, task: Task) -> None:
        """A task is about to stop counting according to its status."""


def share_job_key(spec: TaskSpec, key: str) -> None:
    """Let the tasks of a job have one string for its key: every pod brings an equal one of its own."""
    if spec.job is not key:
        object.__setattr__(spec, "job", key)  # an equal value, so the description does not change


class ClusterState:
    """Queues, namespaces, jobs, tasks and nodes, kept up to date by events."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry if registry is not None else Registry()
        self.shapes = ShapeTable()
        self.queues: dict[str, Queue] = {}
        self.quotas: dict[str, dict[str, Quota]] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[str, DisruptionBudget] = {}
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        self._labels = LabelIndex(self.tasks)
        self.nodes: dict[str, ClusterNode] = {}
        self.domains = NodeDomains()
        self.capacity: list[int] = [0] * len(self.registry)
        self.pods_version = 0  # increases with every event about a pod or a disruption budget
        self.victims_changed = False  # evictability or preemption policy of some task changed
        self.queues_changed = True
        self.changed_jobs: dict[Job, None] = {}
        self.successions = Successions()
        self.unexpected_pods: dict[str, None] = {}  # bound, but not by us (see ``overcommitted_nodes``)
        self.nodes_changed = True  # nodes were added, removed or changed
        self.usage_observer: UsageObserver | None = None
        self.removed_jobs: dict[str, None] = {}
        self._on_change: dict[type, Callable[[Any], None]] = {
            Queue: self._set_queue,
            Quota: self._set_quota,
            PriorityClass: self._set_priority_class,
            DisruptionBudget: self._set_budget,
            JobSpec: self._set_job,
            TaskSpec: self._set_task,
            NodeSpec: self._set_node,
            HyperNode: self._set_hyper_node,
        }
        self._on_gone: dict[type, Callable[[str], None]] = {
            Queue: self._drop_queue,
            Quota: self._drop_quota,
            PriorityClass: self._drop_priority_class,
            DisruptionBudget: self._drop_budget,
            JobSpec: self._drop_job,
            TaskSpec: self._drop_task,
            NodeSpec: self._drop_node,
            HyperNode: self._drop_hyper_node,
        }

    # --- events ---------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Apply one event."""
        if len(self.capacity) < len(self.registry):
            self._widen()
        if isinstance(event, Changed):
            self._on_change[type(event.object)](event.object)
        elif isinstance(event, Gone):
            self._on_gone[event.kind](event.key)
        elif isinstance(event, BindFailed):
            task = self.tasks.get(event.task)
            if task is not None and task.status in (TaskStatus.BINDING, TaskStatus.PIPELINED):
                self._leave(task)
                task.shape, task.owed, task.cards = self._shape(task.spec, task.job), True, task.spec.cards
                self._enter(task, TaskStatus.PENDING, None, 0)
        elif isinstance(event, EvictFailed):
            task = self.tasks.get(event.task)
            if task is not None and task.status is TaskStatus.RELEASING and task.spec.status.held:
                node, started = task.node, task.started
                self._leave(task)
                task.evicted = False
                if task.job is not None:
                    eviction_failed(task.job, task)
                here = self._node(node.name) if node is not None else None  # this task alone may have kept it
                self._enter(task, task.spec.status, here, started)

    def _set_queue(self, queue: Queue) -> None:
        if self.queues.get(queue.name) != queue:
            self.queues[queue.name] = queue
            self.queues_changed = True

    def _drop_queue(self, name: str) -> None:
        if self.queues.pop(name, None) is not None:
            self.queues_changed = True

    def _set_quota(self, quota: Quota) -> None:
        self.quotas.setdefault(quota.namespace, {})[quota.name] = quota
        self.queues_changed = True

    def _drop_quota(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        if self.quotas.get(namespace, {}).pop(name, None) is not None:
            self.queues_changed = True

    def _set_priority_class(self, priority_class: PriorityClass) -> None:
        self.priority_classes[priority_class.name] = priority_class
        self._reprioritise()

    def _drop_priority_class(self, name: str) -> None:
        if self.priority_classes.pop(name, None) is not None:
            self._reprioritise()

    def _set_budget(self, budget: DisruptionBudget) -> None:
        self.budgets[budget.key] = budget
        self.pods_version += 1
        self.victims_changed = True

    def _drop_budget(self, key: str) -> None:
        self.budgets.pop(key, None)
        self.pods_version += 1
        self.victims_changed = True

    def _reprioritise(self) -> None:
        self.victims_changed = True
        for task in self.tasks.values():
            task.priority = self.task_priority(task.spec)
        for job in self.jobs.values():
            job.unsorted = True
            job.common_priority = None
            self.changed_jobs[job] = None

    def _set_job(self, spec: JobSpec) -> None:
        job = self._job(spec.key)
        if job.spec is None:
            # Its reported past counts when we first see it; from then on we track it ourselves.
            job.gang_was_complete = job.gang_was_complete or spec.phase in BEEN_WHOLE
        if job.spec is None or spec.phase is not JobPhase.PENDING:
            # Once we enqueued a job, an older update does not revert that.
            job.phase = spec.phase
        if job.spec is not None and job.spec.preemptable is not spec.preemptable:
            self.victims_changed = True
        if job.spec is not None and group_shrank(job.spec, spec):
            expect_nobody(job)
        job.spec = spec
        job.show(0)  # if its pods came first, or it needs fewer now
        self.changed_jobs[job] = None

    def _drop_job(self, key: str) -> None:
        job = self.jobs.get(key)
        if job is not None:
            job.spec = None
            expect_nobody(job)
            self._touch_job(job)

    def _set_task(self, spec: TaskSpec) -> None:
        task = self.tasks.get(spec.key)
        if task is not None and task.spec == spec:
            return
        self.pods_version += 1
        status, node, started = spec.status, spec.node, spec.started
        if task is not None and self._confirms(task, spec):
            if (spec.preemptable, spec.labels) != (task.spec.preemptable, task.spec.labels):
                self.victims_changed = True
            if task.status is TaskStatus.BINDING and status is not TaskStatus.BINDING:
                self.victims_changed = True  # from now on it can be evicted
            self._labels.remove(task)
            shown = status.shown - task.status.shown
            task.spec, task.status = spec, status
            self._labels.add(task)
            if task.job is not None and shown:
                self._show(task.job, shown)
            return
        owed, evicted, cards = True, False, spec.cards
        was = task.node.name if task is not None and task.node is not None else None
        if task is not None:
            owed, evicted = task.owed, task.evicted
            if status is TaskStatus.PENDING and task.status in (TaskStatus.BINDING, TaskStatus.PIPELINED):
                # Assumed by us and not confirmed yet: an update that does not include it does not undo it.
                status, node = task.status, task.node.name if task.node else None
            elif status.held and task.status is TaskStatus.RELEASING:
                status = task.status  # releasing by our eviction, whatever status the update reports
            if status.on_node and task.started:
                started = task.started
            if not cards and node is not None and was == node:
                cards = task.cards
            if status is TaskStatus.FAILED and task.status.held and task.job is not None:
                task.job.spent += 1
            self._forget(task)
            del self.tasks[spec.key]
            self._labels.remove(task)
        self.learn(spec.constraints)
        self.upsert_task(spec, status, node, started, owed=owed, evicted=evicted, cards=cards)
        self.successions.follow(task, self.tasks[spec.key])
        if spec.placed and status.shown and node is not None and node != was:
            self.unexpected_pods.pop(spec.key, None)
            self.unexpected_pods[spec.key] = None  # the latest arrival goes to the end

    def expect_again(self, key: str, awaited: Iterable[tuple[TaskSpec, int | None]]) -> None:
        """Restore what successors of evicted tasks a job expects (see ``cluster_snapshot``)."""
        job = self.jobs[key]
        tasks = ((Task(spec, self._shape(spec, job), self.task_priority(spec)), since) for spec, since in awaited)
        self.successions.restore(job, (Awaited(task, since) for task, since in tasks))

    def restore_job(self, key: str, spec: JobSpec | None, phase: JobPhase, *, whole: bool = False) -> None:
        """Restore a job from a snapshot (see ``cluster_snapshot``)."""
        job = self._job(key)
        job.spec, job.phase, job.gang_was_complete = spec, phase, whole
        self.changed_jobs[job] = None

    def upsert_task(
        self,
        spec: TaskSpec,
        status: TaskStatus,
        node: str | None,
        started: int,
        *,
        owed: bool,
        evicted: bool,
        cards: tuple[int, ...] = (),
    ) -> None:
        """Add an unknown task with its status and node."""
        job = self._job(spec.job) if spec.job is not None and spec.managed else None
        if job is not None:
            share_job_key(spec, job.key)
        task = Task(spec, self._shape(spec, job), self.task_priority(spec))
        task.job = job
        task.cards = cards
        task.owed = owed or status is TaskStatus.PENDING
        task.evicted = evicted and status is TaskStatus.RELEASING
        self.tasks[task.key] = task
        self._labels.add(task)
        here = self._node(node) if node is not None and status.has_node else None
        self._enter(task, status, here, started)

    def _show(self, job: Job, shown: int) -> None:
        job.show(shown)
        if not job.gang_was_complete and job.spec is not None and job.running + job.succeeded < job.spec.minimum:
            self.changed_jobs[job] = None  # too few are shown, which may not be known yet

    def _confirms(self, task: Task, spec: TaskSpec) -> bool:
        """Whether an update only confirms the assumed status and node of a task, so that no account changes."""
        return (
            task.node is not None
            and task.node.name == spec.node
            and TaskStatus.BINDING <= task.status <= TaskStatus.RUNNING
            and TaskStatus.BINDING <= spec.status <= TaskStatus.RUNNING
            and spec.job == task.spec.job
            and spec.managed == task.spec.managed
            and (not spec.cards or spec.cards == task.cards)
            and self.task_priority(spec) == task.priority
            and self.shapes.of(spec, task.shape.rules) is task.shape
        )

    def _drop_task(self, key: str) -> None:
        task = self.tasks.get(key)
        if task is not None:
            self.pods_version += 1
            self._forget(task)
            del self.tasks[key]
            self.unexpected_pods.pop(key, None)
            self._labels.remove(task)
            self.successions.follow(task, None)

    def _set_node(self, spec: NodeSpec) -> None:
        node = self._node(spec.name)
        if node.spec == spec:
            return
        node.describe(spec, len(self.capacity))
        self.domains.put_node(spec.name, spec.labels)
        self.nodes_changed = True
        self._touch_node(node)

    def _drop_node(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None:
            node.describe(None, len(self.capacity))
            self.domains.drop_node(name)
            self.nodes_changed = True
            self._touch_node(node)

    def _set_hyper_node(self, found: HyperNode) -> None:
        if self.domains.hyper_nodes.get(found.name) != found:
            self.domains.put_hyper_node(found)
            self.nodes_changed = True

    def _drop_hyper_node(self, name: str) -> None:
        if name in self.domains.hyper_nodes:
            self.domains.drop_hyper_node(name)
            self.nodes_changed = True

    # --- moves: what the engine itself decides ---------------------------------------------------------

    def place(self, task: Task, node: ClusterNode, stamp: int, status: TaskStatus = TaskStatus.BINDING) -> None:
        """Place a pending task on a node (Pipelined: claim capacity there). The caller notifies the observer."""
        assert task.job is not None
        task.job.start(task)
        task.status, task.node, task.started = status, node, stamp
        node.admit(task)

    def unplace(self, task: Task) -> None:
        """Exactly undo ``place``."""
        node = task.node
        assert task.job is not None and node is not None
        node.release(task)
        task.status, task.node, task.started = TaskStatus.PENDING, None, 0
        task.cards = task.spec.cards
        task.job.unstart(task)
        if node.spec is None:  # the Node object was removed while the task waited there
            self._touch_node(node)

    def pipeline(self, task: Task, node: ClusterNode, stamp: int) -> None:
        """Give a pending task a claim on a node, on capacity that is idle or being released there."""
        self.place(task, node, stamp, TaskStatus.PIPELINED)

    def promote(self, task: Task) -> None:
        """Place a pipelined task on its node."""
        assert task.node is not None
        task.node.release(task)
        task.status = TaskStatus.BINDING
        task.node.admit(task)

    def evict(self, task: Task) -> None:
        """Mark a placed task as releasing."""
        assert task.job is not None and task.node is not None
        task.job.evict(task)
        task.node.evict(task, 1)
        task.status, task.evicted = TaskStatus.RELEASING, True
        if not task.node.schedulable:
            self._touch_node(task.node)

    def unevict(self, task: Task, status: TaskStatus) -> None:
        """Exactly undo ``evict``."""
        assert task.job is not None and task.node is not None
        task.status, task.evicted = status, False
        task.node.evict(task, -1)
        task.job.unevict(task)
        if not task.node.schedulable:
            self._touch_node(task.node)

    # --- accounts ----------------------------------------------------------------------------------------

    def _enter(self, task: Task, status: TaskStatus, node: ClusterNode | None, started: int) -> None:
        task.status, task.node, task.started = status, node, started
        if node is not None and status.has_node:
            node.admit(task)
            if not task.spec.managed or not node.schedulable:
                self._touch_node(node)
        if task.job is not None:
            task.job.enter(task)
            self.changed_jobs[task.job] = None
        if self.usage_observer is not None:
            self.usage_observer.task_entered(task)

    def _leave(self, task: Task) -> None:
        node, job = task.node, task.job
        if self.usage_observer is not None:
            self.usage_observer.task_leaving(task)
        if job is not None:
            job.leave(task)
            self.changed_jobs[job] = None
        if node is not None and task.status.has_node:
            node.release(task)
            if not task.spec.managed or not node.schedulable:
                self._touch_node(node)

    def _forget(self, task: Task) -> None:
        self._leave(task)
        if task.job is not None:
            self._touch_job(task.job)
        if task.node is not None:
            self._touch_node(task.node)

    def _job(self, key: str) -> Job:
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key)
            self.removed_jobs.pop(key, None)
        return job

    def _touch_job(self, job: Job) -> None:
        """Mark a job as changed; remove it if no object refers to it any more."""
        if job.spec is None and not job.task_count and self.jobs.get(job.key) is job:
            del self.jobs[job.key]
            self.changed_jobs.pop(job, None)
            self.removed_jobs[job.key] = None
        else:
            self.changed_jobs[job] = None

    def _node(self, name: str) -> ClusterNode:
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = ClusterNode(name, len(self.capacity))
        return node

    def _touch_node(self, node: ClusterNode) -> None:
        """Refresh a node's contribution to capacity; remove the node if no object refers to it any more."""
        if node.spec is None and not node.tasks and not node.waiting and self.nodes.get(node.name) is node:
            del self.nodes[node.name]
        gives = node.contribution()
        if gives != node.counted:
            for j, (new, old) in enumerate(zip(gives, node.counted, strict=True)):
                self.capacity[j] += new - old
            node.counted = gives

    def _widen(self) -> None:
        """Add a zero for a newly registered resource to every account."""
        width = len(self.registry)
        self.capacity.extend([0] * (width - len(self.capacity)))
        for node in self.nodes.values():
            node.widen(width)
        self.nodes_changed = True

    def learn(self, constraints: Constraints) -> None:
        """Learn constraints on other pods, which may give pending tasks an identity (see ``task_shapes``)."""
        if not constraints.coupled:
            return
        terms, new_keys = self.shapes.note_term(constraints)
        concerned: dict[Task, None] = {}
        if new_keys:
            concerned.update(dict.fromkeys(task for task in self.tasks.values() if task.shape.identity is not None))
        for term in terms:
            concerned.update(dict.fromkeys(self.tasks_selected(term)))
        for task in concerned:
            shape = self._shape(task.spec, task.job)
            if task.status is TaskStatus.PENDING and shape is not task.shape:
                self._leave(task)
                task.shape = shape
                self._enter(task, task.status, task.node, task.started)

    def _shape(self, spec: TaskSpec, job: Job | None) -> TaskShape:
        return self.shapes.of(spec, job.rules if job is not None else ())

    def set_rules(self, job: Job, rules: Rules) -> None:
        """Set the node rules of a job: its pending tasks get new shapes."""
        if rules != job.rules:
            job.rules = rules
            for task in [task for tasks in job.pending.values() for task in tasks]:
                job.leave(task)
                task.shape = self._shape(task.spec, job)
                job.enter(task)

    # --- queries ----------------------------------------------------------------------------------------

    def task_priority(self, spec: TaskSpec) -> int:
        """A pod's own priority, else that of its class, else the default class's, else 0."""
        if spec.priority is not None:
            return spec.priority
        return self._class_value(spec.priority_class)

    def task_preempts(self, spec: TaskSpec) -> bool:
        """Whether a pod may preempt: its own policy, else that of its class, else yes."""
        if spec.preempts is not None:
            return spec.preempts
        found = self._class(spec.priority_class)
        return found is None or found.preempts

    def job_priority(self, job: Job) -> int:
        """The priority of a job's class; without one, of its most important unfinished task."""
        if job.spec is not None and job.spec.priority_class in self.priority_classes:
            return self._class_value(job.spec.priority_class)
        priority = job.priority
        return priority if priority is not None else self._class_value(None)

    def _class_value(self, name: str | None) -> int:
        found = self._class(name)
        return found.value if found is not None else 0

    def _class(self, name: str | None) -> PriorityClass | None:
        found = self.priority_classes.get(name) if name is not None else None
        if found is None:
            # Several default classes are an error; the highest wins, so that the result is order-independent.
            defaults = (c for c in self.priority_classes.values() if c.default)
            return max(defaults, key=lambda c: (c.value, c.name), default=None)
        return found

    def tasks_selected(self, term: PodTerm) -> list[Task]:
        """The tasks that a term selects; examines few of them where the term names a label."""
        pair = first_pair(term)
        tasks = self._labels.having(*pair) if pair is not None else self.tasks.values()
        return [task for task in tasks if selects(term, task.spec.namespace, task.spec.labels)]

    def namespace_weight(self, namespace: str) -> int:
        """The highest valid weight among the namespace's quotas; 1 without any (docs/fairness.md, section 7)."""
        quotas = self.quotas.get(namespace, {}).values()
        return max((q.weight for q in quotas if q.weight is not None and q.weight > 0), default=1)

    def validate(self) -> None:
        """Check every account against a full recount; raises AssertionError on the first difference."""
        width = len(self.capacity)
        total = [0] * width
        for node in self.nodes.values():
            node.validate(width)
            assert node.spec is not None or node.tasks or node.waiting, f"node {node.name} is a ghost"
            for j, amount in enumerate(node.contribution()):
                total[j] += amount
        assert total == self.capacity, f"capacity {self.capacity} is not {total}"
        for job in self.jobs.values():
            job.validate()
            assert job.spec is not None or job.task_count, f"job {job.key} is a ghost"
            assert all(self.tasks[task.key] is task and task.job is job for task in job.each_task())
        counted = 0
        for key, task in self.tasks.items():
            assert key == task.spec.key
            if task.job is not None:
                assert self.jobs[task.job.key] is task.job
                counted += 1
            if task.status.has_node and task.node is not None:
                there = task.node.waiting if task.status is TaskStatus.PIPELINED else task.node.tasks
                assert there[key] is task
                assert self.nodes[task.node.name] is task.node
        assert counted == sum(job.task_count for job in self.jobs.values())
