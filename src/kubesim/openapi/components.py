"""The schemas of an OpenAPI document: each kind, its list, and the types that all kinds share.

A published schema differs from the enforced one where tools expect other keywords: metadata is spelled out, and an
int-or-string value is described with keywords that every validator knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubesim.kinds.schema_dsl import OBJECT_REFERENCE, expand_schema
from kubesim.registry.registry import Object, Resource
from kubesim.schema.embedded import APPLIED_KEYS

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"

SHAPES: Final = (
    """
ObjectMeta
  annotations {text}
  creationTimestamp time
  deletionGracePeriodSeconds int64
  deletionTimestamp time
  finalizers [text]
  generateName text
  generation int64
  labels {text}
  managedFields [ManagedFieldsEntry]
  name text
  namespace text
  ownerReferences [OwnerReference] by uid
  resourceVersion text
  selfLink text
  uid text
ManagedFieldsEntry
  apiVersion text
  fieldsType text
  fieldsV1 any
  manager text
  operation text
  subresource text
  time time
OwnerReference
  apiVersion! text
  blockOwnerDeletion bool
  controller bool
  kind! text
  name! text
  uid! text
ListMeta
  continue text
  remainingItemCount int64
  resourceVersion text
  selfLink text
DeleteOptions
  apiVersion text
  dryRun [text]
  gracePeriodSeconds int64
  kind text
  orphanDependents bool
  preconditions Preconditions
  propagationPolicy text
Preconditions
  resourceVersion text
  uid text
Status
  apiVersion text
  code int32
  details StatusDetails
  kind text
  message text
  metadata ListMeta
  reason text
  status text
StatusDetails
  causes [StatusCause]
  group text
  kind text
  name text
  retryAfterSeconds int32
  uid text
StatusCause
  field text
  message text
  reason text
Binding
  apiVersion text
  kind text
  metadata ObjectMeta
  target! ObjectReference
Eviction
  apiVersion text
  deleteOptions DeleteOptions
  kind text
  metadata ObjectMeta
Scale
  apiVersion text
  kind text
  metadata ObjectMeta
  spec ScaleSpec
  status ScaleStatus
ScaleSpec
  replicas int32
ScaleStatus
  replicas! int32
  selector text
"""
    + OBJECT_REFERENCE
)

PATCH_OPERATIONS: Final[Object] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": {"type": "string"},
            "from": {"type": "string"},
            "value": {},
        },
    },
}

_HEAD: Final = {
    "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
    "kind": {"type": "string", "description": "What the object is."},
}


def reference(name: str) -> Object:
    """A pointer to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def name_of(resource: Resource) -> str:
    """What a kind's schema is called: as in kube-apiserver's documents, or by the reversed domain of its group."""
    if resource.custom:
        domain = ".".join(reversed(resource.group.split(".")))
        return f"{domain}.{resource.version}.{resource.kind}"
    return f"io.k8s.api.{resource.group.split('.')[0] or 'core'}.{resource.version}.{resource.kind}"


def schemas(resources: Iterable[Resource]) -> Object:
    """Every schema that the operations of these resources refer to."""
    found: Object = {
        f"{META}.{shape}": expand_schema(SHAPES, shape)
        for shape in ("ObjectMeta", "ListMeta", "DeleteOptions", "Status", "Binding", "Eviction", "Scale")
    }
    found[f"{META}.Patch"] = {"type": "object", "description": "The fields to change, and null for those to remove."}
    found[f"{META}.PatchOperations"] = PATCH_OPERATIONS
    for resource in resources:
        found[name_of(resource)] = _kind(resource)
        if "list" in resource.verbs:
            found[f"{name_of(resource)}List"] = _list(resource)
    return found


def _kind(resource: Resource) -> Object:
    schema: Object = _published(resource.schema.openapi, {})
    metadata = {"allOf": [reference(f"{META}.ObjectMeta")], "description": "Name, labels and the like."}
    properties = {**_HEAD, **schema.get("properties", {}), "metadata": metadata}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [gvk(resource)]}


def _list(resource: Resource) -> Object:
    return {
        "type": "object",
        "description": f"Several of kind {resource.kind}.",
        "required": ["items"],
        "properties": {
            **_HEAD,
            "items": {"type": "array", "items": reference(name_of(resource))},
            "metadata": reference(f"{META}.ListMeta"),
        },
        "x-kubernetes-group-version-kind": [{**gvk(resource), "kind": resource.list_kind}],
    }


def gvk(resource: Resource) -> Object:
    """Group, version and kind, by which kubectl finds a schema or an operation."""
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _published(schema: Any, done: dict[int, Object]) -> Any:
    """A schema as documents publish it. Shared parts stay shared."""
    if isinstance(schema, list):
        return [_published(part, done) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if id(schema) in done:
        return done[id(schema)]
    shown: Object = {}
    done[id(schema)] = shown
    for word, value in schema.items():
        if word == "properties":
            shown[word] = {name: _published(part, done) for name, part in value.items()}
        elif word in {"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"}:
            shown[word] = _published(value, done)
        elif word == APPLIED_KEYS:
            shown |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": value}
        elif word != "format" or value != "quantity":
            shown[word] = value
    if schema.get("x-kubernetes-int-or-string") and not {"anyOf", "allOf"} & schema.keys():
        number = "number" if schema.get("format") == "quantity" else "integer"
        shown["oneOf"] = [{"type": "string"}, {"type": number}]
    return shown
