"""Priority classes, as a real kube-apiserver 1.36 answers."""

import pytest

from kubesim.api.status import ApiError
from kubesim.kinds.priority_classes import QUALIFIED, priority_classes, system_classes
from tests.kubesim.kinds.strategy_writes import FakeContext, cells, create, headings, named, rejection_message, update

RESOURCE = priority_classes()


def test_defaults() -> None:
    found = create(RESOURCE, named("low"))
    assert (found["value"], found["preemptionPolicy"], found["metadata"]["generation"]) == (
        0,
        "PreemptLowerPriority",
        1,
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"value": 1_000_000_001}, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
        (
            {"preemptionPolicy": "x"},
            'preemptionPolicy: Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"',
        ),
    ],
)
def test_refused(fields: dict[str, object], words: str) -> None:
    assert rejection_message(create, RESOURCE, named(**fields)) == (
        f'422 PriorityClass.scheduling.k8s.io "it" is invalid: {words}'
    )


def test_names_of_the_system_are_taken() -> None:
    assert "priority class names with 'system-' prefix are reserved for system use only. error: system-x is not" in (
        rejection_message(create, RESOURCE, named("system-x", value=3))
    )
    for one in system_classes():
        assert create(RESOURCE, one)["value"] == one["value"]
        with pytest.raises(ApiError, match="this is a system priority class and cannot be deleted"):
            RESOURCE.strategy.on_deletion(one, FakeContext())


def test_second_global_default_priority_class_is_rejected() -> None:
    first = create(RESOURCE, named("first", globalDefault=True))
    world = FakeContext(first, resource=QUALIFIED)
    words = (
        '403 priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
    assert rejection_message(create, RESOURCE, named("second", globalDefault=True), world) == words
    second = create(RESOURCE, named("second"), world)
    assert rejection_message(update, RESOURCE, second, {"globalDefault": True}, world) == words
    assert update(RESOURCE, first, {"description": "still the one"}, world)["globalDefault"] is True


def test_priority_class_value_and_preemption_policy_are_immutable() -> None:
    found = create(RESOURCE, named(value=7))
    assert "value: Forbidden: may not be changed in an update." in rejection_message(
        update, RESOURCE, found, {"value": 8}
    )
    assert 'preemptionPolicy: Invalid value: "Never": field is immutable' in (
        rejection_message(update, RESOURCE, found, {"preemptionPolicy": "Never"})
    )
    assert update(RESOURCE, found, {"description": "x"})["description"] == "x"


def test_columns() -> None:
    assert headings(RESOURCE) == [
        ("Name", "string", 0),
        ("Value", "integer", 0),
        ("Global-Default", "boolean", 0),
        ("Age", "string", 0),
        ("PreemptionPolicy", "string", 0),
    ]
    row = cells(RESOURCE, create(RESOURCE, named("high", value=1000)))
    assert [row[0], row[1], row[2], row[4]] == ["high", 1000, False, "PreemptLowerPriority"]
