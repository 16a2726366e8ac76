"""The quota usage of a pod, and the quota scopes that it matches.

A finished pod uses no resources but still counts as an object (``count/pods``). For any other pod a quota counts its
total requests and limits: containers that run at the same time are added up, init containers count by the largest step,
and the overhead of the runtime class is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kubebase.quantity import NANOS, Quantity, parse
from kubesim.kinds.pods.resources import COMPUTE, HUGE_PAGES, OF_CONTAINERS, containers, native, quality
from kubesim.registry.registry import Object

Amounts = dict[str, Quantity]

ONE: Final = Quantity(NANOS)
ZERO: Final = Quantity(0)
OVER: Final = frozenset({"Succeeded", "Failed"})
REQUESTS, LIMITS = "requests", "limits"

_NAMES: Final = frozenset({"pods", "count/pods"}).union(
    *({name, f"{REQUESTS}.{name}", f"{LIMITS}.{name}"} for name in OF_CONTAINERS)
)


def counts(name: str) -> bool:
    """Whether a quota resource name counts pods."""
    if name in _NAMES or name.startswith((HUGE_PAGES, f"{REQUESTS}.{HUGE_PAGES}")):
        return True
    return name.startswith(f"{REQUESTS}.") and not native(name)


def usage(pod: Object) -> Amounts:
    """What a pod counts for, by the names that quotas have for it."""
    found: Amounts = {"count/pods": ONE}
    if (pod.get("status") or {}).get("phase") in OVER:
        return found
    found["pods"] = ONE
    for name, amount in _total(pod["spec"], REQUESTS).items():
        if name in OF_CONTAINERS or name.startswith(HUGE_PAGES):
            found[name] = found[f"{REQUESTS}.{name}"] = amount
        elif not native(name):
            found[f"{REQUESTS}.{name}"] = amount
    for name, amount in _total(pod["spec"], LIMITS).items():
        if name in OF_CONTAINERS:
            found[f"{LIMITS}.{name}"] = amount
    return found


def unspecified(spec: Object, names: Iterable[str]) -> str:
    """The containers without requests or limits that a quota with these names demands; empty if none.

    This concerns cpu and memory only, and no pod with pod-level resources.
    """
    own = spec.get("resources") or {}
    if own.get(REQUESTS) or own.get(LIMITS):
        return ""
    found = []
    for name in sorted(names):
        part, _, resource = name.rpartition(".")
        if resource in COMPUTE and part in {"", REQUESTS, LIMITS}:
            silent = [c["name"] for c in containers(spec) if resource not in _stated(c, part or REQUESTS)]
            if silent:
                found.append(f"{name} for: {','.join(sorted(silent))}")
    return "; ".join(found)


# ---- amounts ----------------------------------------------------------------------------------------------


def plus(one: Quantity, other: Quantity) -> Quantity:
    """The sum, in the notation of the first that is more than nothing."""
    return Quantity(one.nano + other.nano, one.notation if one.nano else other.notation)


def _stated(holder: Object, part: str) -> Mapping[str, str]:
    return (holder.get("resources") or {}).get(part) or {}


def _amounts(stated: Mapping[str, str]) -> Amounts:
    return {name: parse(amount) for name, amount in stated.items()}


def _total(spec: Object, part: str) -> Amounts:
    running: Amounts = {}
    for container in spec["containers"]:
        _add(running, _amounts(_stated(container, part)))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _amounts(_stated(container, part))
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
        else:
            _add(asked, sidecars)
            _raise_to(starting, asked)
    _add(running, sidecars)
    _raise_to(running, starting)
    running |= _amounts(dict(_of_the_whole(spec, part, running)))
    for name, amount in _amounts(spec.get("overhead") or {}).items():
        if part == REQUESTS or running.get(name, ZERO).nano:  # what has no limit does not get one
            running[name] = plus(running.get(name, ZERO), amount)
    return running


def _of_the_whole(spec: Object, part: str, counted: Amounts) -> Iterator[tuple[str, str]]:
    """The pod-level resources; a missing request defaults to the limit."""
    if part == REQUESTS:
        for name, amount in _stated(spec, LIMITS).items():
            if name not in counted or name.startswith(HUGE_PAGES):
                yield name, amount
    yield from _stated(spec, part).items()


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = plus(total[name], amount) if name in total else amount


def _raise_to(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        if name not in total or amount.nano > total[name].nano:
            total[name] = amount


# ---- scopes -----------------------------------------------------------------------------------------------


def in_scope(pod: Object, scope: Object) -> bool:
    """Whether a pod matches a scope (a requirement of a scope selector)."""
    spec: Object = pod["spec"]
    match scope["scopeName"]:
        case "BestEffort":
            return quality(spec) == "BestEffort"
        case "NotBestEffort":
            return quality(spec) != "BestEffort"
        case "Terminating":
            return "activeDeadlineSeconds" in spec
        case "NotTerminating":
            return "activeDeadlineSeconds" not in spec
        case "CrossNamespacePodAffinity":
            return any("namespaces" in term or "namespaceSelector" in term for term in _affinity_terms(spec))
        case "PriorityClass":
            return _is_of_class(spec.get("priorityClassName", ""), scope)
    return False


def _is_of_class(name: str, scope: Object) -> bool:
    match scope["operator"]:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in scope["values"]
        case "NotIn":
            return name not in scope["values"]
    return False


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(side) or {}
        yield from found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for preferred in found.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield preferred["podAffinityTerm"]
