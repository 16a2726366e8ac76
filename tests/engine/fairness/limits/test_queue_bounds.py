"""Bounds of queues: real capability from the top down, guarantees that nobody else can take, what is deserved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.limits.queue_bounds import beyond_limits
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import Queue
from tests.support.forests import Forest, cpu

# --- real capability and deserved ---------------------------------------------------------------------------------


def test_queue_inherits_capability_of_unnamed_resources_from_parent() -> None:
    # a names cpu only; b below it names memory only; c below b names nothing.
    forest = Forest(
        Queue("a", capability=cpu(40)), Queue("b", parent="a", capability=((MEMORY, 30),)), Queue("c", parent="b")
    )
    assert forest.ceiling("root") == (100, 100)
    assert forest.ceiling("a") == (40, 100)
    assert forest.ceiling("b") == forest.ceiling("c") == (40, 30)


def test_others_guarantees_come_off_at_every_level() -> None:
    # Of 100: a has 30 below it (10 + 20), b 5, c nothing.
    # a <= 100 - 5, b <= 100 - 30, c <= 100 - 35; a1 <= 95 - 20, a2 <= 95 - 10 and its capability.
    forest = Forest(
        Queue("a"),
        Queue("b", guarantee=cpu(5)),
        Queue("c"),
        Queue("a1", parent="a", guarantee=cpu(10)),
        Queue("a2", parent="a", guarantee=cpu(20), capability=cpu(50)),
    )
    assert {name: forest.ceiling(name)[0] for name in ("a", "b", "c", "a1", "a2")} == {
        "a": 95,
        "b": 70,
        "c": 65,
        "a1": 75,
        "a2": 50,
    }


def test_deserved_lies_between_guarantee_and_real_capability() -> None:
    forest = Forest(
        Queue("low", deserved=cpu(2), guarantee=cpu(5)),
        Queue("high", deserved=cpu(70), capability=cpu(60)),
        Queue("some", deserved=((MEMORY, 0),)),
        Queue("guaranteed", guarantee=cpu(7)),
        Queue("none"),
    )
    assert forest.deserved("root")[CPU] == 100
    assert forest.deserved("low") == {CPU: 5}
    assert forest.deserved("high") == {CPU: 60}
    assert forest.deserved("some") == {MEMORY: 0}
    assert forest.deserved("guaranteed") == {CPU: 7}
    assert forest.node["none"].deserved is None


def test_bounds_follow_the_size_of_the_cluster() -> None:
    forest = Forest(Queue("a", deserved=cpu(80)), Queue("b", guarantee=cpu(30)))
    assert (forest.ceiling("a")[0], forest.deserved("a")) == (70, {CPU: 70})
    forest.resize(50, 100)
    assert (forest.ceiling("a")[0], forest.deserved("a")) == (20, {CPU: 20})
    # Less than is guaranteed: b may still have its guarantee as far as there is anything, a nothing.
    forest.resize(10, 100)
    assert (forest.ceiling("a")[0], forest.ceiling("b")[0]) == (0, 10)


def test_a_parent_that_promised_too_much_breaks_nothing() -> None:
    # 4 + 4 of 6: each may have its own 4, whoever comes first.
    forest = Forest(
        Queue("q", capability=cpu(6)),
        Queue("one", parent="q", guarantee=cpu(4)),
        Queue("two", parent="q", guarantee=cpu(4)),
    )
    assert forest.ceiling("one")[0] == forest.ceiling("two")[0] == 4
    forest.hold("one", 4)
    assert forest.refused("two", 2) is None
    assert forest.refused("two", 3) == "q"  # 4 + 3 of 6


def test_a_node_without_an_object_bounds_nobody() -> None:
    forest = Forest(Queue("a", capability=cpu(5)), Queue("b", parent="a"))
    forest.node["a"].queue_name = None
    forest.resize(100, 100)
    assert forest.ceiling("b")[0] == 100


# --- what may start -------------------------------------------------------------------------------------------------


def test_every_queue_above_must_have_room() -> None:
    forest = Forest(Queue("a", capability=cpu(10)), Queue("b", parent="a"), Queue("c", parent="a"))
    forest.hold("b", 7)
    assert forest.refused("c", 3) is None
    assert forest.refused("c", 4) == "a"
    assert forest.refused("c", 3, 100) is None  # memory is for the nodes to say
    assert beyond_limits(forest.tree, forest.job("c"), cpu(4), forest.node["a"]) is None  # only up to there


def test_a_guarantee_is_not_to_be_had_at_any_level() -> None:
    # Below a (at most 20) one is guaranteed 8: two can have 12. Below root a's cousin b is guaranteed 85 of 100.
    forest = Forest(
        Queue("a", capability=cpu(20)),
        Queue("b", guarantee=cpu(85)),
        Queue("one", parent="a", guarantee=cpu(8)),
        Queue("two", parent="a"),
    )
    assert forest.ceiling("a")[0] == 15  # 100 - 85
    assert forest.refused("two", 8) == "two"  # 15 - 8 = 7
    forest.hold("two", 7)
    assert forest.refused("two", 1) == "two"
    assert forest.refused("one", 8) is None
    forest.hold("one", 8)
    assert forest.refused("one", 1) == "a"


def test_parent_guarantee_is_available_to_every_child() -> None:
    # a is guaranteed 60, its children nothing: each may have all of it, b may have 40.
    forest = Forest(Queue("a", guarantee=cpu(60)), Queue("b"), Queue("a1", parent="a"), Queue("a2", parent="a"))
    assert forest.refused("b", 41) == "b"
    forest.hold("b", 40)
    forest.hold("a1", 50)
    assert forest.refused("a2", 10) is None
    # Beyond its guarantee a has only what b leaves: 50 + 11 + 40 > 100. That is for the nodes to say.
    assert forest.tree.root.claims[CPU] == 100


def test_a_guarantee_that_is_used_reserves_nothing_more() -> None:
    forest = Forest(Queue("a", guarantee=cpu(30)), Queue("b"))
    forest.hold("a", 30)
    forest.hold("b", 70)
    assert forest.refused("a", 1) is None  # all is in use: that is for the nodes to say
    forest.tree.uncharge(forest.job("a"), cpu(5), 1)
    assert forest.refused("b", 1) == "b"


def test_a_parent_reserves_what_its_children_are_guaranteed() -> None:
    # Its own 5 are less than the 8 below it.
    forest = Forest(Queue("a", guarantee=cpu(5)), Queue("a1", parent="a", guarantee=cpu(8)), Queue("b"))
    assert forest.ceiling("b")[0] == 92
    assert forest.refused("b", 92) is None


def test_a_lost_node_keeps_nobody_from_its_guarantee() -> None:
    forest = Forest(Queue("a", guarantee=cpu(30)), Queue("b", guarantee=cpu(30)), Queue("c"))
    forest.hold("c", 40)
    forest.resize(50, 100)  # 40 + 60 are claimed of 50
    assert forest.refused("a", 30) is None  # if it fits somewhere
    assert forest.refused("a", 31) is not None
    assert forest.refused("c", 1) is not None


# --- claims ---------------------------------------------------------------------------------------------------------


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    queues: list[Queue] = []
    for number in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from([None, *(queue.name for queue in queues)]))
        guarantee = draw(st.just(()) | st.integers(0, 6).map(cpu))
        queues.append(Queue(f"q{number}", parent=parent, guarantee=guarantee))
    return Forest(*queues)


def claimed_slowly(node: ShareNode) -> int:
    """max(guarantee, what its jobs hold and its child queues claim)."""
    children = [child for child in node.children.values() if child.kind is NodeKind.QUEUE]
    own = node.held[CPU] - sum(child.held[CPU] for child in children)
    return max(node.guarantee[CPU] if node.guarantee else 0, own + sum(map(claimed_slowly, children)))


@given(forests(), st.data())
def test_claims_follow_what_is_held(forest: Forest, data: st.DataObject) -> None:
    names = sorted(forest.queues)
    running: list[str] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if running and data.draw(st.booleans()):
            name = running.pop(data.draw(st.integers(0, len(running) - 1)))
            forest.tree.uncharge(forest.job(name), cpu(2), 1)
        else:
            running.append(data.draw(st.sampled_from(names)))
            forest.tree.charge(forest.job(running[-1]), cpu(2), 1)
        if data.draw(st.integers(0, 9)) == 0:
            changed = data.draw(st.sampled_from(names))
            guarantee = data.draw(st.just(()) | st.integers(1, 6).map(cpu))
            forest.queues[changed] = Queue(changed, parent=forest.queues[changed].parent, guarantee=guarantee)
            forest.resize(100, 100)
        if forest.tree.reserving:
            for node in forest.tree.queues():
                reserved = node.guarantee[CPU] if node.guarantee else 0
                assert max(reserved, node.claims[CPU]) == claimed_slowly(node), node.path


def test_tree_without_guarantees_claims_nothing() -> None:
    forest = Forest(Queue("a"))
    forest.hold("a", 5)
    assert not forest.tree.reserving
    assert forest.tree.root.claims[CPU] == 0
