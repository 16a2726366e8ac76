"""Embedded resources: fields that hold a whole object, and the metadata that every object has."""

from __future__ import annotations

import re
from typing import Any, Final

from kubesim.api.field_errors import FieldProblem, invalid, required

APPLIED_KEYS: Final = "x-kubesim-applied-keys"
APPLIED_SET: Final = "x-kubesim-applied-set"
"""Keywords for applying lists of built-in kinds: like the list type, but without a uniqueness check."""

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_NUMBER: Final = {"type": "integer", "format": "int64"}
_TRUTH: Final = {"type": "boolean"}
_TIME: Final = {"type": "string", "format": "date-time", "nullable": True}

METADATA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": _NUMBER,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": _NUMBER,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": _TEXT,
                    "kind": _TEXT,
                    "name": _TEXT,
                    "uid": _TEXT,
                    "controller": _TRUTH,
                    "blockOwnerDeletion": _TRUTH,
                },
                "x-kubernetes-map-type": "atomic",
            },
            "x-kubernetes-patch-merge-key": "uid",
            "x-kubernetes-patch-strategy": "merge",
            APPLIED_KEYS: ["uid"],
        },
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-patch-strategy": "merge", APPLIED_SET: True},
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    },
}
"""The schema of ``metadata``."""

_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_KIND_RULE = (
    "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric "
    "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  "
    "or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def is_resource(value: dict[str, Any]) -> bool:
    """Whether an object has apiVersion and kind."""
    return not problems(value, "")


def problems(value: dict[str, Any], path: str) -> list[FieldProblem]:
    """The problems of an embedded object's ``apiVersion`` and ``kind``, as far as they are texts."""
    found: list[FieldProblem] = []
    version, kind = value.get("apiVersion", ""), value.get("kind", "")
    if version == "":
        found.append(required(f"{path}.apiVersion"))
    if kind == "":
        found.append(required(f"{path}.kind"))
    elif isinstance(kind, str) and (len(kind) > 63 or not _KIND.fullmatch(kind.lower())):
        found.append(invalid(f"{path}.kind", kind, _KIND_RULE))
    if isinstance(version, str) and version.count("/") > 1:
        found.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return found
