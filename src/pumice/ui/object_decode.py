"""The objects of a cluster, reduced to what the page shows.

A cluster has tens of thousands of pods, and the picture keeps all of them. So an object is reduced as soon as it is
decoded, and equal texts and requests are kept once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry, ResourceError, Vector
from pumice.kube.decode import api_types
from pumice.kube.decode.container_states import STARTING
from pumice.kube.decode.convert import describe
from pumice.kube.decode.pods import GROUP_NAME, TASK_SPEC, request_of
from pumice.kube.decode.preemption_annotations import USER
from pumice.kube.decode.struct_decode import microseconds
from pumice.kube.reduced_resource import reduced_resource
from pumice.kube.resources import NODES, POD_GROUPS, PODS, QUEUES
from pumice.model.specs import DEFAULT_QUEUE, Queue
from pumice.ui import wire_shapes
from pumice.ui.seen_objects import ConditionSeen, GroupSeen, InnerNodeSeen, NamespaceSeen, NodeSeen, PodSeen, QueueSeen

T = TypeVar("T")

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OWN_STATE = "OwnState"
"""The condition in which the controllers keep the state that a queue had before its parent was closed."""
LARGEST_POOL = 20_000
"""Values that are kept to be shared; when there are more, sharing begins anew."""


class _Pool(Generic[T]):
    """Gives the same object for equal values, so that equal texts and vectors take memory once."""

    def __init__(self) -> None:
        self._known: dict[T, T] = {}

    def __call__(self, value: T) -> T:
        if len(self._known) > LARGEST_POOL:
            self._known.clear()
        return self._known.setdefault(value, value)


_shared: _Pool[str] = _Pool()


class SeenObjects:
    """The resources that the page follows; the registry gives resources their places in vectors."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._requests: _Pool[Vector] = _Pool()
        self.pods = reduced_resource(PODS.decoded_as(wire_shapes.Pod), self._pod)
        self.groups = reduced_resource(POD_GROUPS.decoded_as(wire_shapes.Group), _group)
        self.nodes = reduced_resource(NODES, self._node)
        self.queues = reduced_resource(QUEUES.decoded_as(wire_shapes.Queue), self._queue)

    def _pod(self, pod: wire_shapes.Pod) -> PodSeen:
        about, spec, status = pod.metadata, pod.spec, pod.status
        group = about.annotations.get(GROUP_NAME)
        try:
            request = request_of(pod, self.registry)
        except (FieldError, ResourceError):
            request = ()
        state = _state(pod)
        reason, message = _trouble(pod, state)
        return PodSeen(
            _shared(about.namespace),
            about.name,
            _shared(f"{about.namespace}/{group}") if group else "",
            state,
            _shared(spec.node_name),
            self._requests(request),
            _shared(about.annotations.get(USER, "")),
            _shared(about.annotations.get(TASK_SPEC) or about.labels.get(TASK_SPEC) or ""),
            _shared(spec.scheduler_name),
            microseconds_of(about.creation_timestamp),
            microseconds_of(status.start_time),
            spec.priority or 0,
            _shared(reason),
            _shared(message),
        )

    def _node(self, node: api_types.Node) -> NodeSeen:
        status = node.status
        return NodeSeen(
            node.metadata.name,
            self._vector(status.allocatable or status.capacity) or (),
            all(one.status == "True" for one in status.conditions if one.type == "Ready"),
            not node.spec.unschedulable,
            microseconds_of(node.metadata.creation_timestamp),
            {_shared(name): _shared(value) for name, value in node.metadata.labels.items()},
            tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        )

    def _queue(self, queue: wire_shapes.Queue) -> QueueSeen:
        spec, status = describe("Queue", queue, registry=self.registry), queue.status
        assert isinstance(spec, Queue)
        return self.queue_seen(spec, status, queue.metadata.annotations)

    def queue_seen(self, spec: Queue, status: wire_shapes.QueueStatus, annotations: dict[str, str]) -> QueueSeen:
        """A queue from its spec and its status."""
        return QueueSeen(
            spec,
            status.state or "Open",
            self._vector(status.allocated),
            self._vector(status.entitled),
            tuple(
                NamespaceSeen(
                    str(each.get("name")),
                    _number(each.get("weight")),
                    self._vector(each.get("allocated")) or (),
                    self._vector(each.get("entitled")) or (),
                )
                for each in _mappings(status.namespaces)
            ),
            tuple(
                InnerNodeSeen(
                    str(each.get("path")),
                    self._vector(each.get("allocated")) or (),
                    self._vector(each.get("entitled")) or (),
                )
                for each in _mappings(status.inner_nodes)
            ),
            tuple(_condition(one) for one in status.conditions if one.status == "True" and one.type != OWN_STATE),
            status.scheduler if isinstance(status.scheduler, dict) else {},
            {name: text for name, text in annotations.items() if name != LAST_APPLIED},
        )

    def status_seen(self, spec: Queue, status: dict[str, Any]) -> QueueSeen:
        """A queue from its spec and a status that the scheduler would write."""
        return self.queue_seen(
            spec,
            wire_shapes.QueueStatus(
                state=spec.state.value,
                allocated=status.get("allocated"),
                entitled=status.get("entitled"),
                namespaces=status.get("namespaces"),
                inner_nodes=status.get("innerNodes"),
                scheduler=status.get("scheduler"),
            ),
            {},
        )

    def _vector(self, quantities: object) -> Vector | None:
        """The amounts of a resource list; None if there is none, or an invalid one."""
        if not isinstance(quantities, dict):
            return None
        try:
            return self.registry.vector(quantities, where="")
        except ResourceError:
            return None


def _group(group: wire_shapes.Group) -> GroupSeen:
    about, spec = group.metadata, group.spec
    owner = next(iter(about.owner_references), None)
    waits = next((one for one in group.status.conditions if one.type == "Unschedulable"), None)
    if waits is not None and waits.status != "True":
        waits = None
    return GroupSeen(
        _shared(about.namespace),
        about.name,
        owner.name if owner is not None else about.name,
        _shared(owner.kind) if owner is not None else "PodGroup",
        _shared(spec.queue or DEFAULT_QUEUE),
        _shared(about.annotations.get(USER, "")),
        _shared(group.status.phase or "Pending"),
        microseconds_of(about.creation_timestamp),
        spec.min_member,
        _shared(spec.priority_class_name),
        _condition(waits) if waits is not None else None,
    )


def _state(pod: wire_shapes.Pod) -> str:
    phase = pod.status.phase or "Pending"
    if phase in ("Succeeded", "Failed"):
        return phase.lower()
    if pod.metadata.deletion_timestamp is not None:
        return "ending"
    if not pod.spec.node_name:
        return "waiting"
    return {"Running": "running", "Pending": "starting"}.get(phase, "unknown")


def _trouble(pod: wire_shapes.Pod, state: str) -> tuple[str, str]:
    """Why a pod waits, failed or cannot start: reason and message."""
    status = pod.status
    if state in ("starting", "running"):
        for each in (*status.init_container_statuses, *status.container_statuses):
            waiting = each.state.waiting
            if waiting is not None and waiting.reason not in STARTING:
                return waiting.reason, waiting.message
    if state == "waiting":
        for one in status.conditions:
            if one.type == "PodScheduled" and one.status == "False":
                return one.reason, one.message
    return status.reason, status.message


def _condition(one: api_types.PodCondition) -> ConditionSeen:
    return ConditionSeen(one.type, one.reason, one.message, microseconds_of(one.last_transition_time))


def microseconds_of(time: datetime | None) -> int:
    """A time in microseconds since 1970; 0 if there is none."""
    return microseconds(time) if time is not None else 0


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _mappings(listed: object) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
