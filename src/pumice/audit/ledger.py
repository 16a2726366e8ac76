"""The ledger: which task is where, by the events and decisions of a log, and what nodes, jobs and queues hold.

It follows the same facts as the scheduler did and nothing of its reasoning. What a decision assumed is true until an
event says otherwise: a task that was bound holds its node although the cluster still shows it as pending, and a task
that was evicted is leaving although the cluster still shows it as running.

``world`` counts the changes that came from outside: nodes, queues and priorities, jobs that came or went, pods that
ended. The successor of an evicted pod is no such change.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubebase.resource_vector import PODS
from pumice.audit.ledger_entries import (
    AwaitedTask,
    LedgerJob,
    LedgerNode,
    LedgerTask,
    add_to,
    asks,
    await_successor,
    take_place,
)
from pumice.audit.log_lines import (
    ChangedLine,
    Decision,
    EventLine,
    GoneLine,
    HappenedLine,
    JobLine,
    MemoryLine,
    ObjectLine,
    TaskLine,
    read_object,
)
from pumice.audit.queue_accounts import Accounts
from pumice.model.queue_tree import Path
from pumice.model.specs import (
    Described,
    JobPhase,
    JobSpec,
    NodeSpec,
    PriorityClass,
    Queue,
    Quota,
    TaskSpec,
    TaskStatus,
)


class Ledger:
    """The state of a cluster by its log."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.nodes: dict[str, LedgerNode] = {}
        self.queues: dict[str, Queue] = {}
        self.quotas: dict[str, Quota] = {}
        self.classes: dict[str, PriorityClass] = {}
        self.jobs: dict[str, LedgerJob] = {}
        self.tasks: dict[str, LedgerTask] = {}
        self.world = 0
        self.accounts = Accounts(self)
        self.moves = 0  # how often a task changed its status or node
        self.doubtful: set[str] = set()  # tasks that wait on a node, or have returned to pending: the log tells it not
        self.awaits = False  # whether evicted tasks that are gone count until they have successors
        self.repelling = False  # whether pods were ever seen that keep others away

    # ---- the beginning of a file -----------------------------------------------------------------------------------

    def remember(self, line: MemoryLine) -> None:
        """Note what the engine of a file begins with."""
        self.repelling |= bool(line.terms)

    def begin(self, line: ObjectLine | JobLine | TaskLine) -> None:
        """Enter an object that exists at the beginning of a file; raises msgspec.MsgspecError."""
        world = self.world
        if isinstance(line, ObjectLine):
            self._change(read_object(line.kind, line.object))
        elif isinstance(line, JobLine):
            job = self._job(line.key)
            self._describe(job, read_object("job", line.object))
            job.phase = line.phase
            job.awaited = [AwaitedTask(read_object("task", one.object), one.since) for one in line.awaited]
        else:
            spec = read_object("task", line.object)
            self._enter(LedgerTask(spec, line.status, line.node, line.started, line.evicted, line.replaced))
        self.world = world

    # ---- events ----------------------------------------------------------------------------------------------------

    def apply(self, line: EventLine) -> None:
        """Apply an event; raises msgspec.MsgspecError."""
        if isinstance(line, ChangedLine):
            self._change(read_object(line.kind, line.object))
        elif isinstance(line, GoneLine):
            self._drop(line.kind, line.key)
        elif isinstance(line, HappenedLine):
            self._fail(line.event, line.about.task)

    def _change(self, found: Described) -> None:
        match found:
            case TaskSpec():
                self._change_task(found)
            case JobSpec():
                self._change_job(found)
            case NodeSpec():
                node = self._node(found.name)
                if node.spec != found:
                    node.spec, node.idle = found, None
                    self._outside(accounts=True)
            case Queue():
                if self.queues.get(found.name) != found:
                    self.queues[found.name] = found
                    self._outside(accounts=True)
            case Quota():
                self.quotas[found.key] = found
                self._outside(accounts=True)
            case PriorityClass():
                self.classes[found.name] = found
                self._outside()
            case _:
                self._outside()

    def _change_job(self, spec: JobSpec) -> None:
        job = self._job(spec.key)
        before = job.spec
        if before is not None and spec.minimum < before.minimum:
            job.awaited.clear()
        if before is None or spec.phase is not JobPhase.PENDING:
            job.phase = spec.phase  # an older update does not take back that it was let in
        self._describe(job, spec)
        if before is None or _decisive(before) != _decisive(spec):
            self._outside()

    def _describe(self, job: LedgerJob, spec: JobSpec | None) -> None:
        """Set the object of a job: its tasks may be charged to another queue from now on."""
        holding = [task for task in job.tasks.values() if task.holds]
        for task in holding:
            self.accounts.charge(task, -1)
        job.spec = spec
        for task in holding:
            self.accounts.charge(task, 1)

    def _change_task(self, spec: TaskSpec) -> None:
        task = self.tasks.get(spec.key)
        if task is not None and task.spec == spec:
            return
        status, node, started, evicted = spec.status, spec.node, spec.started, False
        if task is None:
            self._came(spec)
        else:
            if status is TaskStatus.PENDING and task.status in (TaskStatus.BINDING, TaskStatus.PIPELINED):
                status, node = task.status, task.node
            elif status.held and task.status is TaskStatus.RELEASING:
                status = task.status
            if status.on_node and task.started:
                started = task.started
            evicted = task.evicted
            if task.status.unfinished and not status.unfinished and status is not TaskStatus.RELEASING:
                self._outside()  # it has ended
            elif task.spec.request != spec.request:
                self._outside()
            self._leave(task)
        leaving = evicted and status is TaskStatus.RELEASING
        replaced = leaving and task is not None and task.replaced
        if task is not None and task.evicted and status is TaskStatus.FAILED:
            await_successor(self.jobs.get(task.spec.job or ""), task)
        self._enter(now := LedgerTask(spec, status, node, started, leaving, replaced))
        if task is None or task.spec.job != spec.job or task.status > TaskStatus.RELEASING:
            take_place(self.jobs.get(spec.job or ""), now)

    def _came(self, spec: TaskSpec) -> None:
        job = self.jobs.get(spec.job) if spec.job is not None and spec.managed else None
        if job is not None and job.successors[spec.request] > 0:
            job.successors[spec.request] -= 1
        else:
            self._outside()

    def _drop(self, kind: str, key: str) -> None:
        if kind == "task":
            task = self.tasks.get(key)
            if task is not None:
                self._leave(task)
                if task.evicted:
                    await_successor(self.jobs.get(task.spec.job or ""), task)
                if task.evicted and task.spec.job in self.jobs:
                    self.jobs[task.spec.job].successors[task.spec.request] += 1
                else:
                    self._outside()
        elif kind == "job":
            if key in self.jobs:
                self._describe(self.jobs[key], None)
                self.jobs[key].awaited.clear()
                self._forget_job(self.jobs[key])
                self._outside()
        elif kind == "node":
            if key in self.nodes:
                self.nodes[key].spec, self.nodes[key].idle = None, None
                self._forget_node(self.nodes[key])
                self._outside(accounts=True)
        else:
            if kind == "queue":
                self.queues.pop(key, None)
            elif kind == "quota":
                self.quotas.pop(key, None)
            elif kind == "priorityclass":
                self.classes.pop(key, None)
            self._outside(accounts=True)

    def _fail(self, event: str, key: str) -> None:
        task = self.tasks.get(key)
        if task is None:
            return
        self._outside()
        if event == "bindfailed" and task.status in (TaskStatus.BINDING, TaskStatus.PIPELINED):
            self.move(task, TaskStatus.PENDING, None)
        elif event == "evictfailed" and task.status is TaskStatus.RELEASING and task.spec.status.held:
            self.move(task, task.spec.status, task.node)
            task.evicted = task.replaced = False

    def pass_time(self, now: int) -> None:
        """A cycle runs: some successors are not expected any more."""
        for job in self.jobs.values() if self.awaits else ():
            job.pass_time(now)

    # ---- decisions -------------------------------------------------------------------------------------------------

    def decide(self, decision: Decision, now: int) -> None:
        """Enter a decision of a cycle. Whether it may be made is for the rules to say."""
        if decision.does == "enqueue" and decision.job in self.jobs:
            self.jobs[decision.job].phase = JobPhase.INQUEUE
        task = self.tasks.get(decision.task)
        if task is None:
            return
        if decision.does == "bind":
            self.move(task, TaskStatus.BINDING, decision.node)
            task.started = now
        elif decision.does == "pipeline":
            self.move(task, TaskStatus.PIPELINED, decision.node)
        elif decision.does == "evict" and task.status.has_node:
            self.move(task, TaskStatus.RELEASING, task.node)
            task.evicted = True

    def move(self, task: LedgerTask, status: TaskStatus, node: str | None) -> None:
        """Give a task another status and node."""
        self._leave(task)
        task.status, task.node = status, node
        self._enter(task)

    # ---- accounts --------------------------------------------------------------------------------------------------

    def _enter(self, task: LedgerTask) -> None:
        self.repelling |= bool(task.spec.constraints.anti_affinity)
        self.moves += 1
        self.tasks[task.spec.key] = task
        if task.spec.job is not None and task.spec.managed:
            self._job(task.spec.job).tasks[task.spec.key] = task
            if task.holds:
                self.accounts.charge(task, 1)
        if task.node is not None and task.status.has_node:
            self._node(task.node).tasks[task.spec.key] = task
            self._recapacitate(task, task.node)

    def _leave(self, task: LedgerTask) -> None:
        self.moves += 1
        self.tasks.pop(task.spec.key, None)
        job = self.jobs.get(task.spec.job or "")
        if job is not None and job.tasks.pop(task.spec.key, None) is not None:
            if task.holds:
                self.accounts.charge(task, -1)
            self._forget_job(job)
        node = self.nodes.get(task.node or "")
        if node is not None and node.tasks.pop(task.spec.key, None) is not None:
            self._recapacitate(task, node.name)
            self._forget_node(node)

    def _recapacitate(self, task: LedgerTask, node: str) -> None:
        """Pods of other schedulers take from the capacity, and ours on a cordoned node are all that it offers."""
        self.nodes[node].idle = None
        if not task.spec.managed or not self.nodes[node].schedulable:
            self.accounts.capacity_changed()

    def _job(self, key: str) -> LedgerJob:
        return self.jobs.setdefault(key, LedgerJob(key))

    def _node(self, name: str) -> LedgerNode:
        return self.nodes.setdefault(name, LedgerNode(name))

    def _forget_job(self, job: LedgerJob) -> None:
        if job.spec is None and not job.tasks:
            self.jobs.pop(job.key, None)

    def _forget_node(self, node: LedgerNode) -> None:
        if node.spec is None and not node.tasks:
            self.nodes.pop(node.name, None)

    def _outside(self, *, accounts: bool = False) -> None:
        self.world += 1
        self.accounts.outdated = self.accounts.outdated or accounts

    # ---- questions -------------------------------------------------------------------------------------------------

    def capacity(self) -> list[int]:
        """What all jobs share (docs/fairness.md, section 1.1)."""
        total = [0] * len(self.names)
        for node in self.nodes.values():
            if node.schedulable and node.spec is not None:
                offers = [*node.spec.allocatable, *[0] * (len(total) - len(node.spec.allocatable))]
                for task in node.tasks.values():
                    if not task.spec.managed and task.status.on_node:
                        add_to(offers, task.spec.request, -1)
                add_to(total, [max(0, amount) for amount in offers], 1)
            else:
                for task in node.tasks.values():
                    if task.holds and task.status is not TaskStatus.PIPELINED:
                        add_to(total, task.spec.request, 1)
        return total

    def path_of(self, job: str) -> Path | None:
        """The place of a job's queue in the tree; None without one."""
        spec = self.jobs[job].spec if job in self.jobs else None
        return self.accounts.path_of(spec.queue) if spec is not None else None

    def doubtful_amounts(self) -> dict[Path, dict[int, int]]:
        """What doubtful tasks hold, below zero, by leaf queue: the queues may hold so much less."""
        found: dict[Path, dict[int, int]] = {}
        for key in self.doubtful:
            task = self.tasks.get(key)
            path = self.path_of(task.spec.job or "") if task is not None else None
            if task is not None and path is not None and task.status is TaskStatus.PIPELINED:
                amounts = found.setdefault(path, {})
                for j in asks(task.spec.request):
                    amounts[j] = amounts.get(j, 0) - task.spec.request[j]
        return found

    def preemptable(self, task: LedgerTask) -> bool:
        """Whether the task may be evicted: its own setting, else that of its job."""
        if task.spec.preemptable is not None:
            return task.spec.preemptable
        job = self.jobs.get(task.spec.job or "")
        return job is None or job.spec is None or job.spec.preemptable

    def amount_text(self, j: int, amount: float) -> str:
        """An amount of a resource, for people."""
        name = self.names[j] if j < len(self.names) else f"resource {j}"
        if name == "memory":
            return f"memory {round(amount):,} bytes" if amount < 1 << 20 else f"memory {amount / (1 << 30):.6g}Gi"
        scale = 1 if j == PODS else 1000
        return f"{name} {amount / scale:.6g}"


def _decisive(spec: JobSpec) -> tuple[object, ...]:
    """What others have to do with of a job."""
    return (spec.queue, spec.minimum, spec.min_resources, spec.priority_class, spec.preemptable)
