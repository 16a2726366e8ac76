"""Where a pod may run: selectors, affinity, tolerations, ports and spreading as the model's ``Constraints``.

Whatever is a set in Kubernetes (labels, requirements, tolerations, ports) is sorted, so that pods which ask
for the same compare equal however they were written; equal constraints are one object, and pods that ask for
nothing share ``FREE``.

Preferred pod affinity and anti-affinity are not read. How long a taint is tolerated (``tolerationSeconds``)
is the business of the node controller, not of placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kubebase.field_error import FieldError
from pumice.kube.decode import api_types
from pumice.kube.decode.struct_decode import one_of
from pumice.kube.selectors import label_selector, node_term, own_labels
from pumice.model.specs import FREE, Constraints, NodeTerm, PodTerm, Spread, Toleration

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PROTOCOLS = ("TCP", "UDP", "SCTP")

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Labels = Mapping[str, str]
Ports = tuple[tuple[str, str, int], ...]


def constraints(spec: api_types.PodSpec, namespace: str, labels: Labels) -> Constraints:
    """Where a pod that we place may run."""
    ports = _host_ports(spec)
    affinity, spread = spec.affinity, spec.topology_spread_constraints
    if not (ports or spec.node_selector or affinity or spread):
        return _tolerating(spec.tolerations)
    affinity = affinity or api_types.Affinity()
    return _interned(
        Constraints(
            node_selector=tuple(sorted(spec.node_selector.items())),
            node_required=_node_required(affinity.node_affinity.required),
            node_preferred=_node_preferred(affinity.node_affinity.preferred),
            tolerations=_tolerations(spec.tolerations),
            ports=ports,
            affinity=_pod_terms(affinity.pod_affinity, "podAffinity", namespace, labels),
            anti_affinity=_pod_terms(affinity.pod_anti_affinity, "podAntiAffinity", namespace, labels),
            spread=tuple(_spread(s, labels, f"spec.topologySpreadConstraints[{i}]") for i, s in enumerate(spread)),
        )
    )


def claims(spec: api_types.PodSpec, namespace: str, labels: Labels) -> Constraints:
    """How a pod that somebody else places keeps ours away: by its ports and its anti-affinity, nothing else.

    A pod that is there must be seen, so a namespace selector (not supported) counts as all namespaces here.
    """
    ports = _host_ports(spec)
    away: tuple[PodTerm, ...] = ()
    if spec.affinity is not None:
        away = _pod_terms(spec.affinity.pod_anti_affinity, "podAntiAffinity", namespace, labels, widen=True)
    return _interned(Constraints(ports=ports, anti_affinity=away)) if ports or away else FREE


@lru_cache(maxsize=1 << 14)
def _interned(constraints: Constraints) -> Constraints:
    return constraints  # the first of all that are equal


# ---- nodes -------------------------------------------------------------------------------------------------


def _node_required(selector: api_types.NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    if selector is None:
        return None
    where = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        raise FieldError(where, "Required value: an empty list matches no node; add at least one term")
    terms = [node_term(term, f"{where}[{i}]") for i, term in enumerate(selector.node_selector_terms)]
    # A term that says nothing matches no node: the others decide, and if there are none nobody does.
    return tuple(term for term in terms if term is not None)


def _node_preferred(preferred: tuple[api_types.PreferredNodes, ...]) -> tuple[NodeTerm, ...]:
    where = f"spec.affinity.nodeAffinity.{PREFERRED}"
    terms = [node_term(p.preference, f"{where}[{i}].preference", p.weight) for i, p in enumerate(preferred)]
    return tuple(term for term in terms if term is not None)


@lru_cache(maxsize=1 << 12)  # the API server gives nearly every pod the same two
def _tolerating(tolerations: tuple[api_types.Toleration, ...]) -> Constraints:
    """The constraints of a pod that has tolerations and nothing else, or not even these."""
    return _interned(Constraints(tolerations=_tolerations(tolerations))) if tolerations else FREE


@lru_cache(maxsize=1 << 12)
def _tolerations(tolerations: tuple[api_types.Toleration, ...]) -> tuple[Toleration, ...]:
    found = {_toleration(toleration, f"spec.tolerations[{i}]") for i, toleration in enumerate(tolerations)}
    return tuple(sorted(found, key=lambda t: (t.key, t.operator, t.value, t.effect)))


def _toleration(toleration: api_types.Toleration, where: str) -> Toleration:
    key, value, effect = toleration.key, toleration.value, toleration.effect
    operator = one_of(toleration.operator or "Equal", ("Equal", "Exists"), f"{where}.operator")
    if operator == "Equal" and not key:
        raise FieldError(
            f"{where}.key", "Required value: the operator Equal needs a key; use Exists to tolerate every taint"
        )
    if operator == "Exists" and value:
        raise FieldError(f"{where}.value", f"Invalid value: {value!r}: must be empty when operator is Exists")
    if effect:
        one_of(effect, EFFECTS, f"{where}.effect")
    return Toleration(key, operator, value, effect)


def _host_ports(spec: api_types.PodSpec) -> Ports:
    ports: Ports = ()
    for i, container in enumerate(spec.containers):
        if container.ports:
            ports += _ports_of(container, spec.host_network, f"spec.containers[{i}]")
    for i, container in enumerate(spec.init_containers):
        # Other init containers are gone when the pod is up; a sidecar keeps its ports.
        if container.ports and container.restart_policy == "Always":
            ports += _ports_of(container, spec.host_network, f"spec.initContainers[{i}]")
    return tuple(sorted(set(ports))) if ports else ()


def _ports_of(container: api_types.Container, host_network: bool, where: str) -> Ports:
    ports: Ports = ()
    for i, port in enumerate(container.ports):
        # On the host's network every port is one of the node; the API server fills that in, a file may not.
        number = port.host_port or (port.container_port if host_network else 0)
        if number:
            protocol = one_of(port.protocol or "TCP", PROTOCOLS, f"{where}.ports[{i}].protocol")
            ports += ((protocol, port.host_ip or "0.0.0.0", number),)
    return ports


# ---- other pods --------------------------------------------------------------------------------------------


def _pod_terms(
    affinity: api_types.PodAffinity, name: str, namespace: str, labels: Labels, *, widen: bool = False
) -> tuple[PodTerm, ...]:
    where = f"spec.affinity.{name}.{REQUIRED}"
    return tuple(
        PodTerm(
            topology_key=_topology_key(term.topology_key, f"{where}[{i}].topologyKey"),
            selector=label_selector(
                term.label_selector,
                own_labels(term.match_label_keys, "In", labels) + own_labels(term.mismatch_label_keys, "NotIn", labels),
                f"{where}[{i}].labelSelector",
            ),
            namespaces=_namespaces(term, namespace, f"{where}[{i}].namespaceSelector", widen),
        )
        for i, term in enumerate(affinity.required)
    )


def _namespaces(term: api_types.PodAffinityTerm, own: str, where: str, widen: bool) -> tuple[str, ...] | None:
    selector = term.namespace_selector
    if selector is None:
        return tuple(sorted(set(term.namespaces))) or (own,)
    if (selector.match_labels or selector.match_expressions) and not widen:
        raise FieldError(
            where,
            (
                "Forbidden: selecting namespaces by label is not supported; use {} for all namespaces, or "
                "list names in 'namespaces'"
            ),
        )
    return None


def _spread(constraint: api_types.TopologySpread, labels: Labels, where: str) -> Spread:
    answers = ("DoNotSchedule", "ScheduleAnyway")
    policies = ("Honor", "Ignore")
    answer = one_of(constraint.when_unsatisfiable, answers, f"{where}.whenUnsatisfiable")
    affinity = one_of(constraint.node_affinity_policy, policies, f"{where}.nodeAffinityPolicy")
    taints = one_of(constraint.node_taints_policy, policies, f"{where}.nodeTaintsPolicy")
    own = own_labels(constraint.match_label_keys, "In", labels)
    return Spread(
        topology_key=_topology_key(constraint.topology_key, f"{where}.topologyKey"),
        max_skew=constraint.max_skew,
        selector=label_selector(constraint.label_selector, own, f"{where}.labelSelector"),
        hard=answer == "DoNotSchedule",
        min_domains=constraint.min_domains,
        honor_affinity=affinity == "Honor",
        honor_taints=taints == "Honor",
    )


def _topology_key(key: str, where: str) -> str:
    if not key:
        raise FieldError(where, "Required value: name a node label such as kubernetes.io/hostname")
    return key
