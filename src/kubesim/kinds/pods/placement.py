"""Validation of scheduling constraints: node selectors, tolerations, affinity, topology spread, scheduling gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, duplicate, forbidden, invalid, required, unsupported
from kubesim.api.metadata import check_label_key, check_label_value
from kubesim.kinds.pods import names
from kubesim.kinds.selectors import NO_OPERATOR, check_requirement, check_selector
from kubesim.registry.registry import Object

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
INCLUSION: Final = ("Honor", "Ignore")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
GIVEN: Final[tuple[Object, ...]] = tuple(
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
)
"""The default tolerations of every pod: how long it stays bound to an unavailable node."""


def check_placement(spec: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of where a pod wants to go."""
    for key, value in spec.get("nodeSelector", {}).items():
        yield from check_label_key(key, f"{field}.nodeSelector")
        yield from check_label_value(key, value, f"{field}.nodeSelector")
    for index, toleration in enumerate(spec.get("tolerations", ())):
        if toleration not in GIVEN:  # which are right, and all that most pods have
            yield from _check_toleration(toleration, f"{field}.tolerations[{index}]")
    if "affinity" in spec:
        yield from _check_affinity(spec["affinity"], f"{field}.affinity")
    if "topologySpreadConstraints" in spec:
        yield from _check_spread(spec["topologySpreadConstraints"], f"{field}.topologySpreadConstraints")
    if "schedulingGates" in spec:
        seen: set[str] = set()
        for index, gate in enumerate(spec["schedulingGates"]):
            name = gate.get("name", "")
            yield from check_label_key(name, f"{field}.schedulingGates[{index}]")
            if name in seen:
                yield duplicate(f"{field}.schedulingGates[{index}]", name)
            seen.add(name)


# ---- tolerations ------------------------------------------------------------------------------------------


def _check_toleration(toleration: Object, field: str) -> Iterator[FieldProblem]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        yield from check_label_key(key, f"{field}.key")
    elif operator != "Exists":
        yield invalid(
            f"{field}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in {"", "Equal"}:
        yield from check_label_value(key, value, f"{field}.operator")
    elif operator == "Exists":
        if value:
            yield invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists"))
    if effect:
        yield from names.check_choice(effect, f"{field}.effect", EFFECTS)


# ---- selectors --------------------------------------------------------------------------------------------


def _check_node_term(term: Object, field: str) -> Iterator[FieldProblem]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from check_requirement(requirement, f"{field}.matchExpressions[{index}]", numeric=True)
    for index, requirement in enumerate(term.get("matchFields", ())):
        where = f"{field}.matchFields[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values", [])
        if operator not in {"In", "NotIn"}:
            yield invalid(f"{where}.operator", operator, NO_OPERATOR)
        elif len(values) != 1:
            yield required(
                f"{where}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        if requirement.get("key") != "metadata.name":
            yield invalid(f"{where}.key", requirement.get("key", ""), "not a valid field selector key")
        elif len(values) == 1:
            yield from names.check_subdomain(values[0], f"{where}.values[0]")


# ---- affinity ---------------------------------------------------------------------------------------------


def _check_affinity(affinity: Object, field: str) -> Iterator[FieldProblem]:
    if "nodeAffinity" in affinity:
        where = f"{field}.nodeAffinity"
        nodes: Object = affinity["nodeAffinity"]
        if REQUIRED in nodes:
            terms = nodes[REQUIRED].get("nodeSelectorTerms")
            if not terms:
                yield required(f"{where}.{REQUIRED}.nodeSelectorTerms", "must have at least one node selector term")
            for index, term in enumerate(terms or ()):
                yield from _check_node_term(term, f"{where}.{REQUIRED}.nodeSelectorTerms[{index}]")
        for index, preferred in enumerate(nodes.get(PREFERRED, ())):
            yield from _check_weight(preferred, f"{where}.{PREFERRED}[{index}]")
            yield from _check_node_term(preferred.get("preference", {}), f"{where}.{PREFERRED}[{index}].preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            where = f"{field}.{kind}"
            for index, term in enumerate(affinity[kind].get(REQUIRED, ())):
                yield from _check_pod_term(term, f"{where}.{REQUIRED}[{index}]")
            for index, preferred in enumerate(affinity[kind].get(PREFERRED, ())):
                yield from _check_weight(preferred, f"{where}.{PREFERRED}[{index}]")
                yield from _check_pod_term(
                    preferred.get("podAffinityTerm", {}), f"{where}.{PREFERRED}[{index}].podAffinityTerm"
                )


def _check_weight(preferred: Object, field: str) -> Iterator[FieldProblem]:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid(f"{field}.weight", weight, "must be in the range 1-100")


def _check_pod_term(term: Object, field: str) -> Iterator[FieldProblem]:
    for selector in ("labelSelector", "namespaceSelector"):
        if selector in term:
            yield from check_selector(term[selector], f"{field}.{selector}")
    for name in term.get("namespaces", ()):
        yield from names.check_label(name, f"{field}.namespace")
    yield from _check_keys(term, "matchLabelKeys", field)
    yield from _check_keys(term, "mismatchLabelKeys", field)
    for index, key in enumerate(term.get("matchLabelKeys", ())):
        if key in term.get("mismatchLabelKeys", ()):
            yield invalid(
                f"{field}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"
            )
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from check_label_key(key, f"{field}.topologyKey")


def _check_keys(found: Object, which: str, field: str) -> Iterator[FieldProblem]:
    keys = found.get(which)
    if not keys:
        return
    if "labelSelector" not in found:
        yield forbidden(f"{field}.{which}", "must not be specified when labelSelector is not set")
        return
    for index, key in enumerate(keys):
        yield from check_label_key(key, f"{field}.{which}[{index}]")


# ---- topology spread --------------------------------------------------------------------------------------


def _check_spread(constraints: list[Object], field: str) -> Iterator[FieldProblem]:
    seen: dict[tuple[str, str], int] = {}
    for index, constraint in enumerate(constraints):
        where = f"{field}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        topology, otherwise = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not topology:
            yield required(f"{where}.topologyKey", "can not be empty")
        yield from names.check_choice(otherwise, f"{where}.whenUnsatisfiable", UNSATISFIABLE)
        pair = (topology, otherwise)
        if pair in seen:
            shown = "{" + ", ".join(pair) + "}"
            yield duplicate(f"{field}[{seen[pair]}].{{topologyKey, whenUnsatisfiable}}", shown)
        seen.setdefault(pair, index)
        if "minDomains" in constraint:
            domains = constraint["minDomains"]
            if domains <= 0:
                yield invalid(f"{where}.minDomains", domains, "must be greater than zero")
            if otherwise != "DoNotSchedule":
                yield invalid(
                    f"{where}.minDomains",
                    domains,
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}",
                )
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if policy in constraint:
                yield from names.check_choice(constraint[policy], f"{where}.{policy}", INCLUSION)
        yield from _check_keys(constraint, "matchLabelKeys", where)
        if "labelSelector" in constraint:
            yield from check_selector(constraint["labelSelector"], f"{where}.labelSelector")
