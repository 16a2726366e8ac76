"""Numbers as the pages write them, for comparison with what they show."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

SHOWN_LEAST = 0.0005
"""Parts of the cluster that are too small for a bar."""
DASH = "\N{EN DASH}"
UNITS = {"cpu": "core", "nvidia.com/gpu": "GPU"}


def percent(share: float | None) -> str:
    """A part of a whole."""
    if share is None:
        return DASH
    value = share * 100
    if 0 < value < 0.1:
        return "<0.1%"
    return f"{_rounded(Decimal(value), 1 if abs(value) < 10 else 0)}%"  # as toFixed: by the exact value


def number(value: float) -> str:
    """Three digits at most."""
    size = abs(value)
    exact = Decimal(repr(value))  # as Intl.NumberFormat: by the shortest decimal number
    return _rounded(exact, 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2)


def amount(resource: str, value: int) -> str:
    """An amount in the unit of its resource; a dash for nothing."""
    if not value:
        return DASH
    if resource == "memory":
        scaled, units = float(value), iter(("B", "KiB", "MiB", "GiB", "TiB"))
        unit = next(units)
        while scaled >= 1024:
            scaled, unit = scaled / 1024, next(units)
        return f"{number(scaled)} {unit}"
    return f"{number(value / 1000)} {UNITS[resource]}{'' if value == 1000 else 's'}"


def _rounded(value: Decimal, digits: int) -> str:
    """Halves away from zero; without trailing zeros."""
    return f"{float(value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)):g}"
