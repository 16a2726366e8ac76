"""Label selectors: does a set of labels meet a list of requirements, as Kubernetes reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pumice.model.objects import Requirement


def meets(requirements: tuple[Requirement, ...] | None, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold; None selects nothing, an empty list everything."""
    return requirements is not None and all(_holds(requirement, labels) for requirement in requirements)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
    raise ValueError(f"unknown operator {requirement.operator!r}")


def _compares(requirement: Requirement, value: str | None) -> bool:
    # Gt and Lt read both sides as integers; anything else does not match (node affinity only).
    sides = (value or "", requirement.values[0] if requirement.values else "")
    if not all(re.fullmatch(r"[+-]?[0-9]+", side) for side in sides):
        return False
    have, want = map(int, sides)
    return have > want if requirement.operator == "Gt" else have < want
