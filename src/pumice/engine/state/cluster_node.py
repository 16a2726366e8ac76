"""A node with its tasks and its idle capacity, updated incrementally.

``validate`` recomputes everything from scratch.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubebase.resource_vector import widen
from pumice.engine.state.task import Task
from pumice.model.specs import Items, NodeSpec, TaskStatus


class ClusterNode:
    """A node with the tasks on it. ``spec`` is None while only pods refer to it.

    ``idle`` is the capacity that a new task may use now. Pipelined tasks, which wait here for capacity that is being
    released, have a claim on that and, as far as it does not suffice, on idle capacity: no other task overtakes them.
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
        self.ours: list[int] = [0] * width  # usage of managed tasks here
        self.foreign: list[int] = [0] * width  # usage of other schedulers' pods here
        self.releasing: list[int] = [0] * width  # the part of both that is being released
        self.pipelined: list[int] = [0] * width  # requests of the tasks pipelined here
        self.counted: list[int] = [0] * width  # its contribution to the cluster's capacity, as last counted
        self.tasks: dict[str, Task] = {}
        self.waiting: dict[str, Task] = {}  # Pipelined tasks

    @property
    def schedulable(self) -> bool:
        """Whether new tasks may be placed here."""
        return self.spec is not None and self.spec.ready and not self.spec.unschedulable

    def describe(self, spec: NodeSpec | None, width: int) -> None:
        """Set the spec of the node; None: the Node object is gone."""
        self.spec = spec
        self.allocatable = list(widen(spec.allocatable, width)) if spec is not None else [0] * width
        self._set_idle(range(width))

    def admit(self, task: Task) -> None:
        """Charge a task to the node, according to its status."""
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
        """Mark the usage of a placed task as releasing (sign 1), or no longer (-1)."""
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
        """The unused amount of a resource, including what pipelined tasks claim."""
        return self.allocatable[j] - self.ours[j] - self.foreign[j]

    def future(self, j: int) -> int:
        """The idle amount of a resource once all releasing tasks are gone and all pipelined tasks have started."""
        return self.free(j) + self.releasing[j] - self.pipelined[j]

    def contribution(self) -> list[int]:
        """Its contribution to the shared capacity (docs/fairness.md, section 1.1)."""
        if self.schedulable:
            return [max(0, o - f) for o, f in zip(self.allocatable, self.foreign, strict=True)]
        # A cordoned or lost node offers nothing new, but the usage of our tasks there must not look overcommitted.
        held = [0] * len(self.ours)
        for task in self.tasks.values():
            if task.spec.managed and task.status.held:
                for j, amount in task.shape.items:
                    held[j] += amount
        return held

    def widen(self, width: int) -> None:
        """Extend all vectors for resources that were registered later."""
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
