"""Host ports: a port of a node serves one pod per protocol and address; the wildcard address conflicts with each."""

from __future__ import annotations

from pumice.engine.plugins.builtin.predicates.node_columns import Mask
from pumice.engine.plugins.builtin.predicates.placed_pods import PlacedPods
from pumice.engine.plugins.builtin.predicates.pod_terms import PodsUsingPort
from pumice.engine.state.task_shapes import TaskShape


class FreePorts:
    """The nodes where all the host ports of a shape are free."""

    reason = "host port already in use"

    def __init__(self, shape: TaskShape, census: PlacedPods) -> None:
        self._users = [
            census.counter(PodsUsingPort(protocol, port, address), None)
            for protocol, address, port in shape.constraints.ports
        ]

    def mask(self) -> Mask | None:
        """The nodes that pass now; None for all."""
        mask: Mask | None = None
        for users in self._users:
            if users.total:
                free = users.around() == 0
                mask = free if mask is None else mask & free
        return mask
