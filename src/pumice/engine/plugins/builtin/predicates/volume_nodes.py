"""Where the volumes of a pod can be used: the nodes that each of them allows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pumice.engine.plugins.builtin.predicates.node_affinity import picked_by
from pumice.engine.plugins.builtin.predicates.node_columns import Mask, NodeColumns
from pumice.model.specs import VolumeDemand


def usable_nodes(demand: VolumeDemand | None, columns: NodeColumns) -> Iterator[tuple[str, Mask]]:
    """The nodes that each volume allows, with the reason for the others. A pod that waits for a volume has none."""
    if demand is None:
        return
    if demand.waits_for:
        yield demand.waits_for, np.zeros(columns.count, np.bool_)
    for volume in demand.nodes:
        mask = np.zeros(columns.count, np.bool_)
        for term in volume.terms:
            mask |= picked_by(term, columns)
        yield volume.reason, mask
