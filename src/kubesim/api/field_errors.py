"""Field errors: what is invalid in a field of an object, with the messages of kube-apiserver.

Validation collects all problems instead of stopping at the first; ``status.invalid`` turns them into the response.
The messages equal those of kube-apiserver, because users search for them and tools parse them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class FieldErrorType(Enum):
    """The kinds of problem, each with the reason of its cause in a Status and the words that open its message."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    UNSUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    NOT_FOUND = ("FieldValueNotFound", "Not found")
    TYPE = ("FieldValueTypeInvalid", "Invalid value")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A problem of one field. ``field`` is a path such as ``spec.containers[0].name``."""

    field: str
    fault: FieldErrorType
    detail: str = ""
    value: Any = None

    @property
    def body(self) -> str:
        """The message without the field, as a cause carries it."""
        words = self.fault.value[1]
        if self.fault in {
            FieldErrorType.REQUIRED,
            FieldErrorType.FORBIDDEN,
            FieldErrorType.TOO_LONG,
            FieldErrorType.TOO_MANY,
        }:
            return f"{words}: {self.detail}" if self.detail else words
        shown = f"{words}: {_shown(self.value)}"
        return f"{shown}: {self.detail}" if self.detail else shown

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(field: str, detail: str = "") -> FieldProblem:
    """The field must be there."""
    return FieldProblem(field, FieldErrorType.REQUIRED, detail)


def invalid(field: str, value: object, detail: str) -> FieldProblem:
    """The value cannot be used."""
    return FieldProblem(field, FieldErrorType.INVALID, detail, value)


def forbidden(field: str, detail: str) -> FieldProblem:
    """The field may not be set, or not be changed, here."""
    return FieldProblem(field, FieldErrorType.FORBIDDEN, detail)


def duplicate(field: str, value: object) -> FieldProblem:
    """The value is a duplicate."""
    return FieldProblem(field, FieldErrorType.DUPLICATE, "", value)


def unsupported(field: str, value: object, supported: Iterable[str]) -> FieldProblem:
    """The value is none of those known."""
    return FieldProblem(
        field, FieldErrorType.UNSUPPORTED, "supported values: " + ", ".join(map(json.dumps, supported)), value
    )


def _shown(value: object) -> str:
    """A value as kube-apiserver prints it: text quoted, objects as JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
