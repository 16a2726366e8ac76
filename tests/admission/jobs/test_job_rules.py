"""What a Job must be, what it is given, and what may change of it."""

from __future__ import annotations

import copy

import pytest

from pumice.admission.jobs.job_policies import ACTIONS, EVENTS
from tests.support.admitted import TEMPLATE, ask, job, queue, world

AROUND = world(queue("q"))


def task(name, replicas=1, **more):
    return {"name": name, "replicas": replicas, **more}


def after(name, *others, **more):
    return task(name, dependsOn={"name": list(others)}, **more)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (job("j", "q", []), "spec.tasks: Required value"),
        (job("j", "q", [task("a"), task("a")]), "spec.tasks[1].name: Duplicate value: 'a': already the name of task 0"),
        (job("j", "q", [task("No_Label")]), "'No_Label': must consist of lower case letters, digits and '-'"),
        (job("j", "q", [task("a" * 64)]), "must consist of lower case letters, digits and '-'"),
        (job("j", "q", [task("a" * 63)]), ""),
        (job("j" * 190, "q", [task("a" * 63)]), "pods would be named"),
        (
            job("j", "q", [task("a", 1, minAvailable=2)]),
            "Invalid value: 2: must be less than or equal to the task's replicas (1)",
        ),
        (
            job("j", "q", [task("a", 2), task("b", 3)], minAvailable=6),
            "Invalid value: 6: must be less than or equal to the replicas of all tasks (5)",
        ),
        (job("j", "q", [task("a", 2), task("b", 3)], minAvailable=5), ""),
        (
            job("j", "q", [task("a", 2)], minSuccess=3),
            "spec.minSuccess: Invalid value: 3: must be less than or equal to the replicas of all tasks (2)",
        ),
        (
            job("j", "q", [task("a", -1)]),
            "spec.tasks[0].replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (job("j", "q", minSuccess=0), "spec.minSuccess: Invalid value: 0: must be greater than or equal to 1"),
        (job("j", "q", [task("a", template={})]), "spec.tasks[0].template.spec.containers: Required value"),
        (
            job("j", "q", [task("a", template={"spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}})]),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: '1x' is not a quantity",
        ),
        (job("j", "q", [task("a", template={"spec": {"containers": "x"}})]), "Invalid value: 'x': must be a list"),
        (job("j", "q", [after("a", "b"), task("c")]), "Not found: 'b': the job has no such task"),
        (job("j", "q", [after("a", "a")]), "Invalid value: 'a': a task may not depend on itself"),
        (
            job("j", "q", [after("a", "b"), after("b", "c"), after("c", "a")]),
            "depend on each other in a cycle: a, b, c",
        ),
        (job("j", "q", [after("a", "b"), task("b"), after("c", "a", "b")]), ""),
        (
            job("j", "q", [task("a", 6, partitionPolicy={"totalPartitions": 2, "partitionSize": 4})]),
            "2 partitions of 4 pods: must add up to the task's replicas (6)",
        ),
        (
            job(
                "j", "q", [task("a", 8, partitionPolicy={"totalPartitions": 2, "partitionSize": 4, "minPartitions": 3})]
            ),
            "Invalid value: 3: must be less than or equal to totalPartitions (2)",
        ),
        (
            job("j", "q", volumes=[{"mountPath": "/d", "volumeClaimName": "c"}] * 2),
            "Duplicate value: '/d': another volume has this mountPath",
        ),
        (job("j", "q", volumes=[{"mountPath": "/d"}]), "set volumeClaimName or volumeClaim"),
    ],
)
def test_tasks(given, message):
    verdict = ask(AROUND, given)
    assert message in verdict.message
    assert verdict.allowed == (message == "")


def policy(event=None, action="RestartJob", **more):
    return ({"event": event} if event else {}) | {"action": action, **more}


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ([policy("PodFailed"), policy("PodEvicted", "AbortJob"), policy(exitCode=3)], ""),
        ([policy(events=["PodFailed", "PodEvicted"])], ""),
        ([policy(events=["PodEvicted", "PodFailed", "PodEvicted"])], ""),
        ([policy("PodFailed", events=["PodFailed"])], ""),
        ([policy("*"), policy(exitCode=3)], ""),
        ([policy("PodFailed"), policy(events=["PodEvicted", "PodFailed"])], "Duplicate value: 'PodFailed'"),
        ([policy(exitCode=3), policy(exitCode=3)], "Duplicate value: 3"),
        ([policy("*"), policy("PodFailed")], "'*' matches every event"),
        ([policy("PodFailed", exitCode=3)], "may not set both events and exitCode"),
        ([policy()], "set event, events or exitCode"),
        ([policy(exitCode=0)], "must be a nonzero exit code"),
        ([policy("CommandIssued")], "Unsupported value: 'CommandIssued'"),
        ([policy("PodFailed", "SyncJob")], "Unsupported value: 'SyncJob'"),
        ([policy("PodFailed", "")], "Unsupported value: ''"),
    ],
)
@pytest.mark.parametrize("of_task", [False, True])
def test_policies(policies, message, of_task):
    given = job("j", "q", [task("a", policies=policies)]) if of_task else job("j", "q", policies=policies)
    verdict = ask(AROUND, given)
    assert message in verdict.message
    assert verdict.allowed == (message == "")
    assert not message or ("spec.tasks[0].policies" if of_task else "spec.policies") in verdict.message


def test_every_event_goes_with_every_action():
    for event in EVENTS:
        for action in ACTIONS:
            assert ask(AROUND, job("j", "q", policies=[policy(event, action)])).allowed


def test_job_admission_fills_in_defaults():
    tasks = [{"replicas": 3}, {"name": "b", "minAvailable": 0}, {"name": "c", "replicas": 4, "minAvailable": 2}]
    made = ask(AROUND, job("j", "q", tasks)).object["spec"]
    assert [(part["name"], part["replicas"]) for part in made["tasks"]] == [("default0", 3), ("b", 1), ("c", 4)]
    assert made["minAvailable"] == 3 + 0 + 2
    assert (made["maxRetry"], made["schedulerName"]) == (3, "pumice")


def test_pods_on_the_host_network_resolve_names_of_the_cluster():
    def on_host(**spec):
        return {"template": {"spec": {**TEMPLATE["spec"], "hostNetwork": True, **spec}}}

    given = job("j", "q", [task("a"), task("b", **on_host()), task("c", **on_host(dnsPolicy="Default"))])
    made = ask(AROUND, copy.deepcopy(given)).object
    policies = [part["template"]["spec"].get("dnsPolicy") for part in made["spec"]["tasks"]]
    assert policies == [None, "ClusterFirstWithHostNet", "Default"]
    again = ask(AROUND, copy.deepcopy(given), "UPDATE", made)
    assert (again.allowed, again.object["spec"]["tasks"]) == (True, made["spec"]["tasks"])
    earlier = copy.deepcopy(made)  # than this rule
    del earlier["spec"]["tasks"][1]["template"]["spec"]["dnsPolicy"]
    assert ask(AROUND, copy.deepcopy(earlier), "UPDATE", earlier).object == earlier


def changed(edit):
    old = ask(AROUND, job("j", "q", [task("a", 3)], volumes=[{"mountPath": "/d", "volumeClaim": {"x": 1}}])).object
    new = copy.deepcopy(old)
    edit(new["spec"])
    return ask(AROUND, new, "UPDATE", old)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda spec: spec.update(minAvailable=1), ""),
        (
            lambda spec: spec.update(minAvailable=9),
            "Invalid value: 9: must be less than or equal to the replicas of all tasks (3)",
        ),
        (lambda spec: spec.update(priorityClassName="high", ttlSecondsAfterFinished=3), ""),
        (lambda spec: spec["tasks"][0].update(replicas=9), ""),
        (lambda spec: spec["volumes"][0].update(volumeClaimName="made"), ""),
        (lambda spec: spec.pop("queue"), ""),
        (lambda spec: spec.pop("minAvailable"), ""),
        (
            lambda spec: spec.update(queue="other"),
            "spec: Forbidden: queue may not change after creation; only minAvailable",
        ),
        (lambda spec: spec["tasks"].append({**task("b"), "template": TEMPLATE}), "tasks may not change"),
        (lambda spec: spec["tasks"][0].update(template={"spec": {"containers": [{}]}}), "tasks may not change"),
        (lambda spec: spec.update(maxRetry=7), "maxRetry may not change"),
    ],
)
def test_job_update_allows_only_mutable_fields(edit, message):
    verdict = changed(edit)
    assert message in verdict.message
    assert verdict.allowed == (message == "")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda new: new["metadata"].update(labels={"team": "a"}), ""),
        (lambda new: new["spec"].update(maxRetry=3, schedulerName="pumice"), ""),  # the defaults
        (lambda new: new["spec"]["tasks"][0].update(name="default0"), ""),
        (lambda new: new["spec"].update(maxRetry=5), "maxRetry may not change"),
        (lambda new: new["spec"].update(schedulerName="volcano"), "schedulerName may not change"),
        (lambda new: new["spec"]["tasks"][0].update(name="other"), "tasks may not change"),
    ],
)
def test_update_of_a_job_that_was_stored_without_defaults_fills_them_in(edit, message):
    stored = job("j", "q", [{"replicas": 2, "template": TEMPLATE}])  # while no webhook was registered
    new = copy.deepcopy(stored)
    edit(new)
    verdict = ask(AROUND, new, "UPDATE", stored)
    assert message in verdict.message
    assert verdict.allowed == (message == "")
    if verdict.allowed:
        spec = verdict.object["spec"]
        assert (spec["maxRetry"], spec["schedulerName"], spec["tasks"][0]["name"]) == (3, "pumice", "default0")
        assert ask(AROUND, copy.deepcopy(verdict.object), "UPDATE", verdict.object).object == verdict.object


def test_an_update_scales_a_job_to_zero():
    def scale(spec):
        spec["minAvailable"] = spec["tasks"][0]["replicas"] = spec["tasks"][0]["minAvailable"] = 0

    def scale_like_go(spec):  # whose clients leave zeros out
        del spec["minAvailable"], spec["tasks"][0]["replicas"]

    for edit in (scale, scale_like_go):
        verdict = changed(edit)
        assert verdict.allowed, verdict.message
        assert verdict.object["spec"]["minAvailable"] == verdict.object["spec"]["tasks"][0]["replicas"] == 0


def test_an_update_without_a_minimum_keeps_it_within_the_replicas():
    def shrink(spec):
        del spec["minAvailable"]
        spec["tasks"][0]["replicas"] = 2

    assert changed(shrink).object["spec"]["minAvailable"] == 2
    assert changed(lambda spec: spec.pop("minAvailable")).object["spec"]["minAvailable"] == 3


def test_a_job_can_be_changed_whatever_became_of_its_queue():
    old = ask(AROUND, job("j", "q")).object
    new = copy.deepcopy(old)
    new["spec"]["ttlSecondsAfterFinished"] = 5
    assert ask(world(queue("q", state="Closed")), new, "UPDATE", old).allowed
