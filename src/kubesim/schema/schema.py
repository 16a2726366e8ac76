"""A schema with its public methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.schema.compiled import SchemaNode, copied
from kubesim.schema.compiler import Compilation, compiled_part
from kubesim.schema.embedded import METADATA
from kubesim.schema.errors import NOWHERE, findings
from kubesim.schema.structural import check_structural

OpenApi = dict[str, Any]

_METADATA = compiled_part(METADATA)


class SchemaError(ValueError):
    """The OpenAPI dict is not a structural schema, for these reasons."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class Schema:
    """A structural schema of a resource. ``where`` is the path under which problems with it are reported.

    It is compiled on first use, because most kinds are rarely used.
    """

    def __init__(self, openapi: OpenApi, where: str = "spec.validation.openAPIV3Schema") -> None:
        report = check_structural(openapi, where)
        if report.problems:
            raise SchemaError(report.problems)
        self._make: Callable[[], OpenApi] = lambda: openapi
        self.unevaluated: list[str] = report.unevaluated
        """The paths of CEL expressions, which are not evaluated."""
        compilation = Compilation(openapi)
        wrong = [
            problem
            for path, part in report.defaults
            for problem in _default_problems(compilation.node(part), part["default"], f"{path}.default")
        ]
        if wrong:
            raise SchemaError(wrong)
        self.root = compilation.root

    @classmethod
    def sound(cls, make: Callable[[], OpenApi]) -> Schema:
        """A schema that is known to be structural, built on first use."""
        schema = cls.__new__(cls)
        schema._make = make
        schema.unevaluated = []
        return schema

    @cached_property
    def openapi(self) -> OpenApi:
        """As it is written."""
        return self._make()

    @cached_property
    def root(self) -> SchemaNode:
        """The root node, for strategic merge patches."""
        return Compilation(self.openapi).root

    # ``old``, where given, is the stored object that ``obj`` replaces. Parts that both share (the same Python objects)
    # were pruned, defaulted and validated when they were stored, and are not visited again.

    def mistyped(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldProblem]:
        """The values of the wrong JSON type; null has none, and what the schema does not know may have any."""
        return [] if self._types.holds_since(obj, old) else findings(self._types, obj, "")

    def prune(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
        """Remove unknown fields in place, and return their paths. ``metadata`` is not pruned."""
        if self.root.tidy_since(obj, old):
            return []
        return sorted(path[1:] for path in self.root.prune(obj))

    def default(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> None:
        """Fill in defaults in place, and drop nulls where the schema does not allow them."""
        self.root.default_since(obj, old)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldProblem]:
        """The problems of an object."""
        return [] if self.root.holds_since(obj, old) else findings(self.root, obj, "")

    @cached_property
    def applied(self) -> SchemaNode:
        """The root node for merging objects: it includes how metadata merges, which all kinds share."""
        root = SchemaNode()
        root.properties = {**self.root.properties, "metadata": _METADATA}
        root.additional, root.preserves = self.root.additional, self.root.preserves
        return root

    @cached_property
    def _types(self) -> SchemaNode:
        return Compilation(self.openapi, types_only=True).root


def _default_problems(node: SchemaNode, default: Any, path: str) -> list[FieldProblem]:
    """A default must have known fields only and be valid without further defaulting."""
    if node.prune(copied(default)):
        return [invalid(path, default, "must not have unknown fields")]
    return [_below(path, problem) for problem in findings(node, default, "")]


def _below(path: str, problem: FieldProblem) -> FieldProblem:
    if problem.field == NOWHERE:
        return problem
    dot = "" if not problem.field or problem.field.startswith("[") else "."
    return replace(problem, field=f"{path}{dot}{problem.field}")
