"""The resource request of a pod, counted as Kubernetes counts it.

A pod's containers do not all run at once. Init containers run one after another before the app
containers start; those with `restartPolicy: Always` (sidecars) keep running once they have started. So,
for each resource, the pod needs the larger of

    all app containers + all sidecars                          (when it is up)
    one init container + the sidecars listed before it         (while it starts, the largest step)

A pod-level request, where given, replaces this for cpu, memory and huge pages. The overhead of the
runtime class is added, and every pod counts as one of `pods`.

A missing request defaults to the limit, as the API server fills it in; this also holds for
manifests that never passed through an API server.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from kubebase.resource_vector import PODS, Registry, ResourceError, ResourceList, Vector, milli_amounts

Container: TypeAlias = Mapping[str, object]
"""A container as a pod manifest has it: `resources` and `restartPolicy` are read."""

Requirements: TypeAlias = Mapping[str, ResourceList | None]
"""`requests` and `limits`, as the field `resources` of a container or of a pod has them."""

_HUGE_PAGES = "hugepages-"


def pod_request(
    registry: Registry,
    containers: Iterable[Container],
    init_containers: Iterable[Container] = (),
    overhead: ResourceList | None = None,
    pod_level: Requirements | None = None,
    *,
    where: str = "spec",
) -> Vector:
    """The request of a pod, from the fields of its spec; `where` is the path of the spec, for errors."""
    running: dict[str, int] = {}
    for position, container in enumerate(containers):
        _add(running, _request(container, f"{where}.containers[{position}]"))

    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for position, container in enumerate(init_containers):
        request = _request(container, f"{where}.initContainers[{position}]")
        if container.get("restartPolicy") == "Always":
            _add(sidecars, request)
        else:
            _add(request, sidecars)
            _raise_to(starting, request)
    _add(running, sidecars)
    _raise_to(running, starting)

    if pod_level:
        running |= _pod_level_request(pod_level, running, f"{where}.resources")
    if overhead:
        _add(running, milli_amounts(overhead, where=f"{where}.overhead"))
    vector = registry.vector_of_milli(running)
    return (*vector[:PODS], 1, *vector[PODS + 1 :])


def _request(container: Container, where: str) -> dict[str, int]:
    """What one container asks for, in milli: its requests, completed by its limits."""
    resources = _mapping(container, where, "{resources: {requests: {cpu: 500m}}}").get("resources")
    if not resources:
        return {}
    requests, limits = _requirements(resources, f"{where}.resources")
    return limits | requests if limits else requests


def _pod_level_request(pod_level: Requirements, counted: Mapping[str, int], where: str) -> dict[str, int]:
    """The pod-level resources, where they replace the sum over containers.

    A pod-level limit replaces a missing request only if no container requests the resource; for
    huge pages, which cannot be overcommitted, always.
    """
    requests, limits = _requirements(pod_level, where)
    defaults = {name: v for name, v in limits.items() if name not in counted or name.startswith(_HUGE_PAGES)}
    return {
        name: milli
        for name, milli in (defaults | requests).items()
        if name in {"cpu", "memory"} or name.startswith(_HUGE_PAGES)
    }


def _requirements(resources: object, where: str) -> tuple[dict[str, int], dict[str, int]]:
    """The requests and the limits of a `resources` field, in milli."""
    fields = _mapping(resources, where, "{requests: {cpu: 500m, memory: 4Gi}}")
    requests, limits = fields.get("requests"), fields.get("limits")
    return (
        milli_amounts(requests, where=f"{where}.requests") if requests else {},
        milli_amounts(limits, where=f"{where}.limits") if limits else {},
    )


def _mapping(field: object, where: str, example: str) -> Mapping[str, Any]:
    if isinstance(field, Mapping):
        return field
    kind = type(field).__name__
    raise ResourceError(f"{where}: {kind} given, but a mapping is needed; write for example {example}")


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, milli in amounts.items():
        total[name] = total.get(name, 0) + milli


def _raise_to(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, milli in amounts.items():
        total[name] = max(total.get(name, 0), milli)
