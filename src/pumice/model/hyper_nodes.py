"""HyperNodes and the wishes of jobs about them: the network of a cluster, as immutable descriptions.

A HyperNode is a *domain*: nodes that a switch, or a tree of switches, connects. Its tier says how far apart its nodes
may be: the lower, the closer. ``node_domains`` works out which nodes each of them contains.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubebase.label_selector import Requirement


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """Nodes, or HyperNodes, that belong to a HyperNode. Exactly one of the three selectors is set."""

    of_nodes: bool  # whether it selects nodes, not HyperNodes
    name: str = ""  # exactMatch
    pattern: str = ""  # regexMatch, found anywhere in the name
    labels: tuple[Requirement, ...] | None = None  # labelMatch, of nodes only


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A domain of the network."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkTopology:
    """The domain that the tasks of a job share. Without a highest tier, hard means tier 1 and soft any tier."""

    hard: bool = True
    highest_tier: int | None = None
    highest_tier_name: str = ""  # instead of a number
