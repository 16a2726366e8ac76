"""Label selectors, operator by operator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement, matches, meets

LABELS = {"app": "web", "size": "10", "odd": "ten"}


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        ("In", "app", ("db", "web"), True),
        ("In", "app", ("db",), False),
        ("In", "app", (), False),
        ("In", "missing", ("web",), False),
        ("NotIn", "app", ("db",), True),
        ("NotIn", "app", ("web", "db"), False),
        ("NotIn", "missing", ("web",), True),  # what has no such label is not among the values
        ("Exists", "app", (), True),
        ("Exists", "missing", (), False),
        ("DoesNotExist", "app", (), False),
        ("DoesNotExist", "missing", (), True),
        ("Gt", "size", ("9",), True),
        ("Gt", "size", ("10",), False),
        ("Lt", "size", ("11",), True),
        ("Lt", "size", ("10",), False),
        ("Lt", "size", ("9",), False),  # as numbers, not as text
        ("Gt", "odd", ("1",), False),
        ("Gt", "size", ("nine",), False),
        ("Gt", "missing", ("1",), False),
        ("Lt", "missing", ("1",), False),
        ("Gt", "size", (), False),
    ],
)
def test_requirement_matches_labels_by_operator(operator: str, key: str, values: tuple[str, ...], holds: bool) -> None:
    assert meets((Requirement(key, operator, values),), LABELS) is holds
    assert matches({"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}, LABELS) is holds


def test_label_selector_with_labels_and_expressions() -> None:
    selector = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["2", "3"]},
            {"key": "c", "operator": "DoesNotExist"},
        ],
    }
    assert matches(selector, {"a": "1", "b": "3"})
    assert not matches(selector, {"a": "2", "b": "3"})
    assert not matches(selector, {"a": "1", "b": "4"})
    assert not matches(selector, {"a": "1", "b": "2", "c": ""})
    assert matches({}, {}) and matches({"matchLabels": None, "matchExpressions": None}, LABELS)


def test_labels_must_meet_all_requirements() -> None:
    app, size = Requirement("app", "In", ("web",)), Requirement("size", "Gt", ("5",))
    assert meets((app, size), LABELS)
    assert not meets((app, size), {"app": "web"})
    assert not meets((app, Requirement("app", "NotIn", ("web",))), LABELS)


def test_empty_selector_matches_everything_and_no_selector_nothing() -> None:
    assert meets((), {}) and meets((), LABELS)
    assert not meets(None, {}) and not meets(None, LABELS)


def test_unknown_selector_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="Almost"):
        meets((Requirement("app", "Almost", ("web",)),), LABELS)


@given(
    st.sampled_from(["a", "b", "c"]),
    st.lists(st.sampled_from("xyz")),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
)
def test_an_operator_and_its_opposite(key: str, values: list[str], labels: dict[str, str]) -> None:
    for positive, negative in (("In", "NotIn"), ("Exists", "DoesNotExist")):
        holds = meets((Requirement(key, positive, tuple(values)),), labels)
        assert meets((Requirement(key, negative, tuple(values)),), labels) is not holds
