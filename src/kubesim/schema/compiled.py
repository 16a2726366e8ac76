"""A compiled schema: the constraints of each value, and the passes that prune and default objects.

One node stands for one place in the schema; places that share their OpenAPI dict share their node, so a schema may
refer to itself. Pruning and defaulting walk the object, not the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubesim.schema.value_checks import ValueCheck


class SchemaNode:
    """The constraints of a schema on the value at one place."""

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "atomic",
        "default_value",
        "defaults",
        "embedded",
        "enum",
        "fills",
        "fills_items",
        "fills_others",
        "forbids_others",
        "has_default",
        "holds",
        "holds_since",
        "identity_keys",
        "is_set",
        "items",
        "list_checks",
        "list_keys",
        "merge_key",
        "none_of",
        "nullable",
        "number_checks",
        "object_checks",
        "one_of",
        "patch_strategy",
        "preserves",
        "properties",
        "quantity",
        "range",
        "required",
        "text_checks",
        "tidy",
        "tidy_since",
        "types",
        "unique",
    )

    def __init__(self) -> None:
        self.types: tuple[str, ...] = ()  # empty: any
        self.nullable = False
        self.properties: dict[str, SchemaNode] = {}
        self.additional: SchemaNode | None = None  # of all other fields
        self.forbids_others = False
        self.items: SchemaNode | None = None
        self.preserves = False  # unknown fields are preserved
        self.embedded = False  # an object with apiVersion, kind and metadata of its own
        self.has_default = False
        self.default_value: Any = None
        self.defaults: tuple[tuple[str, Any], ...] = ()  # of the properties
        self.required: tuple[str, ...] = ()
        self.unique = False  # a list whose items must differ, in the keys below if there are any
        self.identity_keys: tuple[str, ...] = ()
        self.quantity = False
        self.range: tuple[str, float, float] | None = None  # a format of numbers, with what it can hold
        self.enum: tuple[Any, ...] | None = None
        self.text_checks: tuple[ValueCheck, ...] = ()
        self.number_checks: tuple[ValueCheck, ...] = ()
        self.list_checks: tuple[ValueCheck, ...] = ()
        self.object_checks: tuple[ValueCheck, ...] = ()
        self.any_of: tuple[SchemaNode, ...] = ()
        self.one_of: tuple[SchemaNode, ...] = ()
        self.all_of: tuple[SchemaNode, ...] = ()
        self.none_of: SchemaNode | None = None
        self.merge_key = ""  # what tells the items of a list apart in a strategic merge patch
        self.patch_strategy: frozenset[str] = frozenset()
        self.atomic = False  # an object with a single owner
        self.is_set = False  # a list of values with an owner each
        self.list_keys: tuple[str, ...] = ()  # the keys of a list of objects with an owner each
        self.holds: Callable[[Any], bool] = _unknown
        """Whether a value is certainly valid. If not, the full validation decides."""
        self.tidy: Callable[[Any], bool] = _unknown
        """Whether a value certainly has no unknown fields."""
        self.holds_since: Callable[[Any, Any], bool] = _unknown_since
        """The same as ``holds``, for a value that shares parts with an older, valid one: these are not visited."""
        self.tidy_since: Callable[[Any, Any], bool] = _unknown_since
        """The same as ``tidy``, for a value that shares parts with an older one without unknown fields."""
        self.fills: dict[str, SchemaNode] = {}  # the properties inside of which there can be something to fill in
        self.fills_others: SchemaNode | None = None
        self.fills_items: SchemaNode | None = None

    def child(self, name: str) -> SchemaNode | None:
        """What is known about a field."""
        return self.properties.get(name, self.additional)

    @property
    def is_deep(self) -> bool:
        """Whether the node has fields or items."""
        return not self.types or self.types[0] in {"object", "array"}

    @property
    def is_filled(self) -> bool:
        """Whether something in a value can have a default, or be null where it must not."""
        items = self.items
        return bool(self.properties or self.additional or (items is not None and (items.has_default or items.is_deep)))

    def prune(self, value: Any) -> list[str]:
        """Remove unknown fields. Returns their paths from here, each beginning with a dot or a bracket."""
        if self.tidy(value):
            return []
        if value.__class__ is dict:
            return self._prune_object(value, self.preserves)
        if value.__class__ is list:
            return self._prune_list(value, self.preserves)
        return []

    def _prune_object(self, value: dict[str, Any], preserves: bool) -> list[str]:
        known, others = self.properties, self.additional
        unknown = [] if preserves or others is not None else [key for key in value if key not in known]
        for key in unknown:
            del value[key]
        removed = [f".{key}" for key in unknown]
        for key, item in value.items():
            node = known.get(key, others)
            if node is not None and node.is_deep:
                removed += [f".{key}{path}" for path in node.prune(item)]
        return removed

    def _prune_list(self, value: list[Any], preserves: bool) -> list[str]:
        # A list that preserves unknown fields does so for its items; what they contain is pruned again.
        node = self.items or NOTHING
        removed: list[str] = []
        for index, item in enumerate(value):
            if item.__class__ is dict:
                below = node._prune_object(item, preserves or node.preserves)
            elif item.__class__ is list:
                below = node._prune_list(item, preserves or node.preserves)
            else:
                continue
            removed += [f"[{index}]{path}" for path in below]
        return removed

    def default_since(self, value: Any, old: Any) -> None:
        """The same as ``default``, for an object that shares parts with an older, complete one."""
        if value is old:
            return
        if value.__class__ is not dict or old.__class__ is not dict:
            self.default(value)
            return
        for key, default in self.defaults:
            if key not in value:
                value[key] = copied(default)
        has_null = False
        for key, item in value.items():
            if item is None:
                has_null = True
            elif item is not (before := old.get(key)):
                node = self.fills.get(key, self.fills_others)
                if node is not None:
                    node.default_since(item, before)
        if has_null:
            self._replace_nulls(value)

    def default(self, value: Any) -> None:
        """Fill in defaults, and remove nulls where there may be none."""
        if value.__class__ is dict:
            for key, default in self.defaults:
                if key not in value:
                    value[key] = copied(default)
            fills, others = self.fills, self.fills_others
            has_null = False
            for key, item in value.items():
                if item is None:
                    has_null = True
                else:
                    node = fills.get(key, others)
                    if node is not None:
                        node.default(item)
            if has_null:
                self._replace_nulls(value)
        elif value.__class__ is list and self.items is not None:
            items = self.items
            if items.has_default and not items.nullable and None in value:
                value[:] = [copied(items.default_value) if item is None else item for item in value]
            if self.fills_items is not None:
                for item in value:
                    self.fills_items.default(item)

    def _replace_nulls(self, value: dict[str, Any]) -> None:
        for key in [key for key, item in value.items() if item is None]:
            node = self.child(key)
            if node is None or node.nullable:
                continue
            if node.has_default:
                value[key] = copied(node.default_value)
                node.default(value[key])
            else:
                del value[key]


def copied(value: Any) -> Any:
    """A value of its own, equal to the given one."""
    if value.__class__ is dict:
        return {key: copied(item) for key, item in value.items()}
    if value.__class__ is list:
        return [copied(item) for item in value]
    return value


def _unknown(value: Any) -> bool:
    return False


def _unknown_since(value: Any, old: Any) -> bool:
    return False


def _anything(value: Any) -> bool:
    return True


def _anything_since(value: Any, old: Any) -> bool:
    return True


NOTHING: Final = SchemaNode()
"""A node without constraints and without known fields."""
NOTHING.items = NOTHING
NOTHING.nullable = True
NOTHING.holds = _anything
NOTHING.holds_since = _anything_since
