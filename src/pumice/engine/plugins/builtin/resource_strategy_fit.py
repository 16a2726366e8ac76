"""resource-strategy-fit: pack some resources and spread others, and keep tasks off scarce resources.

Each listed resource that a task requests has a strategy: ``MostAllocated`` scores the used fraction of a node with the
task placed, ``LeastAllocated`` the idle one. The score is their average by weight, times 100 and the plugin's weight.
Both are linear in idle capacity, so the node table applies them.

``sra.policy: retention`` (scarce resource avoidance) adds a score that is higher the fewer scarce resources a node
offers: a task that needs none of them stays off such nodes if it can. The policy ``proportional`` is refused: it is a
condition on what stays idle beside a task, and the engine counts on it that a task fits wherever its requests do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import names, weight
from pumice.engine.plugins.plugin import Argument, Arguments, CapacityWeights, Plugin, PluginError
from pumice.engine.state.task_shapes import TaskShape

MOST, LEAST = STRATEGIES = ("MostAllocated", "LeastAllocated")
LISTED = "resources"
POLICY, SCARCE, RETENTION = "sra.policy", "sra.resources", "sra.retention."


class ResourceStrategyFitPlugin(Plugin):
    """The strategy and weight of each resource, and the scarce resources."""

    name = "resource-strategy-fit"
    takes = (
        Argument("resourceStrategyFitWeight", "10", "weight of the score as a whole"),
        Argument(
            LISTED,
            "none",
            "a mapping from resources to `{type: MostAllocated or LeastAllocated, weight: 1}`; without it, cpu and "
            "memory are spread",
        ),
        Argument(POLICY, "none", "`retention`: tasks stay off nodes with scarce resources that they do not need"),
        Argument(SCARCE, "none", "the scarce resources, with commas between"),
        Argument(f"{RETENTION}weight", "1", "weight of that score as a whole"),
        Argument(f"{RETENTION}<resource>", "1", "weight of one of them"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.weight = weight(arguments, "resourceStrategyFitWeight", 10)
        self.strategies = _strategies(arguments)
        self.scarce: dict[str, float] = {}
        policy = arguments.get(POLICY)
        if policy == "retention":
            self.scarce = {name: weight(arguments, f"{RETENTION}{name}", 1) for name in names(arguments, SCARCE)}
        elif policy == "proportional":
            message = f"{POLICY} proportional is not part of this version; keep CPU jobs off GPU nodes with nodegroup"
            raise PluginError(POLICY, message)
        elif policy is not None:
            raise PluginError(POLICY, f"{POLICY} is {policy!r}; write retention")
        self.retention = weight(arguments, f"{RETENTION}weight", 1)

    def room_weights(self, shape: TaskShape) -> CapacityWeights | None:
        """100 where all that is packed is full and all that is spread is idle, times the weight."""
        known = self.registry.names
        chosen = {j: self.strategies[known[j]] for j, _ in shape.ask if known[j] in self.strategies}
        total = sum(part for _, part in chosen.values())
        if not total or not self.weight:
            return None
        full = 100.0 * self.weight
        packed = sum(part for most, part in chosen.values() if most)
        linear = {j: (-full if most else full) * part / total for j, (most, part) in chosen.items() if part}
        return CapacityWeights(constant=full * packed / total, linear=linear)

    def node_score(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.float64] | None:
        """100 for a node without scarce resources, 0 for one with all of them, times the weight of the policy."""
        total = sum(self.scarce.values())
        if not total or not self.retention:
            return None
        lacking = np.full(len(nodes.nodes), total)
        for j, name in enumerate(self.registry.names):
            if name in self.scarce and j < len(nodes.allocatable):
                lacking -= np.where(nodes.allocatable[j] > 0, self.scarce[name], 0.0)
        return lacking * (100.0 * self.retention / total)


def _strategies(arguments: Arguments) -> dict[str, tuple[bool, float]]:
    """By resource, whether it is packed, and its weight."""
    given = arguments.get(LISTED)
    if not given:
        return {"cpu": (False, 1.0), "memory": (False, 1.0)}
    if not isinstance(given, Mapping):
        raise PluginError(LISTED, f"{LISTED} is {given!r}; write a mapping such as {{cpu: {{type: {LEAST}}}}}")
    return {str(name): _strategy(str(name), entry) for name, entry in given.items()}


def _strategy(name: str, entry: object) -> tuple[bool, float]:
    where = f"{LISTED}.{name}"
    if not isinstance(entry, Mapping):
        raise PluginError(LISTED, f"{where} is {entry!r}; write a mapping with type and weight")
    for key in entry:
        if key not in ("type", "weight"):
            raise PluginError(LISTED, f"{where}.{key} is unknown; a resource has type and weight")
    strategy = entry.get("type", LEAST)
    if strategy not in STRATEGIES:
        raise PluginError(LISTED, f"{where}.type is {strategy!r}; write {' or '.join(STRATEGIES)}")
    try:
        return strategy == MOST, weight({"weight": entry.get("weight", 1)}, "weight", 1)
    except PluginError as error:
        raise PluginError(LISTED, f"{where}.{error}") from None
