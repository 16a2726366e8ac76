"""Queues, and what their ``spec.hierarchy`` says about the queues below them.

A parameter of a hierarchy entry is a field of the Queue spec, by its name there, and is checked as that field
is. Its value is kept as the model has it: numbers and booleans as such, resource lists (and ``guarantee``) as
the amounts they name. Expanding the entries into queues is not done here.
"""

from __future__ import annotations

import math

from msgspec.structs import fields

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry
from kubebase.timestamps import moment_of
from pumice.kube.decode import api_types
from pumice.kube.decode.placement import PREFERRED, REQUIRED
from pumice.kube.decode.struct_decode import one_of, read
from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS, WEIGHTS_WRITTEN, HierarchyError, parse_path
from pumice.model.specs import ROOT, GroupAffinity, HierarchyEntry, Items, Queue, QueueState

STRATEGIES = ("fifo", "traverse")
LATEST = "9000"
"""A moment after this year is a mistake, and admission could write none that is later."""

# The place of an entry says who its parent is and what lies below; everything else may be a parameter.
PARAMETERS = {
    field.encode_name: field.type
    for field in fields(api_types.QueueSpec)
    if field.encode_name not in {"parent", "hierarchy"}
}


def queue(manifest: api_types.Queue, created: int, registry: Registry) -> Queue:
    """The queue that an object describes."""
    spec, name = manifest.spec, manifest.metadata.name
    path, path_weights = _path(manifest)
    seen = {ROOT: "the top of the tree", name: "metadata.name"}
    _check_user_limit_factor(spec.user_limit_factor, "spec.userLimitFactor")
    return Queue(
        name=name,
        created=created,
        weight=spec.weight,
        parent=spec.parent or None,
        path=path,
        path_weights=path_weights,
        weights_written=_weights_written(manifest),
        state=_state(manifest.status.state),
        priority=spec.priority,
        reclaimable=spec.reclaimable,
        fifo=_strategy(spec.dequeue_strategy, "spec.dequeueStrategy") == "fifo",
        capability=_amounts(spec.capability, "spec.capability", registry),
        deserved=_amounts(spec.deserved, "spec.deserved", registry),
        guarantee=_amounts(spec.guarantee.resource, "spec.guarantee.resource", registry),
        min_user_limit_percent=spec.min_user_limit_percent,
        user_limit_factor=spec.user_limit_factor,
        affinity=_affinity(spec.affinity, "spec.affinity"),
        hierarchy=_entries(spec.hierarchy, "spec.hierarchy", seen, registry),
    )


def _path(manifest: api_types.Queue) -> tuple[str | None, str | None]:
    annotations = manifest.metadata.annotations
    path, weights = annotations.get(HIERARCHY) or None, annotations.get(HIERARCHY_WEIGHTS) or None
    if path is not None:
        try:
            parse_path(path, weights, manifest.spec.weight)
        except HierarchyError as error:
            raise FieldError(error.field, str(error)) from None
    elif weights is not None:
        raise FieldError(
            f"metadata.annotations[{HIERARCHY_WEIGHTS}]",
            f"Forbidden: weights {weights!r} need a path; add the annotation {HIERARCHY}",
        )
    return path, weights


def _weights_written(manifest: api_types.Queue) -> int:
    """When the path or its weights were last written; 0 if the annotation is absent or invalid."""
    text = manifest.metadata.annotations.get(WEIGHTS_WRITTEN, "")
    try:
        return max(0, moment_of(text)) if text < LATEST else 0
    except (ValueError, OverflowError):
        return 0


def _state(text: str) -> QueueState:
    known = [state.value for state in QueueState]
    return QueueState(one_of(text, known, "status.state")) if text else QueueState.OPEN


def _strategy(text: str, where: str) -> str:
    return one_of(text, STRATEGIES, where) if text else "traverse"


def _check_user_limit_factor(factor: float | None, where: str) -> None:
    if factor is not None and factor != -1 and not (0 < factor < math.inf):
        raise FieldError(where, f"Invalid value: {factor}: must be greater than 0, or -1 for no limit")


def _amounts(quantities: api_types.Quantities, where: str, registry: Registry) -> Items:
    """The amounts of a resource list, zeros included: a limit of 0 is a limit."""
    vector = registry.vector(quantities, where=where) if quantities else ()
    named = {registry.index(name) for name in quantities}
    return tuple((j, amount) for j, amount in enumerate(vector) if j in named)


def _affinity(affinity: api_types.QueueAffinity | None, where: str) -> GroupAffinity | None:
    """The groups of nodes that a queue names; None: none, so that it goes by the queue above it."""
    if affinity is None:
        return None
    near, away = affinity.node_group_affinity, affinity.node_group_anti_affinity
    found = GroupAffinity(
        required=_groups(near.required, f"{where}.nodeGroupAffinity.{REQUIRED}"),
        preferred=_groups(near.preferred, f"{where}.nodeGroupAffinity.{PREFERRED}"),
        required_anti=_groups(away.required, f"{where}.nodeGroupAntiAffinity.{REQUIRED}"),
        preferred_anti=_groups(away.preferred, f"{where}.nodeGroupAntiAffinity.{PREFERRED}"),
    )
    return found if found != GroupAffinity() else None


def _groups(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    for i, name in enumerate(names):
        if not name:
            raise FieldError(f"{where}[{i}]", "Required value: the name of a node group")
    return tuple(sorted(set(names)))


# ---- spec.hierarchy ----------------------------------------------------------------------------------------


def _entries(
    entries: tuple[api_types.HierarchyEntry, ...], where: str, seen: dict[str, str], registry: Registry
) -> tuple[HierarchyEntry, ...]:
    return tuple(_entry(entry, f"{where}[{i}]", seen, registry) for i, entry in enumerate(entries))


def _entry(entry: api_types.HierarchyEntry, where: str, seen: dict[str, str], registry: Registry) -> HierarchyEntry:
    """One entry with all entries below it. ``seen`` has the location of each name: all become queues."""
    if not entry.name or "/" in entry.name or not entry.name.isprintable():
        raise FieldError(f"{where}.name", f"Invalid value: {entry.name!r}: must be a queue name such as dev")
    if entry.name in seen:
        raise FieldError(f"{where}.name", f"Duplicate value: {entry.name!r}: already used at {seen[entry.name]}")
    seen[entry.name] = f"{where}.name"
    return HierarchyEntry(
        name=entry.name,
        parameters=_parameters(entry.parameters, f"{where}.parameters", registry),
        hierarchy=_entries(entry.hierarchy, f"{where}.hierarchy", seen, registry),
    )


def _parameters(
    parameters: tuple[api_types.Parameter, ...], where: str, registry: Registry
) -> tuple[tuple[str, object], ...]:
    found: dict[str, object] = {}
    for i, parameter in enumerate(parameters):
        name = one_of(parameter.name, PARAMETERS, f"{where}[{i}].name")
        if name in found:
            raise FieldError(f"{where}[{i}].name", f"Duplicate value: {name!r}")
        found[name] = read_parameter(name, parameter.value, f"{where}[{i}].value", registry)
    return tuple(sorted(found.items()))


def read_parameter(name: str, value: object, where: str, registry: Registry) -> object:
    """The value of a parameter, or of the field that it sets, as the model has it."""
    known = read(value, PARAMETERS[name], where=where, strict=not isinstance(value, str))
    match name:
        case "capability" | "deserved":
            return _amounts(known, where, registry)
        case "guarantee":
            return _amounts(known.resource, f"{where}.resource", registry)
        case "dequeueStrategy":
            return _strategy(known, where)
        case "affinity":
            return _affinity(known, where)
        case "userLimitFactor":
            _check_user_limit_factor(known, where)
    return known
