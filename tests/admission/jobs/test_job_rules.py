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
        (job("j", "q", []), "spec.tasks: is empty"),
        (job("j", "q", [task("a"), task("a")]), "spec.tasks[1].name: 'a' is the name of task 0 already"),
        (job("j", "q", [task("No_Label")]), "'No_Label' is no name for a task"),
        (job("j", "q", [task("a" * 64)]), "is no name for a task"),
        (job("j", "q", [task("a" * 63)]), ""),
        (job("j" * 190, "q", [task("a" * 63)]), "its pods would be called"),
        (job("j", "q", [task("a", 1, minAvailable=2)]), "2 is more than the 1 replicas of the task"),
        (job("j", "q", [task("a", 2), task("b", 3)], minAvailable=6), "6 is more than the 5 replicas of all tasks"),
        (job("j", "q", [task("a", 2), task("b", 3)], minAvailable=5), ""),
        (job("j", "q", [task("a", 2)], minSuccess=3), "spec.minSuccess: 3 is more than the 2 replicas"),
        (job("j", "q", [task("a", -1)]), "spec.tasks[0].replicas: -1 given; write 0 or more"),
        (job("j", "q", minSuccess=0), "spec.minSuccess: 0 given; write 1 or more"),
        (job("j", "q", [task("a", template={})]), "spec.tasks[0].template.spec.containers: is missing"),
        (
            job("j", "q", [task("a", template={"spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}})]),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: '1x' is not a quantity",
        ),
        (job("j", "q", [task("a", template={"spec": {"containers": "x"}})]), "'x' given, but a list is needed"),
        (job("j", "q", [after("a", "b"), task("c")]), "there is no task 'b' in this job"),
        (job("j", "q", [after("a", "a")]), "task 'a' would wait for itself"),
        (
            job("j", "q", [after("a", "b"), after("b", "c"), after("c", "a")]),
            "wait for each other, so none can start: a, b, c",
        ),
        (job("j", "q", [after("a", "b"), task("b"), after("c", "a", "b")]), ""),
        (
            job("j", "q", [task("a", 6, partitionPolicy={"totalPartitions": 2, "partitionSize": 4})]),
            "2 partitions of 4 pods are not the 6",
        ),
        (
            job(
                "j", "q", [task("a", 8, partitionPolicy={"totalPartitions": 2, "partitionSize": 4, "minPartitions": 3})]
            ),
            "3 is more than the 2 partitions",
        ),
        (job("j", "q", volumes=[{"mountPath": "/d", "volumeClaimName": "c"}] * 2), "'/d' is used by another volume"),
        (job("j", "q", volumes=[{"mountPath": "/d"}]), "names no claim and describes none"),
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
        ([policy("*"), policy(exitCode=3)], ""),
        ([policy("PodFailed"), policy(events=["PodEvicted", "PodFailed"])], "'PodFailed' has a policy already"),
        ([policy(exitCode=3), policy(exitCode=3)], "3 has a policy already"),
        ([policy("*"), policy("PodFailed")], "'*' is any event"),
        ([policy("PodFailed", exitCode=3)], "has events and an exitCode"),
        ([policy()], "has neither event nor exitCode"),
        ([policy(exitCode=0)], "0 is success"),
        ([policy("CommandIssued")], "'CommandIssued' is no event of a policy"),
        ([policy("PodFailed", "SyncJob")], "'SyncJob' is no action of a policy"),
        ([policy("PodFailed", "")], "'' is no action of a policy"),
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


def test_what_is_filled_in():
    tasks = [{"replicas": 3}, {"name": "b", "minAvailable": 0}, {"name": "c", "replicas": 4, "minAvailable": 2}]
    made = ask(AROUND, job("j", "q", tasks)).object["spec"]
    assert [(part["name"], part["replicas"]) for part in made["tasks"]] == [("default0", 3), ("b", 1), ("c", 4)]
    assert made["minAvailable"] == 3 + 0 + 2
    assert (made["maxRetry"], made["schedulerName"]) == (3, "pumice")


def test_plugins_without_effect_are_warned_of():
    assert ask(AROUND, job("j", "q", plugins={"ssh": [], "env": []})).warnings == [
        "spec.plugins.ssh: has no effect; there are env, svc"
    ]


def changed(edit):
    old = ask(AROUND, job("j", "q", [task("a", 3)], volumes=[{"mountPath": "/d", "volumeClaim": {"x": 1}}])).object
    new = copy.deepcopy(old)
    edit(new["spec"])
    return ask(AROUND, new, "UPDATE", old)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda spec: spec.update(minAvailable=1), ""),
        (lambda spec: spec.update(minAvailable=9), "9 is more than the 3 replicas"),
        (lambda spec: spec.update(priorityClassName="high", ttlSecondsAfterFinished=3), ""),
        (lambda spec: spec["tasks"][0].update(replicas=9), ""),
        (lambda spec: spec["volumes"][0].update(volumeClaimName="made"), ""),
        (lambda spec: spec.pop("queue"), ""),
        (lambda spec: spec.pop("minAvailable"), ""),
        (
            lambda spec: spec.update(queue="other"),
            "spec: queue may not change once the job is there; only minAvailable",
        ),
        (lambda spec: spec["tasks"].append({**task("b"), "template": TEMPLATE}), "tasks may not change"),
        (lambda spec: spec["tasks"][0].update(template={"spec": {"containers": [{}]}}), "tasks may not change"),
        (lambda spec: spec.update(maxRetry=7), "maxRetry may not change"),
    ],
)
def test_what_may_change(edit, message):
    verdict = changed(edit)
    assert message in verdict.message
    assert verdict.allowed == (message == "")


def test_a_job_can_be_changed_whatever_became_of_its_queue():
    old = ask(AROUND, job("j", "q")).object
    new = copy.deepcopy(old)
    new["spec"]["ttlSecondsAfterFinished"] = 5
    assert ask(world(queue("q", state="Closed")), new, "UPDATE", old).allowed
