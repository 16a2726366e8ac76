"""What is wrong with a field of an object, in the words of a Kubernetes API.

Validation collects problems instead of stopping at the first one; ``status.invalid`` turns them into the answer.
The texts follow the real server, because people search for them and tools read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Fault(Enum):
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
class Problem:
    """One field that cannot stay as it is. ``field`` is a path such as ``spec.containers[0].name``."""

    field: str
    fault: Fault
    detail: str = ""
    value: Any = None

    @property
    def body(self) -> str:
        """The message without the field, as a cause carries it."""
        words = self.fault.value[1]
        if self.fault in {Fault.REQUIRED, Fault.FORBIDDEN, Fault.TOO_LONG, Fault.TOO_MANY}:
            return f"{words}: {self.detail}" if self.detail else words
        shown = f"{words}: {_shown(self.value)}"
        return f"{shown}: {self.detail}" if self.detail else shown

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(field: str, detail: str = "") -> Problem:
    """The field must be there."""
    return Problem(field, Fault.REQUIRED, detail)


def invalid(field: str, value: object, detail: str) -> Problem:
    """The value cannot be used."""
    return Problem(field, Fault.INVALID, detail, value)


def forbidden(field: str, detail: str) -> Problem:
    """The field may not be set, or not be changed, here."""
    return Problem(field, Fault.FORBIDDEN, detail)


def duplicate(field: str, value: object) -> Problem:
    """The value stands there twice."""
    return Problem(field, Fault.DUPLICATE, "", value)


def unsupported(field: str, value: object, supported: Iterable[str]) -> Problem:
    """The value is none of those known."""
    return Problem(field, Fault.UNSUPPORTED, "supported values: " + ", ".join(map(json.dumps, supported)), value)


def _shown(value: object) -> str:
    """A value as the real server prints it: text quoted, objects as JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
