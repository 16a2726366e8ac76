"""Where a pod may run, the slow and obvious way: for one node, looking at every pod on every node.

Written from the documented behaviour of kube-scheduler's filters, in plain loops over specs, and sharing
nothing with the product but the descriptions of nodes and pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubebase.label_selector import Requirement
from pumice.model.specs import NodeSpec, PodTerm, Spread, Taint, TaskSpec, Toleration

Placed = Sequence[tuple[TaskSpec, str, bool]]
"""A pod, the name of its node, and whether it is being deleted."""


def may_run(pod: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], placed: Placed) -> dict[str, bool]:
    """The answer of every filter for one node."""
    return {
        "open": node.ready and not node.unschedulable,
        "selection": selected(pod, node),
        "taints": tolerated(pod, node),
        "ports": ports_free(pod, node, placed),
        "affinity": near(pod, node, nodes, placed),
        "anti-affinity": away(pod, node, nodes, placed),
        "others' anti-affinity": welcome(pod, node, nodes, placed),
        "volumes": volumes_usable(pod, node, placed),
        "spread": all(within_skew(s, pod, node, nodes, placed) for s in pod.constraints.spread if s.hard),
    }


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if key not in labels or not labels[key].isdecimal():
        return False
    return int(labels[key]) > int(values[0]) if operator == "Gt" else int(labels[key]) < int(values[0])


def picks(selector: tuple[Requirement, ...] | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(holds(requirement, labels) for requirement in selector)


def selected(pod: TaskSpec, node: NodeSpec) -> bool:
    constraints = pod.constraints
    for key, value in constraints.node_selector:
        if node.labels.get(key) != value:
            return False
    if constraints.node_required is None:
        return True
    for term in constraints.node_required:
        fields = {"metadata.name": node.name}
        if (term.labels or term.fields) and picks(term.labels, node.labels) and picks(term.fields, fields):
            return True
    return False


def volumes_usable(pod: TaskSpec, node: NodeSpec, placed: Placed) -> bool:
    demand = pod.constraints.volumes
    if demand is None:
        return True
    fields = {"metadata.name": node.name}
    for volume in demand.nodes:
        terms = [term for term in volume.terms if term.labels or term.fields]
        if not any(picks(term.labels, node.labels) and picks(term.fields, fields) for term in terms):
            return False
    if demand.waits_for or any(set(demand.exclusive) & set(_exclusive(other)) for other, _, _ in placed):
        return False
    here = [other for other, where, _ in placed if where == node.name]
    for attachment in demand.attached:
        before, after = _attached(here, attachment.driver), _attached([*here, pod], attachment.driver)
        limit = dict(node.volume_limits).get(attachment.driver)
        if limit is not None and after > max(limit, before):
            return False
    return True


def _exclusive(pod: TaskSpec) -> tuple[str, ...]:
    return pod.constraints.volumes.exclusive if pod.constraints.volumes is not None else ()


def _attached(pods: Sequence[TaskSpec], driver: str) -> int:
    """How many volumes of a driver these pods attach to a node that they share."""
    found = [each for pod in pods if pod.constraints.volumes for each in pod.constraints.volumes.attached]
    mine = [each for each in found if each.driver == driver]
    return sum(each.private for each in mine) + len({volume for each in mine for volume in each.shared})


def covers(toleration: Toleration, taint: Taint) -> bool:
    same_effect = toleration.effect in ("", taint.effect)
    same_key = toleration.key in ("", taint.key)
    same_value = toleration.operator == "Exists" or toleration.value == taint.value
    return same_effect and same_key and same_value


def tolerated(pod: TaskSpec, node: NodeSpec) -> bool:
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not any(covers(t, taint) for t in pod.constraints.tolerations):
            return False
    return True


def ports_free(pod: TaskSpec, node: NodeSpec, placed: Placed) -> bool:
    for other, where, _ in placed:
        if where == node.name:
            for protocol, address, port in other.constraints.ports:
                for my_protocol, my_address, my_port in pod.constraints.ports:
                    if (protocol, port) == (my_protocol, my_port) and (
                        address in (my_address, "0.0.0.0") or my_address == "0.0.0.0"
                    ):
                        return False
    return True


def chosen(term: PodTerm, pod: TaskSpec) -> bool:
    return (term.namespaces is None or pod.namespace in term.namespaces) and picks(term.selector, pod.labels)


def domain(name: str, key: str, nodes: Sequence[NodeSpec]) -> str | None:
    for node in nodes:
        if node.name == name:
            return node.labels.get(key)
    return None


def near(pod: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], placed: Placed) -> bool:
    terms = pod.constraints.affinity
    if not terms:
        return True
    if any(term.topology_key not in node.labels for term in terms):
        return False
    company = [where for other, where, _ in placed if all(chosen(term, other) for term in terms)]
    found = [
        any(domain(where, term.topology_key, nodes) == node.labels[term.topology_key] for where in company)
        for term in terms
    ]
    if all(found):
        return True
    anywhere = any(domain(where, t.topology_key, nodes) is not None for where in company for t in terms)
    return not anywhere and all(chosen(term, pod) for term in terms)


def away(pod: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], placed: Placed) -> bool:
    for term in pod.constraints.anti_affinity:
        here = node.labels.get(term.topology_key)
        for other, where, _ in placed:
            if here is not None and chosen(term, other) and domain(where, term.topology_key, nodes) == here:
                return False
    return True


def welcome(pod: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], placed: Placed) -> bool:
    for other, where, _ in placed:
        for term in other.constraints.anti_affinity:
            here = node.labels.get(term.topology_key)
            if here is not None and chosen(term, pod) and domain(where, term.topology_key, nodes) == here:
                return False
    return True


def within_skew(spread: Spread, pod: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], placed: Placed) -> bool:
    key = spread.topology_key
    if key not in node.labels:
        return False
    counts = spread_counts(spread, pod, nodes, placed)
    least = min(counts.values()) if counts and len(counts) >= spread.min_domains else 0
    itself = 1 if picks(spread.selector, pod.labels) else 0
    return counts.get(node.labels[key], 0) + itself - least <= spread.max_skew


def spread_counts(spread: Spread, pod: TaskSpec, nodes: Sequence[NodeSpec], placed: Placed) -> dict[str, int]:
    """Pods that count in each domain that counts."""
    counts: dict[str, int] = {}
    for node in nodes:
        if any(s.hard is spread.hard and s.topology_key not in node.labels for s in pod.constraints.spread):
            continue
        if spread.honor_affinity and not selected(pod, node):
            continue
        if spread.honor_taints and not tolerated(pod, node):
            continue
        value = node.labels[spread.topology_key]
        counts.setdefault(value, 0)
        for other, where, deleted in placed:
            same = other.namespace == pod.namespace and picks(spread.selector, other.labels)
            if where == node.name and same and not deleted:
                counts[value] += 1
    return counts
