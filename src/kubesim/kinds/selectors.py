"""Label selectors inside objects: validation, and their text in tables."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required
from kubesim.api.metadata import check_label_key, check_label_value
from kubesim.registry.registry import Object

NO_OPERATOR = "not a valid selector operator"


def check_selector(selector: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of a label selector."""
    for key, value in selector.get("matchLabels", {}).items():
        yield from check_label_key(key, f"{field}.matchLabels")
        yield from check_label_value(key, value, f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        yield from check_requirement(requirement, f"{field}.matchExpressions[{index}]")


def check_requirement(requirement: Object, field: str, *, numeric: bool = False) -> Iterator[FieldProblem]:
    """The problems of a requirement; ``numeric``: of a node selector, which may compare numbers too."""
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values: list[str] = requirement.get("values") or []
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{field}.values", detail)
        case "Gt" | "Lt" if numeric:
            if len(values) != 1:
                yield required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid(f"{field}.operator", operator, NO_OPERATOR)
    yield from check_label_key(key, f"{field}.key")
    if not numeric or operator in {"In", "NotIn"}:
        for index, value in enumerate(values):
            yield from check_label_value(key, value, f"{field}.values[{index}]")


def shown(selector: Object | None) -> str:
    """A selector as a table prints it: ``app=web,tier in (a,b),!old``."""
    if selector is None:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for requirement in sorted(selector.get("matchExpressions", ()), key=lambda found: str(found["key"])):
        key, values = requirement["key"], ",".join(sorted(requirement.get("values") or ()))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        parts.append(forms.get(requirement["operator"], key))
    return ",".join(parts) or "<none>"
