"""Formats of texts, as the real server judges the same texts (1.36)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.clock import parse_time
from kubesim.schema.formats import TEXTS

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123456789Z", "2020-01-01t00:00:00+01:00"],
            ["2020-01-01 00:00:00Z", "2020-01-01T00:00:00", "2020-02-30T00:00:00Z", "2020-01-01T24:00:00Z", ""],
        ),
        ("date", ["2020-01-01"], ["2020-02-30", "2020-1-1", ""]),
        (
            "duration",
            ["1h", "1h30m", "1.5h", "3 days", "5 weeks", "0", "-1h", "1h 5m", "10us", "P1D", "PT5M"],
            ["", "1", "h", "P", "1x", "1h x"],
        ),
        ("byte", ["YQ==", "YWI="], ["", "YQ", "a b", "YQ==\n", "!!!!"]),
        ("uuid", [UUID, UUID.upper(), UUID.replace("-", "")], ["", f"{{{UUID}}}", UUID[:-1]]),
        ("uuid4", [UUID], [UUID.replace("4ef8", "1ef8")]),
        ("ipv4", ["1.2.3.4", "01.2.3.4"], ["1.2.3", "::1", "1.2.3.256", ""]),
        ("ipv6", ["::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0", ""]),
        ("cidr", ["10.0.0.0/8", "10.0.0.1/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", ""]),
        ("mac", ["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"], ["x", ""]),
        ("uri", ["http://a", "/a", "a:b", "//x"], ["a", "", "http://a b", "%zz", "?q", "http://[::1"]),
        ("email", ["a@b", "A <a@b.c>"], ["a", "", "@"]),
        ("hostname", ["a", "A1", "a.bc"], ["a.b", "a_b", "-a", "", ".a", "a" * 64, "1.2"]),
        ("k8s-short-name", ["a", "a-1"], ["A", "a.b", "a" * 64]),
        ("k8s-long-name", ["a.b"], ["A", "a" * 254]),
        ("hexcolor", ["#fff", "fff", "#FFFFFF"], ["#ffff"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["x"]),
    ],
)
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not TEXTS[name](text)] == []
    assert [text for text in bad if TEXTS[name](text)] == []


@given(st.sampled_from(sorted(TEXTS)), st.text())
def test_any_text_is_judged(name: str, text: str) -> None:
    assert TEXTS[name](text) in {True, False}


def test_a_time_that_is_let_in_can_be_read_by_everybody() -> None:
    for text, good in (
        ("2024-01-01T00:00:00+23:59", True),
        ("2024-01-01T00:00:00+24:00", False),  # an offset is less than a day
        ("2024-01-01T00:00:00+99:00", False),
        ("2024-01-01T00:00:00.123456789Z", True),
    ):
        assert TEXTS["date-time"](text) is good, text
        if good:
            parse_time(text)
