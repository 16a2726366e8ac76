"""Whether a pod may run on a node by its node selector, its required node affinity and its tolerations. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.controllers.nodes.taints import tolerates
from kubesim.registry.registry import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def matches_node(spec: Object, node: Object) -> bool:
    """Whether node selector and required node affinity of a pod's spec match a node."""
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if affinity is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_matches_term(term, labels, fields) for term in affinity.get("nodeSelectorTerms") or ())


def _matches_term(term: Object, labels: dict[str, str], fields: dict[str, str]) -> bool:
    expressions, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not by_field:
        return False  # an empty term matches no node
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, fields) for one in by_field)


def _holds(requirement: Object, values: dict[str, str]) -> bool:
    found = values.get(requirement["key"])
    wanted: list[str] = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            if found is None or not _is_integer(found) or not _is_integer(wanted[0]):
                return False
            return int(found) > int(wanted[0]) if operator == "Gt" else int(found) < int(wanted[0])
    return False


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal()


def tolerates_taints(spec: Object, node: Object, effects: Iterable[str]) -> bool:
    """Whether a pod's spec tolerates the taints of a node that have one of these effects."""
    tolerations = spec.get("tolerations") or ()
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint["effect"] in effects
    )
