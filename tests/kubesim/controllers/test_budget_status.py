from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.status import ApiError
from kubesim.controllers.disruption import budget_status, status_after_eviction
from tests.support.still_clock import NOON

NOW = "2024-05-01T12:00:00Z"


def budget(status=None, generation=1, **spec):
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"metadata": {"name": "b", "generation": generation}, "spec": spec, "status": status or {}}


def pod(name="p", ready=True, deleted=False, controller="", phase="Running", app="web"):
    about = {"name": name, "labels": {"app": app}}
    if deleted:
        about["deletionTimestamp"] = NOW
    if controller:
        about["ownerReferences"] = [{"kind": "Set", "name": controller, "uid": controller, "controller": True}]
    ready = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": about, "status": {"phase": phase, "conditions": ready}}


def pods(healthy, others=0, controller="set"):
    return [pod(f"p{n}", ready=n < healthy, controller=controller) for n in range(healthy + others)]


def ten(owner):
    return 10


@pytest.mark.parametrize(
    ("spec", "seen", "expected", "desired", "healthy", "allowed"),
    [
        # minAvailable counts the pods that are there: 3 healthy - 2 = 1.
        ({"minAvailable": 2}, pods(3), 3, 2, 3, 1),
        ({"minAvailable": 2}, pods(1, 4), 5, 2, 1, 0),
        ({"minAvailable": 0}, [], 0, 0, 0, 0),
        # Percentages are of what the controller wants, here 10, rounded up: 25% of 10 = 2.5 -> 3.
        ({"minAvailable": "25%"}, pods(5), 10, 3, 5, 2),
        ({"maxUnavailable": 3}, pods(9), 10, 7, 9, 2),
        ({"maxUnavailable": "25%"}, pods(9), 10, 7, 9, 2),
        ({"maxUnavailable": 30}, pods(9), 10, 0, 9, 9),
        # Pods without a controller do not count towards what is wanted.
        ({"maxUnavailable": 1}, pods(4, controller=""), 0, 0, 4, 0),
    ],
)
def test_counts(spec, seen, expected, desired, healthy, allowed):
    status = budget_status(budget(**spec), seen, ten, NOON)
    counted = (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"], status["disruptionsAllowed"])
    assert counted == (expected, desired, healthy, allowed)
    assert status["observedGeneration"] == 1
    entry = status["conditions"][0]
    assert (entry["status"], entry["reason"]) == (
        ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    )


def test_pods_that_are_deleted_or_just_evicted_are_not_healthy():
    seen = [pod("a"), pod("b", deleted=True), pod("c"), pod("d")]
    # c was evicted a minute ago, d three minutes ago: by now it would be gone if it went at all.
    old = {"disruptedPods": {"c": "2024-05-01T11:59:00Z", "d": "2024-05-01T11:57:00Z", "gone": NOW}}
    status = budget_status(budget(old, minAvailable=1), seen, ten, NOON)
    assert status["currentHealthy"] == 2
    assert status["disruptedPods"] == {"c": "2024-05-01T11:59:00Z"}


def test_a_controller_that_cannot_say_how_many_it_wants_allows_nothing():
    def unknown(owner):
        raise LookupError("jobs.batch does not implement the scale subresource")

    status = budget_status(budget(maxUnavailable=1), pods(3), unknown, NOON)
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "SyncFailed"
    assert status["conditions"][0]["message"] == "jobs.batch does not implement the scale subresource"


GOOD = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}
SPENT = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}


def test_an_eviction_takes_one_disruption_and_notes_the_pod():
    guard = budget(GOOD | {})
    ((found, take),) = status_after_eviction([guard, budget(selector={"matchLabels": {"app": "other"}})], pod(), NOW)
    assert found is guard
    newest = budget(GOOD | {})
    take(newest)
    assert newest["status"]["disruptionsAllowed"] == 0
    assert newest["status"]["disruptedPods"] == {"p": NOW}
    with pytest.raises(ApiError) as refused:  # a second eviction that was decided at the same time
        take(newest)
    assert refused.value.code == 429


@pytest.mark.parametrize(
    ("guard", "victim"),
    [
        (budget(SPENT), pod(phase="Pending")),
        (budget(SPENT), pod(phase="Succeeded")),
        (budget(SPENT), pod(deleted=True)),
        (budget(SPENT), pod(app="other")),
        (budget(SPENT, selector=None), pod()),
        (budget(SPENT), pod(ready=False)),  # the application has all it needs without this pod
        (budget(SPENT | {"currentHealthy": 1}, unhealthyPodEvictionPolicy="AlwaysAllow"), pod(ready=False)),
    ],
)
def test_pods_that_no_budget_guards(guard, victim):
    assert status_after_eviction([guard], victim, NOW) == []


@pytest.mark.parametrize(
    ("guards", "victim", "code", "cause"),
    [
        ([budget(SPENT)], pod(), 429, "The disruption budget b needs 2 healthy pods and has 2 currently"),
        ([budget(SPENT | {"currentHealthy": 1})], pod(ready=False), 429, "needs 2 healthy pods and has 1 currently"),
        ([budget(GOOD, generation=2)], pod(), 429, "The disruption budget b is still being processed by the server."),
        ([budget(GOOD), budget(GOOD)], pod(), 500, None),
    ],
)
def test_refusals(guards, victim, code, cause):
    with pytest.raises(ApiError) as refused:
        status_after_eviction(guards, victim, NOW)
    assert refused.value.code == code
    if cause:
        assert refused.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
        assert cause in refused.value.details["causes"][0]["message"]


@given(st.integers(0, 12), st.integers(0, 8), st.integers(0, 8), st.integers(0, 20))
def test_evictions_never_leave_fewer_healthy_pods_than_desired(least, healthy, others, tries):
    seen = pods(healthy, others)
    guard = budget(minAvailable=least)
    guard["status"] = budget_status(guard, seen, ten, NOON)
    left = {each["metadata"]["name"]: each for each in seen}
    for victim in seen[:tries]:
        try:
            takes = status_after_eviction([guard], victim, NOW)
            for _, take in takes:
                take(guard)
        except ApiError:
            continue
        del left[victim["metadata"]["name"]]
    alive = sum(each["status"]["conditions"][0]["status"] == "True" for each in left.values())
    assert alive >= min(healthy, least)
