"""Label selectors: whether labels meet the requirements of a selector, as Kubernetes defines it.

The operators are implemented once, for requirements that were read already (``meets``) and for selectors as they stand
in objects (``matches``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Requirement:
    """``key operator values``, as node affinity and label selectors write it."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist, Gt, Lt
    values: tuple[str, ...] = ()


def meets(requirements: tuple[Requirement, ...] | None, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold; None selects nothing, an empty list everything."""
    return requirements is not None and all(
        _holds(labels.get(requirement.key), requirement.operator, requirement.values) for requirement in requirements
    )


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels match a valid selector of an object (``matchLabels``, ``matchExpressions``); an empty one does."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(
        _holds(labels.get(wanted["key"]), wanted["operator"], wanted.get("values") or ())
        for wanted in selector.get("matchExpressions") or ()
    )


def _holds(value: str | None, operator: str, values: Collection[str]) -> bool:
    """Whether the value of a label (None: there is no such label) meets an operator."""
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(operator, value or "", next(iter(values), ""))
    raise ValueError(f"unknown operator {operator!r}")


def _compares(operator: str, value: str, bound: str) -> bool:
    # Gt and Lt read both sides as integers; anything else does not match (node affinity only).
    if not all(re.fullmatch(r"[+-]?[0-9]+", side) for side in (value, bound)):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
