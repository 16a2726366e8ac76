"""Binding a pod to a node, as a real kube-apiserver 1.36 answers."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.status import ApiError
from kubesim.kinds.pods.binding import bind, set_condition
from kubesim.registry.registry import Object
from tests.kubesim.kinds.pods.pod_specs import created
from tests.kubesim.kinds.strategy_writes import NOW, rejection_message

UNFULFILLED = "409 Operation cannot be fulfilled on"
MISTYPED = '400 Binding in version "v1" cannot be handled as a Binding:'
LATER = "2026-11-15T13:00:00Z"


def _binding(node: str = "n1", **about: Any) -> Object:
    return {"metadata": {"name": "p", **about}, "target": {"kind": "Node", "name": node}}


def test_bound() -> None:
    pod = created(labels={"a": "1", "b": "2"})
    pod["status"]["nominatedNodeName"] = "n2"
    before = copy.deepcopy(pod)
    bound = bind(pod, _binding(labels={"b": "3"}, annotations={"k": "v"}), LATER)
    assert pod == before
    assert bound["spec"] == {**pod["spec"], "nodeName": "n1"}
    assert bound["metadata"] == {**pod["metadata"], "labels": {"a": "1", "b": "3"}, "annotations": {"k": "v"}}
    assert bound["status"] == {
        "phase": "Pending",
        "qosClass": "BestEffort",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER}],
    }


def test_a_condition_that_said_no_is_replaced() -> None:
    pod = created()
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    pod["status"]["conditions"] = [{"type": "X", "status": "True"}, {**waiting, "lastTransitionTime": NOW}]
    assert bind(pod, _binding(), LATER)["status"]["conditions"] == [
        {"type": "X", "status": "True"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER},
    ]


def test_a_condition_that_stays_keeps_its_time() -> None:
    status = {"conditions": [{"type": "X", "status": "True", "lastTransitionTime": NOW}]}
    set_condition(status, {"type": "X", "status": "True", "reason": "R"}, LATER)
    assert status["conditions"] == [{"type": "X", "status": "True", "reason": "R", "lastTransitionTime": NOW}]


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (
            _binding(uid="other"),
            f'{UNFULFILLED} pods "p": Precondition failed: UID in precondition: other, UID in object meta: UID',
        ),
        (
            _binding(resourceVersion="1"),
            f'{UNFULFILLED} pods "p": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in '
            "object meta: 7",
        ),
        ({**_binding(), "metadata": {"name": "q"}}, "400 name in URL does not match name in Binding object"),
        ({**_binding(), "metadata": {}}, "400 name in URL does not match name in Binding object"),
        (
            {**_binding(), "target": {"kind": "Pod", "name": "x"}},
            '422 Binding "p" is invalid: target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        ),
        ({**_binding(), "target": {}}, '422 Binding "p" is invalid: target.name: Required value'),
        ({"metadata": {"name": "p"}}, '422 Binding "p" is invalid: target.name: Required value'),
        ({**_binding(), "target": {"name": 5}}, f"{MISTYPED} target.name is not a string"),
        ({**_binding(), "target": []}, f"{MISTYPED} target is not an object"),
    ],
)
def test_refused(binding: Object, words: str) -> None:
    pod = created()
    pod["metadata"] |= {"resourceVersion": "7", "uid": "UID"}
    assert rejection_message(bind, pod, binding, NOW) == words


def test_a_pod_is_bound_once() -> None:
    pod = bind(created(), _binding(), NOW)
    words = f'{UNFULFILLED} pods/binding "p": '
    assert rejection_message(bind, pod, _binding("n2"), NOW) == words + 'pod p is already assigned to node "n1"'
    gated = created(schedulingGates=[{"name": "x"}])
    assert rejection_message(bind, gated, _binding(), NOW) == words + "pod p has non-empty .spec.schedulingGates"
    going = created()
    going["metadata"]["deletionTimestamp"] = NOW
    assert (
        rejection_message(bind, going, _binding(), NOW)
        == words + "pod p is being deleted, cannot be assigned to a host"
    )


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
POD = created()


@given(
    ANY
    | st.fixed_dictionaries(
        {},
        optional={
            "metadata": ANY
            | st.fixed_dictionaries({"name": st.just("p")}, optional={"uid": ANY, "labels": ANY, "annotations": ANY}),
            "target": ANY | st.fixed_dictionaries({"name": ANY, "kind": ANY}),
        },
    )
)
def test_no_binding_whatever_breaks_it(binding: Any) -> None:
    with suppress(ApiError):
        assert bind(POD, binding, NOW)["spec"]["nodeName"]
