"""Fields of a manifest that its CRD does not have, such as ``wieght``: servers drop them, and kubectl refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kubebase.field_error import FieldError
from pumice.crds import definitions
from pumice.input_errors import did_you_mean

_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata", "status")


def unknown_fields(kind: str, document: Mapping[str, Any]) -> Iterator[FieldError]:
    """The fields of an object that the CRD of its kind does not name; none for kinds without a CRD of Pumice."""
    schema = _schemas().get(kind)
    if schema is not None:
        given = {name: value for name, value in document.items() if name not in _OF_EVERY_OBJECT}
        yield from _unknown(given, schema, "")


@cache
def _schemas() -> dict[str, Any]:
    return {
        one["spec"]["names"]["kind"]: one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for one in definitions()
    }


def _unknown(value: object, schema: Mapping[str, Any], where: str) -> Iterator[FieldError]:
    if isinstance(value, list):
        for i, part in enumerate(value):
            yield from _unknown(part, schema.get("items") or {}, f"{where}[{i}]")
        return
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if not isinstance(value, Mapping) or (not fields and not isinstance(others, Mapping)):
        return
    for name, part in value.items():
        inside = f"{where}.{name}" if where else str(name)
        if name in fields:
            yield from _unknown(part, fields[name], inside)
        elif isinstance(others, Mapping):
            yield from _unknown(part, others, inside)
        elif not schema.get(_PRESERVES):
            hint = did_you_mean(str(name), fields) or f"; the fields are {', '.join(sorted(fields))}"
            yield FieldError(inside, f"unknown field{hint}")
