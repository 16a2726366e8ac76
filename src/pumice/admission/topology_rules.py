"""Rules about HyperNodes, and about the networkTopology of jobs and podgroups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kubebase.field_error import FieldError
from pumice.admission.cluster_view import ClusterView, describe_hyper_node
from pumice.admission.request import Refusal, Request, spec_of
from pumice.model.hyper_nodes import HyperNode

MEMBERS = "spec.members"
NAMED = 3
"""The maximum number of nodes named in a refusal."""


def hyper_node_is_sound(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The HyperNode can be parsed, has members, contains lower tiers only, and shares no node with one of its tier."""
    try:
        found = describe_hyper_node(request.object)
    except FieldError as error:
        yield Refusal(error.message, error.field)
        return
    if not found.members:
        yield Refusal("Required value: a HyperNode needs at least one member", MEMBERS)
    yield from _contains_lower_tiers(found, world)
    yield from _shares_no_node(found, world)


def _contains_lower_tiers(found: HyperNode, world: ClusterView) -> Iterator[Refusal]:
    """A member that is not of a lower tier would close a cycle, or turn the tiers around."""
    domains = world.domains
    for number, member in enumerate(found.members):
        field = f"{MEMBERS}[{number}].selector"
        if member.of_nodes:
            continue
        if member.name == found.name:
            yield Refusal(f"Invalid value: '{found.name}': a HyperNode may not contain itself", field)
        other = domains.hyper_nodes.get(member.name)
        if other is not None and other.name != found.name and other.tier >= found.tier:
            yield Refusal(
                f"Invalid value: '{other.name}': HyperNode {other.name} is of tier {other.tier}; members of a "
                f"HyperNode of tier {found.tier} must be of a lower tier",
                field,
            )
    for outer in domains.hyper_nodes.values():
        named = any(not member.of_nodes and member.name == found.name for member in outer.members)
        if named and outer.name != found.name and outer.tier <= found.tier:
            yield Refusal(
                f"Invalid value: {found.tier}: HyperNode {outer.name} of tier {outer.tier} contains {found.name}, "
                f"which must be of a lower tier",
                "spec.tier",
            )


def _shares_no_node(found: HyperNode, world: ClusterView) -> Iterator[Refusal]:
    shared: dict[str, list[str]] = {}
    for node, other in islice(world.domains.overlaps(found), 1000):
        shared.setdefault(other, []).append(node)
    for other, nodes in shared.items():
        some = ", ".join(nodes[:NAMED]) + (f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else "")
        yield Refusal(
            f"Invalid value: {some} {'is' if len(nodes) == 1 else 'are'} in HyperNode {other} of tier {found.tier} "
            f"already; a node may be in one HyperNode of a tier",
            MEMBERS,
        )


def topology_names_one_tier(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The highest tier is given by its number or by its name."""
    topology = spec_of(request.object).get("networkTopology") or {}
    if topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        yield Refusal(
            "Forbidden: may not be set beside highestTierAllowed; set one of the two",
            "spec.networkTopology.highestTierName",
        )
