"""Reading plugin arguments: YAML gives them as whatever somebody wrote, a plugin wants a flag or a weight."""

from __future__ import annotations

from math import isfinite

from pumice.scheduling.plugin import Arguments, PluginError


def flag(arguments: Arguments, name: str, default: bool) -> bool:
    """An argument that is true or false, also as text."""
    value = arguments.get(name, default)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise PluginError(name, f"{name} is {value!r}; write true or false")


def weight(arguments: Arguments, name: str, default: float) -> float:
    """An argument that is a number from 0 up, also as text."""
    value = arguments.get(name, default)
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = -1.0
        if number >= 0 and isfinite(number):
            return number
    raise PluginError(name, f"{name} is {value!r}; write a number, 0 or more")
