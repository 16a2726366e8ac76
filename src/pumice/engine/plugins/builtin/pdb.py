"""pdb: evictions respect PodDisruptionBudgets.

A budget requires a number of the pods it selects to stay healthy: ``minAvailable``, or all expected pods less
``maxUnavailable``. Expected are the selected pods that have not finished, including pending and terminating ones;
percentages are of these, rounded up. A pod is healthy from the decision to place it until its release. A healthy pod
may be a victim only if every budget that selects it has one more than it requires.

Budgets are counted on the first query after pods or budgets changed, and follow each placement and eviction from there
on: a victim already chosen no longer counts when the next is judged.
"""

from __future__ import annotations

from kubebase.label_selector import meets
from pumice.engine.plugins.plugin import Arguments, Plugin
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task import Task
from pumice.model.specs import DisruptionBudget, PodTerm, TaskStatus


class Guard:
    """A budget with the counts of the pods it selects."""

    __slots__ = ("budget", "demands", "healthy")

    def __init__(self, budget: DisruptionBudget, state: ClusterState) -> None:
        pods = state.tasks_selected(PodTerm("", budget.selector, (budget.namespace,)))
        self.budget = budget
        self.demands = demanded(budget, sum(task.status <= TaskStatus.RELEASING for task in pods))
        self.healthy = sum(map(_healthy, pods))


class PdbPlugin(Plugin):
    """Protects the pods that a budget still needs."""

    name = "pdb"
    takes = ()

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._version = -1  # version of the pods and budgets that were counted
        self._guards: dict[str, list[Guard]] = {}  # by namespace
        self._over: dict[str, list[Guard]] = {}  # by task, filled on demand

    def evictable(self, task: Task) -> bool:
        """Whether every budget that selects the task can spare one."""
        if not self.state.budgets or not _healthy(task):
            return True
        if self._version != self.state.pods_version:
            self._version = self.state.pods_version
            self._guards.clear()
            self._over.clear()
        return all(guard.healthy > guard.demands for guard in self._guards_over(task))

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Count one more healthy pod, if it is one."""
        self._count(task, 1)

    def removed(self, task: Task, node: ClusterNode) -> None:
        """Count one healthy pod less, if it was one."""
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
    """How many of the expected pods must stay healthy."""
    if budget.min_available is not None:
        return _part(budget.min_available, budget, expected)
    most = budget.max_unavailable if budget.max_unavailable is not None else 0
    return max(0, expected - _part(most, budget, expected))


def _part(number: int, budget: DisruptionBudget, expected: int) -> int:
    return -(-number * expected // 100) if budget.percent else number


def _healthy(task: Task) -> bool:
    return TaskStatus.BINDING <= task.status <= TaskStatus.RUNNING
