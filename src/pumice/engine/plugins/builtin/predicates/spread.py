"""Topology spread: keep the number of selected pods about equal in all domains.

The domains of a constraint are those of its eligible nodes: they have the keys of all constraints that apply together
and, where the constraint says so, match the pod's node affinity and tolerations. Only pods of the same namespace count,
only on eligible nodes, and not while they are being deleted.
"""

from __future__ import annotations

import numpy as np

from kubebase.label_selector import meets
from pumice.engine.plugins.builtin.predicates.node_affinity import selected
from pumice.engine.plugins.builtin.predicates.node_columns import Mask, NodeColumns
from pumice.engine.plugins.builtin.predicates.placed_pods import PlacedPods
from pumice.engine.plugins.builtin.predicates.pod_terms import PodsSelected
from pumice.engine.plugins.builtin.predicates.taints import tolerated
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Spread


class TopologySpread:
    """One constraint as it applies to a shape."""

    reason = "topology spread constraint not satisfied"

    def __init__(self, spread: Spread, shape: TaskShape, columns: NodeColumns, census: PlacedPods) -> None:
        assert shape.identity is not None, "a shape that is spread has an identity"
        namespace, labels = shape.identity[0], dict(shape.identity[1])
        eligible = _eligible(spread, shape, columns)
        counted = None if eligible.all() else eligible
        question = PodsSelected((((namespace,), spread.selector),), staying=True)
        self.counter = census.counter(question, spread.topology_key, counted)
        self._spread = spread
        self._domains = np.unique(self.counter.codes[eligible])
        self._own = 1 if meets(spread.selector, labels) else 0

    def mask(self) -> Mask | None:
        """The nodes where one more pod keeps the skew within its bound."""
        spread, counts = self._spread, self.counter.counts
        enough = len(self._domains) >= max(1, spread.min_domains)
        least = int(counts[self._domains].min()) if enough else 0
        within = counts <= spread.max_skew + least - self._own
        within[-1] = False  # no domain
        return within.take(self.counter.codes)


def spreads(shape: TaskShape, columns: NodeColumns, census: PlacedPods, *, hard: bool) -> list[TopologySpread]:
    """The constraints of a shape that must hold, or those that should."""
    return [TopologySpread(s, shape, columns, census) for s in shape.constraints.spread if s.hard is hard]


def _eligible(spread: Spread, shape: TaskShape, columns: NodeColumns) -> Mask:
    constraints = shape.constraints
    mask = np.ones(columns.count, np.bool_)
    for other in constraints.spread:
        if other.hard is spread.hard:
            mask &= columns.label(other.topology_key).present
    suits = (
        selected(constraints, columns) if spread.honor_affinity else None,
        tolerated(constraints.tolerations, columns) if spread.honor_taints else None,
    )
    for suited in suits:
        if suited is not None:
            mask &= suited
    return mask
