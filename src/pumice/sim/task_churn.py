"""Churn: one random task ends in each cycle, and an identical pending task replaces it.

The first allocation says little about a policy: many policies look fair on an empty cluster and starve a queue once
tasks come and go. Under churn every running task is equally likely to end next, demand stays constant, and the result
is the mean over the second half of the run. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pumice.engine.decisions import Bind
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import TaskSpec, TaskStatus
from pumice.sim import scenario

if TYPE_CHECKING:
    from pumice.sim.simulation import Simulation


class ChurnMeans:
    """Sums of what was seen, and of how often."""

    def __init__(self) -> None:
        self._samples = 0
        self._held: dict[str, list[int]] = {}
        self._running: dict[str, int] = {}

    def add_sample(self, root: ShareNode) -> None:
        """Add the current usage of all nodes of the tree."""
        self._samples += 1
        for node in root.walk():
            total = self._held.setdefault(node.path, [])
            total.extend([0] * (len(node.held) - len(total)))
            for j, amount in enumerate(node.held):
                total[j] += amount
            if isinstance(node, JobNode):
                self._running[node.name] = self._running.get(node.name, 0) + node.job.running

    def held(self, node: ShareNode) -> list[float]:
        """The mean usage of a node."""
        return [amount / self._samples for amount in self._held.get(node.path, [0] * len(node.held))]

    def running(self, leaf: JobNode) -> float:
        """The mean number of running tasks of a job."""
        return self._running.get(leaf.name, 0) / self._samples


def run_churn(simulation: Simulation, plan: scenario.ChurnSpec, watch: Callable[[Simulation], None]) -> ChurnMeans:
    """Let tasks end as planned, a cycle after each; returns the means over the last half."""
    cluster = simulation.cluster
    chance = random.Random(plan.seed)
    running = [task.key for task in cluster.running_tasks()]
    means = ChurnMeans()
    for done in range(plan.completions):
        if running:
            # The last takes the place of the one that ends: no search, and the order depends on the seed alone.
            at = chance.randrange(len(running))
            running[at], running[-1] = running[-1], running[at]
            _replace_task(simulation, running.pop())
        decisions = simulation.step()
        running += [decision.task for decision in decisions if isinstance(decision, Bind)]
        if 2 * done >= plan.completions - 1:
            means.add_sample(cluster.engine.tree.root)
        watch(simulation)
    return means


def _replace_task(simulation: Simulation, key: str) -> None:
    """A running task ends and an equal one, the youngest of its job, waits under its name."""
    cluster = simulation.cluster
    task = cluster.objects.tasks.get(key)
    if task is None or task.status is not TaskStatus.RUNNING:
        return  # an event was faster
    cluster.drop(TaskSpec, key)
    cluster.put(replace(task, status=TaskStatus.PENDING, node=None, started=0, created=cluster.now))
