"""The ``x-kubernetes-`` keywords of a schema, and their consistency with its other keywords."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported

_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")


def is_int_or_string(openapi: dict[str, Any]) -> bool:
    """Whether the schema is of a whole number or a text."""
    return openapi.get("x-kubernetes-int-or-string") is True


def extension_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    """The problems of the keywords of a schema whose keywords all have the right type."""
    preserves = openapi.get("x-kubernetes-preserve-unknown-fields")
    where = f"{path}.x-kubernetes-preserve-unknown-fields"
    if preserves is False:
        yield invalid(where, False, "must be true or undefined")
    if preserves and is_int_or_string(openapi):
        yield invalid(where, True, "must be false if x-kubernetes-int-or-string is true")
    if openapi.get("x-kubernetes-embedded-resource"):
        yield from _embedded_problems(openapi, path)
    yield from _list_problems(openapi, path)
    kind = openapi.get("x-kubernetes-map-type")
    if kind is not None and kind not in _MAP_TYPES:
        yield unsupported(f"{path}.x-kubernetes-map-type", kind, _MAP_TYPES)
    if kind is not None:
        yield from _must_be("object", "must be object if x-kubernetes-map-type is specified", openapi, path)


def _embedded_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    preserves = openapi.get("x-kubernetes-preserve-unknown-fields")
    if not openapi.get("properties") and not preserves:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)
    yield from _must_be("object", "must be object if x-kubernetes-embedded-resource is true", openapi, path)
    for name, child in (openapi.get("properties") or {}).items():
        kind = {"apiVersion": "string", "kind": "string", "metadata": "object"}.get(name)
        if kind and isinstance(child, dict) and child.get("type") != kind:
            yield invalid(f"{path}.properties[{name}].type", child.get("type", ""), f"must be {kind}")


def _must_be(kind: str, detail: str, openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    said = openapi.get("type")
    if not said:
        yield required(f"{path}.type", detail)
    elif said != kind:
        yield invalid(f"{path}.type", said, detail)


def _list_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    kind, keys = openapi.get("x-kubernetes-list-type"), openapi.get("x-kubernetes-list-map-keys") or []
    items = openapi.get("items") if isinstance(openapi.get("items"), dict) else {}
    assert isinstance(items, dict)
    if kind is not None and kind not in _LIST_TYPES:
        yield unsupported(f"{path}.x-kubernetes-list-type", kind, _LIST_TYPES)
    if kind is not None:
        yield from _must_be("array", "must be array if x-kubernetes-list-type is specified", openapi, path)
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            invalid(f"{path}.x-kubernetes-list-type", kind, detail)
            if kind
            else required(f"{path}.x-kubernetes-list-type", detail)
        )
    if kind == "map":
        yield from _map_problems(items, keys, path)
    if kind == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        said = items.get("x-kubernetes-map-type")
        yield invalid(f"{path}.items.x-kubernetes-map-type", said, detail)
    if kind in {"set", "map"} and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}")


def _map_problems(items: dict[str, Any], keys: list[str], path: str) -> Iterator[FieldProblem]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), detail)
    if len(set(keys)) < len(keys):
        yield invalid(where, keys, "must not contain duplicate entries")
    known = items.get("properties") if isinstance(items.get("properties"), dict) else {}
    assert isinstance(known, dict)
    needed = items.get("required") if isinstance(items.get("required"), list) else []
    assert isinstance(needed, list)
    if not known.keys() >= set(keys):
        yield invalid(where, keys, "entries must all be names of item properties")
    for key in dict.fromkeys(keys):
        if isinstance(known.get(key), dict):
            yield from _key_problems(known[key], key in needed, f"{path}.items.properties[{key}]")


def _key_problems(openapi: dict[str, Any], needed: bool, path: str) -> Iterator[FieldProblem]:
    if openapi.get("type") in {"object", "array"}:
        detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.type", openapi["type"], detail)
    in_keys = "this property is in x-kubernetes-list-map-keys, so it"
    if openapi.get("default") is None and not needed:
        yield required(f"{path}.default", f"{in_keys} must have a default or be a required property")
    if openapi.get("nullable"):
        yield forbidden(f"{path}.nullable", f"{in_keys} cannot be nullable")
