"""Uniqueness of list items: by value in a set, by the values of the keys in a map."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from msgspec.json import encode

from kubesim.api.field_errors import FieldProblem, duplicate, invalid


def identity(item: Any, keys: Sequence[str]) -> Hashable:
    """Equal for items that are the same. Without keys the whole item counts."""
    if keys and item.__class__ is dict:
        return tuple([_exactly(item[key]) if key in item else None for key in keys])
    return _exactly(item)


def _exactly(value: Any) -> Hashable:
    # 1, 1.0 and true are equal and hash alike in Python, but are different values in JSON.
    if value.__class__ is str:
        return value
    if value.__class__ is dict or value.__class__ is list:
        return encode(value, order="deterministic")
    return (value.__class__, value)


def repetitions(items: list[Any], keys: Sequence[str], path: str) -> list[FieldProblem]:
    """The duplicate items of a list, each reported once."""
    found: list[FieldProblem] = []
    seen: dict[Hashable, int] = {}
    for index, item in enumerate(items):
        if keys and item.__class__ is not dict:
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
        same = identity(item, keys)
        seen[same] = seen.get(same, 0) + 1
        if seen[same] == 2:
            shown = {key: item[key] for key in sorted(keys) if key in item} if keys else item
            found.append(duplicate(f"{path}[{index}]", shown))
    return found
