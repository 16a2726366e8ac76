"""The validation errors of a value, in the order in which kube-apiserver reports them."""

from __future__ import annotations

import json
from typing import Any

from kubesim.api.field_errors import FieldErrorType, FieldProblem, invalid, required, unsupported
from kubesim.schema import embedded
from kubesim.schema.compiled import SchemaNode
from kubesim.schema.formats import QUANTITY_RULE, is_quantity
from kubesim.schema.uniqueness import repetitions
from kubesim.schema.value_checks import is_among, shown_number, type_name

LARGEST_WHOLE_FLOAT = 2**53

NOWHERE = "<nil>"  # the field of problems that kube-apiserver does not attach to one


def fits(node: SchemaNode, value: Any) -> bool:
    """Whether nothing is wrong with a value."""
    return node.holds(value) or not findings(node, value, "")


def findings(node: SchemaNode, value: Any, path: str) -> list[FieldProblem]:
    """All problems with the value at a path."""
    found = _type_problems(node, value, path)
    found += _combination_problems(node, value, path)
    match value:
        case str():
            found += _text_problems(node, value, path)
        case bool():
            pass
        case int() | float():
            found += _number_problems(node, value, path)
        case list():
            found += _list_problems(node, value, path)
    if node.enum is not None and not is_among(value, node.enum):
        found.append(_not_among(node.enum, value, path))
    if isinstance(value, dict):
        found += _object_problems(node, value, path)
    return found


def below(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def _type_problems(node: SchemaNode, value: Any, path: str) -> list[FieldProblem]:
    types = node.types
    if not types or (value is None and node.nullable):
        return []
    name = type_name(value)
    if name in types or (name == "integer" and "number" in types) or (name == "number" and node.quantity):
        return []
    if name == "number" and "integer" in types and _is_whole(value):
        return []
    wrong = FieldProblem(path, FieldErrorType.TYPE, f'{path} in body must be of type {",".join(types)}: "{name}"', name)
    if name == "number" and types == ("integer",):
        what = f"with format {node.range[0]}" if node.range else "(default format)"
        return [wrong, invalid(NOWHERE, "", f"Checked value must be of type integer {what} in {path}")]
    return [wrong]


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_WHOLE_FLOAT


def _text_problems(node: SchemaNode, text: str, path: str) -> list[FieldProblem]:
    if node.quantity and not is_quantity(text):
        return [invalid(path, text, QUANTITY_RULE)]
    failed = [check for check in node.text_checks if not check.holds(text)]
    problems = [check.problem(path, text) for check in failed]
    # Length and pattern come first, the format last; of the former one problem is enough.
    shape = [problem for problem in problems if problem.fault is not FieldErrorType.TYPE]
    return shape[:1] + [problem for problem in problems if problem.fault is FieldErrorType.TYPE]


def _number_problems(node: SchemaNode, number: float, path: str) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if node.quantity and not is_quantity(number):
        found.append(invalid(path, shown_number(number), QUANTITY_RULE))
    if node.range and node.types and type_name(number) in {"integer", *node.types}:
        name, low, high = node.range
        if not low <= number <= high:
            detail = f"Checked value must be of type {node.types[0]} with format {name} in {path}"
            found.append(invalid(NOWHERE, "", detail))
    return found + [check.problem(path, number) for check in node.number_checks if not check.holds(number)]


def _list_problems(node: SchemaNode, items: list[Any], path: str) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if node.items is not None:
        for index, item in enumerate(items):
            if not node.items.holds(item):
                found += findings(node.items, item, f"{path}[{index}]")
    found += [check.problem(path, items) for check in node.list_checks if not check.holds(items)]
    if node.unique:
        found += repetitions(items, node.identity_keys, path)
    return found


def _object_problems(node: SchemaNode, value: dict[str, Any], path: str) -> list[FieldProblem]:
    found = [check.problem(path, value) for check in node.object_checks if not check.holds(value)]
    for key, item in value.items():
        child = node.child(key)
        if node.forbids_others and key not in node.properties:
            found.append(invalid(path, key, f"{below(path, key)} in body is a forbidden property"))
        elif child is not None and not child.holds(item):
            found += findings(child, item, below(path, key))
    found += [required(below(path, name)) for name in node.required if name not in value]
    return found + embedded.problems(value, path) if node.embedded else found


def _combination_problems(node: SchemaNode, value: Any, path: str) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if node.any_of:
        found += _any_of_problems(node.any_of, value, path)
    if node.one_of:
        found += _one_of_problems(node.one_of, value, path)
    if node.all_of:
        wrong = [problem for part in node.all_of for problem in findings(part, value, path)]
        if wrong:
            found += [*wrong, invalid(NOWHERE, "", f'"{path}" must validate all the schemas (allOf)')]
    if node.none_of is not None and fits(node.none_of, value):
        found.append(invalid(NOWHERE, "", f'"{path}" must not validate the schema (not)'))
    return found


def _any_of_problems(parts: tuple[SchemaNode, ...], value: Any, path: str) -> list[FieldProblem]:
    failures = [findings(part, value, path) for part in parts]
    if not all(failures):
        return []
    return [invalid(NOWHERE, "", f'"{path}" must validate at least one schema (anyOf)'), *min(failures, key=len)]


def _one_of_problems(parts: tuple[SchemaNode, ...], value: Any, path: str) -> list[FieldProblem]:
    failures = [findings(part, value, path) for part in parts]
    valid = failures.count([])
    if valid == 1:
        return []
    how_many, closest = (f"{valid} valid alternatives", []) if valid else ("none valid", min(failures, key=len))
    detail = f'"{path}" must validate one and only one schema (oneOf). Found {how_many}'
    return [invalid(NOWHERE, "", detail), *closest]


def _not_among(values: tuple[Any, ...], value: Any, path: str) -> FieldProblem:
    shown = value if not isinstance(value, int | float) or isinstance(value, bool) else shown_number(value)
    return unsupported(path, shown, map(_enum_text, values))


def _enum_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
