from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.controllers.nodes.taints import desired_taints, no_execute_taints, tolerates, toleration_seconds

NOW, BEFORE = "2024-05-01T12:00:00Z", "2024-05-01T11:00:00Z"


def node(ready="True", unschedulable=False, own=(), **pressure):
    conditions = [{"type": kind, "status": status} for kind, status in {"Ready": ready, **pressure}.items()]
    spec = {"taints": list(own)} | ({"unschedulable": True} if unschedulable else {})
    return {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}


def names(found):
    return [f"{taint['key'].removeprefix('node.kubernetes.io/')}:{taint['effect']}" for taint in found]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (node(), []),
        (node(unschedulable=True), ["unschedulable:NoSchedule"]),
        (node(ready="Unknown"), ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        (node(ready="False"), ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        (node(MemoryPressure="True"), ["memory-pressure:NoSchedule"]),
        (node(MemoryPressure="Unknown"), []),
        ({"metadata": {"name": "n"}}, ["unreachable:NoSchedule", "unreachable:NoExecute"]),
    ],
)
def test_taints_follow_from_the_state_of_a_node(state, wanted):
    assert names(desired_taints(state, NOW)) == wanted


def test_outdated_taints_are_removed_and_foreign_taints_kept():
    mine = {"key": "gpu", "effect": "NoSchedule", "value": "yes"}
    cordoned = desired_taints(node(unschedulable=True, own=[mine]), BEFORE)
    assert cordoned[0] == mine
    assert cordoned[1]["timeAdded"] == BEFORE
    # It keeps its time while it stays true.
    assert desired_taints(node(unschedulable=True, own=cordoned), NOW) == cordoned
    assert desired_taints(node(own=cordoned), NOW) == [mine]


@given(
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.booleans(),
    st.booleans(),
)
def test_desired_taints_are_idempotent(ready, before, cordoned, was_cordoned):
    past = desired_taints(node(ready=before, unschedulable=was_cordoned), BEFORE)
    now = desired_taints(node(ready=ready, unschedulable=cordoned, own=past), NOW)
    assert desired_taints(node(ready=ready, unschedulable=cordoned, own=now), "2030-01-01T00:00:00Z") == now
    assert sorted(names(now)) == sorted(names(desired_taints(node(ready=ready, unschedulable=cordoned), NOW)))


UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
FIRE = {"key": "fire", "value": "big", "effect": "NoExecute"}


def pod(*tolerations):
    return {"spec": {"tolerations": list(tolerations)}}


@pytest.mark.parametrize(
    ("tolerations", "found", "seconds"),
    [
        ([], [], None),
        ([], [UNREACHABLE], 0),
        ([{"operator": "Exists"}], [UNREACHABLE, FIRE], None),
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "tolerationSeconds": 300}], [UNREACHABLE], 300),
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "tolerationSeconds": -5}], [UNREACHABLE], 0),
        # The shortest time of those that are used counts; 20 is for a taint that is not there.
        (
            [
                {"operator": "Exists", "tolerationSeconds": 60},
                {"key": "fire", "value": "big", "tolerationSeconds": 30},
                {"key": "fire", "value": "small", "tolerationSeconds": 20},
            ],
            [FIRE],
            30,
        ),
        ([{"key": UNREACHABLE["key"], "operator": "Exists"}], [UNREACHABLE, FIRE], 0),
    ],
)
def test_toleration_seconds(tolerations, found, seconds):
    assert toleration_seconds(pod(*tolerations), found) == seconds


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "fire", "value": "big"}, True),
        ({"key": "fire", "operator": "Equal", "value": "big", "effect": "NoExecute"}, True),
        ({"key": "fire", "operator": "Exists"}, True),
        ({"key": "fire"}, False),
        ({"key": "fire", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "water", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"value": "big"}, False),
    ],
)
def test_toleration_matches_taint_by_key_value_and_effect(toleration, covers):
    assert tolerates(toleration, FIRE) is covers


def test_only_no_execute_evicts():
    assert no_execute_taints(node(own=[FIRE, {"key": "x", "effect": "NoSchedule"}])) == [FIRE]
