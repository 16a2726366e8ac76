"""A terse notation for the schemas of the built-in kinds, and what it expands into.

A shape is a name on a line of its own, then one indented line for each of its fields::

    Container
      name! text
      command [text]
      env [EnvVar] by name
      resources Resources
      nodeSelector {text} atomic
      protocol text = "TCP"

A type is ``text``, ``bool``, ``int32``, ``int64``, ``number``, ``quantity``, ``int-or-text``, ``time``, ``any`` (an
object about whose fields nothing is said), another shape, ``[T]`` for a list or ``{T}`` for a map. Marks follow it:
``by`` names the keys that tell the items of a list apart, the first of which a strategic merge patch goes by, and
``retaining`` after them lets that patch replace an item's fields by those it names; ``merging`` is a list that
patches merge although it is one value otherwise, ``merged`` one of scalars that patches add to; ``atomic`` makes a
map one value. ``=`` gives a default.

What ``!`` (required) means depends on who reads the object. kube-apiserver reads its own kinds into typed structs,
where a field that is missing is an empty text, a zero or an empty struct, and its checks take it from there; so
`expand` gives such fields that default. A custom resource is held to its schema, so `expand(custom=True)` makes the
schema ask for the field, and for keys of lists that differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kubesim.schema.embedded import APPLIED_KEYS

OpenApi = dict[str, Any]

_SCALARS: Final[Mapping[str, OpenApi]] = {
    "text": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "quantity": {"x-kubernetes-int-or-string": True, "format": "quantity"},
    "int-or-text": {"x-kubernetes-int-or-string": True},
    "time": {"type": "string", "format": "date-time"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
OBJECT_REFERENCE: Final = """
ObjectReference
  apiVersion text
  fieldPath text
  kind text
  name text
  namespace text
  resourceVersion text
  uid text
"""
"""A shape that several kinds have: which object is meant."""
LABEL_SELECTOR: Final = """
LabelSelector
  matchExpressions [Requirement]
  matchLabels {text}
Requirement
  key! text
  operator! text
  values [text]
"""
"""The shapes of a label selector."""

_ZEROS: Final[Mapping[str, object]] = {"text": "", "bool": False, "int32": 0, "int64": 0, "number": 0, "int-or-text": 0}


def expand_schema(text: str, root: str, *, custom: bool = False) -> OpenApi:
    """The OpenAPI schema of the shape ``root``. Shapes that occur more than once are one and the same dict."""
    return _Expansion(parse_shapes(text), custom).shape(root)


def parse_shapes(text: str) -> dict[str, list[str]]:
    """The lines of each shape, one for each of its fields."""
    found: dict[str, list[str]] = {}
    fields: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if line.startswith(" "):
            fields.append(line.strip())
        else:
            fields = found[line.strip()] = []
    return found


class _Expansion:
    def __init__(self, shapes: dict[str, list[str]], custom: bool) -> None:
        self._lines = shapes
        self._custom = custom
        self._done: dict[str, OpenApi] = {}
        self._items: dict[str, OpenApi] = {}

    def shape(self, name: str) -> OpenApi:
        if name in self._done:
            return self._done[name]
        properties: OpenApi = {}
        schema: OpenApi = {"type": "object", "properties": properties}
        self._done[name] = schema
        required: list[str] = []
        for line in self._lines[name]:
            field, _, rest = line.partition(" ")
            declared, _, default = rest.partition(" = ")
            kind, *marks = declared.split()
            known = self._type(kind)
            extra = self._marks(marks)
            if default:
                extra["default"] = json.loads(default)
            if field.endswith("!"):
                field = field[:-1]
                if self._custom:
                    required.append(field)
                elif "default" not in extra:
                    extra |= self._zero(kind)
            properties[field] = {**known, **extra} if extra else known
        if required:
            schema["required"] = required
        return schema

    def _type(self, kind: str) -> OpenApi:
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if kind.startswith("["):
            return {"type": "array", "items": self._item(kind[1:-1])}
        if kind.startswith("{"):
            return {"type": "object", "additionalProperties": self._item(kind[1:-1])}
        return self.shape(kind)

    def _item(self, kind: str) -> OpenApi:
        """What a list or a map holds. A null among it reads as the zero of its type, as in a typed struct."""
        if kind not in self._items:
            known, zero = self._type(kind), {} if self._custom else self._zero(kind)
            self._items[kind] = {**known, **zero} if zero else known
        return self._items[kind]

    def _zero(self, kind: str) -> OpenApi:
        if kind in _ZEROS:
            return {"default": _ZEROS[kind]}
        return {"default": {}} if kind in self._lines else {}

    def _marks(self, marks: list[str]) -> OpenApi:
        if not marks:
            return {}
        if marks == ["atomic"]:
            return {"x-kubernetes-map-type": "atomic"}
        if marks == ["merged"]:
            return {"x-kubernetes-patch-strategy": "merge"}
        keys = marks[1].split(",")
        found: OpenApi = {"x-kubernetes-patch-merge-key": keys[0], "x-kubernetes-patch-strategy": "merge"}
        if marks[-1] == "retaining":
            found["x-kubernetes-patch-strategy"] = "merge,retainKeys"
        if marks[0] == "by":
            found |= (
                {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
                if self._custom
                else {APPLIED_KEYS: keys}
            )
        return found
