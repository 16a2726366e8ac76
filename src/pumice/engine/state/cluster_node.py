"""A node, the tasks on it and what they leave free, updated by differences.

``validate`` computes the same from scratch.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubebase.resource_vector import widen
from pumice.engine.state.task import Task
from pumice.model.specs import Items, NodeSpec, TaskStatus


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
