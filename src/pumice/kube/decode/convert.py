"""Converts manifests to descriptions: one parsed YAML or JSON object to one object of the model.

An object is identified by its apiVersion and kind, decoded to structs (fields that are not listed there are ignored),
checked and converted. Any error in it raises ``ObjectError``; no object is converted in part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from kubebase.field_error import FieldError
from kubebase.quantity import NANOS, QuantityError, parse
from kubebase.resource_vector import PODS, Registry, ResourceError
from pumice.kube.decode import api_types
from pumice.kube.decode.hyper_nodes import hyper_node, network_topology
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.min_resources import requested_resources
from pumice.kube.decode.placement import EFFECTS
from pumice.kube.decode.pods import task
from pumice.kube.decode.preemption_annotations import budget, longest_wait, preemptable, preempts, user
from pumice.kube.decode.queues import queue
from pumice.kube.decode.struct_decode import check_name, check_printable, microseconds, one_of, read, shown
from pumice.kube.decode.task_topology import task_topology
from pumice.model.specs import (
    DEFAULT_QUEUE,
    Described,
    DisruptionBudget,
    JobPhase,
    JobSpec,
    NodeSpec,
    PriorityClass,
    Quota,
    Taint,
)

SCHEDULERS = frozenset({"pumice", "volcano"})
"""Pods that name one of these, or no scheduler at all, are ours to place."""

NAMESPACE_WEIGHT = "volcano.sh/namespace.weight"
HOSTNAME = "kubernetes.io/hostname"

UNLIMITED_PODS = 10**9
"""Pods that a node without ``pods`` in its capacity takes. A kubelet always sets it; files rarely do."""


class _Source(NamedTuple):
    """The input of a conversion: the decoded object with its namespace and creation time, and the settings."""

    object: Any
    namespace: str
    created: int
    registry: Registry
    schedulers: Collection[str]


class _Kind(NamedTuple):
    """How a kind of object is converted. A kind without a conversion is accepted and ignored."""

    version: str
    shape: type[api_types.Object]
    namespaced: bool = False
    translate: Callable[[_Source], Described] | None = None


def decode(
    document: Mapping[str, Any],
    *,
    registry: Registry,
    created: int = 0,
    schedulers: Collection[str] = SCHEDULERS,
) -> Described | None:
    """What the engine is told about an object; None if nothing.

    ``created`` is its creation time, in microseconds, unless it carries one of its own.
    """
    kind = _kind(document)
    try:
        return _translated(kind, read(document, kind.shape), registry, created, schedulers)
    except (FieldError, ResourceError, RecursionError) as error:
        raise _object_error(_name(document, kind), error) from None


def describe(
    kind: str, decoded: api_types.Object, *, registry: Registry, schedulers: Collection[str] = SCHEDULERS
) -> Described | None:
    """The description of an object that an API has sent, already decoded; None if the engine does not need it."""
    try:
        return _translated(_KINDS[kind], decoded, registry, 0, schedulers)
    except (FieldError, ResourceError, RecursionError) as error:
        about = decoded.metadata
        raise _object_error("/".join(filter(None, (kind, about.namespace, about.name))), error) from None


def _translated(
    kind: _Kind, decoded: api_types.Object, registry: Registry, created: int, schedulers: Collection[str]
) -> Described | None:
    metadata = decoded.metadata
    _check_names(metadata, kind)
    if metadata.creation_timestamp is not None:
        created = microseconds(metadata.creation_timestamp)
    if kind.translate is None:
        return None
    return kind.translate(_Source(decoded, metadata.namespace or "default", created, registry, schedulers))


def _object_error(name: str, error: FieldError | ResourceError | RecursionError) -> ObjectError:
    """An error of a conversion, with the name of the object."""
    if isinstance(error, FieldError):
        return ObjectError(name, error.field, error.message)
    if isinstance(error, RecursionError):
        return ObjectError(name, "spec.hierarchy", "Too deep: entries are nested too deeply")
    field, _, message = str(error).partition(": ")
    return ObjectError(name, field, message)


def _kind(document: Mapping[str, Any]) -> _Kind:
    name, version = document.get("kind"), document.get("apiVersion")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ObjectError(
            _name(document), "kind", f"Unsupported value: {shown(name)}: supported values: {', '.join(_KINDS)}"
        )
    if version != kind.version:
        raise ObjectError(
            _name(document, kind),
            "apiVersion",
            f"Unsupported value for {name}: {shown(version)}: supported values: {kind.version}",
        )
    return kind


def _name(document: Mapping[str, Any], kind: _Kind | None = None) -> str:
    """Kind, namespace and name of an object that may lack any of them."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        metadata = {}
    namespace = metadata.get("namespace")
    if kind is not None:
        namespace = (namespace or "default") if kind.namespaced else None
    parts = [document.get("kind") or "?", namespace, metadata.get("name") or "?"]
    return "/".join(str(part) for part in parts if part)


def _check_names(metadata: api_types.Metadata, kind: _Kind) -> None:
    if not metadata.name:
        raise FieldError("metadata.name", "Required value")
    check_name(metadata.name, "metadata.name")
    if kind.namespaced:
        check_name(metadata.namespace, "metadata.namespace")


# ---- one function a kind -----------------------------------------------------------------------------------


def _node(source: _Source) -> NodeSpec:
    node: api_types.Node = source.object
    name, status = node.metadata.name, node.status
    field = "allocatable" if status.allocatable else "capacity"
    offered = status.allocatable or status.capacity
    vector = source.registry.vector(offered, where=f"status.{field}")
    if "pods" not in offered:
        vector = (*vector[:PODS], UNLIMITED_PODS, *vector[PODS + 1 :])
    return NodeSpec(
        name=name,
        allocatable=vector,
        created=source.created,
        # The kubelet sets this label; files leave it out and still spread over hosts.
        labels={HOSTNAME: name} | node.metadata.labels,
        taints=tuple(
            Taint(taint.key, taint.value, one_of(taint.effect, EFFECTS, f"spec.taints[{i}].effect"))
            for i, taint in enumerate(node.spec.taints)
        ),
        unschedulable=node.spec.unschedulable,
        ready=all(condition.status == "True" for condition in status.conditions if condition.type == "Ready"),
    )


def _quota(source: _Source) -> Quota:
    # A weight that is no whole number above 0 says nothing; one that is no quantity at all is refused.
    quota: api_types.ResourceQuota = source.object
    weight = None
    text = quota.spec.hard.get(NAMESPACE_WEIGHT)
    if text is not None:
        try:
            nano = parse(text).nano
        except QuantityError as error:
            raise FieldError(f"spec.hard.{NAMESPACE_WEIGHT}", str(error)) from None
        if nano > 0 and nano % NANOS == 0:
            weight = nano // NANOS
    return Quota(source.namespace, quota.metadata.name, weight)


def _priority_class(source: _Source) -> PriorityClass:
    found: api_types.PriorityClass = source.object
    may_preempt = preempts(found.preemption_policy, "preemptionPolicy") is not False
    return PriorityClass(found.metadata.name, found.value, found.global_default, may_preempt)


def _budget(source: _Source) -> DisruptionBudget:
    return budget(source.object, source.namespace)


def _queue(source: _Source) -> Described:
    return queue(source.object, source.created, source.registry)


def _job(source: _Source) -> JobSpec:
    group: api_types.PodGroup = source.object
    spec, resources = group.spec, requested_resources(group.spec.min_resources)
    check_printable(spec.queue, "spec.queue")
    phases = [phase.value for phase in JobPhase]
    return JobSpec(
        namespace=source.namespace,
        name=group.metadata.name,
        queue=spec.queue or DEFAULT_QUEUE,
        created=source.created,
        min_member=spec.min_member,
        min_task_member=spec.min_task_member,
        min_resources=source.registry.vector(resources, where="spec.minResources") if resources else (),
        priority_class=spec.priority_class_name or None,
        phase=JobPhase(one_of(group.status.phase or "Pending", phases, "status.phase")),
        user=user(group.metadata),
        longest_wait=longest_wait(group.metadata),
        preemptable=preemptable(group.metadata) is not False,
        topology=network_topology(spec.network_topology),
        task_topology=task_topology(group.metadata.annotations),
    )


def _hyper_node(source: _Source) -> Described:
    return hyper_node(source.object)


def _task(source: _Source) -> Described:
    return task(source.object, source.namespace, source.created, source.registry, source.schedulers)


_VOLCANO = "scheduling.volcano.sh/v1beta1"
_KINDS = {
    "HyperNode": _Kind("topology.volcano.sh/v1alpha1", api_types.HyperNode, translate=_hyper_node),
    "Namespace": _Kind("v1", api_types.Object),
    "Node": _Kind("v1", api_types.Node, translate=_node),
    "Pod": _Kind("v1", api_types.Pod, namespaced=True, translate=_task),
    "PodDisruptionBudget": _Kind("policy/v1", api_types.PodDisruptionBudget, namespaced=True, translate=_budget),
    "PodGroup": _Kind(_VOLCANO, api_types.PodGroup, namespaced=True, translate=_job),
    "PriorityClass": _Kind("scheduling.k8s.io/v1", api_types.PriorityClass, translate=_priority_class),
    "Queue": _Kind(_VOLCANO, api_types.Queue, translate=_queue),
    "ResourceQuota": _Kind("v1", api_types.ResourceQuota, namespaced=True, translate=_quota),
}
