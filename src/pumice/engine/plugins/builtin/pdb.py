"""pdb: evictions respect PodDisruptionBudgets.

A budget demands that so many of the pods it selects stay healthy: ``minAvailable``, or all that are expected less
``maxUnavailable``. Expected are the pods it selects that have not finished, those that wait or are on their way out
included; a percentage is of these, and rounded up. Healthy is a pod that has its place, from the moment it is decided
until it is released. A healthy pod may be a victim only if every budget that selects it has one more than it demands.

Budgets are counted when somebody asks after pods or budgets changed, and follow each placement and eviction from
there on: a victim already chosen is gone when the next is judged.
"""

from __future__ import annotations

from kubebase.label_selector import meets
from pumice.engine.plugins.plugin import Arguments, Plugin
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task import Task
from pumice.model.specs import DisruptionBudget, PodTerm, TaskStatus


class Guard:
    """A budget with the pods it selects, counted."""

    __slots__ = ("budget", "demands", "healthy")

    def __init__(self, budget: DisruptionBudget, state: ClusterState) -> None:
        pods = state.tasks_selected(PodTerm("", budget.selector, (budget.namespace,)))
        self.budget = budget
        self.demands = demanded(budget, sum(task.status <= TaskStatus.RELEASING for task in pods))
        self.healthy = sum(map(_healthy, pods))


class PdbPlugin(Plugin):
    """Spares the pods that a budget still needs."""

    name = "pdb"
    takes = ()

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._version = -1  # of the pods and budgets that were counted
        self._guards: dict[str, list[Guard]] = {}  # by namespace
        self._over: dict[str, list[Guard]] = {}  # by task, as far as asked

    def evictable(self, task: Task) -> bool:
        """Whether every budget over the task can spare one."""
        if not self.state.budgets or not _healthy(task):
            return True
        if self._version != self.state.pods_version:
            self._version = self.state.pods_version
            self._guards.clear()
            self._over.clear()
        return all(guard.healthy > guard.demands for guard in self._guards_over(task))

    def placed(self, task: Task, node: ClusterNode) -> None:
        """One more healthy pod, if it is one."""
        self._count(task, 1)

    def removed(self, task: Task, node: ClusterNode) -> None:
        """One healthy pod less, if it was one."""
        self._count(task, -1)

    def _count(self, task: Task, change: int) -> None:
        if task.spec.namespace in self._guards and _healthy(task):
            for guard in self._guards_over(task):
                guard.healthy += change

    def _guards_over(self, task: Task) -> list[Guard]:
        over = self._over.get(task.spec.key)
        if over is None:
            labels = task.spec.labels
            guards = self._guards_in(task.spec.namespace)
            over = self._over[task.spec.key] = [guard for guard in guards if meets(guard.budget.selector, labels)]
        return over

    def _guards_in(self, namespace: str) -> list[Guard]:
        guards = self._guards.get(namespace)
        if guards is None:
            budgets = self.state.budgets.values()
            guards = [Guard(budget, self.state) for budget in budgets if budget.namespace == namespace]
            self._guards[namespace] = guards
        return guards


def demanded(budget: DisruptionBudget, expected: int) -> int:
    """How many pods must stay healthy of so many that are expected."""
    if budget.min_available is not None:
        return _part(budget.min_available, budget, expected)
    most = budget.max_unavailable if budget.max_unavailable is not None else 0
    return max(0, expected - _part(most, budget, expected))


def _part(number: int, budget: DisruptionBudget, expected: int) -> int:
    return -(-number * expected // 100) if budget.percent else number


def _healthy(task: Task) -> bool:
    return TaskStatus.BINDING <= task.status <= TaskStatus.RUNNING
