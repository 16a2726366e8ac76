"""Patterns in the syntax of Go."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase import go_regexp
from kubebase.go_regexp import Pattern, PatternError, assume_valid, check_syntax, patterns_of


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("", ["", "a"], []),
        ("b", ["abc", "b"], ["ac", ""]),
        ("^a+$", ["a", "aaa"], ["", "ab", "a\n"]),
        ("^(a|bc)*d$", ["d", "abcad"], ["abd"]),
        ("a|", ["", "b"], []),
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        ("^a{2,}$", ["aa", "a" * 9], ["a"]),
        ("^x{0}y?$", ["", "y"], ["x", "yy"]),
        ("^(ab){2}$", ["abab"], ["ab", "ababab"]),
        ("^()*$", [""], ["a"]),
        ("a{x", ["a{x"], ["ax"]),
        (r"^[{123456789}\\C]$", ["{", "C"], ["a"]),  # in brackets these are characters
        (r"^\\C\Q\C{123456789}\E$", ["\\C\\C{123456789}"], ["C"]),
        ("a.c", ["abc"], ["a\nc", "ac"]),
        ("(?s)a.c", ["a\nc"], ["ac"]),
        ("(?i)^AbC[d-e]$", ["abcD", "ABCE"], ["abdd"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?m)^b$", ["a\nb\nc"], ["ab"]),
        (r"\bfoo\b", ["a foo b", "foo"], ["afoo", "foob", "foo_"]),
        (r"o\B", ["ob"], ["o", "bo"]),
        (r"\Aa\z", ["a"], ["a\n", "ba"]),
        (r"^\d+\S\W$", ["12a-"], ["٣a-", "1 -"]),
        (r"^\p{Lu}\PL\pN$", ["Ä-1"], ["ä-1", "Aa1"]),
        (r"^\p{Greek}$", ["λ"], ["l"]),
        ("(?i)^straße$", ["STRAßE", "\u017ftraße"], ["STRASSE"]),
        ("^.{2}$", ["é😀"], ["é", "éé😀"]),
        (r"^[\d-]+$", ["1-2"], ["a"]),
        ("^[]a-]$", ["]", "a", "-"], ["b"]),
        ("^[^]a]$", ["b"], ["]", "a"]),
        ("[[:alpha:]][[:^digit:]]", ["aZ", "x-"], ["a1"]),
        (r"^\Qa.b\E$", ["a.b"], ["axb"]),
        (r"^\x41\x{1F600}\101\.$", ["A\U0001f600A."], ["AAA."]),
        (r"^(?P<name>a)(?:b)(?<other>c)$", ["abc"], ["ab"]),
        ("^a*?b+?c??$", ["b", "aabbc"], ["a"]),
    ],
)
def test_go_regexp_matches(pattern: str, found: list[str], not_found: list[str]) -> None:
    check_syntax(pattern)
    matched = Pattern(pattern)
    assert [text for text in found if not matched.found_in(text)] == []
    assert [text for text in not_found if matched.found_in(text)] == []


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{1001}?", "invalid repeat count: `{1001}`"),
        (r"a\x{", r"invalid escape sequence: `\x{`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\h", r"invalid escape sequence: `\h`"),
        (r"\x4", r"invalid escape sequence: `\x4`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("x(?<!a)>b", "invalid named capture: `(?<!a)>`"),
        ("(?P<>a)", "invalid named capture: `(?P<>`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(((a{100}){100}){100})", "invalid repeat count: `{100}`"),
        # What RE2 accepts.
        (r"[\\C]\Q\C\E\C", r"invalid escape sequence: `\C`"),
        ("[(?P<é>](?P<é>a)", "invalid named capture: `(?P<é>`"),
        ("(?<é>a)", "invalid named capture: `(?<é>`"),
        ("a{2,123456789}", "invalid repeat count: `{2,123456789}`"),
    ],
)
def test_invalid_go_regexp_is_refused(pattern: str, fault: str) -> None:
    with pytest.raises(PatternError) as refusal:
        check_syntax(pattern)
    assert str(refusal.value) == f"error parsing regexp: {fault}"


def test_memory_of_a_pattern_is_bounded() -> None:
    with pytest.raises(PatternError) as refusal:
        check_syntax(r"\pL{1000}")
    assert str(refusal.value) == r"error parsing regexp: expression too large: `\pL{1000}`"
    check_syntax(r"^[\p{L}\p{N} ]{1,255}$")


def test_groups_may_nest_deeply() -> None:
    assert Pattern("(" * 300 + "a" + ")" * 300).found_in("bab")


def test_half_a_surrogate_pair() -> None:
    with pytest.raises(PatternError, match="invalid UTF-8"):
        check_syntax("\ud800")
    assert Pattern("^.$").found_in("\ud800")


def test_patterns_that_are_assumed_valid_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_regexp, "_known_valid", set())
    assume_valid(["(known"])
    check_syntax("(known")
    with pytest.raises(PatternError):
        check_syntax("(unknown")


def test_the_patterns_of_a_schema() -> None:
    named = {"properties": {"pattern": {"type": "string", "pattern": "a"}, "others": {"anyOf": [{"pattern": "b"}]}}}
    assert sorted(patterns_of({"items": named, "pattern": "c"})) == ["a", "b", "c"]


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a?){60}a{60}$", "(a*)*b"])
def test_time_grows_with_the_text_only(pattern: str) -> None:
    # Whoever goes back and forth needs 2^60 steps here, and this test never ends.
    assert not Pattern(pattern).found_in("a" * 60 + "!")


LETTERS = st.text(alphabet="ab.-\n", max_size=8)


@given(
    st.recursive(
        st.sampled_from(["a", "b", "[ab]", "[^a]", "\\.", "", "^", "a-"]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map("|".join),
            inner.map(lambda part: f"(?:{part})*"),
            inner.map(lambda part: f"(?:{part})?"),
            inner.map(lambda part: f"(?:{part}){{1,2}}"),
        ),
        max_leaves=8,
    ),
    LETTERS,
)
def test_finds_what_python_finds(pattern: str, text: str) -> None:
    assert Pattern(pattern).found_in(text) == (re.search(pattern, text) is not None)


@given(st.text(alphabet="ab()[]{}*+?|\\^$.,-:<>=!123PQEpdwimsxéL", max_size=20), LETTERS)
def test_any_text_is_a_pattern_or_refused(pattern: str, text: str) -> None:
    try:
        check_syntax(pattern)
    except PatternError:
        return
    assert Pattern(pattern).found_in(text) in {True, False}
