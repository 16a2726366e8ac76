"""Label selectors and field selectors in query strings.

A label selector is a list of requirements on labels, all of which must hold: ``app=web, tier in (a, b), !canary``.
A field selector compares a few fields that a kind offers: ``status.phase!=Running,spec.nodeName=n1``. A malformed
selector raises ValueError with the message of kube-apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kubebase.label_selector import Requirement, meets
from kubesim.api.field_errors import FieldProblem
from kubesim.api.metadata import check_label_key, check_label_value

LARGEST_BOUND: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector. Without requirements it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return meets(self.requirements, labels)


class Comparison(NamedTuple):
    """One field that must, or must not, have a value."""

    field: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A field selector. Without comparisons it selects everything."""

    comparisons: tuple[Comparison, ...] = ()

    def names(self) -> list[str]:
        """The names of the fields, without duplicates."""
        return list(dict.fromkeys(comparison.field for comparison in self.comparisons))

    def value(self, field: str) -> str | None:
        """The value that a field must have, if there is one: ``spec.nodeName=n1`` asks for the pods of one node."""
        return next((c.value for c in self.comparisons if c.field == field and c.equal), None)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected. A field that is missing is empty."""
        return all((fields.get(field, "") == value) == equal for field, equal, value in self.comparisons)


def label_selector(text: str) -> Selector:
    """Read a label selector."""
    return Selector(tuple(_Parser(text).requirements()))


# ---- label selectors --------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(?P<sign>==|!=|[=!<>(),])|(?P<word>[^ \t\r\n=!<>(),]+)|\Z)")
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


class _Parser:
    """Reads requirements from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._token = ""
        self._is_word = False
        self._advance()

    def requirements(self) -> Iterator[Requirement]:
        if not self._token:
            return
        if not self._is_word and self._token != "!":
            raise ValueError(f"found '{self._token}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                yield self._requirement()
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            if not self._token:
                return
            if self._token != ",":
                raise ValueError(f"found '{self._token}', expected: ',' or 'end of string'")
            self._advance()
            if not self._is_word and self._token != "!":
                raise ValueError(f"found '{self._token}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        absent = self._took("!")
        if not self._is_word:
            raise ValueError(f"found '{self._token}', expected: identifier")
        key = self._take()
        _say(check_label_key(key, "<nil>"))
        if absent:
            return Requirement(key, "DoesNotExist")
        if self._token in {"", ","} and not self._is_word:
            return Requirement(key, "Exists")
        operator = self._take()
        match operator:
            case "in" | "notin":
                values = tuple(sorted(set(self._values())))
            case "=" | "==" | "!=" | ">" | "<":
                values = (self._exact_value(),)
            case _:
                raise ValueError(f"found '{operator}', expected: {_OPERATORS}")
        if operator in {"<", ">"}:
            _check_bound(values[0])
        for index, value in enumerate(values):
            _say(check_label_value(key, value, f"values[{index}][{key}]"))
        name = {"in": "In", "notin": "NotIn", "!=": "NotIn", "<": "Lt", ">": "Gt"}.get(operator, "In")
        return Requirement(key, name, values)

    def _values(self) -> Iterator[str]:
        """``(a, b)``; an empty place between commas is the empty text."""
        if self._token != "(":
            raise ValueError(f"found '{self._token}' expected: '('")
        self._advance()
        if self._token not in {",", ")"} and not self._is_word:
            raise ValueError(f"found '{self._token}', expected: ',', ')' or identifier")
        while True:
            yield self._take() if self._is_word else ""
            if self._took(")"):
                return
            if not self._took(","):
                raise ValueError(f"found '{self._token}', expected: ',' or ')'")

    def _exact_value(self) -> str:
        """The value after an operator; empty if there is none."""
        if self._is_word:
            return self._take()
        if self._token in {"", ","}:
            return ""
        raise ValueError(f"found '{self._token}', expected: identifier")

    def _take(self) -> str:
        token = self._token
        self._advance()
        return token

    def _took(self, sign: str) -> bool:
        if self._is_word or self._token != sign:
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        assert found, "every character is a sign or part of a word"
        self._at = found.end()
        self._token = found["sign"] or found["word"] or ""
        self._is_word = bool(found["word"])


def _check_bound(value: str) -> None:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", value) or not -LARGEST_BOUND - 1 <= int(value) <= LARGEST_BOUND:
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise ValueError(f'values[0]: Invalid value: "{value}": {detail}')


def _say(problems: Iterator[FieldProblem]) -> None:
    """Raise what is wrong with a key or a value, if something is: all of it on one line."""
    found = list(problems)
    if found:
        details = "; ".join(problem.detail for problem in found)
        first = found[0]
        raise ValueError(str(FieldProblem(first.field, first.fault, details, first.value)))


# ---- field selectors --------------------------------------------------------------------------------------

_COMPARISON: Final = re.compile(r"(?P<field>[^=!]*(?:!(?!=)[^=!]*)*)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_PIECE: Final = re.compile(r"(?:[^\\,]|\\.|\\$)*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.|$)|([,=])", re.DOTALL)


def field_selector(text: str) -> FieldSelector:
    """Read a field selector. Commas, equal signs and backslashes in values are escaped by a backslash."""
    found: list[Comparison] = []
    for piece in _pieces(text):
        comparison = _COMPARISON.fullmatch(piece)
        if not comparison:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{piece}'")
        value = _ESCAPE.sub(_unescaped, comparison["value"])
        found.append(Comparison(comparison["field"], comparison["operator"] != "!=", value))
    return FieldSelector(tuple(found))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at <= len(text):
        piece = _PIECE.match(text, at)
        assert piece, "the empty piece is one"
        if piece[0]:
            yield piece[0]
        at = piece.end() + 1


def _unescaped(found: re.Match[str]) -> str:
    escaped, bare = found[1], found[2]
    if bare:
        raise ValueError(f"invalid field selector: unescaped character in value: {ord(bare)}")
    if escaped not in {"\\", ",", "="}:
        raise ValueError(f"invalid field selector: invalid escape sequence: \\{escaped}")
    return escaped
