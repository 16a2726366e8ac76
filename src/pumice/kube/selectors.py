"""Selectors of manifests: requirements on labels, all of which must hold.

A selector is a set. Requirements and their values are sorted and deduplicated, and ``matchLabels`` become requirements
too, so that equivalent selectors compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubebase.field_error import FieldError
from kubebase.label_selector import Requirement
from pumice.kube.decode import api_types
from pumice.kube.decode.struct_decode import one_of
from pumice.model.specs import NodeTerm

LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")


def label_selector(
    selector: api_types.LabelSelector | None, own: Iterable[Requirement], where: str
) -> tuple[Requirement, ...] | None:
    """A label selector, with requirements from the pod's own labels. None (no selector) selects nothing."""
    if selector is None:
        return None
    found = {Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()}
    found |= _requirements(selector.match_expressions, LABEL_OPERATORS, f"{where}.matchExpressions")
    return _sorted(found.union(own))


def own_labels(keys: Iterable[str], operator: str, labels: Mapping[str, str]) -> list[Requirement]:
    """Requirements to share (In), or not to share (NotIn), a pod's own labels; missing labels add none."""
    return [Requirement(key, operator, (labels[key],)) for key in keys if key in labels]


def node_term(term: api_types.NodeSelectorTerm, where: str, weight: int = 0) -> NodeTerm | None:
    """A node selector term; None if it is empty, because that matches no node."""
    for i, requirement in enumerate(term.match_fields):
        one_of(requirement.key, ("metadata.name",), f"{where}.matchFields[{i}].key")
    labels = _requirements(term.match_expressions, NODE_OPERATORS, f"{where}.matchExpressions")
    fields = _requirements(term.match_fields, FIELD_OPERATORS, f"{where}.matchFields")
    return NodeTerm(_sorted(labels), _sorted(fields), weight) if labels or fields else None


def _requirements(
    requirements: Iterable[api_types.Requirement], operators: tuple[str, ...], where: str
) -> set[Requirement]:
    return {_requirement(requirement, operators, f"{where}[{i}]") for i, requirement in enumerate(requirements)}


def _requirement(requirement: api_types.Requirement, operators: tuple[str, ...], where: str) -> Requirement:
    operator = one_of(requirement.operator, operators, f"{where}.operator")
    values = tuple(sorted(set(requirement.values)))
    match operator:
        case "In" | "NotIn":
            fault = "" if values else "needs at least one value"
        case "Exists" | "DoesNotExist":
            fault = "takes no values; remove them, or use In" if values else ""
        case _:
            whole = len(values) == 1 and values[0].isascii() and values[0].removeprefix("-").isdecimal()
            fault = "" if whole else "needs exactly one integer, such as ['8']"
    if fault:
        raise FieldError(f"{where}.values", f"operator {operator} {fault}")
    return Requirement(requirement.key, operator, values)


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values)))
