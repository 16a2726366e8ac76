"""The entries of a ledger: tasks, jobs and nodes as the log shows them, and the successors of evicted tasks.

An evicted task counts as demand until its successor exists (docs/fairness.md, section 3.1): the new task of its name,
else the first new one that asks for the same. Once it is gone, its successor is expected for ``SUCCESSOR_WAIT``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubebase.resource_vector import PODS
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, TaskSpec, TaskStatus, Vector

SUCCESSOR_WAIT = 60_000_000
"""How long the successor of an evicted task is expected after the first cycle without the task, in microseconds."""


@dataclass(eq=False, slots=True)
class LedgerTask:
    """A task: its object, and its status and node by object or decision."""

    spec: TaskSpec
    status: TaskStatus
    node: str | None
    started: int
    evicted: bool = False
    replaced: bool = False  # whether it was evicted and has a successor already

    @property
    def holds(self) -> bool:
        """Whether it counts in what its job holds."""
        return self.status.held and self.spec.managed


@dataclass(eq=False, slots=True)
class AwaitedTask:
    """An evicted task that is gone and has no successor; ``since``: the first cycle without it, None before that."""

    spec: TaskSpec
    since: int | None = None


@dataclass(eq=False, slots=True)
class LedgerJob:
    """A job; ``spec`` is None while only its tasks are known."""

    key: str
    spec: JobSpec | None = None
    phase: JobPhase = JobPhase.PENDING
    tasks: dict[str, LedgerTask] = field(default_factory=dict)
    successors: Counter[Vector] = field(default_factory=Counter)  # requests of evicted tasks that will come again
    awaited: list[AwaitedTask] = field(default_factory=list)  # those whose requests count as demand until they do

    @property
    def waiting(self) -> list[LedgerTask]:
        """The tasks without a node."""
        return [task for task in self.tasks.values() if task.status is TaskStatus.PENDING]

    @property
    def to_come_again(self) -> list[TaskSpec]:
        """The evicted tasks that have no successor yet: those that terminate, and those that are gone."""
        leaving = (task for task in self.tasks.values() if task.evicted and not task.replaced)
        return [*(task.spec for task in leaving), *(one.spec for one in self.awaited)]

    def pass_time(self, now: int) -> None:
        """A cycle runs: date the waits for successors that are new, and end those whose time is up."""
        for one in self.awaited:
            one.since = now if one.since is None else one.since
        self.awaited = [one for one in self.awaited if one.since is None or now < one.since + SUCCESSOR_WAIT]

    @property
    def started(self) -> list[LedgerTask]:
        """The tasks that were given their node and keep it; not those that wait for victims to leave."""
        return [task for task in self.tasks.values() if TaskStatus.BINDING <= task.status <= TaskStatus.RUNNING]

    @property
    def succeeded(self) -> list[LedgerTask]:
        """The tasks that have succeeded."""
        return [task for task in self.tasks.values() if task.status is TaskStatus.SUCCEEDED]

    @property
    def gang(self) -> int:
        """How many tasks must run together: its minimum less what has succeeded, and no more than are unfinished."""
        unfinished = sum(task.status.unfinished for task in self.tasks.values())
        return min((self.spec.minimum if self.spec else 1) - len(self.succeeded), unfinished)

    def missing(self, tasks: Sequence[LedgerTask]) -> int:
        """How many tasks are missing to these until they are a gang; 0 or less: none."""
        if self.spec is None:
            return 0
        missing = self.gang - len(tasks)
        if missing <= 0 < len(self.spec.min_task_member):
            roles = Counter(task.spec.role for task in (*tasks, *self.succeeded))
            missing = sum(max(0, least - roles[role]) for role, least in self.spec.min_task_member.items())
        return missing

    def lacks(self, tasks: Sequence[LedgerTask]) -> str:
        """What these tasks lack to the minimum of the job; "" if nothing."""
        if self.spec is None:
            return ""
        if len(tasks) < self.gang:
            return f"{len(tasks)} of at least {self.gang} tasks"
        roles = Counter(task.spec.role for task in (*tasks, *self.succeeded))
        for role, least in self.spec.min_task_member.items():
            if roles[role] < least:
                return f"{roles[role]} of at least {least} tasks of role {role}"
        return ""


@dataclass(eq=False, slots=True)
class LedgerNode:
    """A node; ``spec`` is None while the Node object is gone and tasks are still there."""

    name: str
    spec: NodeSpec | None = None
    tasks: dict[str, LedgerTask] = field(default_factory=dict)
    idle: list[int] | None = None  # what is left beside everybody and all claims; None: not counted yet

    @property
    def schedulable(self) -> bool:
        """Whether new tasks may start here."""
        return self.spec is not None and self.spec.ready and not self.spec.unschedulable

    def room(self, *, leaving: bool, claims: bool) -> list[int]:
        """What is left beside the tasks; ``leaving``: without those being deleted, ``claims``: with pipelined ones."""
        left = list(self.spec.allocatable) if self.spec is not None else []
        for task in self.tasks.values():
            gone = leaving and task.status is TaskStatus.RELEASING
            takes = claims if task.status is TaskStatus.PIPELINED else not gone
            if takes:
                add_to(left, task.spec.request, -1)
        return left

    def free(self) -> list[int]:
        """What is left beside all tasks and claims."""
        if self.idle is None:
            self.idle = self.room(leaving=False, claims=True)
        return self.idle


def await_successor(job: LedgerJob | None, task: LedgerTask) -> None:
    """An evicted task has ended: a controller may have to create it again."""
    if task.spec.returns and not task.replaced and asks(task.spec.request) and job is not None and job.spec:
        job.awaited.append(AwaitedTask(task.spec))


def take_place(job: LedgerJob | None, new: LedgerTask) -> None:
    """A new task of a job may be the successor of an evicted one."""
    if job is None or not new.spec.managed or not new.status.unfinished:
        return
    gone = [one for one in job.awaited if one.spec.key == new.spec.key]
    gone += [one for one in job.awaited if alike(one.spec, new.spec)]
    leaving = [task for task in job.tasks.values() if task.evicted and task.spec.returns and not task.replaced]
    if gone:
        job.awaited.remove(gone[0])
    elif first := next((task for task in leaving if alike(task.spec, new.spec)), None):
        first.replaced = True


def add_to(total: list[int], amounts: Sequence[int], sign: int) -> None:
    """Add a vector, which may be of another length."""
    if len(amounts) > len(total):
        total.extend([0] * (len(amounts) - len(total)))
    for j, amount in enumerate(amounts):
        if amount:
            total[j] += sign * amount


def alike(one: TaskSpec, other: TaskSpec) -> bool:
    """Whether two tasks ask for the same."""
    return asked(one) == asked(other)


def asked(spec: TaskSpec) -> dict[int, int]:
    """What a task asks for beside a place on a node, by resource."""
    return {j: spec.request[j] for j in asks(spec.request)}


def asks(request: Sequence[int]) -> list[int]:
    """The resources that a request names, except places on a node."""
    return [j for j, amount in enumerate(request) if amount and j != PODS]
