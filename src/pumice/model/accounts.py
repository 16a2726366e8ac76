"""The accounts of one job and of one node: what its tasks add up to, kept by the difference.

A ``Job`` knows what it holds, what it still asks for and which of its tasks wait, by shape and in task order.
A ``ClusterNode`` knows who is on it and what is idle. Both can tell the same from scratch (``validate``).
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping

from kubebase.resource_vector import widen
from pumice.model.objects import Items, JobPhase, JobSpec, NodeSpec, TaskSpec, TaskStatus
from pumice.model.shape import Rules, Shape

TaskOrder = tuple[int, int, int, str, str]


SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class Task:
    """A pod under our eyes. ``started`` is the time it was placed, 0 while it waits."""

    __slots__ = ("evicted", "job", "key", "node", "order", "owed", "priority", "shape", "spec", "started", "status")

    def __init__(self, spec: TaskSpec, shape: Shape, priority: int) -> None:
        self.spec = spec
        self.key = spec.key  # namespace and name: one string for all the tables in which it stands
        self.shape = shape
        self.priority = priority
        self.order = task_order(spec, priority)
        self.job: Job | None = None
        self.node: ClusterNode | None = None
        self.status = TaskStatus.PENDING
        self.started = 0
        self.evicted = False  # whether it is being released because we said so: its job will want it back
        self.owed = True  # whether its job was owed when it started (docs/fairness.md, section 3.2, ties in rounding)

    @property
    def keeps_the_cluster_alive(self) -> bool:
        """Whether it is part of the system: never a victim, whatever a configuration says.

        See docs/fairness.md, section 9.9.
        """
        return self.spec.namespace == SYSTEM_NAMESPACE or self.spec.priority_class in CRITICAL_CLASSES

    @property
    def preemptable(self) -> bool:
        """Whether it lets itself be evicted: as it says, else as its job does."""
        if self.spec.preemptable is not None:
            return self.spec.preemptable
        return self.job is None or self.job.spec is None or self.job.spec.preemptable

    def __repr__(self) -> str:
        return f"Task({self.key}, {self.status.name})"


def task_order(spec: TaskSpec, priority: int) -> TaskOrder:
    """Order of tasks in a job: priority, the number at the end of names like job-role-3, age, name."""
    parts = spec.name.split("-")
    index = int(parts[-1]) if len(parts) > 2 and parts[-1].isdecimal() else -1
    return (-priority, index, spec.created, spec.namespace, spec.name)


class Job:
    """A PodGroup with its tasks. ``spec`` is None while only its pods are known."""

    __slots__ = (
        "evicted",
        "held",
        "key",
        "pending",
        "phase",
        "rules",
        "running",
        "shown",
        "spec",
        "spent",
        "succeeded",
        "tasks",
        "unfinished",
        "unsorted",
        "whole",
    )

    def __init__(self, key: str, width: int) -> None:
        self.key = key
        self.spec: JobSpec | None = None
        self.phase = JobPhase.PENDING
        self.rules: Rules = ()  # what plugins say of where its tasks may run: part of their shapes
        self.tasks: dict[str, Task] = {}
        self.held: list[int] = [0] * width
        self.unfinished: dict[Shape, int] = {}
        self.evicted: dict[Shape, int] = {}  # tasks on their way out because we said so
        self.pending: dict[Shape, list[Task]] = {}  # the next to start is last
        self.unsorted = False
        self.running = 0  # tasks that hold a place
        self.shown = 0  # those of them that the cluster has shown there
        self.whole = False  # whether all of its minimum was shown at some time since it last held nothing
        self.spent = 0  # tasks that had their place and failed there since it last held nothing
        self.succeeded = 0

    def enter(self, task: Task) -> None:
        """Count a task in, as its status says."""
        self.tasks[task.key] = task
        status, shape = task.status, task.shape
        if status is TaskStatus.PENDING:
            self.pending.setdefault(shape, []).append(task)
            self.unsorted = True
        if status.unfinished:
            self.unfinished[shape] = self.unfinished.get(shape, 0) + 1
        if status.held:
            self.running += 1
            for j, amount in shape.items:
                self.held[j] += amount
            if status.shown:
                self.show(1)
        elif status is TaskStatus.SUCCEEDED:
            self.succeeded += 1
            self.show(0)  # it may have been the last one to be heard of
        elif status is TaskStatus.FAILED:
            self.show(0)
        elif task.evicted:
            self._count_evicted(shape, 1)

    def leave(self, task: Task) -> None:
        """Exactly undo ``enter``."""
        del self.tasks[task.key]
        status, shape = task.status, task.shape
        if status is TaskStatus.PENDING:
            waiting = self.pending[shape]
            waiting.remove(task)
            if not waiting:
                del self.pending[shape]
        if status.unfinished:
            self.unfinished[shape] -= 1
            if not self.unfinished[shape]:
                del self.unfinished[shape]
        if status.held:
            self.running -= 1
            self.shown -= status.shown
            for j, amount in shape.items:
                self.held[j] -= amount
        elif status is TaskStatus.SUCCEEDED:
            self.succeeded -= 1
        elif task.evicted:
            self._count_evicted(shape, -1)

    def _count_evicted(self, shape: Shape, change: int) -> None:
        self.evicted[shape] = self.evicted.get(shape, 0) + change
        if not self.evicted[shape]:
            del self.evicted[shape]

    def start(self, task: Task) -> None:
        """A waiting task comes to hold a place: ``leave`` and ``enter`` in one, quick for the next of its shape."""
        waiting = self.pending[task.shape]
        if waiting[-1] is task:
            waiting.pop()
        else:
            waiting.remove(task)
        if not waiting:
            del self.pending[task.shape]
        self.running += 1
        held = self.held
        for j, amount in task.shape.items:
            held[j] += amount

    def unstart(self, task: Task) -> None:
        """Exactly undo ``start``."""
        waiting = self.pending.setdefault(task.shape, [])
        if not waiting or task.order < waiting[-1].order:
            waiting.append(task)
        else:
            insort(waiting, task, key=_backwards)
        self.running -= 1
        held = self.held
        for j, amount in task.shape.items:
            held[j] -= amount

    def evict(self, task: Task) -> None:
        """A task that holds a place is about to be released: it is no longer held, nor asked for."""
        shape = task.shape
        self.running -= 1
        self.shown -= task.status.shown
        self.unfinished[shape] -= 1
        if not self.unfinished[shape]:
            del self.unfinished[shape]
        for j, amount in shape.items:
            self.held[j] -= amount
        self._count_evicted(shape, 1)

    def unevict(self, task: Task) -> None:
        """Exactly undo ``evict``."""
        shape = task.shape
        self._count_evicted(shape, -1)
        self.running += 1
        self.shown += task.status.shown
        self.unfinished[shape] = self.unfinished.get(shape, 0) + 1
        for j, amount in shape.items:
            self.held[j] += amount

    def show(self, more: int) -> None:
        """The cluster shows so many more of its tasks where they should be; with that it may be whole."""
        self.shown += more
        had_their_place = self.shown + self.succeeded + self.spent
        if not self.whole and self.spec is not None and had_their_place >= self.spec.min_member:
            self.whole = not self.spec.min_task_member or self._roles_shown(self.spec.min_task_member)

    def _roles_shown(self, minimums: Mapping[str, int]) -> bool:
        over = (TaskStatus.SUCCEEDED, TaskStatus.FAILED) if self.spent else (TaskStatus.SUCCEEDED,)
        there = (task for task in self.tasks.values() if task.status.shown or task.status in over)
        roles = Counter(task.spec.role for task in there)
        return all(roles[role] >= least for role, least in minimums.items())

    def sort_pending(self) -> None:
        """Bring the waiting tasks in task order after some came in."""
        if self.unsorted:
            for waiting in self.pending.values():
                waiting.sort(key=_by_order, reverse=True)
            self.unsorted = False

    def widen(self, width: int) -> None:
        """Make room for resources that were registered later."""
        self.held.extend([0] * (width - len(self.held)))

    def validate(self, width: int) -> None:
        """Check the accounts against the tasks."""
        fresh = Job(self.key, width)
        for task in self.tasks.values():
            assert task.job is self
            fresh.enter(task)
        assert fresh.held == self.held, f"{self.key} holds {fresh.held}, accounts say {self.held}"
        assert fresh.unfinished == self.unfinished, f"{self.key}: unfinished tasks miscounted"
        assert fresh.evicted == self.evicted, f"{self.key}: evicted tasks miscounted"
        assert (fresh.running, fresh.succeeded, fresh.shown) == (self.running, self.succeeded, self.shown)
        assert fresh.pending.keys() == self.pending.keys()
        for shape, waiting in self.pending.items():
            assert sorted(waiting, key=_by_order) == sorted(fresh.pending[shape], key=_by_order)
            if not self.unsorted:
                assert waiting == sorted(waiting, key=_by_order, reverse=True), f"{self.key}: out of order"

    def __repr__(self) -> str:
        return f"Job({self.key})"


class _Backwards:
    """Reverses an order, for lists that are kept largest first."""

    __slots__ = ("order",)

    def __init__(self, order: TaskOrder) -> None:
        self.order = order

    def __lt__(self, other: _Backwards) -> bool:
        return other.order < self.order


def _backwards(task: Task) -> _Backwards:
    return _Backwards(task.order)


def _by_order(task: Task) -> TaskOrder:
    return task.order


class ClusterNode:
    """A machine with the tasks on it. ``spec`` is None while only pods speak of it.

    ``idle`` is what a newcomer may take now. Tasks that wait here for room that is being freed (Pipelined) have a
    claim on it, and on what is idle as far as that does not suffice: nobody slips in before them.
    """

    __slots__ = (
        "allocatable",
        "counted",
        "foreign",
        "idle",
        "name",
        "ours",
        "pipelined",
        "releasing",
        "spec",
        "tasks",
        "waiting",
    )

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.spec: NodeSpec | None = None
        self.allocatable: list[int] = [0] * width
        self.idle: list[int] = [0] * width
        self.ours: list[int] = [0] * width  # what managed tasks occupy here
        self.foreign: list[int] = [0] * width  # what others' pods occupy here
        self.releasing: list[int] = [0] * width  # the part of both that is being freed
        self.pipelined: list[int] = [0] * width  # what those ask for who wait for room here
        self.counted: list[int] = [0] * width  # its part of the cluster's capacity, as last counted
        self.tasks: dict[str, Task] = {}
        self.waiting: dict[str, Task] = {}  # Pipelined tasks

    @property
    def schedulable(self) -> bool:
        """Whether new tasks may be placed here."""
        return self.spec is not None and self.spec.ready and not self.spec.unschedulable

    def describe(self, spec: NodeSpec | None, width: int) -> None:
        """The machine is as described; None: nobody describes it any more."""
        self.spec = spec
        self.allocatable = list(widen(spec.allocatable, width)) if spec is not None else [0] * width
        self._set_idle(range(width))

    def admit(self, task: Task) -> None:
        """A task counts here, as its status says."""
        items = task.shape.items
        if task.status is TaskStatus.PIPELINED:
            self.waiting[task.key] = task
            self._move(self.pipelined, items, 1)
            return
        self.tasks[task.key] = task
        if task.status is TaskStatus.RELEASING:
            self._move(self.releasing, items, 1)
        account, idle = self.ours if task.spec.managed else self.foreign, self.idle
        for j, amount in items:
            account[j] += amount
            idle[j] -= amount
        if self.waiting:
            self._set_idle(j for j, _ in items)

    def release(self, task: Task) -> None:
        """Exactly undo ``admit``."""
        items = task.shape.items
        if task.status is TaskStatus.PIPELINED:
            del self.waiting[task.key]
            self._move(self.pipelined, items, -1)
            return
        del self.tasks[task.key]
        if task.status is TaskStatus.RELEASING:
            self._move(self.releasing, items, -1)
        account, idle = self.ours if task.spec.managed else self.foreign, self.idle
        for j, amount in items:
            account[j] -= amount
            idle[j] += amount
        if self.waiting:
            self._set_idle(j for j, _ in items)

    def evict(self, task: Task, sign: int) -> None:
        """A task that occupies room here is being released from now on (1), or is not after all (-1)."""
        self._move(self.releasing, task.shape.items, sign)

    def _move(self, account: list[int], items: Items, sign: int) -> None:
        for j, amount in items:
            account[j] += sign * amount
        self._set_idle(j for j, _ in items)

    def _set_idle(self, resources: Iterable[int]) -> None:
        for j in resources:
            claims = max(0, self.pipelined[j] - self.releasing[j])
            self.idle[j] = self.allocatable[j] - self.ours[j] - self.foreign[j] - claims

    def free(self, j: int) -> int:
        """What of a resource nobody occupies now, spoken for or not."""
        return self.allocatable[j] - self.ours[j] - self.foreign[j]

    def future(self, j: int) -> int:
        """What of a resource will be idle when all that is being freed is free and all who wait have started."""
        return self.free(j) + self.releasing[j] - self.pipelined[j]

    def contribution(self) -> list[int]:
        """What it adds to the capacity that is shared (docs/fairness.md, section 1.1)."""
        if self.schedulable:
            return [max(0, o - f) for o, f in zip(self.allocatable, self.foreign, strict=True)]
        # A cordoned or lost machine gives nothing new, but what our tasks still hold there must not look overfull.
        held = [0] * len(self.ours)
        for task in self.tasks.values():
            if task.spec.managed and task.status.held:
                for j, amount in task.shape.items:
                    held[j] += amount
        return held

    def widen(self, width: int) -> None:
        """Make room for resources that were registered later."""
        for vector in (
            self.allocatable,
            self.idle,
            self.ours,
            self.foreign,
            self.releasing,
            self.pipelined,
            self.counted,
        ):
            vector.extend([0] * (width - len(vector)))

    def validate(self, width: int) -> None:
        """Check the accounts against the tasks."""
        fresh = ClusterNode(self.name, width)
        fresh.describe(self.spec, width)
        for task in (*self.tasks.values(), *self.waiting.values()):
            assert task.node is self and task.status.has_node
            fresh.admit(task)
        for account in ("ours", "foreign", "releasing", "pipelined", "idle"):
            found, kept = getattr(fresh, account), getattr(self, account)
            assert found == kept, f"node {self.name}: {account} is {found}, accounts say {kept}"
        assert (fresh.tasks.keys(), fresh.waiting.keys()) == (self.tasks.keys(), self.waiting.keys())
        assert self.counted == self.contribution()

    def __repr__(self) -> str:
        return f"ClusterNode({self.name})"
