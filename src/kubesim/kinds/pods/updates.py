"""The fields of a pod's spec that may change: images, shorter deadlines, more tolerations, fewer scheduling gates.

While scheduling gates hold a pod back, its node selector and node affinity may also be narrowed. Every other field is
immutable; in particular, only a binding sets the node.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any, Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required
from kubesim.kinds.pods.placement import REQUIRED
from kubesim.registry.registry import Object

IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
LONGEST_DEADLINE: Final = 2**31 - 1
_SHOWN: Final = 10
_WIDTH: Final = 100


def check_spec_update(new: Object, old: Object) -> Iterator[FieldProblem]:
    """The problems of the change from one spec of a pod to the next."""
    if new == old:
        return
    faults = [
        forbidden(f"spec.{which}", "pod updates may not add or remove containers")
        for which in ("containers", "initContainers")
        if len(new.get(which, ())) != len(old.get(which, ()))
    ]
    faults = faults or [
        required(f"spec.{which}[{index}].image")
        for which in ("containers", "initContainers")
        for index, container in enumerate(new.get(which, ()))
        if not container.get("image")
    ]
    if faults:
        yield from faults
        return
    yield from _check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _check_tolerations(new.get("tolerations", []), old.get("tolerations", []))
    yield from _check_gates(new.get("schedulingGates", []), old.get("schedulingGates", []))
    allowed = _with_allowed_changes(new, old)
    if old.get("schedulingGates"):
        yield from _check_gated(new, old, allowed)
    if allowed != new:
        changes = list(islice(_changes(allowed, new, "spec"), _SHOWN + 1))
        if len(changes) > _SHOWN:
            changes[_SHOWN] = "..."
        yield forbidden("spec", "\n".join([IMMUTABLE, *changes]))


def _with_allowed_changes(new: Object, old: Object) -> Object:
    """The old spec with the mutable fields of the new one."""
    allowed = dict(old)
    for which in ("containers", "initContainers"):
        if which in old:
            allowed[which] = [
                {**before, "image": after["image"]} for before, after in zip(old[which], new[which], strict=True)
            ]
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take(allowed, new, field)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        allowed["terminationGracePeriodSeconds"] = 1
    return allowed


def _take(allowed: Object, new: Object, field: str) -> None:
    if field in new:
        allowed[field] = new[field]
    else:
        allowed.pop(field, None)


def _check_deadline(new: int | None, old: int | None) -> Iterator[FieldProblem]:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(field, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= LONGEST_DEADLINE:
        yield invalid(field, new, f"must be between 0 and {LONGEST_DEADLINE}, inclusive")
    elif old is not None and new > old:
        yield invalid(field, new, "must be less than or equal to previous value")


def _check_tolerations(new: list[Object], old: list[Object]) -> Iterator[FieldProblem]:
    kept = {_without_seconds(toleration) for toleration in new}
    if any(_without_seconds(toleration) not in kept for toleration in old):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _without_seconds(toleration: Object) -> Hashable:
    return frozenset((key, value) for key, value in toleration.items() if key != "tolerationSeconds")


def _check_gates(new: list[Object], old: list[Object]) -> Iterator[FieldProblem]:
    known = {gate.get("name", "") for gate in old}
    for index, gate in enumerate(new):
        name = gate.get("name", "")
        if name not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", detail)


# ---- while gated ------------------------------------------------------------------------------------------


def _check_gated(new: Object, old: Object, allowed: Object) -> Iterator[FieldProblem]:
    """The node selector and the required node affinity may only get narrower; preferences are free."""
    selector, before = new.get("nodeSelector", {}), old.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in before.items()):
        yield invalid(
            "spec.nodeSelector",
            selector or None,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )
    _take(allowed, new, "nodeSelector")
    nodes, nodes_before = _node_affinity(new), _node_affinity(old)
    if nodes == nodes_before:
        return
    if REQUIRED in nodes_before:
        yield from _check_narrower(nodes.get(REQUIRED), nodes_before[REQUIRED])
    affinity = {key: value for key, value in old.get("affinity", {}).items() if key != "nodeAffinity"}
    if "nodeAffinity" in new.get("affinity", {}):
        affinity["nodeAffinity"] = nodes
    allowed["affinity"] = affinity
    if not affinity and "affinity" not in new:
        del allowed["affinity"]


def _node_affinity(spec: Object) -> Object:
    found: Object = spec.get("affinity", {}).get("nodeAffinity", {})
    return found


def _check_narrower(new: Object | None, old: Object) -> Iterator[FieldProblem]:
    field = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    terms: list[Object] = (new or {}).get("nodeSelectorTerms", [])
    before: list[Object] = old.get("nodeSelectorTerms", [])
    if len(terms) != len(before):
        yield invalid(field, terms or None, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, earlier) in enumerate(zip(terms, before, strict=True)):
        for which in ("matchExpressions", "matchFields"):
            was = earlier.get(which, [])
            if term.get(which, [])[: len(was)] != was:
                yield invalid(f"{field}[{index}]", term, "only additions are allowed (no mutations or deletions)")
                break


# ---- telling the difference -------------------------------------------------------------------------------


def _changes(old: Any, new: Any, field: str) -> Iterator[str]:
    """A line for every value that differs, with both of its versions."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield from _changes(old.get(key), new.get(key), f"{field}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                yield from _changes(before, after, f"{field}[{index}]")
    else:
        yield f"  {field}: {_shown(old)} -> {_shown(new)}"


def _shown(value: object) -> str:
    text = "unset" if value is None else json.dumps(value, separators=(",", ":"))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
