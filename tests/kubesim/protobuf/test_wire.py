"""The wire format, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.protobuf.wire import WireError, fields, signed, varint, varints
from tests.support import protobuf_writer


def test_a_field_is_its_number_its_form_and_its_value() -> None:
    # 08 = 1 * 8 + 0: field 1, a number; ac 02 = 0x2c + 2 * 128 = 300.
    # 12 = 2 * 8 + 2: field 2, bytes; 03 of them.
    # 82 01 = 2 + 1 * 128 = 130 = 16 * 8 + 2: field 16, bytes; none.
    assert list(fields(bytes.fromhex("08ac02 1203616263 820100"))) == [(1, 300), (2, b"abc"), (16, b"")]


def test_numbers_of_fixed_width_are_passed_over() -> None:
    # 09 = 1 * 8 + 1: eight bytes; 15 = 2 * 8 + 5: four bytes; 18 01: field 3 is 1.
    assert list(fields(bytes.fromhex("09 0000000000000000 15 00000000 1801"))) == [(1, None), (2, None), (3, 1)]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("08", "cut short"),
        ("0880", "cut short"),
        ("1203 6162", "field 2 has 3 bytes, of which 2 are there"),
        ("12 ffffffffffffffffff01", "field 2 has 18446744073709551615 bytes, of which 0 are there"),
        ("09 00000000000000", "field 1 has 8 bytes, of which 7 are there"),
        ("0001", "there is a field 0"),
        ("0b 0c", "wire type 3"),
        ("0e", "wire type 6"),
        ("08 ffffffffffffffffff02", "more than 64 bits"),  # the tenth group has one bit left, and 2 needs two
        ("08 80808080808080808080 00", "more than 64 bits"),
        ("8080808010 00", "there is a field 536870912"),  # 2^32 / 8 = 2^29, one above the largest
    ],
)
def test_anything_else_is_refused(content: str, fault: str) -> None:
    with pytest.raises(WireError, match=fault):
        list(fields(bytes.fromhex(content)))


def test_negative_numbers_are_sent_in_64_bits() -> None:
    # Nine groups of seven ones and one more bit: 2^64 - 1, which stands for -1.
    assert varint(bytes.fromhex("ffffffffffffffffff01"), 0) == (2**64 - 1, 10)
    assert signed(2**64 - 1, 32) == -1
    assert signed(2**63, 64) == -(2**63)
    with pytest.raises(WireError, match="2147483648 does not fit into 32 bits"):
        signed(2**31, 32)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_survive(numbers: list[int]) -> None:
    content = b"".join(protobuf_writer.varint(number) for number in numbers)
    assert [signed(number, 64) for number in varints(content)] == numbers


@given(st.binary(max_size=200))
def test_garbage_is_read_or_refused(content: bytes) -> None:
    try:
        found = list(fields(content))
    except WireError:
        return
    assert sum(len(value) for _, value in found if isinstance(value, bytes)) <= len(content)
