"""Merging an applied object into the stored one, and removing fields from an object."""

from __future__ import annotations

from typing import Any

from kubesim.apply.field_set import Path, Paths, children, is_atomic, step_to
from kubesim.schema.compiled import SchemaNode


def merge_applied(old: Any, new: Any, node: SchemaNode | None) -> Any:
    """``old`` with the fields of ``new``. Neither is modified; they may share parts with the result."""
    if old.__class__ is not new.__class__ or is_atomic(new, node):
        return new
    if new.__class__ is dict:
        merged = dict(old)
        for name, part in new.items():
            merged[name] = merge_applied(old[name], part, node.child(name) if node else None) if name in old else part
        return merged
    assert node is not None  # a list about which nothing is known is atomic
    return _list_over(old, new, node)


def _list_over(old: list[Any], new: list[Any], node: SchemaNode) -> list[Any]:
    said = {step_to(item, node): item for item in new}
    merged = {step_to(item, node): item for item in old}
    for step, item in said.items():
        merged[step] = merge_applied(merged[step], item, node.items) if step in merged else item
    return [merged[step] for step in _interleaved([step_to(item, node) for item in old], list(said))]


def _interleaved(old: list[str], said: list[str]) -> list[str]:
    """All steps: applied ones in their order, each of the others right after its old predecessors."""
    result: dict[str, None] = {}
    named = set(said)
    waiting = iter(old)
    other = next(waiting, None)
    for step in said:
        while other is not None and other != step and (other not in named or other in result):
            result[other] = None
            other = next(waiting, None)
        result[step] = None
        if other == step:
            other = next(waiting, None)
    return list(dict.fromkeys([*result, *([] if other is None else [other]), *waiting]))


def remove_fields(value: Any, paths: Paths, node: SchemaNode | None, here: Path = ()) -> Any:
    """An object without the fields and items that these paths lead to."""
    if is_atomic(value, node) or not paths:
        return value
    kept = [
        (step, part, remove_fields(part, paths, below, (*here, step)))
        for step, part, below in children(value, node)
        if (*here, step) not in paths
    ]
    if value.__class__ is dict:
        return {step[2:]: left for step, _, left in kept}
    return [left for _, _, left in kept]
