"""network-topology-aware: keep the tasks of a job close to one another in the network.

HyperNodes divide the nodes into domains, tier by tier. A job with ``networkTopology`` in mode ``hard`` uses nodes of
one domain of the highest tier allowed, or of a lower one: its gang goes to the lowest tier with a domain that holds it
(``domain_placement``), and later tasks stay in the domains of those already placed. In mode ``soft`` it would rather do
so, and never waits for it. The rule applies whether or not a configuration names this plugin: the plugin chain adds it
at the end of the tiers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import weight
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin
from pumice.engine.state.job import Job
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.state.topology_rule import NETWORK_TOPOLOGY, TopologyRule
from pumice.model.hyper_nodes import NetworkTopology

ANY_TIER = 2**31
NEARER = 1000.0  # per tier that a node shares with the placed tasks: more than other scores differ by


class NetworkTopologyPlugin(Plugin):
    """The domains that the tasks of a job may use, or prefer."""

    name = NETWORK_TOPOLOGY
    takes = (
        Argument(
            "weight",
            "1",
            "how much it counts that a node is near the placed tasks of its job; at 1 more than other scores, "
            "at 0 not at all. Domains of gangs are chosen regardless",
        ),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.weight = weight(arguments, "weight", 1)

    def node_rule(self, leaf: JobNode) -> TopologyRule | None:
        """The highest tier of the job, and the domains that hold all of its placed tasks."""
        spec = leaf.job.spec
        if spec is None or spec.topology is None:
            return None
        highest = self._highest(spec.topology)
        return TopologyRule(spec.topology.hard, highest, self._chain(leaf.job, highest))

    def _highest(self, wanted: NetworkTopology) -> int:
        if wanted.highest_tier_name:
            tier = self.state.domains.tier_named(wanted.highest_tier_name)
            if tier is not None or wanted.hard:
                return tier if tier is not None else 0
        if wanted.highest_tier is not None:
            return wanted.highest_tier
        return 1 if wanted.hard else ANY_TIER

    def _chain(self, job: Job, highest: int) -> tuple[tuple[int, str], ...] | None:
        """The domains up to a tier that all placed tasks share, from the lowest."""
        nodes = {task.node.name for task in job.each_task() if task.status.held and task.node is not None}
        if not nodes:
            return None
        common: set[tuple[int, str]] | None = None
        for node in nodes:
            here = {(tier, name) for tier, name in self.state.domains.domains_of(node).items() if tier <= highest}
            common = here if common is None else common & here
        return tuple(sorted(common or ()))

    def node_filter(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.bool_] | None:
        """With mode hard, the nodes of the domains that the job may use."""
        rule = shape.topology
        if rule is None or not rule.hard:
            return None
        return nodes.domains.mask(rule) if nodes.domains is not None else np.zeros(len(nodes.nodes), np.bool_)

    def node_reasons(self, shape: TaskShape, nodes: NodeTable) -> Iterable[tuple[str, NDArray[np.bool_]]]:
        """The nodes outside these domains."""
        mask, rule = self.node_filter(shape, nodes), shape.topology
        if mask is None or rule is None:
            return []
        if rule.chain is None:
            return [(f"in no HyperNode of tier <= {rule.highest}", mask)]
        if not rule.chain:
            return [(f"the job's placed tasks share no HyperNode of tier <= {rule.highest}", mask)]
        return [(f"outside HyperNode {rule.chain[-1][1]}, in which the job's other tasks are", mask)]

    def node_score(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.float64] | None:
        """Higher for nodes that share more tiers with the placed tasks."""
        rule = shape.topology
        if rule is None or not rule.chain or nodes.domains is None:
            return None
        return NEARER * self.weight * nodes.domains.shared_tiers(rule)
