"""Fast validation: whether a value is valid, and whether it is free of unknown fields.

Nearly all objects that are written are valid and have no unknown fields, so this is the fast path: each node gets two
functions that test the class of a value and then only the constraints for that class. Fields that are plain strings or
booleans cost their object a single comparison. A negative answer may be wrong (a whole number written as 1.0); then the
full validation, or the pruning, decides.

An update changes little of an object, and what it leaves alone is the same Python object in the old and the new state.
Each of the functions has a variant (``..._since``) that takes the old state and does not visit such parts, because they
were judged when they were stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from kubesim.schema import embedded
from kubesim.schema.compiled import NOTHING, SchemaNode
from kubesim.schema.errors import fits
from kubesim.schema.formats import is_quantity
from kubesim.schema.uniqueness import identity
from kubesim.schema.value_checks import WHOLE, is_among

Verdict = Callable[[Any], bool]
VerdictSince = Callable[[Any, Any], bool]

_PLAIN = {"string": str, "boolean": bool}

_is_quantity_text = lru_cache(maxsize=4096)(is_quantity)


def build_validators(node: SchemaNode) -> None:
    """Give a complete node its verdicts; its children need not have theirs yet."""
    node.holds = _holds(node)
    node.tidy = _tidy(node)
    node.holds_since = _holds_since(node)
    node.tidy_since = _tidy_since(node)
    node.fills = {name: child for name, child in node.properties.items() if child.is_filled}
    node.fills_others = node.additional if node.additional is not None and node.additional.is_filled else None
    node.fills_items = node.items if node.items is not None and node.items.is_filled else None


def _holds(node: SchemaNode) -> Verdict:
    may_be_null = node.nullable and not _is_restricted(node)
    if not _is_restricted(node):
        if node.quantity:
            return lambda value: _is_quantity_value(value) or (value is None and may_be_null)
        if node.types == ("integer",):
            low, high = node.range[1:] if node.range else WHOLE
            return lambda value: low <= value <= high if value.__class__ is int else value is None and may_be_null
        if node.types in {("object",), ("array",)}:
            return _object_verdict(node, may_be_null) if node.types == ("object",) else _list_verdict(node, may_be_null)
    judges = _judges(node)

    def holds(value: Any) -> bool:
        judge = judges.get(value.__class__)
        return judge is not None and judge(value)

    return holds


def _holds_since(node: SchemaNode) -> VerdictSince:
    """The verdict on a value beside an older one that holds. Parts are compared by identity, which costs nothing."""
    holds = node.holds
    if node.types != ("object",) or _is_restricted(node):
        return lambda value, old: value is old or holds(value)
    properties, forbids_others = node.properties, node.forbids_others
    others = None if forbids_others else node.additional
    required, checks = node.required, _object_checks(node)

    def holds_since(value: Any, old: Any) -> bool:
        if value is old:
            return True
        if value.__class__ is not dict or old.__class__ is not dict:
            return holds(value)
        for key, item in value.items():
            before = old.get(key, NOTHING)
            if item is before:
                continue
            child = properties.get(key, others)
            if child is None:
                if forbids_others:
                    return False
            elif not child.holds_since(item, before):
                return False
        return all(name in value for name in required) and all(check(value) for check in checks)

    return holds_since


def _judges(node: SchemaNode) -> dict[type, Verdict]:
    """What decides about a value, by its class; there is nothing for classes of the wrong type."""
    types = node.types or ("object", "array", "string", "number", "boolean")
    judges: dict[type, Verdict] = {}
    if "object" in types:
        judges[dict] = _judge(node, [_object_verdict(node, may_be_null=False)])
    if "array" in types:
        judges[list] = _judge(node, [_list_verdict(node, may_be_null=False)])
    if "string" in types:
        judges[str] = _judge(node, _texts(node))
    if "integer" in types or "number" in types:
        judges[int] = _judge(node, _numbers(node))
    if "number" in types or node.quantity:
        judges[float] = _judge(node, _numbers(node))
    if "boolean" in types:
        judges[bool] = _judge(node, [])
    if node.nullable or not node.types:
        judges[type(None)] = _judge(node, [])
    return judges


def _judge(node: SchemaNode, tests: Iterable[Verdict]) -> Verdict:
    every = [*tests, *_combinations(node)]
    if node.enum is not None:
        values = node.enum
        every.append(lambda value: is_among(value, values))
    match every:
        case []:
            return lambda value: True
        case [one]:
            return one
    return lambda value: all(test(value) for test in every)


def _combinations(node: SchemaNode) -> Iterable[Verdict]:
    if node.any_of:
        yield lambda value: any(fits(part, value) for part in node.any_of)
    if node.one_of:
        yield lambda value: sum(fits(part, value) for part in node.one_of) == 1
    if node.all_of:
        yield lambda value: all(fits(part, value) for part in node.all_of)
    if (excluded := node.none_of) is not None:
        yield lambda value: not fits(excluded, value)


def _is_restricted(node: SchemaNode) -> bool:
    """Whether a node has constraints beyond types, fields and items."""
    combined = node.any_of or node.one_of or node.all_of or node.none_of
    return bool(combined or node.enum is not None or node.text_checks or node.number_checks)


def _is_quantity_value(value: Any) -> bool:
    if value.__class__ is str:
        return _is_quantity_text(value)
    return (value.__class__ is int or value.__class__ is float) and is_quantity(value)


def _texts(node: SchemaNode) -> Iterable[Verdict]:
    if node.quantity:
        yield is_quantity
    yield from (check.holds for check in node.text_checks)


def _numbers(node: SchemaNode) -> Iterable[Verdict]:
    if node.quantity:
        yield is_quantity
    elif node.range or "integer" in node.types:
        low, high = node.range[1:] if node.range else WHOLE
        yield lambda number: low <= number <= high
    yield from (check.holds for check in node.number_checks)


def _plain_class(node: SchemaNode | None) -> type | None:
    """The class of a node's values if it is their only constraint."""
    if node is None or len(node.types) != 1 or _is_restricted(node):
        return None
    return _PLAIN.get(node.types[0])


def _object_verdict(node: SchemaNode, may_be_null: bool) -> Verdict:
    properties, forbids_others = node.properties, node.forbids_others
    others = None if forbids_others else node.additional
    plain = {name: kind for name, child in properties.items() if (kind := _plain_class(child)) is not None}
    plain_others = None if properties else _plain_class(others)
    required, checks = node.required, _object_checks(node)

    def holds(value: Any) -> bool:
        if value.__class__ is not dict:
            return value is None and may_be_null
        for key, item in value.items():
            if plain.get(key, plain_others) is item.__class__:
                continue
            child = properties.get(key, others)
            if child is None:
                if forbids_others:
                    return False
            elif not child.holds(item):
                return False
        for name in required:
            if name not in value:
                return False
        for check in checks:
            if not check(value):
                return False
        return True

    return holds


def _object_checks(node: SchemaNode) -> list[Verdict]:
    """The constraints on an object as a whole."""
    checks: list[Verdict] = [check.holds for check in node.object_checks]
    if node.embedded:
        checks.append(embedded.is_resource)
    return checks


def _list_verdict(node: SchemaNode, may_be_null: bool) -> Verdict:
    items = node.items
    checks = tuple(check.holds for check in node.list_checks)
    unique, keys = node.unique, node.identity_keys

    def holds(value: Any) -> bool:
        if value.__class__ is not list:
            return value is None and may_be_null
        if items is not None:
            judge = items.holds
            for item in value:
                if not judge(item):
                    return False
        for check in checks:
            if not check(value):
                return False
        return not unique or len({identity(item, keys) for item in value}) == len(value)

    return holds


def _tidy(node: SchemaNode) -> Verdict:
    if not node.is_deep:
        return lambda value: True
    shallow = frozenset(name for name, child in node.properties.items() if not child.is_deep)
    deep = {name: child for name, child in node.properties.items() if child.is_deep}
    others, preserves = node.additional, node.preserves
    if others is not None and not others.is_deep:
        others, preserves = None, True
    items = NOTHING if node.items is None else node.items if node.items.is_deep else None

    def tidy(value: Any) -> bool:
        if value.__class__ is dict:
            for key, item in value.items():
                if key in shallow:
                    continue
                child = deep.get(key, others)
                if child is None:
                    if not preserves:
                        return False
                elif not child.tidy(item):
                    return False
        elif value.__class__ is list and items is not None:
            for item in value:
                if not items.tidy(item):
                    return False
        return True

    return tidy


def _tidy_since(node: SchemaNode) -> VerdictSince:
    tidy, properties, others, preserves = node.tidy, node.properties, node.additional, node.preserves

    def tidy_since(value: Any, old: Any) -> bool:
        if value is old:
            return True
        if value.__class__ is not dict or old.__class__ is not dict:
            return tidy(value)
        for key, item in value.items():
            before = old.get(key, NOTHING)
            if item is before:
                continue
            child = properties.get(key, others)
            if child is None:
                if not preserves:
                    return False
            elif not child.tidy_since(item, before):
                return False
        return True

    return tidy_since


NOTHING.tidy = _tidy(NOTHING)
NOTHING.tidy_since = _tidy_since(NOTHING)
