"""task-topology: tasks of one job that should share a node, or should not.

The annotations ``volcano.sh/task-topology-affinity`` and ``-anti-affinity`` of a job list groups of roles. A group of
several roles is about tasks of different roles, a group of one role about its own tasks. The score of a node counts the
job's tasks there that attract the task, less those that repel it, scaled to 100 for the node where that is most. It is
a preference: where no such node has room, the task goes elsewhere.

Volcano sorts the tasks of a job into buckets first and scores how much of a bucket fits a node. Here each task follows
those placed before it, in task order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import weight
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin
from pumice.engine.state.role_rule import RoleRule
from pumice.engine.state.task_shapes import TaskShape


class TaskTopologyPlugin(Plugin):
    """The weight of the score."""

    name = "task-topology"
    takes = (Argument("task-topology.weight", "1", "weight of the score"),)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.weight = weight(arguments, "task-topology.weight", 1)

    def node_rule(self, leaf: JobNode) -> RoleRule | None:
        """The wishes of the job, which concern its own tasks only."""
        spec = leaf.job.spec
        return RoleRule(spec.key, spec.task_topology) if spec is not None and spec.task_topology is not None else None

    def node_score_now(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.float64] | None:
        """Tasks of the job that attract this one count for their node, those that repel it against it."""
        rule = shape.rule_of(self.name)
        if not isinstance(rule, RoleRule) or shape.role is None or not self.weight:
            return None
        job = self.state.jobs.get(rule.job)
        counts = np.zeros(len(nodes.nodes))
        for task in job.each_task() if job is not None else ():
            if task.status.held and task.node is not None:
                at = nodes.index.get(task.node.name, -1)
                if at >= 0:
                    counts[at] += rule.topology.attraction(shape.role, task.spec.role)
        most = float(np.abs(counts).max(initial=0.0))
        return counts * (100.0 * self.weight / most) if most else None
