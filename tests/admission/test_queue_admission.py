"""Routing to a leaf, whose an object is, and what a podgroup may still change."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pumice.admission import CREATE, ROUTED, Request, admit, mutate, route
from pumice.admission.request import JOBS, PODGROUPS, PODS
from pumice.admission.routing import utilisation
from tests.support.admitted import ask, group, job, namespace, node, put, queue, tell, world

USER = "volcano.sh/user"


# ---- routing --------------------------------------------------------------------------------------------------


def test_utilisation_goes_by_deserved_else_by_weight():
    # 12 cpu; weights 1 : 2 under root: a has 4, b has 8. b's c names 6 cpu, and by weight has all of b's memory.
    around = world(
        node("n", cpu="12", memory="12Gi"),
        queue("a", weight=1, allocated={"cpu": "1"}),
        queue("b", weight=2),
        queue("c", parent="b", deserved={"cpu": "6"}, allocated={"cpu": "3", "memory": "6Gi"}),
    )
    assert utilisation("a", around) == Fraction(1, 4)
    assert utilisation("c", around) == Fraction(6, 8), "6 of 8 Gi is more than 3 of 6 cpu"


def test_utilisation_counts_pending_groups_and_running_groups_once():
    around = world(node("n", cpu="10"), queue("q"))
    tell(around, group("pending", "q", minResources={"cpu": "1"}))
    tell(around, group("inqueue", "q", "Inqueue", minResources={"cpu": "2"}))
    tell(around, group("running", "q", "Running", minResources={"cpu": "4"}))
    assert utilisation("q", around) == Fraction(7, 10), "a queue says a little later what it holds"
    tell(around, queue("q", allocated={"cpu": "4"}))
    assert utilisation("q", around) == Fraction(7, 10), "once it does, that is not counted again"
    tell(around, group("running", "q", "Completed", minResources={"cpu": "4"}))
    tell(around, queue("q", allocated={"cpu": "0"}))
    assert utilisation("q", around) == Fraction(3, 10)


def test_utilisation_ignores_quota_names_in_min_resources():
    around = world(node("n", cpu="10"), queue("q"))
    tell(around, group("pending", "q", minResources={"cpu": "1", "limits.cpu": "9", "count/pods": "3"}))
    assert utilisation("q", around) == Fraction(1, 10)


def test_a_job_counts_until_its_podgroup_does():
    asks = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    around = world(node("n", cpu="10"), queue("q"))
    tell(around, job("j", "q", [{"name": "t", "replicas": 2, "template": asks}]))
    assert utilisation("q", around) == Fraction(4, 10)
    owned = group("g", "q", minResources={"cpu": "3"})
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j"}]
    tell(around, owned)
    assert utilisation("q", around) == Fraction(3, 10)
    around.note(PODGROUPS, "ns", "g", None)
    assert utilisation("q", around) == Fraction(4, 10)
    around.note(JOBS, "ns", "j", None)
    assert utilisation("q", around) == 0


def test_a_podgroup_seen_before_its_job():
    around = world(node("n", cpu="10"), queue("q"))
    owned = group("g", "q", minResources={"cpu": "3"})
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j"}]
    tell(around, owned)
    asks = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    tell(around, job("j", "q", [{"name": "t", "replicas": 2, "template": asks}]))
    assert utilisation("q", around) == Fraction(3, 10)


def test_a_burst_spreads():
    # a and b weigh the same, c twice as much: of eight alike jobs c takes four
    around = world(node("n", cpu="100"), queue("a"), queue("b"), queue("c", weight=2))
    went = []
    for i in range(8):
        verdict = put(around, group(f"g{i}", minResources={"cpu": "1"}))
        assert verdict.object is not None
        went.append(verdict.object["spec"]["queue"])
    assert went == ["a", "b", "c", "c", "a", "b", "c", "c"]


def test_the_event_says_where_and_why():
    around = world(node("n", cpu="10"), queue("a", allocated={"cpu": "1"}), queue("b", allocated={"cpu": "2"}))
    verdict = ask(around, job("j"))
    assert verdict.object is not None
    # a has 5 of 10 cpu by weight, and holds 1
    assert verdict.object["metadata"]["annotations"][ROUTED] == (
        "Routed to queue 'a', the least utilised of 2 open leaf queues below 'root'; its utilisation "
        "is 20.0 %, pending demand included; the job names no queue, and neither its namespace (annotation "
        "volcano.sh/queue-name) nor the scheduler's configuration (defaultQueue) names a default"
    )
    assert ROUTED not in ask(around, job("j", "b")).object["metadata"]["annotations"]
    assert route("b", around) is None, "there is nothing below a leaf"


# ---- the default queue ------------------------------------------------------------------------------------------


def published(default_queue):
    """Queue root, as a scheduler with this configuration leaves it."""
    return {**queue("root"), "status": {"scheduler": {"defaultQueue": default_queue}}}


def test_a_job_that_names_no_queue_goes_to_the_default_queue_of_the_configuration():
    around = world(published("b"), queue("a"), queue("b", allocated={"cpu": "1"}), node("n", cpu="10"))
    found = ask(around, job("j")).object
    assert (found["spec"]["queue"], found["metadata"]["annotations"][ROUTED]) == (
        "b",
        "Routed to queue 'b'; the job names no queue, and 'b' is the defaultQueue of the scheduler's configuration",
    )
    assert ask(around, job("j", "a")).object["spec"]["queue"] == "a", "a named queue counts first"
    tell(around, published(""))
    assert ask(around, job("j")).object["spec"]["queue"] == "a", "the least used leaf again"


def test_the_default_queue_may_be_a_parent():
    around = world(published("p"), queue("a"), queue("p"), queue("x", parent="p"), queue("y", parent="p"))
    found = ask(around, job("j")).object
    assert found["spec"]["queue"] == "x"
    assert "of 2 open leaf queues below 'p'" in found["metadata"]["annotations"][ROUTED]
    assert "'p' is the defaultQueue" in found["metadata"]["annotations"][ROUTED]


def test_the_queue_of_the_namespace_counts_before_that_of_the_configuration():
    around = world(published("b"), queue("a"), queue("b"))
    tell(around, namespace("ns", "a"))
    found = ask(around, job("j")).object
    assert (found["spec"]["queue"], found["metadata"]["annotations"][ROUTED]) == (
        "a",
        "Routed to queue 'a'; the job names no queue, and 'a' is the default of namespace 'ns'",
    )


def test_a_default_queue_that_does_not_exist_is_named_with_its_origin():
    around = world(published("defualt"), queue("default"))
    assert (
        "Not found: queue 'defualt' (the defaultQueue of the scheduler's configuration), did you mean 'default'?"
        in ask(around, job("j")).message
    )
    tell(around, namespace("ns", "gone"))
    assert "Not found: queue 'gone' (the default of namespace 'ns')" in ask(around, job("j")).message


def test_job_is_not_routed_to_terminating_queue():
    leaving = queue("a", deletionTimestamp="2024-01-01T00:00:00Z")
    around = world(leaving, queue("b"))
    assert ask(around, job("j")).object["spec"]["queue"] == "b"
    assert "queue 'a' accepts no jobs, because it is being deleted" in ask(around, job("j", "a")).message


def test_a_job_in_a_queue_without_a_place_is_told_why():
    around = world(queue("a", parent="nowhere"))
    assert (
        "queue 'a' has no valid place in the tree: spec.parent: Not found: 'nowhere'"
        in ask(around, job("j", "a")).message
    )


# ---- later versions -------------------------------------------------------------------------------------------


def test_a_podgroup_stays_where_it_is_whatever_became_of_its_queue():
    old = group("g", "p", "Completed")
    around = world(queue("p"), queue("c", parent="p"), old)
    verdict = ask(around, group("g", "p", "Completed", minMember=2), "UPDATE", old)
    assert verdict.allowed and verdict.object["spec"]["queue"] == "p"
    assert ask(around, group("g", "", "Completed"), "UPDATE", old).object["spec"]["queue"] == "p"


def test_a_podgroup_moves_only_while_it_is_pending():
    around = world(queue("a"), queue("b"), queue("c", state="Closed"))
    waiting, running = group("g", "a"), group("g", "a", "Running")
    assert ask(around, group("g", "b"), "UPDATE", waiting).allowed
    assert "accepts no jobs" in ask(around, group("g", "c"), "UPDATE", waiting).message
    assert (
        "only while the PodGroup is Pending; its phase is Running"
        in ask(around, group("g", "b"), "UPDATE", running).message
    )


# ---- users ----------------------------------------------------------------------------------------------------


def stamped(given=None, resource=PODGROUPS, old=None, **more):
    new = group("g", "q") if resource == PODGROUPS else {"metadata": {"name": "p"}, "spec": {"schedulerName": "pumice"}}
    if given:
        new["metadata"]["annotations"] = {USER: given}
    operation = CREATE if old is None else "UPDATE"
    request = Request(operation, resource, new, old, **{"user": "anne", **more})
    return mutate(request, world(queue("q")))["metadata"].get("annotations", {}).get(USER)


def anybody(_):
    return True


@pytest.mark.parametrize("resource", [PODGROUPS, PODS])
def test_user_annotation_is_requester_unless_impersonation_is_allowed(resource):
    assert stamped(resource=resource) == "anne"
    assert stamped("bert", resource) == "anne", "anne may not act as bert"
    assert stamped("bert", resource, may_impersonate=anybody) == "bert"
    assert stamped("bert", resource, may_impersonate=lambda user: user == "carl") == "anne"


def test_controllers_copy_the_user_and_are_none_themselves():
    controller = "system:serviceaccount:pumice-system:pumice-controllers"
    assert stamped("bert", user=controller) == "bert"
    assert stamped(user=controller) is None


@pytest.mark.parametrize(
    "builder", ["system:kube-controller-manager", "system:serviceaccount:kube-system:job-controller"]
)
def test_whom_a_template_names_does_not_count(builder):
    assert stamped("bert", PODS, user=builder) is None
    assert stamped("bert", PODS, user=builder, may_impersonate=anybody) is None, "whoever wrote it may not"
    assert stamped(resource=PODS, user=builder) is None


def test_a_later_version_keeps_the_user():
    old = {"metadata": {"name": "g", "annotations": {USER: "bert"}}, "spec": {"queue": "q"}}
    assert stamped(old=old) == "bert"
    assert stamped("anne", old=old) == "anne", "she acts for herself"
    assert stamped("carl", old=old) == "bert"
    assert stamped("carl", old=old, may_impersonate=anybody) == "carl"


def test_pods_of_other_schedulers_are_left_alone():
    pod = {"metadata": {"name": "p"}, "spec": {"schedulerName": "default-scheduler"}}
    assert mutate(Request(CREATE, PODS, pod, user="anne"), world()) is pod


# ---- users with control characters ----------------------------------------------------------------------------


def test_a_user_that_cannot_be_shown_is_refused_on_jobs_and_podgroups():
    for made in (job("work", "a"), group("work", "a")):
        made["metadata"]["annotations"] = {"volcano.sh/user": "ann\x1be"}
        verdict = ask(world(queue("a")), made, may_impersonate=lambda user: True)
        assert verdict.message == (
            "metadata.annotations[volcano.sh/user]: Invalid value: 'ann\\x1be': may not contain control characters"
        )


def test_a_user_that_cannot_be_shown_does_not_count_on_a_pod():
    pod = {"metadata": {"name": "p", "namespace": "ns", "annotations": {"volcano.sh/user": "ann\x1be"}}, "spec": {}}
    pod["spec"]["schedulerName"] = "pumice"
    verdict = admit(Request(CREATE, PODS, pod, user="anne", may_impersonate=lambda user: True), world())
    assert verdict.object["metadata"]["annotations"] == {"volcano.sh/user": "anne"}
