"""binpack: fill nodes that are in use before touching others.

A node's score is the used fraction of each resource with the task placed, averaged by the resources' weights. Only
resources that the task requests and that have a weight count: cpu, memory and those that ``binpack.resources`` lists.
Since the used fraction is 1 less the idle fraction, the score is linear in idle capacity.
"""

from __future__ import annotations

from pumice.engine.plugins.builtin.arguments import names, weight
from pumice.engine.plugins.plugin import Argument, Arguments, CapacityWeights, Plugin
from pumice.engine.state.task_shapes import TaskShape

LISTED = "binpack.resources"


class BinpackPlugin(Plugin):
    """Weights of the score as a whole and of each resource within it."""

    name = "binpack"
    takes = (
        Argument("binpack.weight", "1", "weight of the score as a whole"),
        Argument("binpack.cpu", "1", "weight of cpu in it"),
        Argument("binpack.memory", "1", "weight of memory in it"),
        Argument(LISTED, "none", "other resources that count, with commas between"),
        Argument(f"{LISTED}.<resource>", "1", "weight of one of them"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.weight = weight(arguments, "binpack.weight", 1)
        self.resources = {name: weight(arguments, f"{LISTED}.{name}", 1) for name in names(arguments, LISTED)}
        self.resources["cpu"] = weight(arguments, "binpack.cpu", 1)
        self.resources["memory"] = weight(arguments, "binpack.memory", 1)

    def room_weights(self, shape: TaskShape) -> CapacityWeights | None:
        """100 for a node that the task fills completely, less for every fraction that stays idle."""
        known = self.registry.names
        weights = {j: self.resources.get(known[j], 0.0) for j, _ in shape.ask}
        total = sum(weights.values())
        if not total or not self.weight:
            return None
        full = 100.0 * self.weight
        linear = {j: -full * part / total for j, part in weights.items() if part}
        return CapacityWeights(constant=full, linear=linear)
