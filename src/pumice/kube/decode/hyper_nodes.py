"""Converts HyperNodes, and the field ``networkTopology`` of podgroups and jobs."""

from __future__ import annotations

from kubebase.field_error import FieldError
from kubebase.go_regexp import PatternError, check_syntax
from pumice.kube.decode import api_types
from pumice.kube.decode.struct_decode import check_name, one_of
from pumice.kube.selectors import label_selector
from pumice.model.hyper_nodes import HyperNode, HyperNodeMember, NetworkTopology

NODE, HYPER_NODE = MEMBER_TYPES = ("Node", "HyperNode")
HARD, SOFT = MODES = ("hard", "soft")


def hyper_node(found: api_types.HyperNode) -> HyperNode:
    """A HyperNode."""
    spec = found.spec
    members = tuple(_member(member, f"spec.members[{i}]") for i, member in enumerate(spec.members))
    return HyperNode(found.metadata.name, spec.tier, spec.tier_name, members)


def network_topology(found: api_types.NetworkTopology | None) -> NetworkTopology | None:
    """The wish of a job about the network; None: it has none."""
    if found is None:
        return None
    mode = one_of(found.mode or HARD, MODES, "spec.networkTopology.mode")
    if found.highest_tier_allowed is not None and found.highest_tier_name:
        message = "Forbidden: may not be set beside highestTierAllowed; set one of the two"
        raise FieldError("spec.networkTopology.highestTierName", message)
    return NetworkTopology(mode == HARD, found.highest_tier_allowed, found.highest_tier_name)


def _member(member: api_types.HyperNodeMember, where: str) -> HyperNodeMember:
    of_nodes = one_of(member.type, MEMBER_TYPES, f"{where}.type") == NODE
    selector, where = member.selector, f"{where}.selector"
    given = [one for one in (selector.exact_match, selector.regex_match, selector.label_match) if one is not None]
    if len(given) != 1:
        raise FieldError(where, "must have exactly one of exactMatch, regexMatch and labelMatch")
    if selector.exact_match is not None:
        if not selector.exact_match.name:
            raise FieldError(f"{where}.exactMatch.name", "Required value")
        check_name(selector.exact_match.name, f"{where}.exactMatch.name")
        return HyperNodeMember(of_nodes, name=selector.exact_match.name)
    if selector.regex_match is not None:
        return HyperNodeMember(of_nodes, pattern=_pattern(selector.regex_match.pattern, f"{where}.regexMatch.pattern"))
    if not of_nodes:
        raise FieldError(f"{where}.labelMatch", "Forbidden: selects members of type Node only; use exactMatch")
    return HyperNodeMember(of_nodes, labels=label_selector(selector.label_match, (), f"{where}.labelMatch"))


def _pattern(pattern: str, where: str) -> str:
    if not pattern:
        raise FieldError(where, "Required value")
    try:
        check_syntax(pattern)
    except PatternError as error:
        raise FieldError(where, f"Invalid value: {pattern!r}: {error}") from None
    return pattern
