"""JobFlows and JobTemplates at admission: names, dependencies, templates, and the user of a flow."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission import Request, admit
from pumice.admission.jobs.job_flows import find_cycle
from pumice.admission.request import JOB_FLOWS
from tests.support.admitted import ask, job_flow, job_template, world

AROUND = world(job_template("a"), job_template("b"), job_template("c"))


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (job_flow("f", a="", b="a", c="ab"), ""),
        (job_flow("f"), ""),
        (
            job_flow("f", a="x"),
            "spec.flows[0].dependsOn.targets[0]: Not found: 'x': spec.flows has no such name",
        ),
        (job_flow("f", a="a"), "spec.flows: Invalid value: jobs depend on each other in a cycle: a -> a"),
        (
            job_flow("f", a="", b="ac", c="b"),
            "spec.flows: Invalid value: jobs depend on each other in a cycle: b -> c -> b",
        ),
        (job_flow("f", No=""), "its job would be named 'f-No', which is not a valid name"),
        (job_flow("f" * 253, a=""), "which is not a valid name"),
    ],
)
def test_flows(flow, message):
    verdict = ask(AROUND, flow)
    assert (message in verdict.message) if message else verdict.allowed, verdict.message


def test_entry_with_a_name_that_is_taken_is_warned_of():
    flow = job_flow("f", a="", b="")
    flow["spec"]["flows"].append({"name": "a", "dependsOn": {"targets": ["b"]}})
    verdict = ask(AROUND, flow)
    assert (verdict.allowed, verdict.warnings) == (
        True,
        ["spec.flows[2]: has no effect; spec.flows[0] makes the job 'a' already"],
    )


def test_template_that_does_not_exist_is_warned_of():
    verdict = ask(AROUND, job_flow("f", a="", later=""))
    assert verdict.allowed
    assert verdict.warnings == ["spec.flows[1].name: JobTemplate 'later' does not exist; the job starts once it does"]


def test_flow_has_the_user_who_created_it():
    flow = job_flow("f", a="")
    flow["metadata"]["annotations"] = {"volcano.sh/user": "somebody-else"}
    made = admit(Request("CREATE", JOB_FLOWS, flow, user="ann"), AROUND).object
    assert made["metadata"]["annotations"] == {"volcano.sh/user": "ann"}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (job_template("t"), ""),
        (job_template("t", {}), ""),  # a task without a name gets one with the job
        (job_template("t", {"name": "a", "replicas": 1, "minAvailable": 2}), "spec.tasks[0].minAvailable: Invalid"),
        (job_template("t", plugins={"mpi": []}), "spec.plugins.mpi: Not found: 'master'"),
        (job_template("t", policies=[{"event": "No", "action": "No"}]), "spec.policies[0]: Unsupported value: 'No'"),
        (job_template("t", queue="there-is-none"), ""),
    ],
)
def test_templates_are_judged_like_jobs(template, message):
    before = copy.deepcopy(template)
    verdict = ask(AROUND, template)
    assert (message in verdict.message) if message else verdict.allowed, verdict.message
    assert verdict.object == template == before  # defaults are those of the job


def test_update_of_metadata_is_not_judged():
    old = job_template("t", {"name": "a", "replicas": 1, "minAvailable": 2})
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"team": "blue"}
    assert ask(AROUND, new, "UPDATE", old).allowed


names = st.sampled_from("abcdef")


@given(st.dictionaries(names, st.lists(names, max_size=3)))
def test_cycle_is_found_if_there_is_one(graph):
    cycle = find_cycle(graph)
    # Take away names without open dependencies until nothing is left, or a cycle.
    left = dict(graph)
    while ready := [name for name, others in left.items() if not any(other in left for other in others)]:
        for name in ready:
            del left[name]
    assert bool(cycle) is bool(left)
    assert all(following in graph[name] for name, following in pairwise(cycle))
    assert not cycle or cycle[0] == cycle[-1]
