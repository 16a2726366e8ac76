"""The compiler: from an OpenAPI dict, known to be structural, to the nodes of a compiled schema."""

from __future__ import annotations

from typing import Any

from kubesim.schema.compiled import NOTHING, SchemaNode, copied
from kubesim.schema.embedded import APPLIED_KEYS, APPLIED_SET, METADATA
from kubesim.schema.fast_validators import build_validators
from kubesim.schema.formats import LARGEST_FLOAT, WHOLE
from kubesim.schema.value_checks import OpenApi, format_check, number_checks, size_checks, text_checks

_TYPE_META: dict[str, Any] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_METADATA: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True}
_ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}


class Compilation:
    """The nodes of one schema. With ``types_only`` they know of JSON types and nothing else, and null is of any."""

    def __init__(self, openapi: OpenApi, *, types_only: bool = False) -> None:
        compiler = _Compiler(types_only)
        self.root = compiler.resource(openapi)
        compiler.finish()
        self.node = compiler.node
        """The node of one of the schema's dicts."""


def compiled_part(openapi: OpenApi) -> SchemaNode:
    """The node of a part of a schema, on its own."""
    compiler = _Compiler(types_only=False)
    part = compiler.node(openapi)
    compiler.finish()
    return part


class _Compiler:
    def __init__(self, types_only: bool) -> None:
        self._types_only = types_only
        self._by_identity: dict[int, tuple[OpenApi, SchemaNode]] = {}  # with the dict, so that its id stays taken
        self._alike: dict[frozenset[Any], SchemaNode] = {}  # the many plain fields without anything below them

    def resource(self, openapi: OpenApi) -> SchemaNode:
        """The root. Its metadata is neither pruned nor defaulted here: all kinds have the same, checked elsewhere."""
        own = (openapi.get("properties") or {}).get("metadata") or {}
        about = {**_METADATA, "properties": own.get("properties")}
        root = self._node(openapi)
        root.properties = {**self._children(_TYPE_META), **root.properties, "metadata": self.node(about)}
        return root

    def finish(self) -> None:
        """Give all nodes their verdicts, now that they are complete."""
        for _, node in self._by_identity.values():
            build_validators(node)

    def node(self, openapi: OpenApi) -> SchemaNode:
        """The node of a dict: shared by identical dicts, and by equal small ones."""
        known = self._by_identity.get(id(openapi))
        if known is not None:
            return known[1]
        words = _few_words(openapi)
        if words is not None and words in self._alike:
            return self._alike[words]
        node = self._node(openapi)
        if words is not None:
            self._alike[words] = node
        return node

    def _node(self, openapi: OpenApi) -> SchemaNode:
        node = SchemaNode()
        self._by_identity[id(openapi)] = (openapi, node)
        self._compile_types(node, openapi)
        self._compile_children(node, openapi)
        if not self._types_only:
            self._compile_defaults(node, openapi)
            self._compile_checks(node, openapi)
            self._compile_combinations(node, openapi)
            node.merge_key = openapi.get("x-kubernetes-patch-merge-key") or ""
            strategy = openapi.get("x-kubernetes-patch-strategy") or ""
            node.patch_strategy = frozenset(filter(None, strategy.split(",")))
            node.atomic = openapi.get("x-kubernetes-map-type") == "atomic"
            node.is_set = openapi.get("x-kubernetes-list-type") == "set" or bool(openapi.get(APPLIED_SET))
            node.list_keys = node.identity_keys or tuple(openapi.get(APPLIED_KEYS) or ())
        return node

    def _compile_types(self, node: SchemaNode, openapi: OpenApi) -> None:
        kind, form = openapi.get("type", ""), openapi.get("format", "")
        either = bool(openapi.get("x-kubernetes-int-or-string"))
        node.types = ("integer", "string") if either else (kind,) if kind else ()
        node.nullable = self._types_only or bool(openapi.get("nullable"))
        node.quantity = either and form == "quantity"
        if kind == "integer" and form in WHOLE and not either:
            node.range = (form, *WHOLE[form])
        elif kind == "number" and form == "float":
            node.range = (form, -LARGEST_FLOAT, LARGEST_FLOAT)

    def _compile_children(self, node: SchemaNode, openapi: OpenApi) -> None:
        node.preserves = bool(openapi.get("x-kubernetes-preserve-unknown-fields"))
        node.embedded = bool(openapi.get("x-kubernetes-embedded-resource")) and not self._types_only
        node.properties = self._children(openapi.get("properties") or {})
        if openapi.get("x-kubernetes-embedded-resource"):
            node.properties |= self._children({**_TYPE_META, "metadata": METADATA})
        others = openapi.get("additionalProperties")
        if isinstance(others, dict):
            node.additional = self.node(others)
        elif others is not None:
            # Only the names are free: what is inside of such a field is unknown, and so it is pruned.
            node.additional = self.node(_ANYTHING) if node.preserves else NOTHING
            node.forbids_others = not others and not self._types_only
        if isinstance(items := openapi.get("items"), dict):
            node.items = self.node(items)

    def _children(self, properties: OpenApi) -> dict[str, SchemaNode]:
        return {name: self.node(child) for name, child in properties.items()}

    def _compile_defaults(self, node: SchemaNode, openapi: OpenApi) -> None:
        if openapi.get("default") is not None:
            node.has_default = True
            node.default_value = copied(openapi["default"])
        # From the dicts: a child that refers back to this node is not complete yet.
        node.defaults = tuple(
            (name, copied(child["default"]))
            for name, child in (openapi.get("properties") or {}).items()
            if child.get("default") is not None
        )

    def _compile_checks(self, node: SchemaNode, openapi: OpenApi) -> None:
        node.required = tuple(dict.fromkeys(openapi.get("required") or ()))
        if openapi.get("enum"):
            node.enum = tuple(openapi["enum"])
        form = format_check(openapi)
        node.text_checks = (*text_checks(openapi), *((form,) if form else ()))
        node.number_checks = tuple(number_checks(openapi))
        node.list_checks = tuple(size_checks(openapi, "items"))
        node.object_checks = tuple(size_checks(openapi, "properties"))
        node.unique = openapi.get("x-kubernetes-list-type") in {"set", "map"}
        if openapi.get("x-kubernetes-list-type") == "map":
            node.identity_keys = tuple(openapi.get("x-kubernetes-list-map-keys") or ())

    def _compile_combinations(self, node: SchemaNode, openapi: OpenApi) -> None:
        node.any_of = tuple(map(self.node, openapi.get("anyOf") or ()))
        node.one_of = tuple(map(self.node, openapi.get("oneOf") or ()))
        node.all_of = tuple(map(self.node, openapi.get("allOf") or ()))
        if isinstance(excluded := openapi.get("not"), dict):
            node.none_of = self.node(excluded)


def _few_words(openapi: OpenApi) -> frozenset[Any] | None:
    if "default" in openapi or len(openapi) > 4:  # defaults true and 1 would be taken for the same
        return None
    try:
        return frozenset((word, said) for word, said in openapi.items() if word != "description")
    except TypeError:
        return None
