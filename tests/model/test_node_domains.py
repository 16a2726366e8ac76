"""Which nodes a HyperNode contains: by name, pattern, labels, through HyperNodes below it, and after every change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.model.hyper_nodes import HyperNode, HyperNodeMember
from pumice.model.node_domains import NodeDomains


def node(name: str = "", pattern: str = "", labels: dict[str, str] | None = None) -> HyperNodeMember:
    wanted = tuple(Requirement(key, "In", (value,)) for key, value in labels.items()) if labels is not None else None
    return HyperNodeMember(True, name, pattern, wanted)


def inner(name: str = "", pattern: str = "") -> HyperNodeMember:
    return HyperNodeMember(False, name, pattern)


def built(*hyper_nodes: HyperNode, nodes: dict[str, dict[str, str]]) -> NodeDomains:
    found = NodeDomains()
    for name, labels in nodes.items():
        found.put_node(name, labels)
    for one in hyper_nodes:
        found.put_hyper_node(one)
    return found


def test_members_are_selected_by_name_pattern_and_labels():
    found = built(
        HyperNode("exact", 1, members=(node("a-1"),)),
        HyperNode("regex", 1, members=(node(pattern="^b-[0-9]$"),)),
        HyperNode("label", 1, members=(node(labels={"rack": "c"}),)),
        nodes={"a-1": {}, "a-10": {}, "b-1": {}, "b-10": {}, "c": {"rack": "c"}, "d": {"rack": "d"}},
    )
    assert {name: found.nodes_in(name) for name in found.hyper_nodes} == {
        "exact": {"a-1"},
        "regex": {"b-1"},
        "label": {"c"},
    }


def test_a_pattern_may_match_any_part_of_a_name():
    found = built(HyperNode("r", 1, members=(node(pattern="gpu"),)), nodes={"a-gpu-1": {}, "b": {}})
    assert found.nodes_in("r") == {"a-gpu-1"}


def test_a_hyper_node_contains_the_nodes_of_those_below_it():
    found = built(
        HyperNode("r0", 1, members=(node("a"),)),
        HyperNode("r1", 1, members=(node("b"),)),
        HyperNode("k", 2, "block", (inner(pattern="^r"), node("c"))),
        HyperNode("f", 3, members=(inner("k"),)),
        nodes={"a": {}, "b": {}, "c": {}, "d": {}},
    )
    assert found.domains_of("a") == {1: "r0", 2: "k", 3: "f"}
    assert found.domains_of("c") == {2: "k", 3: "f"}
    assert found.domains_of("d") == {}
    assert (found.tier_named("block"), found.tier_named("hall")) == (2, None)


def test_a_member_that_is_not_of_a_lower_tier_does_not_count():
    found = built(
        HyperNode("a", 1, members=(node("n"), inner("b"))), HyperNode("b", 1, members=(inner("a"),)), nodes={"n": {}}
    )
    assert found.domains_of("n") == {1: "a"}


def test_of_two_hyper_nodes_of_a_tier_the_first_name_counts():
    found = built(HyperNode("y", 1, members=(node("n"),)), HyperNode("x", 1, members=(node("n"),)), nodes={"n": {}})
    assert found.domains_of("n") == {1: "x"}
    assert list(found.overlaps(HyperNode("z", 1, members=(node("n"),)))) == [("n", "x"), ("n", "y")]


def test_overlaps_are_found_through_hyper_nodes_below():
    found = built(
        HyperNode("r", 1, members=(node("n"),)), HyperNode("k", 2, members=(inner("r"),)), nodes={"n": {}, "m": {}}
    )
    assert list(found.overlaps(HyperNode("other", 2, members=(inner("r"), node("m"))))) == [("n", "k")]
    assert list(found.overlaps(HyperNode("k", 2, members=(inner("r"), node("m"))))) == []


names = st.sampled_from(["a", "b", "c", "d"])
hypers = st.builds(
    HyperNode,
    st.sampled_from(["r0", "r1", "k0", "k1"]),
    st.integers(1, 3),
    members=st.lists(
        st.builds(node, names)
        | st.builds(lambda p: node(pattern=p), st.sampled_from(["a", "^[bc]$", "."]))
        | st.builds(lambda v: node(labels={"rack": v}), st.sampled_from(["1", "2"]))
        | st.builds(inner, st.sampled_from(["r0", "r1", "k0"]))
        | st.builds(lambda p: inner(pattern=p), st.sampled_from(["^r", "k"])),
        max_size=3,
    ).map(tuple),
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("node"), names, st.sampled_from([{}, {"rack": "1"}, {"rack": "2"}])),
        st.tuples(st.just("no node"), names),
        st.tuples(st.just("hyper node"), hypers),
        st.tuples(st.just("no hyper node"), st.sampled_from(["r0", "r1", "k0", "k1"])),
    ),
    max_size=12,
)


@given(changes)
def test_the_index_equals_one_built_from_scratch(history):
    followed, nodes, hyper_nodes = NodeDomains(), {}, {}
    for change in history:
        match change:
            case ("node", name, labels):
                followed.put_node(name, labels)
                nodes[name] = labels
            case ("no node", name):
                followed.drop_node(name)
                nodes.pop(name, None)
            case ("hyper node", found):
                followed.put_hyper_node(found)
                hyper_nodes[found.name] = found
            case ("no hyper node", name):
                followed.drop_hyper_node(name)
                hyper_nodes.pop(name, None)
    fresh = built(*hyper_nodes.values(), nodes=nodes)
    assert {name: followed.domains_of(name) for name in "abcd"} == {name: fresh.domains_of(name) for name in "abcd"}
