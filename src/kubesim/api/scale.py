"""The ``scale`` subresource: desired and current replicas of any kind that declares where it keeps them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.api.requests import Target
from kubesim.api.writes import Edit
from kubesim.apply import APPLY, ApplyRequest, FieldManager
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.kinds.selectors import shown
from kubesim.registry.registry import Object, Path, Resource, TableColumn
from kubesim.schema import Schema
from kubesim.storage import Record
from kubesim.tables import AGE, NAME

IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _schema() -> Object:
    from kubesim.openapi.components import SHAPES

    return expand_schema(SHAPES, "Scale")


SCALE = Resource(
    group="autoscaling",
    version="v1",
    plural="scales",
    kind="Scale",
    namespaced=True,
    schema=Schema.sound(_schema),
    columns=(
        TableColumn("Name", NAME.value, description=NAME.description),
        TableColumn("Desired", lambda found: found["spec"].get("replicas", 0), "integer", description="Those wanted."),
        TableColumn("Available", lambda found: found["status"]["replicas"], "integer", description="Those there are."),
        AGE,
    ),
)
"""The kind Scale. It is only a view of other kinds, so it is not in the registry."""


def scale_of(resource: Resource, found: Object) -> Object:
    """The Scale of an object."""
    where = resource.scale
    assert where is not None  # a resource with this subresource declares the paths
    about = {name: found["metadata"][name] for name in IDENTITY if name in found["metadata"]}
    counted = _at(found, where.there)
    there: Object = {"replicas": counted if isinstance(counted, int) else 0}
    selector = _at(found, where.selector) if where.selector else None
    if selector and isinstance(selector, dict | str):
        if where.selects_labels:
            selector = {"matchLabels": selector}
        there["selector"] = shown(selector) if isinstance(selector, dict) else selector
    wanted = _at(found, where.wanted)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": about,
        "spec": {"replicas": wanted} if wanted else {},
        "status": there,
    }


def as_record(resource: Resource, record: Record) -> Record:
    """The Scale of an object that is stored."""
    scale = scale_of(resource, msgspec.json.decode(record.value))
    return Record(record.key, record.revision, msgspec.json.encode(scale))


def require_number(resource: Resource, record: Record) -> None:
    """Reject an object whose number of replicas is not set: it has no scale."""
    assert resource.scale is not None
    if not isinstance(_at(msgspec.json.decode(record.value), resource.scale.wanted), int):
        words = f'the spec replicas field "{_dotted(resource.scale.wanted)}" does not exist'
        raise status.ApiError(404, "NotFound", words)


def scaled(target: Target, edit: Callable[[Object], Object], *, replaces: bool) -> Edit:
    """The edit of an object for an edit of its Scale."""
    where = target.resource.scale
    assert where is not None

    def edited(old: Object) -> Object:
        scale = edit(scale_of(target.resource, old))
        try:
            replicas, about = _read(scale, target)
        except status.ApiError as error:
            if replaces or error.code != 400:
                raise
            raise status.unusable_patch(error.message) from None
        if about.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            detail = f"Precondition failed: UID in precondition: {about['uid']}, UID in object meta: "
            raise status.conflict(
                target.resource.plural, target.resource.group, target.name, detail + str(old["metadata"]["uid"])
            )
        new = copy.deepcopy(old)
        new["metadata"] |= {name: about[name] for name in ("name", "namespace", "resourceVersion") if name in about}
        return _put(new, where.wanted, replicas)

    return edited


def applied(target: Target, scale: Object, manager: str, *, force: bool) -> ApplyRequest:
    """The apply request to an object for an apply request to its Scale."""
    where = target.resource.scale
    assert where is not None
    replicas, about = _read(scale, target)
    kept = {name: about[name] for name in ("name", "namespace") if name in about}
    whole = {"apiVersion": target.resource.api_version, "kind": target.resource.kind, "metadata": kept}
    owner = FieldManager(APPLY, manager, target.resource.api_version, "scale")
    return ApplyRequest(target.resource.schema, owner, _put(whole, where.wanted, replicas), force=force)


def _read(scale: Object, target: Target) -> tuple[int, Object]:
    """How many are wanted by a Scale, and its metadata."""
    kind, version = scale.get("kind") or "Scale", scale.get("apiVersion") or SCALE.api_version
    if (kind, version) != ("Scale", SCALE.api_version):
        name = str(version).rpartition("/")[2]
        raise status.bad_request(f'{kind} in version "{name}" cannot be handled as a Scale: it is {version} {kind}')
    about = scale.get("metadata") or {}
    mistyped = SCALE.schema.mistyped(scale)
    if mistyped or not isinstance(about, dict):
        detail = "; ".join(str(problem) for problem in mistyped) or "metadata is not an object"
        raise status.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {detail}')
    if about.get("namespace", target.namespace) != target.namespace:
        words = "the namespace of the provided object does not match the namespace sent on the request"
        raise status.bad_request(words)
    replicas: int = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        resource = target.resource if target.resource.custom else SCALE
        raise status.invalid(resource.kind, resource.group, target.name, [_negative(target.resource, replicas)])
    return replicas, about


def _negative(resource: Resource, replicas: int) -> FieldProblem:
    assert resource.scale is not None
    if resource.custom:
        return invalid(_dotted(resource.scale.wanted), replicas, "should be a non-negative integer")
    return invalid("spec.replicas", replicas, "must be greater than or equal to 0")


def _dotted(path: Path) -> str:
    return "." + ".".join(path)


def _at(found: Object, path: Path) -> Any:
    at: Any = found
    for step in path:
        at = at.get(step) if isinstance(at, dict) else None
    return at


def _put(found: Object, path: Path, value: int) -> Object:
    at = found
    for step in path[:-1]:
        if not isinstance(at.get(step), dict):
            at[step] = {}
        at = at[step]
    at[path[-1]] = value
    return found
