"""Validation that an OpenAPI dict is a structural schema, as CustomResourceDefinitions must be.

Structural means: every field has its type in exactly one place, on the path from the root through ``properties``,
``items`` and ``additionalProperties``. Keywords below ``anyOf`` and its like may restrict values further, but do not
declare fields. Only then can fields be pruned and defaulted unambiguously.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubebase.go_regexp import PatternError, check_syntax
from kubesim.api.field_errors import FieldErrorType, FieldProblem, forbidden, invalid, required, unsupported
from kubesim.schema.extensions import extension_problems, is_int_or_string
from kubesim.schema.value_checks import type_name

DEEPEST_SCHEMA: Final = 90
"""Levels of fields below fields. Objects may nest 200 levels, and an object of such a schema is written in a schema
of twice the depth."""

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")

_KEYWORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("type", "title", "description", "format", "pattern", "id", "$ref", "$schema"), "string"),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), "boolean"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), "integer"),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), "number"),
    **dict.fromkeys(("enum", "required", "allOf", "anyOf", "oneOf", "x-kubernetes-validations"), "array"),
    **dict.fromkeys(("properties", "patternProperties", "definitions", "dependencies", "not"), "object"),
    "x-kubernetes-preserve-unknown-fields": "boolean",
    "x-kubernetes-int-or-string": "boolean",
    "x-kubernetes-embedded-resource": "boolean",
    "x-kubernetes-list-type": "string",
    "x-kubernetes-map-type": "string",
    "x-kubernetes-list-map-keys": "array",
    "x-kubernetes-patch-merge-key": "string",
    "x-kubernetes-patch-strategy": "string",
}
_UNSUPPORTED: Final = ("$ref", "id", "definitions", "patternProperties", "dependencies", "additionalItems")
_LISTS_OF_TEXT: Final = ("required", "x-kubernetes-list-map-keys")

# What a part below anyOf and its like must not say, and what it has to be instead.
_ONLY_ON_THE_WAY: Final[Mapping[str, str]] = {
    "additionalProperties": "undefined",
    "default": "undefined",
    "description": "empty",
    "nullable": "false",
    "title": "empty",
    "type": "empty",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-map-type": "undefined",
}
_WHERE_TYPES_ARE_MISSING: Final = {
    "root": "must not be empty at the root",
    "field": "must not be empty for specified object fields",
    "item": "must not be empty for specified array items",
}


@dataclass(slots=True)
class StructuralReport:
    """What an examination found."""

    problems: list[FieldProblem] = field(default_factory=list)
    defaults: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The dicts that have a default, with their paths."""
    unevaluated: list[str] = field(default_factory=list)
    """Where there are expressions in CEL."""


def check_structural(openapi: Any, where: str) -> StructuralReport:
    """The problems of a schema at a path. A dict in several places is checked once."""
    examination = _StructuralCheck()
    examination.on_the_way(openapi, where, "root", 0)
    return examination.report


class _StructuralCheck:
    def __init__(self) -> None:
        self.report = StructuralReport()
        self._seen: set[int] = set()

    def on_the_way(self, openapi: Any, path: str, place: str, depth: int) -> None:
        """Check a schema that declares fields."""
        if not self._readable(openapi, path, depth):
            return
        add = self.report.problems.extend
        add(_keyword_problems(openapi, path))
        add(_type_problems(openapi, path, place))
        add(_child_problems(openapi, path))
        add(extension_problems(openapi, path))
        if place == "root":
            add(_root_problems(openapi, path))
        if openapi.get("default") is not None:
            self.report.defaults.append((path, openapi))
        if openapi.get("x-kubernetes-validations"):
            self.report.unevaluated.append(f"{path}.x-kubernetes-validations")
        for name, child in _fields(openapi):
            self.on_the_way(child, f"{path}.properties[{name}]", "field", depth + 1)
        if isinstance(others := openapi.get("additionalProperties"), dict):
            self.on_the_way(others, f"{path}.additionalProperties", "field", depth + 1)
        if isinstance(items := openapi.get("items"), dict):
            self.on_the_way(items, f"{path}.items", "item", depth + 1)
        typed = is_int_or_string(openapi)
        for where, part in _parts(openapi, path):
            self._restriction(part, where, depth + 1, _types_allowed(openapi, where) if typed else "")

    def _restriction(self, openapi: Any, path: str, depth: int, types: str = "") -> None:
        """Check a schema below anyOf and its like. ``types``: whether int-or-string may be spelled out."""
        if not self._readable(openapi, path, depth):
            return
        add = self.report.problems.append
        for keyword, instead in _ONLY_ON_THE_WAY.items():
            said = openapi.get(keyword)
            if (said or (said is not None and instead == "undefined")) and not (keyword == "type" and types == "here"):
                add(forbidden(f"{path}.{keyword}", f"must be {instead} to be structural"))
        self.report.problems += _keyword_problems(openapi, path)
        for name, child in _fields(openapi):
            self._restriction(child, f"{path}.properties[{name}]", depth + 1)
        if isinstance(items := openapi.get("items"), dict):
            self._restriction(items, f"{path}.items", depth + 1)
        for where, part in _parts(openapi, path):
            here = "here" if types == "below" and ".anyOf[" in where.removeprefix(path) else ""
            self._restriction(part, where, depth + 1, here)

    def _readable(self, openapi: Any, path: str, depth: int) -> bool:
        """Whether there is something to examine that has not been examined yet."""
        if depth > DEEPEST_SCHEMA:
            self.report.problems.append(forbidden(path, f"must not nest more than {DEEPEST_SCHEMA} levels"))
            return False
        if id(openapi) in self._seen:
            return False
        self._seen.add(id(openapi))
        malformed = _malformed(openapi, path)
        self.report.problems += malformed
        return not malformed


def _malformed(openapi: Any, path: str) -> list[FieldProblem]:
    if not isinstance(openapi, dict):
        return [_wrong_type(path, "object", openapi)]
    found: list[FieldProblem] = []
    for keyword, said in openapi.items():
        kind = _KEYWORDS.get(keyword)
        if kind is None or said is None:
            continue
        name = type_name(said)
        if not (name == kind or (kind == "number" and name == "integer") or (kind == "number" and _finite(said))):
            found.append(_wrong_type(f"{path}.{keyword}", kind, said))
        elif keyword in _LISTS_OF_TEXT:
            entries = enumerate(said)
            found += [_wrong_type(f"{path}.{keyword}[{i}]", "string", e) for i, e in entries if not isinstance(e, str)]
    others = openapi.get("additionalProperties")
    if not isinstance(others, dict | bool | None):
        found.append(_wrong_type(f"{path}.additionalProperties", "object", others))
    items = openapi.get("items")
    if not isinstance(items, dict | list | None):
        found.append(_wrong_type(f"{path}.items", "object", items))
    return found


def _finite(said: Any) -> bool:
    try:
        float(said)
    except (OverflowError, TypeError, ValueError):
        return False
    return not isinstance(said, str | bool)


def _wrong_type(path: str, kind: str, said: Any) -> FieldProblem:
    name = type_name(said)
    return FieldProblem(path, FieldErrorType.TYPE, f'{path} in body must be of type {kind}: "{name}"', name)


def _keyword_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    for keyword in _UNSUPPORTED:
        if openapi.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if openapi.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    if pattern := openapi.get("pattern"):
        try:
            check_syntax(pattern)
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, detail)


def _type_problems(openapi: dict[str, Any], path: str, place: str) -> Iterator[FieldProblem]:
    kind = openapi.get("type")
    if not kind:
        untyped = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "$ref")
        if not any(map(openapi.get, untyped)):
            yield required(f"{path}.type", _WHERE_TYPES_ARE_MISSING[place])
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
        if kind == "null":
            yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")


def _child_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    if openapi.get("properties") and isinstance(openapi.get("additionalProperties"), dict):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(openapi.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif openapi.get("type") == "array" and openapi.get("items") is None:
        yield required(f"{path}.items", "must be specified")


def _root_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    if openapi.get("type") not in {None, "", "object"}:
        yield invalid(f"{path}.type", openapi["type"], "must be object at the root")
    if openapi.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if openapi.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    yield from _identity_problems(openapi, path)
    for name, child in _fields(openapi):
        if name in {"apiVersion", "kind", "metadata"} and isinstance(child, dict) and child.get("default") is not None:
            yield forbidden(f"{path}.properties[{name}].default", f"must not be set in top-level {name}")
    about = dict(_fields(openapi)).get("metadata")
    if isinstance(about, dict):
        named = about.get("properties")
        beyond = about.keys() - {"type", "description", "properties", "default"}
        if beyond or (isinstance(named, dict) and named.keys() - {"name", "generateName"}):
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(f"{path}.properties[metadata]", detail)


def _identity_problems(openapi: dict[str, Any], path: str) -> Iterator[FieldProblem]:
    """What every resource has, has the same type everywhere."""
    for name, child in _fields(openapi):
        kind = {"apiVersion": "string", "kind": "string", "metadata": "object"}.get(name)
        if kind and isinstance(child, dict) and child.get("type") not in {None, "", kind}:
            yield invalid(f"{path}.properties[{name}].type", child["type"], f"must be {kind}")


def _fields(openapi: dict[str, Any]) -> list[tuple[str, Any]]:
    return list((openapi.get("properties") or {}).items())


def _parts(openapi: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(openapi.get(keyword) or ()):
            yield f"{path}.{keyword}[{index}]", part
    if openapi.get("not") is not None:
        yield f"{path}.not", openapi["not"]


def _types_allowed(openapi: dict[str, Any], where: str) -> str:
    """int-or-string may be spelled out, as ``anyOf: [{type: integer}, {type: string}]`` or that as part of allOf."""
    spelled = [{"type": "integer"}, {"type": "string"}]
    if openapi.get("anyOf") == spelled and ".anyOf[" in where:
        return "here"
    every = openapi.get("allOf") or [{}]
    first = every[0]
    if where.endswith(".allOf[0]") and isinstance(first, dict) and first.get("anyOf") == spelled:
        return "below"
    return ""
