"""Errors of patches."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from kubesim.schema.depth import DEEPEST, deeper

T = TypeVar("T")


class PatchFault(Enum):
    """The kinds of patch errors, with the status codes of kube-apiserver."""

    MALFORMED = 400
    """The patch is malformed, independent of the document."""
    TOO_LARGE = 413
    """There are too many operations."""
    UNFIT = 422
    """The patch cannot be applied to this document, or its test failed."""


class PatchError(Exception):
    """A patch that cannot be applied."""

    def __init__(self, fault: PatchFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def malformed(message: str) -> PatchError:
    """The patch cannot be read."""
    return PatchError(PatchFault.MALFORMED, message)


def unfit(message: str) -> PatchError:
    """The patch cannot be applied."""
    return PatchError(PatchFault.UNFIT, message)


def kind_of(value: Any) -> str:
    """What a JSON value is, in the words of Go's decoder."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def bounded(value: T, what: str) -> T:
    """The value itself, if it does not nest too deeply to be walked through."""
    if deeper(value):
        raise unfit(f"{what} nests more than {DEEPEST} levels")
    return value
