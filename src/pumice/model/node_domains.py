"""Which nodes each HyperNode contains, and so in which domain of every tier a node is.

A HyperNode contains the nodes that its members select and those of the HyperNodes that its members select. A member
counts only if its tier is lower, so there are no cycles. Admission sees to it that a node is in at most one HyperNode
of a tier. Labels of nodes may change later without any check: then the name that sorts first counts.

The index follows objects one by one. A changed node is compared with the selectors of all HyperNodes, a changed
HyperNode with all nodes, and nothing else is examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kubebase.go_regexp import Pattern
from kubebase.label_selector import Requirement, meets
from pumice.model.hyper_nodes import HyperNode, HyperNodeMember

Domains = dict[int, str]
"""The domain of a node or HyperNode in each tier that has one."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The members of a HyperNode of one kind, ready to be compared with names and labels."""

    names: frozenset[str]
    patterns: tuple[Pattern, ...]
    labels: tuple[tuple[Requirement, ...], ...]

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node or HyperNode is among the members."""
        return (
            name in self.names
            or any(pattern.found_in(name) for pattern in self.patterns)
            or any(meets(wanted, labels) for wanted in self.labels)
        )


def _selection(members: Iterable[HyperNodeMember]) -> Selection:
    members = tuple(members)
    return Selection(
        frozenset(member.name for member in members if member.name),
        tuple(Pattern(member.pattern) for member in members if member.pattern),
        tuple(member.labels for member in members if member.labels is not None),
    )


class NodeDomains:
    """The HyperNodes and nodes of a cluster, and which contains which."""

    def __init__(self) -> None:
        self.hyper_nodes: dict[str, HyperNode] = {}
        self._nodes: dict[str, Mapping[str, str]] = {}  # labels by name
        self._of_nodes: dict[str, Selection] = {}
        self._of_hyper_nodes: dict[str, Selection] = {}
        self._directly_in: dict[str, set[str]] = {}  # by node, the HyperNodes whose members select it
        self._above: dict[str, Domains] | None = {}  # by HyperNode, itself and those above it; None: to be worked out

    def __bool__(self) -> bool:
        """Whether there is any domain."""
        return bool(self.hyper_nodes)

    # --- updates ------------------------------------------------------------------------------------------------

    def put_hyper_node(self, found: HyperNode) -> None:
        """Add a HyperNode, or replace the one of its name."""
        self.drop_hyper_node(found.name)
        self.hyper_nodes[found.name] = found
        nodes = _selection(member for member in found.members if member.of_nodes)
        self._of_nodes[found.name] = nodes
        self._of_hyper_nodes[found.name] = _selection(member for member in found.members if not member.of_nodes)
        by_name_only = not nodes.patterns and not nodes.labels
        near: Iterable[str] = {name for name in nodes.names if name in self._nodes} if by_name_only else self._nodes
        for node in near:
            if by_name_only or nodes.includes(node, self._nodes[node]):
                self._directly_in[node].add(found.name)

    def drop_hyper_node(self, name: str) -> None:
        """Remove a HyperNode."""
        self._above = None
        if self.hyper_nodes.pop(name, None) is not None:
            del self._of_nodes[name], self._of_hyper_nodes[name]
            for inside in self._directly_in.values():
                inside.discard(name)

    def put_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a node, or change its labels."""
        if self._nodes.get(name) != labels or name not in self._nodes:
            self._nodes[name] = labels
            chosen = {hyper for hyper, selection in self._of_nodes.items() if selection.includes(name, labels)}
            self._directly_in[name] = chosen

    def drop_node(self, name: str) -> None:
        """Remove a node."""
        self._nodes.pop(name, None)
        self._directly_in.pop(name, None)

    # --- queries ------------------------------------------------------------------------------------------------

    def domains_of(self, node: str) -> Domains:
        """The domain of a node in every tier in which it has one."""
        found: Domains = {}
        for name in self._directly_in.get(node, ()):
            _join(found, self.above(name))
        return found

    def above(self, name: str) -> Domains:
        """A HyperNode and those that contain it, by tier."""
        if self._above is None:
            self._above = self._work_out()
        return self._above[name]

    def tier_named(self, name: str) -> int | None:
        """The tier of the HyperNodes that give it this name; the lowest, if several do."""
        return min((found.tier for found in self.hyper_nodes.values() if found.tier_name == name), default=None)

    def nodes_in(self, name: str) -> set[str]:
        """All nodes that a HyperNode contains."""
        tier = self.hyper_nodes[name].tier
        return {node for node in self._nodes if self.domains_of(node).get(tier) == name}

    def overlaps(self, found: HyperNode) -> Iterator[tuple[str, str]]:
        """Nodes that a new HyperNode shares with another one of its tier, and the name of that one."""
        own, inner = (
            _selection(member for member in found.members if member.of_nodes),
            _selection(member for member in found.members if not member.of_nodes),
        )
        below = {
            name
            for name, other in self.hyper_nodes.items()
            if name != found.name and other.tier < found.tier and inner.includes(name, {})
        }
        for node, labels in sorted(self._nodes.items()):
            inside = {name for outer in self._directly_in[node] for name in self.above(outer).values()}
            if own.includes(node, labels) or not inside.isdisjoint(below):
                for name in sorted(inside - {found.name}):
                    if self.hyper_nodes[name].tier == found.tier:
                        yield node, name

    def _work_out(self) -> dict[str, Domains]:
        """For every HyperNode those above it, from the highest tier down."""
        found: dict[str, Domains] = {}
        ordered = sorted(self.hyper_nodes.values(), key=lambda hyper: (-hyper.tier, hyper.name))
        for hyper in ordered:
            above: Domains = {hyper.tier: hyper.name}
            for outer in ordered:
                if outer.tier > hyper.tier and self._of_hyper_nodes[outer.name].includes(hyper.name, {}):
                    _join(above, found[outer.name])
            found[hyper.name] = above
        return found


def _join(domains: Domains, others: Domains) -> None:
    """Add the domains of others; where both have one in a tier, the name that sorts first counts."""
    for tier, name in others.items():
        if tier not in domains or name < domains[tier]:
            domains[tier] = name
