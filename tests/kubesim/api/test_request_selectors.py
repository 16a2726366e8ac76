"""Label and field selectors (messages are those of kube-apiserver 1.36)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from kubesim.api.selectors import FieldSelector, Selector, field_selector, label_selector

NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ", []),
        ("a", [Requirement("a", "Exists")]),
        ("! a", [Requirement("a", "DoesNotExist")]),
        ("a=b", [Requirement("a", "In", ("b",))]),
        ("a == b", [Requirement("a", "In", ("b",))]),
        ("a!=b", [Requirement("a", "NotIn", ("b",))]),
        ("a=", [Requirement("a", "In", ("",))]),
        ("a= ,b", [Requirement("a", "In", ("",)), Requirement("b", "Exists")]),
        ("a in (c, b,c)", [Requirement("a", "In", ("b", "c"))]),
        ("a in(b,)", [Requirement("a", "In", ("", "b"))]),
        ("a notin ()", [Requirement("a", "NotIn", ("",))]),
        ("in in (in, notin)", [Requirement("in", "In", ("in", "notin"))]),
        ("a=in", [Requirement("a", "In", ("in",))]),
        ("a>1,b<2", [Requirement("a", "Gt", ("1",)), Requirement("b", "Lt", ("2",))]),
        (
            "\texample.com/a = b , !c, d",
            [Requirement("example.com/a", "In", ("b",)), Requirement("c", "DoesNotExist"), Requirement("d", "Exists")],
        ),
    ],
)
def test_requirements(text: str, expected: list[Requirement]) -> None:
    assert list(label_selector(text).requirements) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=b)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a === b", "unable to parse requirement: found '=', expected: identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must "
            "be an integer",
        ),
        ("-a", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {NAME_RULE}'),
        ("/b", 'unable to parse requirement: <nil>: Invalid value: "/b": prefix part must be non-empty'),
        (
            "a/",
            'unable to parse requirement: <nil>: Invalid value: "a/": name part must be non-empty; '
            f"name part {NAME_RULE}",
        ),
        (
            "x" * 64,
            f'unable to parse requirement: <nil>: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
        ),
        ("a=-b", f'unable to parse requirement: values[0][a]: Invalid value: "-b": {VALUE_RULE}'),
    ],
)
def test_label_selectors_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the whole message is compared
        label_selector(text)
    assert str(refusal.value) == message


def test_labels_are_selected() -> None:
    selector = label_selector("app=web,tier in (a,b),!canary,env!=dev")
    assert selector.matches({"app": "web", "tier": "b"})
    assert not selector.matches({"app": "web", "tier": "c"})
    assert not selector.matches({"app": "web", "tier": "a", "canary": ""})
    assert not selector.matches({"app": "web", "tier": "a", "env": "dev"})
    assert not selector.matches({})
    assert Selector().matches({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (",", []),
        ("a=b", [("a", True, "b")]),
        ("a==b", [("a", True, "b")]),
        ("a!=b,c=", [("a", False, "b"), ("c", True, "")]),
        ("a=b,,c=d,", [("a", True, "b"), ("c", True, "d")]),
        (r"a=b\,c\=d\\", [("a", True, r"b,c=d" + "\\")]),
        ("a = b", [("a ", True, " b")]),
        ("a!b=c!d", [("a!b", True, "c!d")]),
        ("a=b\nc", [("a", True, "b\nc")]),
    ],
)
def test_comparisons(text: str, expected: list[tuple[str, bool, str]]) -> None:
    assert [tuple(comparison) for comparison in field_selector(text).comparisons] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b, ", "invalid selector: 'a=b, '; can't understand ' '"),
        ("a>c", "invalid selector: 'a>c'; can't understand 'a>c'"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a!==b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_field_selectors_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the whole message is compared
        field_selector(text)
    assert str(refusal.value) == message


def test_fields_are_selected() -> None:
    selector = field_selector("status.phase!=Running,spec.nodeName=n1,status.phase!=Failed")
    assert selector.names() == ["status.phase", "spec.nodeName"]
    assert selector.value("spec.nodeName") == "n1"
    assert selector.value("status.phase") is None
    assert selector.matches({"status.phase": "Pending", "spec.nodeName": "n1"})
    assert not selector.matches({"status.phase": "Failed", "spec.nodeName": "n1"})
    assert not selector.matches({"status.phase": "Pending"})
    assert field_selector("spec.nodeName=").matches({})
    assert FieldSelector().matches({})


@given(st.one_of(st.text(), st.text(alphabet="ab=!<>(), inot/\\\n-", max_size=12)))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    for read in (label_selector, field_selector):
        try:
            selector = read(text)
        except ValueError:
            continue
        assert selector.matches({"a": "b"}) in {True, False}


@given(st.text(max_size=8), st.text(max_size=8))
def test_escaped_values_are_found_again(one: str, other: str) -> None:
    escaped = one.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    selector = field_selector(f"f={escaped},g!=x")
    assert selector.matches({"f": one})
    assert selector.matches({"f": other}) == (one == other)
