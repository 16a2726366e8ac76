from __future__ import annotations

import pytest

from kubebase.text_cache import LONGEST_TEXT, cached_by_text


def test_short_texts_are_cached_and_long_ones_are_not():
    calls: list[str] = []

    @cached_by_text(2)
    def upper(text: str) -> str:
        calls.append(text)
        return text.upper()

    short, long = "a" * LONGEST_TEXT, "b" * (LONGEST_TEXT + 1)
    assert [upper(short), upper(short), upper(long), upper(long)] == [short.upper()] * 2 + [long.upper()] * 2
    assert calls == [short, long, long]


def test_errors_are_not_cached():
    calls: list[str] = []

    @cached_by_text()
    def number(text: str) -> int:
        calls.append(text)
        return int(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            number("x")
    assert calls == ["x", "x"]
