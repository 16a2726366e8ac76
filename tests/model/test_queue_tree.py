"""Where queues stand: three ways to write it, one tree (docs/fairness.md, section 4)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.queue_tree import (
    HierarchyError,
    QueueTree,
    build_queue_tree,
    inner_paths,
    parse_path,
    weight_in_force,
)
from pumice.model.specs import Queue


def laid_out(*queues: Queue) -> QueueTree:
    return build_queue_tree({queue.name: queue for queue in queues})


def places(layout: QueueTree) -> dict[str, str]:
    """Where each queue stands, as people write it."""
    return {name: "/".join(path) for name, path in layout.path_of.items() if name != "root"}


def refused(layout: QueueTree) -> set[str]:
    return {refusal.queue for refusal in layout.refusals if refusal.refused}


def weight(layout: QueueTree, path: str) -> Fraction:
    return layout.placements[tuple(path.split("/"))].weight


# --- paths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "stands"),
    [
        ("root/eng/prod", "root/eng/prod"),
        ("eng/prod", "root/eng/prod"),
        ("/root/eng/prod/", "root/eng/prod"),  # a path of queues, with slashes at both ends
        ("prod", "root/prod"),
        ("rootteam/a", "root/rootteam/a"),  # begins with the letters, is not under root
        ("root/root", "root/root"),
        ("root/eng/root", "root/eng/root"),
    ],
)
def test_a_path_begins_at_root(path: str, stands: str) -> None:
    assert places(laid_out(Queue("q", path=path))) == {"q": stands}


def test_the_last_segment_is_the_queue_whatever_its_object_is_called() -> None:
    layout = laid_out(Queue("some-object", path="root/eng/prod"))
    assert layout.placements["root", "eng", "prod"].queue == "some-object"
    assert layout.placements["root", "eng"].queue is None


@pytest.mark.parametrize("path", ["", "/", "root//a", "a//b", "root"])
def test_a_path_without_a_queue_in_it_is_refused(path: str) -> None:
    layout = laid_out(Queue("q", path=path), Queue("fine"))
    assert refused(layout) == {"q"} and places(layout) == {"fine": "root/fine"}
    assert layout.refusals[0].field == "metadata.annotations[volcano.sh/hierarchy]"


def test_weights_stand_level_by_level() -> None:
    layout = laid_out(Queue("q", path="root/eng/prod", path_weights="1/2/8"))
    assert (weight(layout, "root/eng"), weight(layout, "root/eng/prod")) == (2, 8)


def test_weights_of_a_path_without_root_begin_at_its_first_segment() -> None:
    layout = laid_out(Queue("q", path="eng/prod", path_weights="2/8"))
    assert (weight(layout, "root/eng"), weight(layout, "root/eng/prod")) == (2, 8)


def test_path_without_weights_uses_weight_of_queue_spec() -> None:
    layout = laid_out(Queue("q", weight=5, path="root/eng/prod"))
    assert (weight(layout, "root/eng"), weight(layout, "root/eng/prod")) == (1, 5)


def test_decimal_weights_mean_what_they_say() -> None:
    layout = laid_out(Queue("a", path="root/a", path_weights="1/0.6"), Queue("b", path="root/b", path_weights="1/0.4"))
    assert weight(layout, "root/a") == Fraction(3, 5)

    assert weight(layout, "root/b") == Fraction(2, 5)


@pytest.mark.parametrize("weights", ["1/0", "1/-2", "1/x", "1/", "1", "1/2/3", "1/nan", "1/inf", "1/1e3", "1//2", ""])
def test_invalid_path_weights_are_rejected_by_annotation_field(weights: str) -> None:
    layout = laid_out(Queue("q", path="root/a", path_weights=weights))
    assert refused(layout) == {"q"}
    assert layout.refusals[0].field == "metadata.annotations[volcano.sh/hierarchy-weights]"


def test_an_error_says_what_would_be_right() -> None:
    with pytest.raises(HierarchyError, match="one weight per level, such as 1/2/8"):
        parse_path("root/a/b", "1/2", 1)
    with pytest.raises(HierarchyError, match="a number greater than 0"):
        parse_path("root/a", "1/zero", 1)


# --- conflicts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["root/sci", "root/sci/dev"])
def test_a_queue_and_one_below_it_conflict_in_either_order(first: str) -> None:
    second = "root/sci/dev" if first == "root/sci" else "root/sci"
    layout = laid_out(Queue("young", created=2, path=second), Queue("old", created=1, path=first))
    assert places(layout) == {"old": first} and refused(layout) == {"young"}
    # Deleting the older one lets the other in.
    assert places(laid_out(Queue("young", created=2, path=second))) == {"young": second}


def test_two_queues_cannot_have_one_path() -> None:
    layout = laid_out(Queue("b", path="root/x"), Queue("a", path="root/x"))
    assert places(layout) == {"a": "root/x"} and refused(layout) == {"b"}  # equal age: by name


def test_an_old_queue_keeps_its_place_from_a_younger_one_with_its_path() -> None:
    layout = laid_out(Queue("sci", created=1), Queue("x", created=2, path="root/sci"))
    assert places(layout) == {"sci": "root/sci"} and refused(layout) == {"x"}


def test_different_weights_for_one_inner_node() -> None:
    # The latest write counts; the others are told, and keep their place.
    layout = laid_out(
        Queue("a", created=1, path="root/eng/a", path_weights="1/2/1"),
        Queue("b", created=2, path="root/eng/b", path_weights="1/5/1"),
        Queue("c", created=3, path="root/eng/c", path_weights="1/5/1"),
        Queue("d", created=4, path="root/eng/d"),  # says nothing of eng
    )
    assert weight(layout, "root/eng") == 5
    assert len(places(layout)) == 4 and not refused(layout)
    told = [refusal for refusal in layout.refusals if not refusal.refused]
    assert [refusal.queue for refusal in told] == ["a"]
    assert "root/eng" in told[0].message and "2" in told[0].message and "5" in told[0].message


# --- parents --------------------------------------------------------------------------------------------------------


def test_parents_make_the_same_tree() -> None:
    by_parent = laid_out(Queue("eng", weight=2), Queue("prod", parent="eng", weight=8), Queue("rest", parent="root"))
    assert places(by_parent) == {"eng": "root/eng", "prod": "root/eng/prod", "rest": "root/rest"}
    assert (weight(by_parent, "root/eng"), weight(by_parent, "root/eng/prod")) == (2, 8)


def test_a_parent_may_be_younger_than_its_children() -> None:
    layout = laid_out(Queue("c", parent="b"), Queue("b", created=5, parent="a"), Queue("a", created=9))
    assert places(layout)["c"] == "root/a/b/c"
    paths = list(layout.placements)
    assert all(path[:-1] in paths[: paths.index(path)] for path in paths[1:])  # parents come first


def test_a_queue_with_neither_hangs_under_root() -> None:
    layout = laid_out(Queue("default", weight=3))
    assert places(layout) == {"default": "root/default"} and weight(layout, "root/default") == 3


def test_a_missing_parent_keeps_out_its_whole_branch_and_nobody_else() -> None:
    layout = laid_out(Queue("a", parent="nowhere"), Queue("b", parent="a"), Queue("c"))
    assert places(layout) == {"c": "root/c"} and refused(layout) == {"a", "b"}
    messages = {refusal.queue: refusal.message for refusal in layout.refusals}
    assert "Not found: 'nowhere'" in messages["a"]


def test_a_parent_that_was_refused_is_not_called_missing() -> None:
    layout = laid_out(Queue("p", path="a//b"), Queue("c", parent="p"))
    assert refused(layout) == {"p", "c"}
    message = next(refusal.message for refusal in layout.refusals if refusal.queue == "c")
    assert "create" not in message and "'p'" in message


def test_a_circle_is_named() -> None:
    layout = laid_out(Queue("a", parent="b"), Queue("b", parent="c"), Queue("c", parent="a"), Queue("d", parent="d"))
    assert refused(layout) == {"a", "b", "c", "d"} and not places(layout)
    messages = {refusal.queue: refusal.message for refusal in layout.refusals}
    assert "a -> b -> c -> a" in messages["a"] and "d -> d" in messages["d"]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_every_circle_is_found_whatever_leads_into_it(parents: list[int]) -> None:
    """Queue i has the queue parents[i] above it; those beyond the last do not exist."""
    layout = laid_out(*(Queue(f"q{i}", created=i, parent=f"q{above}") for i, above in enumerate(parents)))
    for i in range(len(parents)):
        seen, step = [i], parents[i]
        while step < len(parents) and step not in seen:
            seen.append(step)
            step = parents[step]
        circle = [*seen[seen.index(step) :], step] if step in seen else []
        (message,) = (refusal.message for refusal in layout.refusals if refusal.queue == f"q{i}")
        expected = "Invalid value: parents form a cycle: " + " -> ".join(f"q{name}" for name in circle)
        assert (message == expected) if circle else ("circle" not in message)


def test_a_long_circle_is_named_in_short() -> None:
    layout = laid_out(*(Queue(f"q{i}", parent=f"q{(i + 1) % 3000}") for i in range(3000)))
    assert len(layout.refusals) == 3000
    first = next(refusal for refusal in layout.refusals if refusal.queue == "q0")
    assert (
        first.message
        == "Invalid value: parents form a cycle: q0 -> q1 -> q2 -> q3 -> q4 -> q5 -> q6 -> q7 -> q8 -> q9 -> ... -> q0"
    )


def test_child_of_parent_cycle_is_rejected() -> None:
    layout = laid_out(Queue("a", parent="b"), Queue("b", parent="a"), Queue("e", parent="a"), Queue("f"))
    assert refused(layout) == {"a", "b", "e"} and places(layout) == {"f": "root/f"}


# --- path and parent together -------------------------------------------------------------------------------------


def test_path_and_parent_that_agree() -> None:
    layout = laid_out(Queue("eng"), Queue("x", parent="eng", path="root/eng/x"))
    assert places(layout) == {"eng": "root/eng", "x": "root/eng/x"} and not layout.refusals


def test_path_and_parent_that_agree_further_down() -> None:
    layout = laid_out(Queue("org"), Queue("eng", parent="org"), Queue("x", parent="eng", path="root/org/eng/x"))
    assert places(layout)["x"] == "root/org/eng/x" and not layout.refusals


def test_path_and_parent_that_disagree() -> None:
    layout = laid_out(Queue("eng"), Queue("ops"), Queue("x", parent="ops", path="root/eng/x"))
    assert refused(layout) == {"x"} and places(layout) == {"eng": "root/eng", "ops": "root/ops"}
    assert layout.refusals[0].field == "spec.parent"


def test_root_as_parent_says_nothing_against_a_path() -> None:
    layout = laid_out(Queue("x", parent="root", path="root/eng/x"))
    assert places(layout) == {"x": "root/eng/x"} and not layout.refusals


def test_a_parent_with_a_bad_path_is_its_own_problem() -> None:
    layout = laid_out(Queue("p", path="a//b"), Queue("c", parent="p", path="root/a/c"), Queue("d"))
    assert "p" in refused(layout) and places(layout)["d"] == "root/d"


# --- whatever people write -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d", "root"])
PATHS = st.none() | st.lists(NAMES, max_size=4).map("/".join)
WEIGHTS = st.none() | st.lists(st.sampled_from(["1", "2", "0.5", "0", "x"]), max_size=4).map("/".join)
QUEUES = st.lists(
    st.builds(
        Queue,
        NAMES,
        st.integers(0, 2),
        st.integers(1, 3),
        parent=st.none() | NAMES | st.just("missing"),
        path=PATHS,
        path_weights=WEIGHTS,
    ),
    max_size=8,
    unique_by=lambda queue: queue.name,
)


@given(QUEUES)
def test_the_weight_in_force_is_that_of_the_layout(queues: list[Queue]) -> None:
    known = {queue.name: queue for queue in queues}
    layout = build_queue_tree(known)
    for name, queue in known.items():
        if name in layout.path_of:
            assert weight_in_force(queue) == layout.placements[layout.path_of[name]].weight


@given(QUEUES, st.randoms())
def test_every_queue_has_a_place_or_a_reason(queues: list[Queue], random: object) -> None:
    layout = laid_out(*queues)
    names = {queue.name for queue in queues if queue.name != "root"}
    placed = set(layout.path_of) - {"root"}
    assert placed | refused(layout) == names and not placed & refused(layout)
    for name, path in layout.path_of.items():
        assert path[0] == "root" and layout.placements[path].queue == name
    for path, place in layout.placements.items():
        assert place.path == path and place.weight > 0
        assert len(path) == 1 or path[:-1] in layout.placements
        assert place.queue is not None or path in inner_paths(layout.placements)  # no node for nothing
    shuffled = list(queues)
    random.shuffle(shuffled)
    again = laid_out(*shuffled)
    assert (again.placements, again.path_of) == (layout.placements, layout.path_of)
    assert sorted(map(repr, again.refusals)) == sorted(map(repr, layout.refusals))
