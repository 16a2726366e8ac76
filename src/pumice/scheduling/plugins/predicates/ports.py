"""Host ports: a port of a node serves one pod per protocol and address; all addresses overlap with each."""

from __future__ import annotations

from pumice.model.shape import Shape
from pumice.scheduling.plugins.predicates.census import Census
from pumice.scheduling.plugins.predicates.columns import Mask
from pumice.scheduling.plugins.predicates.questions import Using


class FreePorts:
    """Where all the ports that a shape wants are free."""

    reason = "a host port that it wants is in use"

    def __init__(self, shape: Shape, census: Census) -> None:
        self._users = [
            census.counter(Using(protocol, port, address), None) for protocol, address, port in shape.constraints.ports
        ]

    def mask(self) -> Mask | None:
        """The nodes that pass now; None for all."""
        mask: Mask | None = None
        for users in self._users:
            if users.total:
                free = users.around() == 0
                mask = free if mask is None else mask & free
        return mask
