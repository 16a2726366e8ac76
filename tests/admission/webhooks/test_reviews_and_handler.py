"""Reviews and their answers: what an API server sends comes out as the rules say, and as a patch that does the same."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.timestamps import moment_of
from kubesim.patches.json_patch import json_patch
from pumice.admission import CREATE, DELETE, UPDATE, ClusterView, Request, Settings, admit
from pumice.admission.request import JOBS, OPERATIONS, PODS, QUEUES
from pumice.admission.webhooks.handler import AdmissionHandler
from pumice.admission.webhooks.json_patch import json_patch_between
from pumice.admission.webhooks.reviews import ReviewError, ReviewRequest, ReviewResponse, User, read, write
from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS, WEIGHTS_WRITTEN
from tests.admission.test_admission_cases import CASES, surroundings
from tests.support.admitted import group, job, queue, resource_of, world

USER = "volcano.sh/user"

values = st.recursive(
    st.none() | st.booleans() | st.integers(2, 9) | st.text("ab~/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=12,
)
documents = st.dictionaries(st.text("ab~/", max_size=2), values, max_size=4)


@given(documents, documents)
def test_a_difference_applied_gives_the_other(old, new):
    before = json.dumps(old)
    assert json_patch(json.loads(before), list(json_patch_between(old, new))) == new
    assert json.dumps(old) == before


def test_json_patch_between_equal_objects_is_empty():
    assert list(json_patch_between({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})) == []


class Around:
    """A world that stands still, and what is expected to come into it."""

    def __init__(self, here: ClusterView) -> None:
        self.world = here
        self.expected: list[str] = []

    def now(self) -> ClusterView:
        return self.world

    def expect(self, resource: str, new: dict[str, Any]) -> None:
        self.expected.append(new["metadata"]["name"])


class Known:
    """Who may act as whom."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self.pairs = pairs
        self.asked: list[tuple[str, str]] = []

    async def may_impersonate(self, caller: User, user: str) -> bool:
        self.asked.append((caller.username, user))
        return (caller.username, user) in self.pairs


def review(request: Request) -> bytes:
    """What an API server would send."""
    plural, _, group_name = request.resource.partition(".")
    asked = {
        "uid": "705ab4f5",
        "operation": request.operation,
        "kind": {"group": group_name, "version": "v1", "kind": "Any"},
        "resource": {"group": group_name, "version": "v1", "resource": plural},
        "userInfo": {"username": request.user, "groups": ["system:authenticated"]},
        "object": request.new,
        "oldObject": request.old,
        "dryRun": request.dry_run,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def through(
    request: Request, here: ClusterView, rights: Known | None = None
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """A request on its way through both webhooks, as an API server sends it: what is stored, and the last answer."""
    judge, around = AdmissionHandler(Around(here), rights or Known()), request.new

    async def ask() -> tuple[dict[str, Any] | None, dict[str, Any]]:
        new = around
        if new is not None:
            asked = read(review(request))
            filled = json.loads(write(asked, await judge.fill_in(asked)))["response"]
            assert filled["allowed"] and filled["uid"] == "705ab4f5"
            if "patch" in filled:
                assert filled["patchType"] == "JSONPatch"
                new = json_patch(new, json.loads(base64.b64decode(filled["patch"])))
        last = Request(request.operation, request.resource, new, request.old, request.user, dry_run=request.dry_run)
        asked = read(review(last))
        return new, json.loads(write(asked, await judge.check(asked)))["response"]

    return asyncio.run(ask())


def cases() -> list[tuple[str, Request, ClusterView]]:
    found = []
    for case in CASES["queues"]:
        if case["do"] not in OPERATIONS:
            continue  # which no API server asks about
        here, wanted = surroundings(case), queue(**case["queue"])
        name = wanted["metadata"]["name"]
        old = here.queues.get(name) or (queue(name) if case["do"] == UPDATE else wanted)
        new = None if case["do"] == DELETE else wanted
        found.append((case["id"], Request(case["do"], QUEUES, new, old if case["do"] != CREATE else None), here))
    for case in CASES["entering"]:
        wanted = (job if case["kind"] == "Job" else group)("work", case["queue"])
        found.append((case["id"], Request(CREATE, resource_of(wanted), wanted), surroundings(case)))
    return found


@pytest.mark.parametrize(("name", "request_", "here"), cases(), ids=[name for name, _, _ in cases()])
def test_two_webhooks_say_what_the_rules_say(name, request_, here, monkeypatch):
    monkeypatch.setattr("pumice.admission.webhooks.reviews.time.time_ns", lambda: 0)  # cases know no time
    verdict = admit(request_, here)
    stored, answer = through(request_, here)
    assert answer["allowed"] == verdict.allowed
    if verdict.allowed:
        assert stored == verdict.object
    else:
        assert answer["status"]["message"] == verdict.message
        assert (answer["status"]["code"], answer["status"]["reason"]) == (403, "Forbidden")
        assert [cause["field"] for cause in answer["status"]["details"]["causes"]] == [
            refusal.field for refusal in verdict.refusals
        ]


def test_a_webhook_dates_the_weights_of_a_path():
    found = queue("q", annotations={HIERARCHY: "root/eng/q", HIERARCHY_WEIGHTS: "1/2/3"})
    stored, answer = through(Request(CREATE, QUEUES, found), world())
    assert answer["allowed"]
    assert moment_of(stored["metadata"]["annotations"][WEIGHTS_WRITTEN]) > 0


def test_a_warning_is_passed_on():
    made = job("work", "a", plugins={"horovod": []})
    _, answer = through(Request(CREATE, JOBS, made), world(queue("a")))
    (warning,) = answer["warnings"]
    assert warning.startswith("spec.plugins.horovod: has no effect; supported plugins: env, ")


def test_whose_it_is_and_who_is_asked():
    here, rights = world(queue("a")), Known(("carla", "dora"))

    def stamped(user: str, said: str = "") -> str:
        made = group("g", "a")
        if said:
            made["metadata"]["annotations"] = {USER: said}
        stored, _ = through(Request(CREATE, resource_of(made), made, user=user), here, rights)
        assert stored is not None
        return stored["metadata"].get("annotations", {}).get(USER, "")

    assert stamped("carla") == "carla"
    assert stamped("carla", "carla") == "carla"
    assert stamped("system:serviceaccount:pumice-system:pumice-controllers", "emil") == "emil"
    assert stamped("system:serviceaccount:kube-system:job-controller", "emil") == ""
    assert rights.asked == [], "nobody acts for another, or may by what they are"
    assert stamped("carla", "dora") == "dora"
    assert stamped("carla", "emil") == "carla"
    assert rights.asked == [("carla", "dora"), ("carla", "emil")]


def test_pods_of_others_are_left_alone():
    pod = {"metadata": {"name": "p"}, "spec": {"schedulerName": "default-scheduler"}}
    stored, answer = through(Request(CREATE, PODS, pod, user="carla"), world())
    assert (stored, answer) == (pod, {"uid": "705ab4f5", "allowed": True})


@pytest.mark.parametrize("spec", ["text", 7, ["list"], {"tasks": "text"}, {"tasks": [7]}])
def test_malformed_job_spec_is_left_to_schema_validation(spec):
    asked = read(review(Request(CREATE, JOBS, {"metadata": {"name": "odd"}, "spec": spec})))
    assert asyncio.run(AdmissionHandler(Around(world()), Known()).fill_in(asked)).refusals == ()


def test_handler_expects_admitted_creates_but_not_dry_runs():
    around = Around(world())
    judge = AdmissionHandler(around, Known())
    for name, dry_run, old in (("real", False, None), ("trial", True, None), ("later", False, queue("later"))):
        request = Request(UPDATE if old else CREATE, QUEUES, queue(name, parent="root"), old, dry_run=dry_run)
        assert not asyncio.run(judge.check(read(review(request)))).refusals
    assert around.expected == ["real"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not an AdmissionReview"),
        (b"\xff", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "request"),
        (
            review(Request(CREATE, PODS, {})).replace(b"k8s.io/v1", b"k8s.io/v1beta1"),
            "expected admission.k8s.io/v1 AdmissionReview",
        ),
    ],
)
def test_invalid_admission_review_raises_review_error(body, says):
    with pytest.raises(ReviewError, match=says):
        read(body)


def test_a_subresource_is_not_judged():
    asked: ReviewRequest = read(review(Request(UPDATE, QUEUES, queue("q", parent="nowhere"), queue("q"))))
    asked.sub_resource = "status"
    judge = AdmissionHandler(Around(world(settings=Settings())), Known())
    assert asyncio.run(judge.check(asked)) == asyncio.run(judge.fill_in(asked)) == ReviewResponse()
