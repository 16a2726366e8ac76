"""What a JobFlow does next: cases by hand, and random graphs from start to end."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.controllers.flows.flow_plan import FlowPlan, owned_jobs, plan_flow
from tests.support.examples import fewer_examples

Document = dict[str, Any]
NOW = 1_800_000_000.0


def template(name: str, **spec: Any) -> Document:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": "q", "tasks": [{"name": "t"}], **spec}}


def entry(name: str, *targets: str, **more: Any) -> Document:
    return {"name": name, **({"dependsOn": {"targets": list(targets)}} if targets else {}), **more}


class Flow:
    """A flow with its jobs, in memory: jobs end as the test says, and a controller may look at any time."""

    def __init__(self, *entries: Document, policy: str = "", templates: str | None = None, **about: Any) -> None:
        spec = {"flows": list(entries), **({"jobRetainPolicy": policy} if policy else {})}
        self.document: Document = {"metadata": {"name": "f", "namespace": "ns", "uid": "u-f", **about}, "spec": spec}
        names = [each["name"] for each in entries] if templates is None else templates.split()
        self.templates = {name: template(name) for name in names}
        self.jobs: dict[str, Document] = {}
        self.now = NOW
        self.created: list[str] = []

    def plan(self) -> FlowPlan:
        return plan_flow(self.document, self.templates, owned_jobs(self.document, self.jobs.values()), self.now)

    def look(self) -> FlowPlan:
        """Let a controller look once; a minute passes."""
        found = self.plan()
        if found.status is not None:
            self.document["status"] = found.status
        for job in found.create:
            name = job["metadata"]["name"]
            assert name not in self.jobs
            self.jobs[name] = {**job, "status": {}}
            self.created.append(name)
        for job in found.delete:
            del self.jobs[job["metadata"]["name"]]
        self.now += 60
        return found

    def settle(self) -> None:
        for _ in range(20):
            found = self.look()
            if found.status is None and not found.create and not found.delete:
                return
        raise AssertionError(f"it never settles: {self.plan()}")

    def become(self, name: str, phase: str, **status: Any) -> None:
        self.jobs[name]["status"] = {"state": {"phase": phase, "lastTransitionTime": "2027-01-15T08:00:00Z"}, **status}

    @property
    def phase(self) -> str:
        return str(self.document["status"]["state"]["phase"])


def test_jobs_start_when_their_targets_are_complete() -> None:
    flow = Flow(entry("a"), entry("b", "a"), entry("c", "a"), entry("d", "b", "c"))
    flow.settle()
    assert (list(flow.jobs), flow.phase) == (["f-a"], "Pending")
    flow.become("f-a", "Running")
    flow.settle()
    assert (list(flow.jobs), flow.phase) == (["f-a"], "Running")
    flow.become("f-a", "Completed")
    flow.settle()
    assert list(flow.jobs) == ["f-a", "f-b", "f-c"]
    flow.become("f-b", "Completed")
    flow.settle()
    assert "f-d" not in flow.jobs
    flow.become("f-c", "Completed")
    flow.settle()
    flow.become("f-d", "Completed")
    flow.settle()
    assert flow.phase == "Succeed"
    assert flow.document["status"]["completedJobs"] == ["f-a", "f-b", "f-c", "f-d"]
    assert len(flow.jobs) == 4  # they are retained


def test_plan_changes_nothing_itself() -> None:
    patch = {"jobSpec": {"tasks": [{"name": "t", "replicas": 5}]}}
    flow = Flow(entry("a"), entry("b", "a", patch=patch))
    flow.settle()
    flow.become("f-a", "Completed")
    before = copy.deepcopy((flow.document, flow.templates, flow.jobs))
    (job,) = flow.plan().create
    assert job["spec"]["tasks"] == [{"name": "t", "replicas": 5}]
    assert before == (flow.document, flow.templates, flow.jobs)


def test_job_says_where_it_comes_from() -> None:
    flow = Flow(entry("a"), annotations={"volcano.sh/user": "ann", "other": "x"})
    (job,) = flow.plan().create
    origin = {"volcano.sh/createdByJobTemplate": "ns.a", "volcano.sh/createdByJobFlow": "ns.f"}
    assert job["metadata"]["labels"] == origin
    assert job["metadata"]["annotations"] == {**origin, "volcano.sh/user": "ann"}
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("JobFlow", "f", "u-f", True)
    assert job["spec"] == flow.templates["a"]["spec"]


def test_label_that_would_be_too_long_is_left_out() -> None:
    name = "n" * 61
    (job,) = Flow(entry(name)).plan().create
    assert set(job["metadata"]["labels"]) == {"volcano.sh/createdByJobFlow"}
    assert job["metadata"]["annotations"]["volcano.sh/createdByJobTemplate"] == f"ns.{name}"


@pytest.mark.parametrize("phase", ["Failed", "Terminated"])
def test_flow_fails_with_its_job(phase: str) -> None:
    flow = Flow(entry("a"), entry("b"), entry("c", "a"))
    flow.settle()
    flow.become("f-a", phase)
    flow.become("f-b", "Running")
    assert flow.look().problem == "jobs ended without success: f-a"
    flow.settle()
    assert (flow.phase, sorted(flow.jobs)) == ("Failed", ["f-a", "f-b"])
    flow.become("f-a", "Completed")  # a failed flow stays failed
    flow.become("f-b", "Completed")
    flow.settle()
    assert (flow.phase, sorted(flow.jobs)) == ("Failed", ["f-a", "f-b"])


def test_jobs_are_deleted_once_the_flow_has_succeeded() -> None:
    flow = Flow(entry("a"), entry("b", "a"), policy="delete")
    for name in ("f-a", "f-b"):
        flow.settle()
        flow.become(name, "Completed")
    flow.settle()
    assert (flow.phase, flow.jobs) == ("Succeed", {})
    assert flow.document["status"]["completedJobs"] == ["f-a", "f-b"]
    assert flow.created == ["f-a", "f-b"]


def test_complete_job_that_was_deleted_is_not_made_again() -> None:
    flow = Flow(entry("a"), entry("b", "a"))
    flow.settle()
    flow.become("f-a", "Completed")
    flow.settle()
    del flow.jobs["f-a"]  # its time to live is over
    flow.settle()
    flow.become("f-b", "Completed")
    flow.settle()
    assert (flow.phase, flow.created) == ("Succeed", ["f-a", "f-b"])


def test_running_job_that_was_deleted_is_made_again() -> None:
    flow = Flow(entry("a"))
    flow.settle()
    flow.become("f-a", "Running")
    flow.settle()
    del flow.jobs["f-a"]
    flow.settle()
    assert flow.created == ["f-a", "f-a"]


def test_flow_waits_for_template() -> None:
    flow = Flow(entry("a"), entry("b"), templates="b")
    assert flow.look().missing == ["a"]
    flow.templates["a"] = template("a")
    flow.settle()
    assert flow.created == ["f-b", "f-a"]


def test_of_two_entries_with_the_same_name_the_first_counts() -> None:
    flow = Flow(entry("a"), entry("b", "a"), entry("b"))
    flow.settle()
    assert flow.created == ["f-a"]
    for name in ("f-a", "f-b"):
        flow.become(name, "Completed")
        flow.settle()
    assert flow.phase == "Succeed"


def test_job_of_another_flow_does_not_count() -> None:
    flow = Flow(entry("a"), entry("b", "a"))
    flow.jobs["f-a"] = {"metadata": {"name": "f-a", "namespace": "ns"}, "status": {"state": {"phase": "Completed"}}}
    assert [job["metadata"]["name"] for job in flow.plan().create] == ["f-a"]


def test_flow_in_deletion_does_nothing() -> None:
    assert Flow(entry("a"), deletionTimestamp="2027-01-15T08:00:00Z").plan() == FlowPlan()


@pytest.mark.parametrize(
    ("phase", "pods", "starts"),
    [
        ("Running", {"Running": 1}, False),
        ("Running", {"Running": 2}, True),
        ("Running", {"Running": 1, "Succeeded": 1}, True),
        ("Running", {"Pending": 2}, False),
        ("Succeeded", {"Running": 1, "Succeeded": 1}, False),
        ("Succeeded", {"Succeeded": 2}, True),
    ],
)
def test_task_status_is_enough_where_a_probe_asks_for_it(phase: str, pods: dict[str, int], starts: bool) -> None:
    probe = {"taskStatusList": [{"taskName": "t", "phase": phase}]}
    flow = Flow(entry("a"), {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}})
    flow.templates["a"]["spec"]["tasks"] = [{"name": "t", "replicas": 2}]
    flow.settle()
    flow.become("f-a", "Running", taskStatusCount={"t": {"phase": pods}})
    flow.settle()
    assert ("f-b" in flow.jobs) is starts


def test_status_tells_the_story_of_every_job() -> None:
    flow = Flow(entry("a"))
    flow.settle()
    flow.become("f-a", "Pending")
    flow.look()
    flow.become("f-a", "Running")
    flow.look()
    flow.become("f-a", "Completed", retryCount=1, runningDuration="5s", taskStatusCount={"t": {"phase": {"x": 1}}})
    flow.settle()
    (record,) = flow.document["status"]["jobStatusList"]
    assert (record["state"], record["restartCount"], record["endTimestamp"]) == (
        "Completed",
        1,
        "2027-01-15T08:00:00Z",
    )
    assert [each["state"] for each in record["runningHistories"]] == ["Pending", "Running", "Completed"]
    ends = [each.get("endTimestamp") for each in record["runningHistories"]]
    assert ends == [each["startTimestamp"] for each in record["runningHistories"][1:]] + [None]
    assert flow.document["status"]["conditions"]["f-a"] == {
        "phase": "Completed",
        "runningDuration": "5s",
        "taskStatusCount": {"t": {"phase": {"x": 1}}},
    }


@st.composite
def graphs(draw: st.DrawFn) -> list[Document]:
    """Entries without a cycle, in any order."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 7)))]
    entries = [
        entry(name, *draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else ())
        for i, name in enumerate(names)
    ]
    return draw(st.permutations(entries))


@fewer_examples(3)
@given(graphs(), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_every_job_starts_after_its_targets_and_all_are_complete_in_the_end(
    entries: list[Document], chance: Any, delete: bool, clean_up: bool
) -> None:
    flow = Flow(*entries, policy="delete" if delete else "")
    targets = {f"f-{each['name']}": each.get("dependsOn", {}).get("targets", []) for each in entries}
    done: set[str] = set()
    for _ in range(8 * len(entries)):
        before = set(flow.created)
        flow.look()
        for name in set(flow.created) - before:
            assert {f"f-{target}" for target in targets[name]} <= done
        open_jobs = sorted(flow.jobs.keys() - done)
        if open_jobs and chance.random() < 0.7:
            name = chance.choice(open_jobs)
            phase = flow.jobs[name]["status"].get("state", {}).get("phase", "")
            following = {"": "Pending", "Pending": "Running", "Running": "Completed"}[phase]
            flow.become(name, following)
            if following == "Completed":
                done.add(name)
                flow.look()
                if clean_up:
                    flow.jobs.pop(name, None)
    for name in flow.jobs.keys() - done:
        flow.become(name, "Completed")
    while flow.document["status"]["state"]["phase"] != "Succeed":
        flow.settle()
        for name in flow.jobs:
            flow.become(name, "Completed")
    flow.settle()
    assert sorted(flow.created) == sorted(targets)  # each of them once
    assert flow.document["status"]["completedJobs"] and set(flow.document["status"]["completedJobs"]) == set(targets)
    assert not (delete and flow.jobs)


@given(graphs(), st.integers(0, 6))
def test_no_job_starts_after_a_failure(entries: list[Document], victim: int) -> None:
    flow = Flow(*entries)
    flow.settle()
    name = sorted(flow.jobs)[victim % len(flow.jobs)]
    flow.become(name, "Failed")
    for other in flow.jobs.keys() - {name}:
        flow.become(other, "Completed")
    created = list(flow.created)
    flow.settle()
    assert (flow.phase, flow.created) == ("Failed", created)
