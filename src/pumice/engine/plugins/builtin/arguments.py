"""Parse plugin arguments: YAML yields arbitrary values, a plugin needs a flag, a weight, names or a duration."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from pumice.engine.plugins.plugin import Arguments, PluginError


def flag(arguments: Arguments, name: str, default: bool) -> bool:
    """A boolean argument, also given as text."""
    value = arguments.get(name, default)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise PluginError(name, f"{name} is {value!r}; write true or false")


def weight(arguments: Arguments, name: str, default: float) -> float:
    """A non-negative number, also given as text."""
    value = arguments.get(name, default)
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = -1.0
        if number >= 0 and isfinite(number):
            return number
    raise PluginError(name, f"{name} is {value!r}; write a number, 0 or more")


def names(arguments: Arguments, name: str) -> list[str]:
    """A list of names with commas between."""
    value = arguments.get(name, "")
    if not isinstance(value, str):
        raise PluginError(name, f"{name} is {value!r}; write names with commas between, such as 'nvidia.com/gpu'")
    return [part.strip() for part in value.split(",") if part.strip()]


def seconds(arguments: Arguments, name: str, default: int, *, never: bool = False) -> int:
    """A number of seconds, also as text, in microseconds (as the default is); -1, where allowed, means never."""
    if name not in arguments:
        return default
    value = arguments[name]
    try:
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        number = Fraction(-2)
    if number < 0 and not (never and number == -1):
        also = " or -1 (never)" if never else ""
        raise PluginError(name, f"{value!r} is not a number of seconds; write for example 300, 0 (at once){also}")
    return int(number * 1_000_000)
