"""Strategic merge patch: a merge patch that knows which items of two lists are the same.

The schema says how lists merge: those with a merge key item by item, lists of plain values with the strategy
``merge`` by their values, all others are replaced. A patch can say otherwise by directives:

- ``$patch: replace`` in an object, or in an item of a list, replaces the whole of it by the rest of the patch;
  ``$patch: delete`` removes the object, or the item with the same key.
- ``$retainKeys: [...]`` removes all fields that it does not name.
- ``$deleteFromPrimitiveList/NAME: [...]`` removes values from the list NAME beside it.
- ``$setElementOrder/NAME: [...]`` gives the order of the list NAME, in the end.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kubesim.patches.errors import bounded, kind_of, malformed, unfit
from kubesim.patches.ordering import ordered
from kubesim.schema.compiled import SchemaNode, copied
from kubesim.schema.schema import Schema
from kubesim.schema.uniqueness import identity
from kubesim.schema.value_checks import same

Object = dict[str, Any]

PATCH, RETAIN = "$patch", "$retainKeys"
DELETE_FROM, ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def strategic_merge(document: Object, patch: Object, schema: Schema) -> Object:
    """The document with the patch merged into it, by the schema of its kind."""
    if not isinstance(patch, dict):
        raise malformed(f"json: cannot unmarshal {kind_of(patch)} into Go value of type map[string]interface {{}}")
    bounded(patch, "the patch")
    merged: Object = copied(_merge_objects(document, patch, schema.applied))
    return merged


def _merge_objects(document: Object, patch: Object, node: SchemaNode | None) -> Object:
    """An object of its own, but with parts shared with document and patch."""
    match patch.get(PATCH):
        case None:
            pass
        case "replace":
            return {key: item for key, item in patch.items() if key != PATCH}
        case "delete":
            return {}
        case "merge":
            patch = {key: item for key, item in patch.items() if key != PATCH}
        case other:
            raise malformed(f"unknown patch type: {other}; $patch can be replace, delete or merge")
    merged = _retained(document, patch)
    for key, change in patch.items():
        if key.startswith("$"):
            continue
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_values(merged.get(key), change, node.child(key) if node else None, key)
    _delete_values(merged, patch)
    _set_orders(merged, document, patch, node)
    return merged


def _retained(document: Object, patch: Object) -> Object:
    keep = patch.get(RETAIN)
    if keep is None:
        return dict(document)
    named = {key for key in patch if not key.startswith("$") and patch[key] is not None}
    if not isinstance(keep, list) or not all(isinstance(key, str) for key in keep) or not named <= set(keep):
        raise malformed("invalid patch format of retainKeys")
    return {key: item for key, item in document.items() if key in keep}


def _merge_values(old: Any, change: Any, node: SchemaNode | None, key: str) -> Any:
    if isinstance(change, dict):
        if isinstance(old, list):
            raise unfit(f"cannot restore slice from map: {key} is a list")
        if node is not None and "replace" in node.patch_strategy and PATCH not in change:
            return change
        return _merge_objects(old if isinstance(old, dict) else {}, change, node)
    if isinstance(change, list):
        return _merge_lists(old if isinstance(old, list) else [], change, node, key)
    return change


def _merge_lists(old: list[Any], change: list[Any], node: SchemaNode | None, key: str) -> list[Any]:
    if node is None or "merge" not in node.patch_strategy:
        return [item for item in map(_cleaned, change) if item is not _GONE]
    if not node.merge_key:
        _same_kinds(change, (str, int, float, bool), key)
        return ordered(old, [*old, *_new_values(old, change)], change)
    _same_kinds(change, (dict,), key)
    if any(item.get(PATCH) == "replace" for item in change):
        return [_cleaned(item) for item in change if PATCH not in item]
    return _merge_items([item for item in old if isinstance(item, dict)], change, node)


def _merge_items(old: list[Object], change: list[Object], node: SchemaNode) -> list[Object]:
    merge_key = node.merge_key
    merged: list[Object | None] = list(old)  # None: deleted
    places: dict[Hashable, list[int]] = {}
    for index, known in enumerate(old):
        places.setdefault(identity(known.get(merge_key), ()), []).append(index)
    for item in change:
        if merge_key not in item:
            raise unfit(f"an item of the patch does not contain declared merge key: {merge_key}")
        key = identity(item[merge_key], ())
        if item.get(PATCH) == "delete":
            for index in places.pop(key, ()):
                merged[index] = None
        elif key in places:
            first = places[key][0]
            merged[first] = _merge_objects(merged[first] or {}, item, node.items)
        else:
            places[key] = [len(merged)]
            merged.append(_merge_objects({}, item, node.items))
    kept = [item for item in change if item.get(PATCH) != "delete"]
    return ordered(old, [item for item in merged if item is not None], kept, merge_key)


def _same_kinds(change: list[Any], kinds: tuple[type, ...], key: str) -> None:
    if not all(isinstance(item, kinds) for item in change):
        raise unfit(f"list element types are not identical: the items of {key} in the patch are of another kind")


def _new_values(old: list[Any], change: list[Any]) -> list[Any]:
    known = {identity(value, ()) for value in old}
    new: dict[Hashable, Any] = {}
    for value in change:
        key = identity(value, ())
        if key not in known:
            new.setdefault(key, value)
    return [*new.values()]


def _delete_values(merged: Object, patch: Object) -> None:
    for directive, values in patch.items():
        if not directive.startswith(DELETE_FROM):
            continue
        name = directive.removeprefix(DELETE_FROM)
        if not isinstance(values, list):
            raise malformed(f"{directive} is not a list")
        if isinstance(merged.get(name), list):
            gone = {identity(value, ()) for value in values}
            merged[name] = [item for item in merged[name] if identity(item, ()) not in gone]


def _set_orders(merged: Object, document: Object, patch: Object, node: SchemaNode | None) -> None:
    for directive, order in patch.items():
        if not directive.startswith(ORDER):
            continue
        name = directive.removeprefix(ORDER)
        child = node.child(name) if node else None
        if not isinstance(order, list):
            raise malformed(f"{directive} is not a list")
        if child is None:
            raise unfit(f"{directive}: there is no field {name}")
        merge_key = child.merge_key
        if merge_key and not all(isinstance(item, dict) and merge_key in item for item in order):
            raise malformed(f"{directive}: every item must contain the merge key {merge_key}")
        changed = patch.get(name)
        if isinstance(changed, list):
            _orders_agree([item for item in changed if not _is_directive(item)], order, merge_key, name)
        if isinstance(merged.get(name), list):
            old = document.get(name)
            merged[name] = ordered(old if isinstance(old, list) else [], merged[name], order, merge_key)


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and PATCH in item


def _orders_agree(changed: list[Any], order: list[Any], merge_key: str, name: str) -> None:
    """Check that the order contains every item of the patch, in the same order."""
    rest = iter(order)
    for item in changed:
        if not any(same(_identity(item, merge_key), _identity(each, merge_key)) for each in rest):
            raise unfit(f"The order in patch list {name} doesn't match {ORDER}{name} list")


def _identity(item: Any, merge_key: str) -> Any:
    return item.get(merge_key) if merge_key and isinstance(item, dict) else item


_GONE: Any = object()


def _cleaned(value: Any) -> Any:
    """A value of the patch that meets nothing in the document: without directives, and without what they remove."""
    if isinstance(value, dict):
        if value.get(PATCH) == "delete":
            return _GONE
        kept = {key: _cleaned(item) for key, item in value.items() if not key.startswith("$")}
        return {key: item for key, item in kept.items() if item is not None and item is not _GONE}
    if isinstance(value, list):
        return [item for item in map(_cleaned, value) if item is not _GONE]
    return value
