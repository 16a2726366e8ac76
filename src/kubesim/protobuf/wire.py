"""The wire format: a message is a row of numbered fields, each a whole number or a row of bytes.

Nothing here knows what a field means; a message within a message is bytes like any other. So nothing nests, and the
work is proportional to the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LARGEST_NUMBER: Final = 2**29 - 1
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5
WIDTHS: Final = {FIXED_64: 8, FIXED_32: 4}

Value = int | bytes | None
"""An unsigned integer, bytes, or None for a number of fixed width, which no known field is."""


class WireError(ValueError):
    """Bytes that are not the message they should be: what is wrong, and in which field."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.path: tuple[str, ...] = ()

    def within(self, field: str) -> WireError:
        """The same, seen from the message around."""
        self.path = (field, *self.path)
        return self

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.fault}" if self.path else self.fault


def fields(content: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message, by number, in the order of the message."""
    at, end = 0, len(content)
    while at < end:
        tag, at = varint(content, at)
        number, form = tag >> 3, tag & 7
        if not 0 < number <= LARGEST_NUMBER:
            raise WireError(f"there is a field {number}; fields have numbers from 1 to {LARGEST_NUMBER}")
        if form == VARINT:
            value, at = varint(content, at)
            yield number, value
            continue
        if form == LENGTH:
            length, at = varint(content, at)
        elif form in WIDTHS:
            length = WIDTHS[form]
        else:
            raise WireError(f"field {number} has the wire type {form}; only 0, 1, 2 and 5 are known")
        if length > end - at:
            raise WireError(f"field {number} has {length} bytes, of which {end - at} are there")
        yield number, content[at : at + length] if form == LENGTH else None
        at += length


def varint(content: bytes, at: int) -> tuple[int, int]:
    """The unsigned 64-bit number that begins at a byte, seven bits in each, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise WireError("a number is cut short")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at
    raise WireError("a number has more than 64 bits")


def varints(content: bytes) -> Iterator[int]:
    """Numbers one after the other: a packed list."""
    at = 0
    while at < len(content):
        value, at = varint(content, at)
        yield value


def signed(value: int, bits: int) -> int:
    """A number as the sender meant it: negative ones are sent as 64 bits in two's complement."""
    number = value - 2**64 if value >= 2**63 else value
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise WireError(f"{number} does not fit into {bits} bits")
    return number
