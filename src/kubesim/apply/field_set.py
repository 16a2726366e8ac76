"""The fields of an object as a set of paths, in the notation of ``managedFields``.

A path is a tuple of steps: ``f:NAME`` into a field, ``k:{"name":"web"}`` to the item of a list with that key,
``v:"text"`` to an item of a set. A value that the schema declares atomic, and every list without a declared list type,
counts as a single field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kubesim.schema.compiled import SchemaNode

Path = tuple[str, ...]
Paths = frozenset[Path]
Fields = dict[str, Any]
"""A set of paths as ``fieldsV1`` has it: a tree, in which ``.`` marks an inner path that is in the set."""

_encode = msgspec.json.Encoder(order="deterministic").encode

SERVER_FIELDS: Paths = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields",
            "resourceVersion",
        )
    }
)  # fmt: skip
"""Fields that the server owns or that identify the object."""


def is_atomic(value: Any, node: SchemaNode | None) -> bool:
    """Whether a value is a single field, with a single owner."""
    if value.__class__ is dict:
        return node is not None and node.atomic
    if value.__class__ is list:
        return node is None or not (node.list_keys or node.is_set)
    return True


def children(value: Any, node: SchemaNode | None) -> Iterator[tuple[str, Any, SchemaNode | None]]:
    """The fields or items of a value that is not atomic: step, value and schema node of each."""
    if value.__class__ is dict:
        for name, part in value.items():
            yield f"f:{name}", part, node.child(name) if node else None
    elif node is not None:
        for item in value:
            yield step_to(item, node), item, node.items


def step_to(item: Any, node: SchemaNode) -> str:
    """The step to an item of a list: by its keys, or by its value."""
    if not node.list_keys or item.__class__ is not dict:
        return f"v:{_encode(item).decode()}"
    keys = {}
    for name in node.list_keys:
        field = node.items.child(name) if node.items else None
        default = field.default_value if field is not None and field.has_default else None
        if item.get(name, default) is not None:
            keys[name] = item.get(name, default)
    return f"k:{_encode(keys).decode()}"


def applied_fields(value: Any, node: SchemaNode | None) -> Paths:
    """The fields that applying this object sets: its leaves, and the items of its lists."""
    return frozenset(_named(value, node, ())) - SERVER_FIELDS


def _named(value: Any, node: SchemaNode | None, here: Path) -> Iterator[Path]:
    if is_atomic(value, node) or not value:
        yield here
        return
    for step, part, below in children(value, node):
        if step[0] != "f":
            yield (*here, step)
        yield from _named(part, below, (*here, step))


def changed_fields(old: Any, new: Any, node: SchemaNode | None) -> Paths:
    """The fields that are new or changed in an object."""
    return frozenset(_changed(old, new, node, ())) - SERVER_FIELDS


def _changed(old: Any, new: Any, node: SchemaNode | None, here: Path) -> Iterator[Path]:
    if old == new and old.__class__ is new.__class__:
        return
    if old.__class__ is not new.__class__ or is_atomic(new, node):
        if here:
            yield here
        if is_atomic(new, node):
            return
        old = new.__class__()
    before = {step: part for step, part, _ in children(old, node)}
    for step, part, below in children(new, node):
        if step in before:
            yield from _changed(before[step], part, below, (*here, step))
        else:
            yield (*here, step)
            if not is_atomic(part, below):
                yield from _changed(part.__class__(), part, below, (*here, step))


def present_fields(value: Any, node: SchemaNode | None) -> Paths:
    """All paths that exist in an object."""
    return frozenset(_present(value, node, ()))


def _present(value: Any, node: SchemaNode | None, here: Path) -> Iterator[Path]:
    if here:
        yield here
    if not is_atomic(value, node):
        for step, part, below in children(value, node):
            yield from _present(part, below, (*here, step))


def with_fields_above(paths: Paths) -> Paths:
    """The paths and the fields (not items) that contain them: setting a field sets its parents."""
    inner = (path[:length] for path in paths for length in range(1, len(path)))
    return paths | {path for path in inner if path[-1].startswith("f:")}


def encode_fields(paths: Iterable[Path]) -> Fields:
    """A set of paths as ``fieldsV1``."""
    root: Fields = {}
    chosen = frozenset(paths)
    for path in sorted(chosen):
        at = root
        for length, step in enumerate(path, 1):
            if step not in at:
                at[step] = {}
            elif not at[step] and path[:length] in chosen:
                at[step]["."] = {}  # in the set itself, and with more below
            at = at[step]
    return root


def decode_fields(fields: object) -> Paths:
    """The set of paths that ``fieldsV1`` describes."""
    return frozenset(_read(fields, ()))


def _read(fields: object, here: Path) -> Iterator[Path]:
    if not isinstance(fields, dict) or not fields:
        if here:
            yield here
        return
    for step, below in fields.items():
        if step == ".":
            yield here
        else:
            yield from _read(below, (*here, step))


def format_path(path: Path) -> str:
    """A path in messages: ``.spec.containers[name="web"].image``."""
    text = ""
    for step in path:
        kind, rest = step[0], step[2:]
        if kind == "f":
            text += f".{rest}"
        elif kind == "v":
            text += f"[={rest}]"
        else:
            keys = msgspec.json.decode(rest)
            text += "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in sorted(keys.items())) + "]"
    return text
