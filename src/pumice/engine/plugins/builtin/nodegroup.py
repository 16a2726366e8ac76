"""nodegroup: restrict queues to groups of nodes.

A node belongs to the group that its label ``volcano.sh/nodegroup-name`` names, or to none. The affinity of a queue
selects the groups that its tasks use; a queue that names no group inherits from the nearest queue above it that does.

- A queue with an affinity uses only nodes in groups: the required groups or, if it requires none, all, and never a
  group that its anti-affinity requires it to avoid. Preferred groups, and groups it prefers to avoid, change the score
  by more than the default capacity scores can offset: a preferred group fills first.
- A queue without any affinity, its own or inherited, uses no node of a group. Whether it may use the nodes that belong
  to none is the argument ``strict``: true (the default) no, so none of its tasks start; false yes.

Volcano's rule, with the semantics of Kubernetes: required filters and preferred scores, whereas Volcano's filter also
allows groups that are only preferred beside others that are required, or that are both forbidden and preferred to
avoid.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import flag
from pumice.engine.plugins.builtin.predicates.node_columns import Column, Mask, NodeColumns, columns_of
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import GroupAffinity

GROUP = "volcano.sh/nodegroup-name"
LIKED = 200.0  # least requested and balanced together move a score by at most 150


class NodeGroupPlugin(Plugin):
    """The affinity of queues to groups of nodes."""

    name = "nodegroup"
    takes = (
        Argument("strict", "true", "whether queues without an affinity are kept from nodes that are in no group too"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.strict = flag(arguments, "strict", True)
        self._columns: NodeColumns | None = None

    def node_rule(self, leaf: JobNode) -> GroupAffinity | None:
        """The affinity of the job's queue, or of the nearest ancestor that has any."""
        above: ShareNode | None = leaf.queue
        while above is not None:
            queue = self.state.queues.get(above.queue_name) if above.queue_name is not None else None
            if queue is not None and queue.affinity is not None:
                return queue.affinity
            above = above.parent
        return None

    def node_filter(self, shape: TaskShape, nodes: NodeTable) -> Mask | None:
        """The nodes of the groups that the queue may use."""
        groups, affinity = self._groups(nodes), self._affinity(shape)
        if affinity is None:
            return np.zeros(len(nodes.nodes), np.bool_) if self.strict else ~groups.present
        allowed = _in(groups, affinity.required) if affinity.required else groups.present
        return allowed & ~_in(groups, affinity.required_anti)

    def node_score(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.float64] | None:
        """Higher for groups that the queue prefers, lower for those it prefers to avoid."""
        affinity = self._affinity(shape)
        if affinity is None or not (affinity.preferred or affinity.preferred_anti):
            return None
        groups = self._groups(nodes)
        scores = np.zeros(len(nodes.nodes))
        scores[_in(groups, affinity.preferred)] += LIKED
        scores[_in(groups, affinity.preferred_anti)] -= LIKED
        return scores

    def node_reasons(self, shape: TaskShape, nodes: NodeTable) -> Iterable[tuple[str, Mask]]:
        """The nodes that the queue may not use."""
        mask = self.node_filter(shape, nodes)
        return [("not in a node group that the queue may use", mask)] if mask is not None else []

    def _affinity(self, shape: TaskShape) -> GroupAffinity | None:
        rule = shape.rule_of(self.name)
        assert rule is None or isinstance(rule, GroupAffinity)
        return rule

    def _groups(self, nodes: NodeTable) -> Column[str]:
        columns = self._columns = columns_of(nodes, self._columns)
        return columns.label(GROUP)


def _in(groups: Column[str], names: Iterable[str]) -> Mask:
    table = groups.table()
    for name in names:
        if name in groups.values:
            table[groups.values[name]] = True
    return table[groups.codes]
