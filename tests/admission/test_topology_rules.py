"""Admission of HyperNodes, and of the networkTopology of jobs and podgroups."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission import Request, admit
from pumice.admission.request import HYPER_NODES
from tests.support.admitted import ask, group, job, queue, world


def hyper_node(name: str, tier: int, *members: dict[str, Any]) -> dict[str, Any]:
    spec = {"tier": tier, "members": list(members)}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def exact(name: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def cluster(*hyper_nodes: dict[str, Any]):
    found = world(queue("q"))
    for name in ("a", "b", "c"):
        found.note("nodes", "", name, {"metadata": {"name": name, "labels": {"rack": name}}})
    for one in hyper_nodes:
        found.note(HYPER_NODES, "", one["metadata"]["name"], one)
    return found


def refusals(view, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    operation = "CREATE" if old is None else "UPDATE"
    return [str(one) for one in admit(Request(operation, HYPER_NODES, new, old), view).refusals]


def test_a_sound_hyper_node_is_admitted():
    view = cluster(hyper_node("r0", 1, exact("a")))
    labels = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "b"}}}}
    assert refusals(view, hyper_node("r1", 1, labels)) == []
    assert refusals(view, hyper_node("k", 2, exact("r0", "HyperNode"), exact("later", "HyperNode"))) == []
    assert refusals(view, hyper_node("r0", 1, exact("a"), exact("b")), hyper_node("r0", 1, exact("a"))) == []


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({}, "spec.members[0].selector: must have exactly one of exactMatch, regexMatch and labelMatch"),
        (
            {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}},
            "spec.members[0].selector: must have exactly one of exactMatch, regexMatch and labelMatch",
        ),
        (
            {"regexMatch": {"pattern": "a("}},
            "spec.members[0].selector.regexMatch.pattern: Invalid value: 'a(': error parsing regexp: missing closing "
            "): `a(`",
        ),
        (
            {"labelMatch": {"matchExpressions": [{"key": "x", "operator": "In"}]}},
            "spec.members[0].selector.labelMatch.matchExpressions[0].values: operator In needs at least one value",
        ),
    ],
)
def test_a_member_needs_one_valid_selector(selector, message):
    assert refusals(cluster(), hyper_node("r", 1, {"type": "Node", "selector": selector})) == [message]


def test_labels_select_nodes_only():
    wanted = {"type": "HyperNode", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}}
    (message,) = refusals(cluster(), hyper_node("r", 2, wanted))
    assert message.startswith("spec.members[0].selector.labelMatch: Forbidden: ")


def test_tiers_start_at_one_and_members_are_required():
    (message,) = refusals(cluster(), hyper_node("r", 0, exact("a")))
    assert message.startswith("spec.tier: ")
    assert refusals(cluster(), hyper_node("r", 1)) == [
        "spec.members: Required value: a HyperNode needs at least one member"
    ]


def test_members_are_of_a_lower_tier_so_that_there_is_no_cycle():
    view = cluster(hyper_node("k", 2, exact("r", "HyperNode")), hyper_node("r", 1, exact("a")))
    assert refusals(view, hyper_node("x", 2, exact("k", "HyperNode"))) == [
        "spec.members[0].selector: Invalid value: 'k': HyperNode k is of tier 2; members of a HyperNode of tier 2 must "
        "be of a lower tier",
    ]
    assert refusals(view, hyper_node("r", 3, exact("k", "HyperNode"))) == [
        "spec.tier: Invalid value: 3: HyperNode k of tier 2 contains r, which must be of a lower tier"
    ]
    assert refusals(view, hyper_node("s", 2, exact("s", "HyperNode"))) == [
        "spec.members[0].selector: Invalid value: 's': a HyperNode may not contain itself"
    ]


def test_a_node_is_in_one_hyper_node_of_a_tier():
    view = cluster(hyper_node("r0", 1, exact("a")), hyper_node("k", 2, exact("r0", "HyperNode")))
    pattern = {"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}
    assert refusals(view, hyper_node("r1", 1, pattern)) == [
        "spec.members: Invalid value: a is in HyperNode r0 of tier 1 already; a node may be in one HyperNode of a tier"
    ]
    assert refusals(view, hyper_node("x", 2, exact("r0", "HyperNode"))) == [
        "spec.members: Invalid value: a is in HyperNode k of tier 2 already; a node may be in one HyperNode of a tier"
    ]
    view.note(HYPER_NODES, "", "r0", None)
    assert refusals(view, hyper_node("r1", 1, pattern)) == []


@pytest.mark.parametrize("make", [group, lambda *named, **spec: job(*named, [{"name": "t"}], **spec)])
def test_the_highest_tier_is_given_by_number_or_by_name(make):
    view = world(queue("q"))
    both = {"mode": "hard", "highestTierAllowed": 2, "highestTierName": "block"}
    assert [str(one) for one in ask(view, make("j", "q", networkTopology=both)).refusals] == [
        "spec.networkTopology.highestTierName: Forbidden: may not be set beside highestTierAllowed; set one of the two"
    ]
    assert ask(view, make("j", "q", networkTopology={"mode": "hard", "highestTierAllowed": 2})).warnings == []
