"""Rules about queues that need more than one line to tell: hierarchies, sums, jobs, user limits, what is filled in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission import (
    CREATE,
    DELETE,
    USER_LIMITS,
    Request,
    Settings,
    cascade_plan,
    mutate,
    with_user_limits_settled,
)
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import PODGROUPS, QUEUES
from tests.support.admitted import ask, group, job, node, put, queue, tell, world

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"


def filled(found, around=None):
    return mutate(Request(CREATE, QUEUES, found), around or world())


# ---- what is filled in --------------------------------------------------------------------------------------


def test_a_bare_queue_hangs_under_root_and_weighs_one():
    assert filled(queue("q"))["spec"] == {"parent": "root", "weight": 1, "reclaimable": True}


def test_queue_defaulting_keeps_explicit_fields():
    given = queue("q", parent="p", weight=3, reclaimable=False)
    assert filled(given)["spec"] == given["spec"]


def test_root_gets_no_parent():
    assert "parent" not in filled(queue("root"))["spec"]


@pytest.mark.parametrize(
    ("path", "weights", "becomes", "weighing"),
    [
        ("eng/prod", "2/8", "root/eng/prod", "1/2/8"),
        ("/eng/prod/", None, "root/eng/prod", None),
        ("root/eng", "1/2", "root/eng", "1/2"),
        ("root", None, "root", None),
        ("rootteam/a", "2/3", "root/rootteam/a", "1/2/3"),
    ],
)
def test_paths_begin_at_root(path, weights, becomes, weighing):
    given = {HIERARCHY: path} | ({WEIGHTS: weights} if weights else {})
    made = filled(queue("q", annotations=given))
    assert made["metadata"]["annotations"] == {HIERARCHY: becomes} | ({WEIGHTS: weighing} if weighing else {})
    assert "parent" not in made["spec"], "the path says where it stands"


def test_queue_defaulting_does_not_mutate_input():
    given = queue("q", annotations={HIERARCHY: "a"})
    before = json.dumps(given)
    assert filled(given) is not given
    assert json.dumps(given) == before


def test_a_finalizer_is_added_where_a_controller_waits_for_it():
    around = world(settings=Settings(queue_finalizer="pumice.dev/queue"))
    assert filled(queue("q", finalizers=["a/b"]), around)["metadata"]["finalizers"] == ["a/b", "pumice.dev/queue"]
    assert "finalizers" not in filled(queue("q"))["metadata"]


# ---- jobs keep queues where they are --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (group("g", "q", "Pending"), "PodGroup ns/g"),
        (group("g", "q", "Running"), "PodGroup ns/g"),
        (job("j", "q"), "Job ns/j"),
        (group("g", "q", "Completed"), None),
        (group("g", "other", "Running"), None),
    ],
)
def test_a_queue_with_jobs_takes_no_queues_and_stays(work, why):
    around = world(queue("q", parent="root"), queue("p", parent="root"), queue("other"), work)
    below, moved = ask(around, queue("below", parent="q")), ask(around, queue("q", parent="p"), "UPDATE", queue("q"))
    for verdict in (below, moved):
        assert verdict.allowed == (why is None)
        assert why is None or why in verdict.message


def test_a_queue_above_jobs_stays_too():
    around = world(queue("p", parent="root"), queue("c", parent="p"), queue("r", parent="root"), group("g", "c"))
    assert "queue 'c' has unfinished jobs" in ask(around, queue("p", parent="r"), "UPDATE", queue("p")).message


def test_a_path_may_not_end_up_below_a_queue_with_jobs():
    around = world(queue("eng", parent="root"), group("g", "eng"))
    assert "queue 'eng' has unfinished jobs" in ask(around, queue("x", annotations={HIERARCHY: "root/eng/x"})).message


def test_queue_rejects_new_child_below_terminating_parent():
    leaving = queue("p", parent="root", deletionTimestamp="2024-01-01T00:00:00Z")
    around = world(leaving, queue("c", parent="p"))
    assert "queue 'p' is being deleted" in ask(around, queue("q", parent="p")).message
    assert ask(around, queue("c", parent="p", weight=2), "UPDATE", queue("c", parent="p")).allowed, "it was there"
    unbound = queue("p", parent="nowhere", deletionTimestamp="2024-01-01T00:00:00Z")
    assert ask(around, unbound, "UPDATE", leaving).allowed, "nothing keeps it from letting go"


# ---- amounts --------------------------------------------------------------------------------------------------


def test_the_children_of_root_share_the_cluster():
    # 6 + 5 of 10 cpu; 6 + 4 fit
    around = world(node("n1", cpu="4"), node("n2", cpu="6"), queue("a", parent="root", guarantee={"cpu": "6"}))
    refused = ask(around, queue("b", parent="root", guarantee={"cpu": "5"}))
    message = (
        "the children of queue 'root' have guarantee cpu 11 in total, more than the allocatable cpu 10 of the cluster"
    )
    assert refused.message == f"spec.guarantee.resource: {message}", "once, though it breaks two rules"
    assert ask(around, queue("b", parent="root", guarantee={"cpu": "4"})).allowed
    handed_down = [{"name": "b", "parameters": [{"name": "guarantee", "value": {"resource": {"cpu": "5"}}}]}]
    assert put(around, queue("root", hierarchy=handed_down)).message == f"spec.hierarchy: {message}"
    assert ask(around, queue("b", parent="root", deserved={"cpu": "11"})).message


def test_queue_amounts_are_not_capped_by_unknown_cluster_capacity():
    assert ask(world(), queue("a", guarantee={"cpu": "1000"})).allowed
    assert ask(world(node("n", cpu="1")), queue("a", deserved={"nvidia.com/gpu": "8"})).allowed, "they may yet come"


def test_child_guarantees_may_not_exceed_parent_capability():
    # 6 + 5 of at most 10: the parent could never hold what is kept free below it.
    around = world(queue("p", parent="root", capability={"cpu": "10"}), queue("a", parent="p", guarantee={"cpu": "6"}))
    refused = ask(around, queue("b", parent="p", guarantee={"cpu": "5"}))
    assert "have guarantee cpu 11 in total, more than the capability cpu 10 of queue 'p'" in refused.message
    assert ask(around, queue("b", parent="p", guarantee={"cpu": "4"})).allowed


def test_guarantee_sum_counts_grandchildren_below_parent_without_guarantee():
    # p promises 10; c names nothing, so what is below it counts: 6 + 5
    around = world(
        queue("p", parent="root", guarantee={"cpu": "10"}),
        queue("c", parent="p"),
        queue("c1", parent="c", guarantee={"cpu": "6"}),
    )
    assert "have guarantee cpu 11 in total" in ask(around, queue("d", parent="p", guarantee={"cpu": "5"})).message
    assert ask(around, queue("d", parent="p", guarantee={"cpu": "4"})).allowed


def test_excessive_deserved_sum_can_be_lowered_but_not_raised():
    # 6 + 6 of 10; each step down is let in, a step up is not
    around = world(
        queue("p", parent="root", deserved={"cpu": "10"}),
        queue("a", parent="p", deserved={"cpu": "6"}),
        queue("b", parent="p", deserved={"cpu": "6"}),
    )
    assert put(around, queue("a", parent="p", deserved={"cpu": "5"})).allowed
    assert not put(around, queue("a", parent="p", deserved={"cpu": "6"})).allowed
    assert put(around, queue("a", parent="p", deserved={"cpu": "5"}, weight=7)).allowed


def test_the_loss_of_a_node_keeps_nobody_from_editing():
    around = world(node("n", cpu="10"), queue("a", parent="root", guarantee={"cpu": "8"}))
    tell(around, node("n", cpu="4"))
    assert put(around, queue("a", parent="root", guarantee={"cpu": "8"}, weight=2)).allowed


# ---- spec.hierarchy -------------------------------------------------------------------------------------------


def entry(name, *below, **parameters):
    made = {"name": name, "parameters": [{"name": key, "value": value} for key, value in parameters.items()]}
    return made | ({"hierarchy": list(below)} if below else {})


def test_a_hierarchy_is_judged_as_a_whole():
    # 6 + 5 of dev's 10
    dev = entry("dev", entry("a", deserved={"cpu": "6"}), entry("b", deserved={"cpu": "5"}), deserved={"cpu": "10"})
    refused = ask(world(), queue("root", hierarchy=[dev]), "UPDATE", queue("root"))
    assert "the children of queue 'root/dev' have deserved cpu 11 in total" in refused.message


def test_a_parameter_that_is_taken_out_makes_room_for_another():
    # 6 + 4 of 10 become 0 + 8, not 6 + 8: the controller will take the 6 back from a.
    first = [entry("a", deserved={"cpu": "6"}), entry("b", deserved={"cpu": "4"})]
    there = queue("p", parent="root", deserved={"cpu": "10"}, hierarchy=first)
    a, b = (queue(name, parent="p", deserved={"cpu": cpu}) for name, cpu in (("a", "6"), ("b", "4")))
    later = queue("p", parent="root", deserved={"cpu": "10"}, hierarchy=[entry("a"), entry("b", deserved={"cpu": "8"})])
    assert put(world(there, a, b), later).allowed
    changed = queue("a", parent="p", deserved={"cpu": "7"})  # by hand, so it stays
    assert "have deserved cpu 15 in total" in put(world(there, changed, b), later).message


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        ([entry("a"), entry("b", entry("a"))], "Duplicate value: 'a': already used at spec.hierarchy[0].name"),
        ([entry("a", wait=3)], "Unsupported value: 'wait': supported values:"),
        ([entry("a", weight="heavy")], "Invalid value: 'heavy': must be an integer"),
        ([entry("a", weight=0)], "Invalid value: 0: must be greater than or equal to 1"),
        ([entry("a", reclaimable="false", weight="3")], ""),
        ([entry("A b")], "Invalid value: 'A b'"),
        ([entry("busy", entry("x"))], "queue 'busy' has unfinished jobs"),
        (
            [entry("grandchild")],
            (
                "Invalid value: 'grandchild': would be a child of 'root', but queue 'grandchild' exists "
                "already as a child of 'child'"
            ),
        ),
        ([entry("child", entry("grandchild"))], ""),
        (
            [entry("own")],
            "Forbidden: the hierarchy of queue 'child' names 'own' as a child of 'child'; remove that entry first",
        ),
    ],
)
def test_entries_of_a_hierarchy(hierarchy, message):
    around = world(
        queue("busy", parent="root"),
        group("g", "busy"),
        queue("child", parent="root", hierarchy=[entry("own")]),
        queue("grandchild", parent="child"),
    )
    verdict = ask(around, queue("root", hierarchy=hierarchy), "UPDATE", queue("root"))
    assert message in verdict.message
    assert verdict.allowed == (message == "")


def test_a_queue_stands_where_a_hierarchy_names_it():
    around = world(queue("dev", parent="root", hierarchy=[entry("test1")]), queue("test1", parent="dev"))
    moved = ask(around, queue("test1", parent="root"), "UPDATE", queue("test1", parent="dev"))
    assert (
        "Forbidden: the hierarchy of queue 'dev' names 'test1' as a child of 'dev'; remove that entry first"
        in moved.message
    )


def test_depth_counts_what_moves_along():
    around = world(
        *(queue(name, parent=parent) for name, parent in [("a", "root"), ("b", "a"), ("c", "root"), ("d", "c")]),
        settings=Settings(max_queue_depth=3),
    )
    assert (
        "Too deep: 'root/a/b/c/d' is 4 levels below root; at most 3 are allowed"
        in put(around, queue("c", parent="b")).message
    )
    assert put(around, queue("c", parent="a")).allowed


def test_a_deep_tree_is_judged_like_any_other():
    chain = [queue("q0", parent="root"), *(queue(f"q{i}", parent=f"q{i - 1}") for i in range(1, 1100))]
    around = world(*chain)
    assert put(around, queue("last", parent="q1099", guarantee={"cpu": "1"})).allowed
    assert put(around, queue("q0", parent="root", guarantee={"cpu": "0"})).message
    assert len(cascade_plan("q0", around).queues) == 1101


def test_a_path_that_is_too_deep_is_refused_before_a_tree_is_laid_out(monkeypatch):
    """Which takes time with the square of the depth, and all other writes would wait for it."""
    around = world(settings=Settings(max_queue_depth=200))
    assert around.tree.leaves("root") == []
    monkeypatch.setattr(QueueTree, "changed", lambda *_: pytest.fail("the tree was laid out"))
    deep = queue("q", annotations={HIERARCHY: "root" + "/a" * 3000})
    assert ask(around, deep).message == (
        f"metadata.annotations[{HIERARCHY}]: Too deep: 'root{'/a' * 38}...' is 3000 levels below root; "
        "at most 200 are allowed"
    )


def test_second_of_two_nested_paths_is_rejected_in_either_order():
    for first, second in (("root/sci", "root/sci/dev"), ("root/sci/dev", "root/sci")):
        around = world()
        assert put(around, queue("one", annotations={HIERARCHY: first})).allowed
        assert not put(around, queue("two", annotations={HIERARCHY: second})).allowed


# ---- user limits ----------------------------------------------------------------------------------------------


def applied(name, **spec):
    """A queue as kubectl apply sends it."""
    made = queue(name, **spec)
    made["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(queue(name, **spec))}
    return made


def test_user_limits_removed_from_the_manifest_of_a_parent_do_not_come_back():
    around = world()
    put(around, applied("q", minUserLimitPercent=25, userLimitFactor=2, weight=5))
    put(around, queue("child", parent="q"))
    parent = with_user_limits_settled(around.queues["q"], leaf=False)
    tell(around, parent)
    # kubectl apply of a manifest without minUserLimitPercent: the spec, which has none, stays as it is.
    annotations = parent["metadata"]["annotations"]
    again = {**parent, "metadata": {**parent["metadata"]}}
    again["metadata"]["annotations"] = annotations | applied("q", userLimitFactor=2)["metadata"]["annotations"]
    stored = put(around, again).object
    assert json.loads(stored["metadata"]["annotations"][USER_LIMITS]) == {"userLimitFactor": 2}
    assert with_user_limits_settled(stored, leaf=True)["spec"] == {
        "parent": "root", "reclaimable": True, "weight": 5, "userLimitFactor": 2,
    }  # fmt: skip


def test_user_limits_that_no_manifest_named_stay():
    around = world()
    put(around, applied("q", weight=5))
    put(around, queue("child", parent="q"))
    parent = {**around.queues["q"], "spec": {**around.queues["q"]["spec"], "minUserLimitPercent": 25}}
    stored = put(around, parent).object
    for manifest in (applied("q", weight=6), applied("q")):
        about = {"name": "q", "annotations": stored["metadata"]["annotations"] | manifest["metadata"]["annotations"]}
        stored = put(around, {**stored, "metadata": about}).object
        assert json.loads(stored["metadata"]["annotations"][USER_LIMITS]) == {"minUserLimitPercent": 25}


def test_user_limits_of_a_parent_are_kept_and_come_back():
    leaf = queue("q", parent="root", minUserLimitPercent=25, userLimitFactor=0.5, weight=2)
    parent = with_user_limits_settled(leaf, leaf=False)
    assert parent["spec"] == {"parent": "root", "weight": 2}
    assert json.loads(parent["metadata"]["annotations"][USER_LIMITS]) == {
        "minUserLimitPercent": 25,
        "userLimitFactor": 0.5,
    }
    assert with_user_limits_settled(parent, leaf=False) is parent
    assert with_user_limits_settled(parent, leaf=True) == leaf
    assert with_user_limits_settled(leaf, leaf=True) is leaf


def test_spec_user_limit_overrides_remembered_annotation():
    parent = queue(
        "q", userLimitFactor=2, annotations={USER_LIMITS: '{"minUserLimitPercent": 25, "userLimitFactor": 0.5}'}
    )
    assert with_user_limits_settled(parent, leaf=True)["spec"] == {"minUserLimitPercent": 25, "userLimitFactor": 2}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"minUserLimitPercent": 101, "userLimitFactor": "x"}', "[" * 9999])
def test_a_broken_annotation_limits_nobody(text):
    assert with_user_limits_settled(queue("q", annotations={USER_LIMITS: text}), leaf=True)["spec"] == {}


def test_admission_settles_the_queue_that_is_written():
    around = world(queue("p", parent="root"), queue("c", parent="p"))
    verdict = put(around, queue("p", parent="root", minUserLimitPercent=25))
    assert verdict.allowed and "minUserLimitPercent" not in around.queues["p"]["spec"]
    tell(around, around.queues["p"])
    around.note(QUEUES, "", "c", None)
    put(around, {**around.queues["p"], "spec": {"parent": "root", "weight": 3}})
    assert around.queues["p"]["spec"]["minUserLimitPercent"] == 25


# ---- deletion -------------------------------------------------------------------------------------------------


def test_cascade_plan_lists_child_queues_first():
    around = world(
        queue("p"), queue("c", parent="p"), queue("d", parent="c"), group("g", "d"), job("j", "d"), queue("x")
    )
    found = cascade_plan("p", around)
    assert found.queues == ["d", "c", "p"]
    assert found.jobs == ["Job ns/j", "PodGroup ns/g"]
    assert found.protected == []


def test_a_protected_queue_keeps_everything_above_it():
    around = world(queue("p"), queue("c", parent="p", annotations={"pumice.dev/protected": "true"}), group("g", "c"))
    refused = ask(around, queue("p"), DELETE)
    assert "this would have gone: queue c, queue p, PodGroup ns/g" in refused.message
    assert not ask(around, queue("c"), DELETE).allowed
    tell(around, queue("c", parent="p", annotations={"pumice.dev/protected": "false"}))
    assert ask(around, queue("p"), DELETE).allowed


def test_podgroups_are_forgotten_when_they_go():
    around = world(queue("q", parent="root"), group("g", "q"))
    around.note(PODGROUPS, "ns", "g", None)
    assert ask(around, queue("below", parent="q")).allowed


def test_a_queue_with_default_below_it_stays():
    around = world(queue("p"), queue("default", parent="p"))
    refusals = ask(around, queue("p"), DELETE).refusals
    assert [refusal.message for refusal in refusals] == [
        "queue 'default' is below 'p' and cannot be deleted; give it another parent first"
    ]


def test_amounts_are_judged_through_the_whole_tree():
    around = world(queue("p", parent="root", capability={"cpu": "4"}), queue("c", parent="p"))
    refused = ask(around, queue("d", parent="c", deserved={"cpu": "10"}))
    assert refused.message == (
        "spec.deserved: the children of queue 'root/p' have deserved cpu 10 in total, "
        "more than the capability cpu 4 of queue 'p'"
    )
    around = world(
        queue("p", parent="root", deserved={"cpu": "4"}),
        queue("c", parent="p"),
        queue("d", parent="c", guarantee={"cpu": "4"}),
    )
    refused = ask(around, queue("e", parent="p", guarantee={"cpu": "9"}))
    assert "have guarantee cpu 13 in total, more than the deserved cpu 4 of queue 'p'" in refused.message


amounts = st.none() | st.integers(0, 6).map(lambda n: {"cpu": str(n)})
trees = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), amounts, amounts, amounts), min_size=1, max_size=14
)  # which queue is written, below which of those before it, guarantee, deserved, capability


@given(writes=trees)
def test_what_admission_lets_in_the_engine_finds_nothing_wrong_with(writes):
    """Whatever is written, in whatever order, and whatever of it is refused."""
    around = world()
    for number, above, guarantee, deserved, capability in writes:
        parent = f"q{above % number}" if number and f"q{above % number}" in around.queues else "root"
        given = {"guarantee": guarantee, "deserved": deserved, "capability": capability}
        put(around, queue(f"q{number}", parent=parent, **{k: v for k, v in given.items() if v is not None}))
    assert list(around.tree.amounts.excesses()) == []
