"""Label selectors inside objects: what is wrong with one, whether labels match it, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pumice.apiserver.catalogue import Object
from pumice.apiserver.metadata import check_label_key, check_label_value
from pumice.apiserver.problems import Problem, forbidden, invalid, required


def check_selector(selector: Object, field: str) -> Iterator[Problem]:
    """What is wrong with a selector."""
    for key, value in selector.get("matchLabels", {}).items():
        yield from check_label_key(key, f"{field}.matchLabels")
        yield from check_label_value(key, value, f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        yield from _check_requirement(requirement, f"{field}.matchExpressions[{index}]")


def _check_requirement(requirement: Object, field: str) -> Iterator[Problem]:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{field}.values", detail)
        case _:
            yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    yield from check_label_key(key, f"{field}.key")
    for index, value in enumerate(values):
        yield from check_label_value(key, value, f"{field}.values[{index}]")


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels meet every requirement of a selector that has nothing wrong with it."""
    wanted = selector.get("matchLabels", {})
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.get("matchExpressions", ()))


def _meets(requirement: Object, labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


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
