"""Quantities: what is accepted, what it is worth, how it is printed."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubebase.quantity import NANOS, Notation, Quantity, QuantityError, parse

SI, BINARY, EXPONENT = Notation.DECIMAL_SI, Notation.BINARY_SI, Notation.DECIMAL_EXPONENT
INT64 = 2**63 - 1
MULTIPLIER = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@pytest.mark.parametrize(
    ("text", "nano", "notation", "canonical"),
    [
        # text, worth in nanos, notation, printed
        ("0", 0, SI, "0"),
        ("-0", 0, SI, "0"),
        ("0Mi", 0, BINARY, "0"),
        ("0e7", 0, EXPONENT, "0"),
        # whole numbers: 1000 = 1k, 1024 without suffix stays decimal
        ("7", 7 * NANOS, SI, "7"),
        ("007", 7 * NANOS, SI, "7"),
        ("+7", 7 * NANOS, SI, "7"),
        ("-7", -7 * NANOS, SI, "-7"),
        ("1000", 10**3 * NANOS, SI, "1k"),
        ("1024", 1024 * NANOS, SI, "1024"),
        ("1500", 1500 * NANOS, SI, "1500"),
        # fractions: 2.25 = 2250 m; .5 = 500 m; 1. = 1; 0.0005 k = 0.5
        ("2.25", 2_250_000_000, SI, "2250m"),
        ("0.5", 500_000_000, SI, "500m"),
        (".5", 500_000_000, SI, "500m"),
        ("-.5", -500_000_000, SI, "-500m"),
        ("1.", NANOS, SI, "1"),
        ("3.G", 3 * 10**9 * NANOS, SI, "3G"),
        ("0.0005k", 500_000_000, SI, "500m"),
        ("1.500", 1_500_000_000, SI, "1500m"),
        # every decimal suffix
        ("9n", 9, SI, "9n"),
        ("9u", 9 * 10**3, SI, "9u"),
        ("9m", 9 * 10**6, SI, "9m"),
        ("9k", 9 * 10**12, SI, "9k"),
        ("9M", 9 * 10**15, SI, "9M"),
        ("9G", 9 * 10**18, SI, "9G"),
        ("9T", 9 * 10**21, SI, "9T"),
        ("9P", 9 * 10**24, SI, "9P"),
        ("9E", 9 * 10**27, SI, "9E"),
        # the largest suffix that loses nothing: 1500 m stays, 2000 m = 2, 12000 M = 12 G
        ("1500m", 1_500_000_000, SI, "1500m"),
        ("2000m", 2 * NANOS, SI, "2"),
        ("12000M", 12 * 10**18, SI, "12G"),
        # every binary suffix
        ("3Ki", 3 * 2**10 * NANOS, BINARY, "3Ki"),
        ("3Mi", 3 * 2**20 * NANOS, BINARY, "3Mi"),
        ("3Gi", 3 * 2**30 * NANOS, BINARY, "3Gi"),
        ("3Ti", 3 * 2**40 * NANOS, BINARY, "3Ti"),
        ("3Pi", 3 * 2**50 * NANOS, BINARY, "3Pi"),
        ("3Ei", 3 * 2**60 * NANOS, BINARY, "3Ei"),
        # 2048 Mi = 2 Gi; 1.5 Gi = 1536 Mi; 0.5 Gi = 512 Mi; 1000 Ki is not a whole Mi
        ("2048Mi", 2**31 * NANOS, BINARY, "2Gi"),
        ("1.5Gi", 3 * 2**29 * NANOS, BINARY, "1536Mi"),
        ("0.5Gi", 2**29 * NANOS, BINARY, "512Mi"),
        ("-0.5Gi", -(2**29) * NANOS, BINARY, "-512Mi"),
        ("1000Ki", 1_024_000 * NANOS, BINARY, "1000Ki"),
        # below 1Ki and with a fraction it is printed in decimal: 0.75 Ki = 768; 1.3 Ki = 1331.2
        ("0.75Ki", 768 * NANOS, BINARY, "768"),
        ("1.3Ki", 1_331_200_000_000, BINARY, "1331200m"),
        # between 0 and 1 a binary value turns decimal: 0.0005 Ki = 0.512
        ("0.0005Ki", 512_000_000, SI, "512m"),
        ("-0.0005Ki", -512_000_000, SI, "-512m"),
        # E is exa, E with digits an exponent
        ("1E", 10**18 * NANOS, SI, "1E"),
        ("1E3", 10**3 * NANOS, EXPONENT, "1e3"),
        ("1e+3", 10**3 * NANOS, EXPONENT, "1e3"),
        ("2e-3", 2 * 10**6, EXPONENT, "2e-3"),
        # exponents are printed as multiples of 3: 1e4 = 10e3, 1.5e3 = 1500, 0.5e0 = 500e-3
        ("100e3", 10**5 * NANOS, EXPONENT, "100e3"),
        ("1e4", 10**4 * NANOS, EXPONENT, "10e3"),
        ("1.5e3", 1500 * NANOS, EXPONENT, "1500"),
        ("0.5e0", 500_000_000, EXPONENT, "500e-3"),
        # finer than nano rounds away from zero: 1.2 n -> 2 n, 2^10 / 10^12 = 1.024 n -> 2 n
        ("1.2n", 2, SI, "2n"),
        ("-1.2n", -2, SI, "-2n"),
        ("0.00000000001", 1, SI, "1n"),
        ("1e-99999", 1, EXPONENT, "1e-9"),
        ("0.000000000001Ki", 2, SI, "2n"),
        # binary is capped at 2^63 - 1, which is odd, so it has no suffix; decimal is not capped
        ("8Ei", INT64 * NANOS, BINARY, "9223372036854775807"),
        ("-9Ei", -INT64 * NANOS, BINARY, "-9223372036854775807"),
        ("99999999999999999999Ki", INT64 * NANOS, BINARY, "9223372036854775807"),
        ("12E", 12 * 10**27, SI, "12E"),
        ("18446744073709551616", 2**64 * NANOS, SI, "18446744073709551616"),
        # no suffix above E: 1000 E = 10^21
        ("1000E", 10**30, SI, "1e21"),
        # space around it is cut off, as the API does
        (" 4Gi\n", 4 * 2**30 * NANOS, BINARY, "4Gi"),
    ],
)
def test_text(text: str, nano: int, notation: Notation, canonical: str) -> None:
    quantity = parse(text)
    assert quantity == Quantity(nano, notation)
    assert quantity.format() == canonical
    assert str(quantity) == canonical


@pytest.mark.parametrize(
    ("scalar", "nano"),
    [
        (3, 3 * NANOS),
        (-3, -3 * NANOS),
        (0.1, 10**8),  # the shortest text, not the binary value 0.1000000000000000055...
        (2.5, 2_500_000_000),
        (1e22, 10**31),
        (1e-7, 100),
        (-0.0, 0),
    ],
)
def test_number(scalar: float, nano: int) -> None:
    assert parse(scalar) == Quantity(nano, SI)


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "+", "-", ".", "-.", "m", "Ki", "E", "e3"],  # no digit
        *["1i", "1x", "1K", "1ki", "1mi", "1g", "4GB", "1Kim", "1m3", "1Ki3", "1e3m"],  # no such suffix
        *["1e", "1e+", "1e--3", "1ee3", "1e2.5", "e", "1.1.1", "1+1", "--1", "+-1", "1 Gi", "1,5", "1_000"],
        *["0x10", "nan", "inf", "\u0661", "1²", "½", "1\u200b", "one"],
        *["1e100", "-1e100", "1e9999999999", "1" + "0" * 100, "1" * 5000, "0" * 5000],  # absurd
    ],
)
def test_refused_text(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert repr(text)[:20] in str(refusal.value)
    assert "; write " in str(refusal.value)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("scalar", [None, True, False, [], {}, float("nan"), float("inf"), 10**100])
def test_refused_scalar(scalar: object) -> None:
    with pytest.raises(QuantityError, match="; write "):
        parse(scalar)  # type: ignore[arg-type]  # what a YAML file may hold all the same


def test_an_integer_too_long_to_print_is_refused() -> None:
    with pytest.raises(QuantityError, match="the number is too large"):
        parse(10**9000)


def test_just_below_the_limit() -> None:
    assert parse("9" * 100).nano == (10**100 - 1) * NANOS
    assert parse(10**99).format() == "1e99"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1x", "'1x' is not a quantity; write for example 2, 500m or 4Gi"),
        ("4GB", "'4GB' is not a quantity; write 4G (powers of 1000) or 4Gi (powers of 1024)"),
        ("1.5 gib", "'1.5 gib' is not a quantity; write 1.5G (powers of 1000) or 1.5Gi (powers of 1024)"),
        ("64K", "'64K' is not a quantity; write 64k (powers of 1000) or 64Ki (powers of 1024)"),
        ("1e100", "'1e100' is too large for a quantity; write a number below 1e100"),
    ],
)
def test_refusal_says_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1500m", 2, 1500),  # 1.5 -> 2
        ("1n", 1, 1),
        ("1000001n", 1, 2),  # 1.000001 m -> 2 m
        ("0.9999", 1, 1000),
        ("1Ki", 1024, 1_024_000),
        ("-1500m", -2, -1500),  # away from zero
        ("-1n", -1, -1),
        ("12E", 12 * 10**18, 12 * 10**21),
        ("0", 0, 0),
    ],
)
def test_rounding_to_units(text: str, value: int, milli: int) -> None:
    quantity = parse(text)
    assert (quantity.value(), quantity.milli()) == (value, milli)


@pytest.mark.parametrize(
    ("nano", "notation", "canonical"),
    [
        (1024 * NANOS, BINARY, "1Ki"),
        (1023 * NANOS, BINARY, "1023"),
        (1000 * NANOS, BINARY, "1k"),  # below 1Ki it is printed as decimal, suffix and all
        (-1024 * NANOS, BINARY, "-1Ki"),
        (1024 * NANOS + 1, BINARY, "1024000000001n"),
        (2**70 * NANOS, BINARY, "1024Ei"),  # nothing above Ei
        (10**3 * NANOS, EXPONENT, "1e3"),
        (2**20 * NANOS, SI, "1048576"),
    ],
)
def test_format(nano: int, notation: Notation, canonical: str) -> None:
    assert Quantity(nano, notation).format() == canonical


digits = st.text("0123456789", max_size=25)
numbers = st.builds(
    lambda sign, whole, rest: sign + whole + rest,
    st.sampled_from(["", "+", "-"]),
    digits,
    st.one_of(st.just(""), digits.map(lambda fraction: "." + fraction)),
).filter(lambda number: any(character.isdigit() for character in number))
suffixed = st.tuples(numbers, st.sampled_from(sorted(MULTIPLIER)))
exponents = st.tuples(numbers, st.integers(-40, 40))


def away_from_zero(exact: Fraction) -> int:
    return -(-exact.numerator // exact.denominator) if exact >= 0 else exact.numerator // exact.denominator


def worth(number: str, multiplier: Fraction) -> Fraction:
    return Fraction(Decimal(number)) * multiplier


@given(suffixed)
@example(("0.1", "Ei"))
@example(("-9", "Ei"))
def test_exact_to_the_nano(written: tuple[str, str]) -> None:
    number, suffix = written
    exact = worth(number, MULTIPLIER[suffix])
    if suffix.endswith("i"):
        exact = max(min(exact, Fraction(INT64)), Fraction(-INT64))
    assert parse(number + suffix).nano == away_from_zero(exact * NANOS)


@given(exponents, st.sampled_from("eE"))
def test_exponents_are_exact_to_the_nano(written: tuple[str, int], letter: str) -> None:
    number, power = written
    exact = worth(number, Fraction(10) ** power)
    quantity = parse(f"{number}{letter}{power}")
    assert quantity == Quantity(away_from_zero(exact * NANOS), EXPONENT)


@given(suffixed, suffixed)
@example(("1", "Ki"), ("1024.0000000001", ""))
@example(("-9", "Ei"), ("-9.3", "E"))
def test_order_is_kept(a: tuple[str, str], b: tuple[str, str]) -> None:
    def within_the_cap(written: tuple[str, str]) -> int:
        return max(-INT64 * NANOS, min(parse("".join(written)).nano, INT64 * NANOS))

    low, high = sorted([a, b], key=lambda written: worth(written[0], MULTIPLIER[written[1]]))
    assert within_the_cap(low) <= within_the_cap(high)


quantities = st.builds(
    Quantity,
    st.one_of(
        st.integers(-(10**40), 10**40),
        st.builds(lambda n, p: n * 2**p * NANOS, st.integers(-5000, 5000), st.integers(0, 50)),
        st.builds(lambda n, p: n * 10**p, st.integers(-5000, 5000), st.integers(0, 30)),
    ),
    st.sampled_from([SI, EXPONENT]),
) | st.builds(
    # binary quantities of a magnitude that parse does not cap
    Quantity,
    st.integers(-INT64 * NANOS, INT64 * NANOS)
    | st.builds(lambda n, p: n * 2**p * NANOS, st.integers(-4095, 4095), st.integers(0, 51)),
    st.just(BINARY),
)


@given(quantities)
def test_printed_text_reads_back_the_same(quantity: Quantity) -> None:
    again = parse(quantity.format())
    assert again.nano == quantity.nano
    assert again.format() == quantity.format()
    if quantity.notation is EXPONENT and "e" in quantity.format():
        assert again == quantity


@given(quantities)
def test_printed_text_is_the_shortest_number_without_fraction(quantity: Quantity) -> None:
    text = quantity.format()
    assert "." not in text
    assert "+" not in text
    assert text == "0" or not text.lstrip("-").startswith("0")
    number = text.rstrip("numkMGTPEKi").split("e")[0]
    if text.endswith("i"):
        assert int(number) % 1024 or text.endswith("Ei")
    elif quantity.notation is not BINARY and quantity.nano:
        assert int(number) % 1000


@given(quantities)
def test_value_and_milli_are_ceilings_away_from_zero(quantity: Quantity) -> None:
    exact = Fraction(quantity.nano, NANOS)
    assert quantity.value() == away_from_zero(exact)
    assert quantity.milli() == away_from_zero(exact * 1000)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e90, max_value=1e90))
def test_float_is_its_shortest_text(number: float) -> None:
    assert parse(number).nano == away_from_zero(Fraction(Decimal(repr(number))) * NANOS)


@given(st.integers(-(10**60), 10**60))
def test_integer_is_its_text(number: int) -> None:
    assert parse(number) == parse(str(number)) == Quantity(number * NANOS)


def is_number(text: str) -> bool:
    parts = text.removeprefix("-" if text.startswith("-") else "+").split(".")
    return len(parts) <= 2 and any(parts) and all(set(part) <= set("0123456789") for part in parts)


def is_quantity(text: str) -> bool:
    if any(text.endswith(suffix) and is_number(text.removesuffix(suffix)) for suffix in MULTIPLIER):
        return True
    number, _, exponent = text.replace("E", "e").partition("e")
    return is_number(number) and is_number(exponent) and "." not in exponent


@given(st.text("0123456789.+-eEinumkKMGTPx", max_size=6))
def test_accepts_the_grammar_and_nothing_else(text: str) -> None:
    try:
        parse(text)
    except QuantityError as refusal:
        accepted = "too large" in str(refusal)
    else:
        accepted = True
    assert accepted == is_quantity(text)
