"""JSONPath as printer columns of custom resources use it: ``.status.conditions[?(@.type=="Ready")].status``.

The dialect is kubectl's, without braces: fields (``.a``, ``['a']``, dots escaped with a backslash), ``*``, ``..``,
indices, slices and unions in brackets, and filters that compare a path below the item with a value or ask whether
it is there.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

Step = Callable[[Any], Iterator[Any]]
Path = Callable[[Any], Iterator[Any]]

_NAME: Final = re.compile(r"(?:\\.|[^\\.\[\]\s'\"()])+")
_QUOTED: Final = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_INDEX: Final = re.compile(r"(-?\d+)?(:)?(-?\d+)?(?::(-?\d+))?")
_COMPARISON: Final = re.compile(r"(==|!=|<=|>=|<|>)")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_LONGEST: Final = 1000


def parse(text: str) -> Path:
    """Read a path; what it gives yields the values found in an object. Raises ValueError."""
    if len(text) > _LONGEST:
        raise ValueError(f"a path of {len(text)} characters; up to {_LONGEST} are read")
    return _path(_steps(text))


def _path(steps: list[Step]) -> Path:
    def walk(value: Any, at: int = 0) -> Iterator[Any]:
        if at == len(steps):
            yield value
        else:
            for found in steps[at](value):
                yield from walk(found, at + 1)

    return walk


def _steps(text: str) -> list[Step]:
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if text.startswith("..", at):
            steps.append(_anywhere)
            at += 1 if _NAME.match(text, at + 2) or text[at + 2 : at + 3] == "*" else 2
        elif text[at] == "." and (at + 1 == len(text) or text[at + 1] == "["):
            at += 1
        elif text[at] == ".":
            name = _NAME.match(text, at + 1)
            if not name:
                raise ValueError(f"a field name is expected at character {at + 2} of {text!r}")
            steps.append(_children if name[0] == "*" else _field(_unescaped(name[0])))
            at = name.end()
        elif text[at] == "[":
            end = _closing(text, at)
            steps.append(_bracket(text[at + 1 : end].strip(), text))
            at = end + 1
        else:
            raise ValueError(f"'.' or '[' is expected at character {at + 1} of {text!r}")
    return steps


def _closing(text: str, opening: int) -> int:
    depth, quote, at = 0, "", opening
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
            if depth == 0:
                return at
        at += 1
    raise ValueError(f"the bracket at character {opening + 1} of {text!r} is never closed")


def _bracket(inner: str, text: str) -> Step:
    if inner == "*":
        return _children
    if inner.startswith("?(") and inner.endswith(")"):
        return _filter(inner[2:-1].strip())
    quoted = list(_QUOTED.finditer(inner))
    if quoted and not _QUOTED.sub("", inner).replace(",", "").strip():
        return _union([_field(_unescaped(match[1] if match[1] is not None else match[2])) for match in quoted])
    parts = [_INDEX.fullmatch(part.strip()) for part in inner.split(",")]
    if not inner or any(part is None or not part[0] for part in parts):
        raise ValueError(f"[{inner}] in {text!r} is no index, slice, name or filter")
    return _union([_index(part) for part in parts if part is not None])


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


# ---- steps ------------------------------------------------------------------------------------------------


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _anywhere(value: Any) -> Iterator[Any]:
    """The value and everything in it, outermost first. Uses an explicit stack, because JSON may be deep."""
    stack = [value]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(list(_children(found))))


def _union(steps: Iterable[Step]) -> Step:
    known = tuple(steps)
    if len(known) == 1:
        return known[0]

    def step(value: Any) -> Iterator[Any]:
        for one in known:
            yield from one(value)

    return step


def _index(part: re.Match[str]) -> Step:
    first, colon, last, stride = part.groups()
    if colon is None:
        which = int(first)

        def single(value: Any) -> Iterator[Any]:
            if isinstance(value, list) and -len(value) <= which < len(value):
                yield value[which]

        return single
    bounds = slice(int(first) if first else None, int(last) if last else None, int(stride) if stride else None)
    if bounds.step == 0:
        raise ValueError("a slice cannot go in steps of 0")

    def several(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[bounds]

    return several


def _filter(condition: str) -> Step:
    quoted = [match.span() for match in _QUOTED.finditer(condition)]
    outside = (match for match in _COMPARISON.finditer(condition) if not any(a <= match.start() < b for a, b in quoted))
    comparison = next(outside, None)
    if comparison is None:
        path = _operand(condition)
        return _kept(lambda item: any(True for _ in path(item)))
    left = _operand(condition[: comparison.start()].strip())
    right = _operand(condition[comparison.end() :].strip())
    compare = _COMPARE[comparison[0]]
    return _kept(lambda item: any(_holds(compare, a, b) for a in left(item) for b in right(item)))


def _kept(holds: Callable[[Any], bool]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list | dict):
            yield from (item for item in _children(value) if holds(item))

    return step


def _holds(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return compare(left, right)
    except TypeError:  # a number and a text: neither is the smaller one
        return False


def _operand(text: str) -> Path:
    if text.startswith("@"):
        return _path(_steps(text[1:]))
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return _constant(_unescaped(quoted[1] if quoted[1] is not None else quoted[2]))
    if text in {"true", "false"}:
        return _constant(text == "true")
    if re.fullmatch(r"-?\d{1,300}", text):
        return _constant(int(text))
    if re.fullmatch(r"-?\d{1,300}\.\d{1,300}", text):
        return _constant(float(text))
    raise ValueError(f"{text!r} in a filter is no path (@.field), text, number, true or false")


def _constant(value: object) -> Path:
    return lambda item: iter((value,))
