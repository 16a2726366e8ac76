"""Events, as a real kube-apiserver 1.36 answers."""

import pytest

from kubebase.ages import at
from kubesim.kinds.events import events
from tests.kubesim.kinds.strategy_writes import cells, create, headings, named, rejection_message

RESOURCE = events()
NOON = 1_794_744_000.0  # 2026-11-15T12:00:00Z
POD = {"kind": "Pod", "name": "p", "namespace": "default"}
NEWER = {
    "involvedObject": POD,
    "eventTime": "2026-11-15T11:00:00.123456Z",
    "reportingComponent": "kubesim.dev/x",
    "reportingInstance": "x-1",
    "action": "Bind",
    "reason": "Bound",
    "note": "unknown here",
}


def test_empty_event_gets_empty_default_fields() -> None:
    found = create(RESOURCE, named())
    assert found["involvedObject"] == {} and found["source"] == {}
    assert (found["reportingComponent"], found["reportingInstance"]) == ("", "")


@pytest.mark.parametrize(
    ("namespace", "about", "taken"),
    [
        ("default", "", True),
        ("default", "default", True),
        ("default", "other", False),
        ("other", "", False),
        ("other", "other", True),
    ],
)
def test_an_event_lies_where_its_object_does(namespace: str, about: str, taken: bool) -> None:
    event = {"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": about}}
    if taken:
        create(RESOURCE, event)
    else:
        assert f'involvedObject.namespace: Invalid value: "{about}": does not match event.namespace' in (
            rejection_message(create, RESOURCE, event)
        )


def test_the_newer_style_says_who() -> None:
    assert create(RESOURCE, named(**NEWER))["action"] == "Bind"
    words = rejection_message(create, RESOURCE, named(involvedObject=POD, eventTime=NEWER["eventTime"]))
    for field in ("reportingComponent", "reportingInstance", "action", "reason"):
        assert f"{field}: Required value" in words
    long = named(**{**NEWER, "reportingInstance": "x" * 129})
    assert 'reportingInstance: Invalid value: "": can have at most 128 characters' in rejection_message(
        create, RESOURCE, long
    )


def test_columns_of_the_older_style() -> None:
    event = named(
        involvedObject={**POD, "fieldPath": "spec.containers{a}"},
        firstTimestamp="2026-11-15T11:15:00Z",
        lastTimestamp="2026-11-15T11:35:00Z",
        count=3,
        source={"component": "kubelet", "host": "n1"},
        reason="R",
        type="Normal",
        message="hello ",
    )
    with at(NOON):
        row = cells(RESOURCE, create(RESOURCE, event))
    assert row == ["25m", "Normal", "R", "pod/p", "spec.containers{a}", "kubelet, n1", "hello", "45m", 3, "it"]
    assert [name for name, _, priority in headings(RESOURCE) if priority] == [
        "Subobject",
        "Source",
        "First Seen",
        "Count",
        "Name",
    ]


def test_columns_of_the_newer_style() -> None:
    with at(NOON):
        once = cells(RESOURCE, create(RESOURCE, named(**NEWER)))
        series = {"count": 9, "lastObservedTime": "2026-11-15T11:59:00.000000Z"}
        often = cells(RESOURCE, create(RESOURCE, named(**NEWER, series=series)))
    assert (once[0], once[5], once[7], once[8]) == ("59m", "kubesim.dev/x, x-1", "59m", 1)
    assert (often[0], often[7], often[8]) == ("60s", "59m", 9)


def test_fields_to_select_by() -> None:
    assert set(RESOURCE.fields) == {
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    }
