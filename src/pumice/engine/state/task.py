"""A task: one pod that Pumice schedules, as the engine sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import TaskSpec, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.state.cluster_node import ClusterNode
    from pumice.engine.state.job import Job

TaskOrder = tuple[int, int, int, str, str]


SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class Task:
    """A pod that Pumice manages. ``started`` is the time it was placed, 0 while it is pending."""

    __slots__ = (
        "cards",
        "evicted",
        "index",
        "job",
        "key",
        "node",
        "owed",
        "priority",
        "shape",
        "spec",
        "started",
        "status",
    )

    def __init__(self, spec: TaskSpec, shape: TaskShape, priority: int) -> None:
        self.spec = spec
        self.key = spec.key  # namespace and name: one string shared by all tables that refer to it
        self.shape = shape
        self.priority = priority
        self.index = index_of(spec.name)
        self.job: Job | None = None
        self.node: ClusterNode | None = None
        self.cards = spec.cards  # chosen by a plugin where the spec has none
        self.status = TaskStatus.PENDING
        self.started = 0
        self.evicted = False  # whether it is releasing because we evicted it: its job will want it back
        self.owed = True  # whether its job was owed when it started (docs/fairness.md, section 3.2, ties in rounding)

    @property
    def order(self) -> TaskOrder:
        """Order of tasks in a job: priority, the number at the end of names like job-role-3, age, name."""
        spec = self.spec
        return (-self.priority, self.index, spec.created, spec.namespace, spec.name)

    @property
    def is_system_critical(self) -> bool:
        """Whether it is system-critical: never a victim, whatever the configuration.

        See docs/fairness.md, section 9.9.
        """
        return self.spec.namespace == SYSTEM_NAMESPACE or self.spec.priority_class in CRITICAL_CLASSES

    @property
    def preemptable(self) -> bool:
        """Whether it may be evicted: its own setting, else that of its job."""
        if self.spec.preemptable is not None:
            return self.spec.preemptable
        return self.job is None or self.job.spec is None or self.job.spec.preemptable

    def __repr__(self) -> str:
        return f"Task({self.key}, {self.status.name})"


def index_of(name: str) -> int:
    """The number at the end of names like job-role-3; -1: there is none."""
    parts = name.split("-")
    return int(parts[-1]) if len(parts) > 2 and parts[-1].isdecimal() else -1
