"""Kubernetes quantities: the numbers behind `500m`, `4Gi` and `1e3`.

A quantity is an exact multiple of one nano unit, so it is kept as an integer count of nanos together
with the notation it was written in; no floats are involved. Anything finer than a nano is rounded away
from zero when it is parsed, so that a positive request never becomes zero, and a value with a
binary suffix is capped at 2^63 - 1. Decimal values are not capped, as in Kubernetes.

The canonical text of a quantity has no fraction and the largest suffix that loses nothing: `1.5` is
`1500m`, `0.5Gi` is `512Mi`, `1e4` is `10e3`.

Some text that passes Kubernetes' parser is rejected here because it can only be a mistake: text
without any digit (`m`, `-`), and numbers of 10^100 and more, or of 200 characters.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

Scalar: TypeAlias = str | int | float
"""A quantity as YAML or JSON gives it."""

NANOS = 10**9
LARGEST_BINARY = 2**63 - 1

_TOO_LARGE = 10**100 * NANOS
_LONGEST_TEXT = 200

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY = {suffix: 1024**power for power, suffix in enumerate(_BINARY_SUFFIX) if suffix}

# A lone E is the suffix exa; followed by digits it starts an exponent.
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?")
_LOOKALIKE = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s*([kmgtpe])i?b?", re.IGNORECASE)


class QuantityError(ValueError):
    """The text is not a quantity."""


class Notation(Enum):
    """How a quantity was written, and so how it is printed again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount in nano units and the notation to print it in."""

    nano: int
    notation: Notation = Notation.DECIMAL_SI

    def value(self) -> int:
        """The amount in whole units, a fraction rounded away from zero."""
        return _round_away(self.nano, NANOS)

    def milli(self) -> int:
        """The amount in thousandths, a finer rest rounded away from zero."""
        return _round_away(self.nano, 10**6)

    def format(self) -> str:
        """The canonical text, as Kubernetes prints it."""
        if self.nano == 0:
            return "0"
        sign = "-" if self.nano < 0 else ""
        nano = abs(self.nano)
        # Below 1Ki, or with a fraction, the binary suffixes cannot say it: print it as decimal.
        if self.notation is Notation.BINARY_SI and nano >= 1024 * NANOS and nano % NANOS == 0:
            number, power = nano // NANOS, 0
            while number % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
                number, power = number // 1024, power + 1
            return f"{sign}{number}{_BINARY_SUFFIX[power]}"
        number, exponent = nano, -9
        while number % 1000 == 0:
            number, exponent = number // 1000, exponent + 3
        if exponent == 0:
            return f"{sign}{number}"
        if self.notation is Notation.DECIMAL_EXPONENT or exponent not in _DECIMAL_SUFFIX:
            return f"{sign}{number}e{exponent}"
        return f"{sign}{number}{_DECIMAL_SUFFIX[exponent]}"

    def __str__(self) -> str:
        return self.format()


def parse(scalar: Scalar) -> Quantity:
    """Read a quantity from its text, or from a number in YAML or JSON."""
    if isinstance(scalar, str):
        return _parse_text(scalar)
    if isinstance(scalar, int) and not isinstance(scalar, bool):
        return _checked(Quantity(scalar * NANOS), scalar)
    if isinstance(scalar, float):
        # The shortest text that gives this float back is what its author wrote. "nan" and "inf" are refused.
        return Quantity(_parse_text(repr(scalar)).nano)
    raise _refusal(scalar)


@lru_cache(maxsize=1 << 16)
def _parse_text(text: str) -> Quantity:
    if text.isdecimal() and text.isascii() and len(text) < _LONGEST_TEXT:
        return _checked(Quantity(int(text) * NANOS), text)
    match = _QUANTITY.fullmatch(text.strip()) if len(text) < _LONGEST_TEXT else None
    if match is None:
        raise _refusal(text)
    sign, whole, fraction, suffix, exponent = match.groups(default="")
    if not whole and not fraction:
        raise _refusal(text)
    digits = int(whole + fraction)
    if suffix in _BINARY:
        nano = _scaled(digits * _BINARY[suffix], 9 - len(fraction), text)
        nano = min(nano, LARGEST_BINARY * NANOS)
        notation = Notation.DECIMAL_SI if 0 < nano < NANOS else Notation.BINARY_SI
    else:
        power = int(exponent) if exponent else _DECIMAL[suffix]
        nano = _scaled(digits, power + 9 - len(fraction), text)
        notation = Notation.DECIMAL_EXPONENT if exponent else Notation.DECIMAL_SI
    return _checked(Quantity(-nano if sign == "-" else nano, notation), text)


def _scaled(number: int, power: int, text: str) -> int:
    """number * 10^power, rounded up, without ever writing out an absurd power of ten."""
    if number == 0:
        return 0
    if power > _LONGEST_TEXT:
        raise _too_large(text)
    # No text holds a number of 2 * _LONGEST_TEXT digits, so all the smaller powers round to 1 alike.
    ten: int = 10 ** min(abs(power), 2 * _LONGEST_TEXT)
    return number * ten if power >= 0 else -(-number // ten)


def _round_away(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


def _checked(quantity: Quantity, scalar: Scalar) -> Quantity:
    if abs(quantity.nano) >= _TOO_LARGE:
        raise _too_large(scalar)
    return quantity


def _quoted(scalar: object) -> str:
    if isinstance(scalar, int) and abs(scalar) >= _TOO_LARGE:
        return "the number"  # printing an integer of unbounded size is not free, or even allowed
    text = repr(scalar)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def _too_large(scalar: Scalar) -> QuantityError:
    return QuantityError(f"{_quoted(scalar)} is too large for a quantity; write a number below 1e100")


def _refusal(scalar: object) -> QuantityError:
    """Why it is no quantity, with the likely meaning of the usual slips (4GB, 1K, 500 mb)."""
    instead = "for example 2, 500m or 4Gi"
    slip = _LOOKALIKE.fullmatch(scalar.strip()) if isinstance(scalar, str) else None
    if slip is not None and len(slip[1]) < 20:
        letter = slip[2].upper()
        decimal = "k" if letter == "K" else letter
        instead = f"{slip[1]}{decimal} (powers of 1000) or {slip[1]}{letter}i (powers of 1024)"
    return QuantityError(f"{_quoted(scalar)} is not a quantity; write {instead}")
