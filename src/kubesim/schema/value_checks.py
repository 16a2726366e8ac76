"""Checks of single values, each with the message of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from kubebase.go_regexp import Pattern
from kubesim.api.field_errors import FieldErrorType, FieldProblem, invalid
from kubesim.schema.formats import TEXTS

OpenApi = Mapping[str, Any]

WHOLE = (-(2**63), 2**63 - 1)


class ValueCheck(NamedTuple):
    """One requirement, and the problem with a value at a path that does not meet it."""

    holds: Callable[[Any], bool]
    problem: Callable[[str, Any], FieldProblem]


def text_checks(openapi: OpenApi) -> list[ValueCheck]:
    """Length and pattern; the first of them that fails is the one to report."""
    checks: list[ValueCheck] = []
    if (most := openapi.get("maxLength")) is not None:
        checks.append(
            ValueCheck(
                lambda text: len(text) <= most,
                lambda path, _: FieldProblem(path, FieldErrorType.TOO_LONG, f"may not be more than {most} bytes"),
            )
        )
    if (least := openapi.get("minLength")) is not None:
        checks.append(
            ValueCheck(
                lambda text: len(text) >= least,
                lambda path, text: invalid(path, text, f"{path} in body should be at least {least} chars long"),
            )
        )
    if pattern := openapi.get("pattern"):
        checks.append(
            ValueCheck(
                Pattern(pattern).found_in,
                lambda path, text: invalid(path, text, f"{path} in body should match '{pattern}'"),
            )
        )
    return checks


def format_check(openapi: OpenApi) -> ValueCheck | None:
    """The check of a string format, if the format is known."""
    name = openapi.get("format", "")
    test = TEXTS.get(name)
    if test is None:
        return None
    return ValueCheck(
        test,
        lambda path, text: FieldProblem(
            path, FieldErrorType.TYPE, f"{path} in body must be of type {name}: {quoted(text)}", text
        ),
    )


def number_checks(openapi: OpenApi) -> list[ValueCheck]:
    """Divisor and bounds."""
    checks: list[ValueCheck] = []
    if (factor := openapi.get("multipleOf")) is not None:
        checks.append(_multiple_of(factor))
    if (most := openapi.get("maximum")) is not None:
        if openapi.get("exclusiveMaximum"):
            checks.append(ValueCheck(lambda number: number < most, _bound("less than", most)))
        else:
            checks.append(ValueCheck(lambda number: number <= most, _bound("less than or equal to", most)))
    if (least := openapi.get("minimum")) is not None:
        if openapi.get("exclusiveMinimum"):
            checks.append(ValueCheck(lambda number: number > least, _bound("greater than", least)))
        else:
            checks.append(ValueCheck(lambda number: number >= least, _bound("greater than or equal to", least)))
    return checks


def _bound(words: str, limit: float) -> Callable[[str, Any], FieldProblem]:
    def problem(path: str, number: Any) -> FieldProblem:
        shown = str(int(limit)) if isinstance(number, int) and int(limit) == limit else float_text(limit)
        return invalid(path, shown_number(number), f"{path} in body should be {words} {shown}")

    return problem


def _multiple_of(factor: float) -> ValueCheck:
    if factor <= 0:
        return ValueCheck(
            lambda _: False,
            lambda path, _: invalid(
                path, factor, f"factor MultipleOf declared for {path} must be positive: {float_text(factor)}"
            ),
        )
    divisor = Fraction(str(factor))
    return ValueCheck(
        # From the decimal text, so that 0.3 is three times 0.1.
        lambda number: (Fraction(str(number)) / divisor).denominator == 1,
        lambda path, number: invalid(
            path, shown_number(number), f"{path} in body should be a multiple of {float_text(factor)}"
        ),
    )


def size_checks(openapi: OpenApi, what: str) -> list[ValueCheck]:
    """How many ``items`` a list, or ``properties`` an object, may have."""
    checks: list[ValueCheck] = []
    suffix = what.capitalize()
    if (least := openapi.get(f"min{suffix}")) is not None:
        checks.append(
            ValueCheck(
                lambda value: len(value) >= least,
                lambda path, value: invalid(path, len(value), f"{path} in body should have at least {least} {what}"),
            )
        )
    if (most := openapi.get(f"max{suffix}")) is not None:
        items = "item" if most == 1 else "items"
        checks.append(
            ValueCheck(
                lambda value: len(value) <= most,
                lambda path, value: FieldProblem(
                    path, FieldErrorType.TOO_MANY, f"{len(value)}: must have at most {most} {items}"
                ),
            )
        )
    return checks


def is_among(value: Any, values: Sequence[Any]) -> bool:
    """Whether a value is one of an enumeration. null never is, and true is not 1."""
    return value is not None and any(same(value, each) for each in values)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; a number equals no truth value."""
    if one.__class__ is not other.__class__:
        return one == other and {one.__class__, other.__class__} == {int, float}
    if one.__class__ is dict:
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if one.__class__ is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def type_name(value: Any) -> str:
    """The name of a value's JSON type. A whole number beyond 64 bits is just a number."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer" if WHOLE[0] <= value <= WHOLE[1] else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def quoted(text: str) -> str:
    """A text in double quotes, escaped as kube-apiserver prints it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def shown_number(number: float) -> float:
    """A number as it is shown: beyond 64 bits kube-apiserver has only an approximation."""
    if isinstance(number, int) and type_name(number) == "number":
        try:
            return float(number)
        except OverflowError:
            return number
    return number


def float_text(number: float) -> str:
    """A number as Go prints a float: exponents from a million up and below a ten-thousandth."""
    if isinstance(number, int) and abs(number) < 10**6:
        return str(number)
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = f"{abs(float(number)):.16e}".partition("e")
    for precision in range(17):
        text = f"{abs(float(number)):.{precision}e}"
        if float(text) == abs(float(number)):
            mantissa, _, exponent = text.partition("e")
            break
    power = int(exponent)
    if -4 <= power < 6 or number == 0:
        plain = f"{abs(float(number)):.{max(0, len(mantissa.replace('.', '')) - 1 - power)}f}"
        return sign + plain
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
