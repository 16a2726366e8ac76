"""From a parsed document to wire structs, with errors that name the field and say what it should be.

The decoder does the work; this module deals with its refusals. A ``null`` means that the field is absent, as
in Kubernetes: it is taken out and the rest is read again. Any other refusal becomes a ``FieldError`` in the
words of a manifest's author.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec

from kubebase.field_error import FieldError

T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

# "Expected `int`, got `str` - at `$.spec.taints[0].key`"; an entry of a map is [...], whichever it was.
_REFUSAL = re.compile(r"(?P<reason>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>[0-9]+)\]|\[\.\.\.\]")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_BOUND = re.compile(r" ([<>])= (\S+)")
_EXPECTED = re.compile(r"Expected `([^`]+)`(?:, got `[^`]+`)?(.*)")

_NOUN = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "int | str": "an integer or a percentage (such as 50%)",
    "object": "a mapping",
    "array": "a list",
}
_TIME = "an RFC 3339 timestamp with a time zone (such as 2024-05-01T12:00:00Z)"


def read(document: object, kind: type[T], *, where: str = "", strict: bool = True) -> T:
    """Decode the value at ``where`` in an object; if not strict, numbers and booleans may be text."""
    decode: Callable[[object], T] = partial(msgspec.convert, type=kind, strict=strict)
    while True:
        try:
            return decode(document)
        except msgspec.ValidationError as error:
            refusal = _Refusal(document, str(error), decode)
        if not refusal.is_absence:
            raise FieldError(refusal.field(where), refusal.message())
        document = _edited(document, refusal.path[:-1], partial(_without, name=refusal.path[-1]))


def one_of(value: str, known: Iterable[str], field: str) -> str:
    """The value, if it is one of those known."""
    if value not in known:
        raise FieldError(field, f"Unsupported value: {shown(value)}: supported values: {', '.join(known)}")
    return value


def check_name(name: str, field: str) -> None:
    """Refuse a name that would garble keys or terminals. (An API server allows far less.)"""
    if "/" in name:
        raise FieldError(field, f"Invalid value: {name!r}: may not contain '/'")
    check_printable(name, field)


def check_printable(text: str, field: str) -> None:
    """Refuse control characters, which would garble logs and terminals."""
    if not text.isprintable():
        raise FieldError(field, f"Invalid value: {shown(text)}: may not contain control characters")


def microseconds(time: datetime) -> int:
    """A time that knows its zone as microseconds since 1970 in UTC."""
    return (time - EPOCH) // MICROSECOND


def shown(value: object) -> str:
    """A value as a message quotes it: constants as YAML writes them, nothing at great length."""
    text = {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


class _Refusal:
    """An error of the decoder: the path, the value and the decoder's reason."""

    def __init__(self, document: Any, error: str, decode: Callable[[object], object]) -> None:
        match = _REFUSAL.fullmatch(error)
        assert match is not None  # the pattern matches any text
        self.reason = match["reason"]
        self.path: list[Any] = []
        self.text = ""
        self.value = document
        name = None
        for step in _STEP.finditer(match["path"] or ""):
            name, index = step["name"], step["index"]
            key = name or (int(index) if index else self._culprit(document, error, decode))
            self.path.append(key)
            self.text += f".{name}" if name else f"[{key}]"
            self.value = self.value[key]
        self.is_absence = name is not None and self.value is None
        if match["key"]:
            self.value = next(key for key in self.value if not isinstance(key, str))

    def _culprit(self, document: object, error: str, decode: Callable[[object], object]) -> object:
        """The key of the entry that is refused, found by leaving every other entry of the map out."""
        for key, value in self.value.items():
            try:
                decode(_edited(document, self.path, partial(_replaced, by={key: value})))
            except msgspec.ValidationError as again:
                if str(again) == error:
                    return key
        raise AssertionError(f"no entry is to blame for: {error}")

    def field(self, where: str) -> str:
        """The path as the author knows it."""
        missing = _MISSING.fullmatch(self.reason)
        return f"{where}{self.text}{f'.{missing[1]}' if missing else ''}".removeprefix(".")

    def message(self) -> str:
        """The error message: the value, and what it must be."""
        if _MISSING.fullmatch(self.reason):
            return "Required value"
        expected = _EXPECTED.fullmatch(self.reason)
        types, bound = (expected[1].removesuffix(" | null"), expected[2]) if expected else ("datetime", "")
        noun = _TIME if types == "datetime" else _NOUN.get(types, types) + bound
        if limit := _BOUND.fullmatch(bound):
            noun = f"{'greater' if limit[1] == '>' else 'less'} than or equal to {limit[2]}"
        hint = ""
        if types == "str" and not isinstance(self.value, dict | list | None):
            hint = "; put it in quotes"
        elif types in {"int", "float", "bool"} and isinstance(self.value, str):
            hint = "; write it without quotes"
        return f"Invalid value: {shown(self.value)}: must be {noun}{hint}"


def _edited(node: Any, path: list[Any], edit: Callable[[Any], Any]) -> Any:
    """A copy of a document with one part changed; the rest is shared."""
    if not path:
        return edit(node)
    copy = list(node) if isinstance(node, list) else dict(node)
    copy[path[0]] = _edited(node[path[0]], path[1:], edit)
    return copy


def _without(mapping: dict[str, Any], *, name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _replaced(_: object, *, by: object) -> object:
    return by
