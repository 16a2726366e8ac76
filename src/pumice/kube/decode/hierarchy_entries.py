"""Checks of the entries of ``spec.hierarchy``: unknown keys, and nesting that is too deep.

Decoding ignores unknown fields, as Kubernetes does, and the schema of the CRD cannot describe entries at every depth.
So admission, and programs that read files, check entries here before they accept an object. Stored objects are not
checked: a scheduler must continue with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubebase.field_error import FieldError

ENTRY_KEYS: Final = ("name", "parameters", "hierarchy")
PARAMETER_KEYS: Final = ("name", "value")
NESTED_LEVELS: Final = 64
"""How deep the entries of one object may nest. Readers recurse; deeper trees are written as several objects."""


def entry_errors(hierarchy: object, where: str = "spec.hierarchy") -> Iterator[FieldError]:
    """Errors in the keys of entries at any depth, in the order of the text. Types are checked elsewhere."""
    waiting: list[tuple[object, str, int]] = [(hierarchy, where, 1)]
    while waiting:
        entries, here, level = waiting.pop()
        if not isinstance(entries, list) or not entries:
            continue
        if level > NESTED_LEVELS:
            message = (
                f"Too deep: entries may nest at most {NESTED_LEVELS} levels; move the rest to the "
                "spec.hierarchy of a queue further down"
            )
            yield FieldError(where, message)
            return
        below: list[tuple[object, str, int]] = []
        for i, entry in enumerate(entries):
            if isinstance(entry, dict):
                yield from _unknown_keys(entry, ENTRY_KEYS, f"{here}[{i}]", "a hierarchy entry")
                parameters = entry.get("parameters")
                for j, parameter in enumerate(parameters if isinstance(parameters, list) else ()):
                    if isinstance(parameter, dict):
                        place = f"{here}[{i}].parameters[{j}]"
                        yield from _unknown_keys(parameter, PARAMETER_KEYS, place, "a parameter")
                below.append((entry.get("hierarchy"), f"{here}[{i}].hierarchy", level + 1))
        waiting += reversed(below)


def check_entries(hierarchy: object) -> None:
    """``FieldError`` for the first thing that is wrong with the keys of entries."""
    for error in entry_errors(hierarchy):
        raise error


def _unknown_keys(found: dict[object, object], known: tuple[str, ...], where: str, what: str) -> Iterator[FieldError]:
    for key in found:
        if key not in known:
            name = key if isinstance(key, str) and key.isprintable() else repr(key)
            yield FieldError(f"{where}.{name[:60]}", f"unknown field of {what}; known fields: {', '.join(known)}")
