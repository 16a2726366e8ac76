"""Requests and limits of containers: canonical amounts, defaults, quality of service, validation.

Some resources can be overcommitted (cpu, memory, ephemeral-storage): their request may be below the limit. All others
need a limit, and the request must equal it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from kubebase.quantity import NANOS, Quantity, QuantityError, parse
from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.api.metadata import check_label_key
from kubesim.registry.registry import Object

HUGE_PAGES: Final = "hugepages-"
COMPUTE: Final = ("cpu", "memory")
OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

# What may stand in a resource list of some kind, though not in a container's.
_STANDARD: Final = OF_CONTAINERS | {
    "storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "requests.cpu", "requests.memory",
    "requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
}  # fmt: skip
_PATTERN: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


# ---- form -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    return parse(text).format()


def canonical(amounts: Object | None, kind: str = "Pod") -> None:
    """Write the amounts of a resource list in canonical form. An invalid quantity makes the object undecodable."""
    if amounts:
        for name, amount in amounts.items():
            amounts[name] = canonical_amount(amount, kind)


def canonical_amount(amount: str | int | float, kind: str = "Pod") -> str:
    """An amount as kube-apiserver writes it."""
    try:
        return _canonical(amount) if isinstance(amount, str) else parse(amount).format()
    except QuantityError as error:
        raise status.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {_PATTERN}') from error


def complete(container: Object, kind: str = "Pod") -> None:
    """Set ``resources`` in canonical form, without empty lists."""
    resources = container.setdefault("resources", {})
    if not resources:
        return
    canonical(resources.get("requests"), kind)
    canonical(resources.get("limits"), kind)
    for empty in [name for name, value in resources.items() if not value]:
        del resources[empty]


def ask_for_limits(container: Object) -> None:
    """Missing requests default to the limits."""
    resources = container["resources"]
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **resources.get("requests", {})}


def containers(spec: Object) -> Iterable[Object]:
    """The containers that count for what a pod uses."""
    initial = spec.get("initContainers")
    found: list[Object] = spec.get("containers", [])
    return found if not initial else [*found, *initial]


def quality(spec: Object) -> str:
    """The class of service: Guaranteed, Burstable or BestEffort."""
    asked: Iterable[Object] = containers(spec)
    if spec.get("resources", {}).get("requests") or spec.get("resources", {}).get("limits"):
        asked = (spec,)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for one in asked:
        found = one.get("resources")
        if not found:
            guaranteed = False
            continue
        _add(requests, found.get("requests"))
        guaranteed = _add(limits, found.get("limits")) == len(COMPUTE) and guaranteed
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add(total: dict[str, int], amounts: Object | None) -> int:
    """Add up the compute resources that are more than zero; how many these were."""
    many = 0
    for name in COMPUTE if amounts else ():
        nano = _nano(amounts.get(name, 0)) if amounts else 0
        if nano > 0:
            total[name] = total.get(name, 0) + nano
            many += 1
    return many


def _nano(amount: str | int) -> int:
    return parse(amount).nano


# ---- checks -----------------------------------------------------------------------------------------------


def native(name: str) -> bool:
    """Whether Kubernetes itself defines the resource."""
    return "/" not in name or "kubernetes.io/" in name


def overcommits(name: str) -> bool:
    """Whether a request may be below its limit."""
    return native(name) and not name.startswith(HUGE_PAGES)


def check_resources(resources: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of the resources of a container."""
    limits: dict[str, str] = resources.get("limits", {})
    requests: dict[str, str] = resources.get("requests", {})
    for where, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name not in OF_CONTAINERS:
                yield from _check_name(name, f"{field}.{where}[{name}]")
            yield from check_amount(name, amount, f"{field}.{where}[{name}]")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not overcommits(name):
                yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        elif amount != limit:
            yield from _compare(name, parse(amount), parse(limit), f"{field}.requests")
    named = limits.keys() | requests.keys()
    if named and not named & set(COMPUTE) and any(name.startswith(HUGE_PAGES) for name in named):
        yield forbidden(field, "HugePages require cpu or memory")


def check_pod_resources(resources: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of pod-level resources: only resources that containers can share are allowed."""
    for where in ("limits", "requests"):
        for name in resources.get(where, {}):
            if name not in COMPUTE and not name.startswith(HUGE_PAGES):
                yield unsupported(f"{field}.{where}[{name}]", name, ("cpu", HUGE_PAGES, "memory"))
    if resources.get("claims"):
        yield forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level")
    yield from check_resources(resources, field)


def _compare(name: str, request: Quantity, limit: Quantity, field: str) -> Iterator[FieldProblem]:
    if not overcommits(name):
        if request.nano != limit.nano:
            yield invalid(field, str(request), f"must be equal to {name} limit of {limit}")
    elif request.nano > limit.nano:
        yield invalid(field, str(request), f"must be less than or equal to {name} limit of {limit}")


def _check_name(name: str, field: str) -> Iterator[FieldProblem]:
    faults = list(check_label_key(name, field))
    yield from faults
    if "/" not in name:
        if not name.startswith(HUGE_PAGES):
            if name not in _STANDARD and not faults:
                yield invalid(field, name, "must be a standard resource type or fully qualified")
            yield invalid(field, name, "must be a standard resource for containers")
    elif not native(name) and (faults or name.startswith("requests.")):
        yield invalid(field, name, "doesn't follow extended resource name standard")


def check_amount(name: str, amount: str, field: str) -> Iterator[FieldProblem]:
    """The problems of an amount of a resource."""
    nano = _nano(amount)
    if nano < 0:
        yield invalid(field, amount, "must be greater than or equal to 0")
    if name in OF_CONTAINERS:
        return
    if not native(name) and nano % NANOS:
        yield invalid(field, amount, "must be an integer")
    page = _page(name)
    if page and (nano <= 0 or nano % page):
        yield invalid(field, amount, f"{amount} is not positive integer multiple of {name}")


def _page(name: str) -> int:
    match = re.fullmatch(HUGE_PAGES + r"(\d{1,9}[KMGT]i)", name)
    return _nano(match[1]) if match else 0
