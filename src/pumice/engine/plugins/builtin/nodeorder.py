"""nodeorder: score the feasible nodes of a task.

Every score runs from 0 to 100 and is multiplied by its weight:

- least requested: the idle fraction of cpu and memory, on average, with the task placed; most requested: the rest;
- balanced: 100 less the standard deviation of the idle fractions of cpu, memory and the task's other resources;
- node affinity: the weights of the preferred terms that the node meets, scaled to 100 for the highest sum;
- taints: 100 where the fewest PreferNoSchedule taints are untolerated, 0 where the most are;
- topology spread: for each constraint that should hold, 100 in an empty domain, 0 in the fullest, averaged.

The best or the worst of all nodes, not only of those that are free now, bounds a scale, so that it stays constant while
tasks are placed. The first two depend on idle capacity and are returned as weights; the node table applies them.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import weight
from pumice.engine.plugins.builtin.predicates.node_affinity import picked_by
from pumice.engine.plugins.builtin.predicates.node_columns import NodeColumns, columns_of
from pumice.engine.plugins.builtin.predicates.placed_pods import PlacedPods
from pumice.engine.plugins.builtin.predicates.spread import TopologySpread, spreads
from pumice.engine.plugins.builtin.predicates.taints import SOFT, untolerated
from pumice.engine.plugins.plugin import Argument, Arguments, CapacityWeights, Plugin
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape

Scores = NDArray[np.float64]

WITHOUT_EFFECT = ("podaffinity", "imagelocality", "selectorspread", "volumeBinding")
"""Weights that Volcano has for scores that do not exist here."""


class NodeOrderPlugin(Plugin):
    """The scores and their weights."""

    name = "nodeorder"
    takes = (
        Argument("leastrequested.weight", "1", "spread: nodes with much idle cpu and memory"),
        Argument("mostrequested.weight", "0", "pack: nodes with little idle cpu and memory"),
        Argument("balancedresource.weight", "1", "nodes on which resources are idle in like parts"),
        Argument("nodeaffinity.weight", "2", "nodes that the pod prefers"),
        Argument(
            "tainttoleration.weight", "3", "nodes with few PreferNoSchedule taints that the pod does not tolerate"
        ),
        Argument("podtopologyspread.weight", "2", "domains with few pods, of constraints that should hold"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.least = weight(arguments, "leastrequested.weight", 1)
        self.most = weight(arguments, "mostrequested.weight", 0)
        self.balanced = weight(arguments, "balancedresource.weight", 1)
        self.affinity = weight(arguments, "nodeaffinity.weight", 2)
        self.taints = weight(arguments, "tainttoleration.weight", 3)
        self.spread = weight(arguments, "podtopologyspread.weight", 2)
        for name in WITHOUT_EFFECT:
            weight(arguments, f"{name}.weight", 0)
        self._census = PlacedPods()
        self._columns: NodeColumns | None = None
        self._spreads: dict[TaskShape, list[TopologySpread]] = {}

    def room_weights(self, shape: TaskShape) -> CapacityWeights | None:
        """Least and most requested, balanced."""
        each = 100.0 * (self.least - self.most) / 2
        extended = [j for j, _ in shape.ask if j not in (CPU, MEMORY)]
        return CapacityWeights(
            constant=100.0 * (self.most + self.balanced),
            linear={CPU: each, MEMORY: each},
            uneven=100.0 * self.balanced,
            even=(CPU, MEMORY, *extended) if self.balanced else (),
        )

    def node_score(self, shape: TaskShape, nodes: NodeTable) -> Scores | None:
        """Node affinity and taints."""
        columns = self._columns = columns_of(nodes, self._columns)
        parts = (self._affinity_score(shape, columns), self._taint_score(shape, columns))
        return _sum([part for part in parts if part is not None])

    def node_score_now(self, shape: TaskShape, nodes: NodeTable) -> Scores | None:
        """Topology spread."""
        if not self.spread or not any(not spread.hard for spread in shape.constraints.spread):
            return None
        columns = self._columns = columns_of(nodes, self._columns)
        if self._census.follow(columns):
            self._spreads.clear()
        constraints = self._spreads.get(shape)
        if constraints is None:
            constraints = self._spreads[shape] = spreads(shape, columns, self._census, hard=False)
        total = _sum([_emptiness(constraint) for constraint in constraints])
        return None if total is None else total * (self.spread / len(constraints))

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Forget the constraints of other shapes."""
        self._spreads = {shape: constraints for shape, constraints in self._spreads.items() if shape in used}

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Record a placed task."""
        self._census.placed(task, node)

    def removed(self, task: Task, node: ClusterNode) -> None:
        """Record a removed task."""
        self._census.removed(task)

    def _affinity_score(self, shape: TaskShape, columns: NodeColumns) -> Scores | None:
        if not self.affinity or not shape.constraints.node_preferred:
            return None
        met = np.zeros(columns.count)
        for term in shape.constraints.node_preferred:
            met += term.weight * picked_by(term, columns)
        best = met.max(initial=0.0)
        return met * (100.0 * self.affinity / best) if best > 0 else None

    def _taint_score(self, shape: TaskShape, columns: NodeColumns) -> Scores | None:
        if not self.taints:
            return None
        column, tolerations = columns.taints, shape.constraints.tolerations
        disliked = [len(untolerated(taints, tolerations, SOFT)) for taints in column.values]
        counts = np.array(disliked, np.float64)
        most = counts.max(initial=0.0)
        if most == 0:
            return None  # 100 everywhere moves nothing
        per_value: Scores = (1 - counts / most) * (100.0 * self.taints)
        return per_value[column.codes]


def _emptiness(spread: TopologySpread) -> Scores:
    """100 in a domain without any counted pod, 0 in the fullest and outside all domains."""
    counts, codes = spread.counter.counts, spread.counter.codes
    score: Scores = 100.0 * (1 - counts / max(1, int(counts.max())))
    score[-1] = 0.0
    return score[codes]


def _sum(parts: list[Scores]) -> Scores | None:
    total: Scores | None = None
    for part in parts:
        total = part if total is None else total + part
    return total
