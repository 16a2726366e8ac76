"""Durations as manifests write them: ``1h30m``, ``90s``, ``1.5h``, ``2d``.

The units are Go's, plus ``d`` for a day of 24 hours. Parsed exactly, kept in whole microseconds.
"""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),  # U+00B5, micro sign
    "μs": Fraction(1),  # U+03BC, Greek mu
    "ms": Fraction(1000),
    "s": Fraction(10**6),
    "m": Fraction(60 * 10**6),
    "h": Fraction(3600 * 10**6),
    "d": Fraction(86400 * 10**6),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_LONGEST = 2**63 // 1000  # Go counts nanoseconds in 64 bits


class DurationError(ValueError):
    """The text is not a duration above zero."""


def microseconds_of(text: str) -> int:
    """Parse a duration of at least one microsecond."""
    if len(text) > 100 or _WHOLE.fullmatch(text) is None:
        raise DurationError(f"Invalid value: {text[:60]!r}: must be a duration such as 90s, 1h30m or 2d")
    length = int(sum((Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Fraction()))
    if not 0 < length <= _LONGEST:
        bound = "of at most 292 years" if length else "greater than 0"
        raise DurationError(f"Invalid value: {text!r}: must be a duration {bound}, such as 90s or 1h30m")
    return length
