"""The rights that are shipped are those that are used: with them all works, without any one of them something fails.

A real API server writes down what each component asks for during a day in which everything happens once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import kubernetes
from pumice.install.choices import Choices
from pumice.install.rights import CONTROLLERS, SCHEDULER, WEBHOOKS, Right, rights_of
from tests.install.working_day import Day, at_work, use
from tests.support.installed import HOME, Real, pumice, real_server, until

pytestmark = pytest.mark.kube
COMPONENTS = (SCHEDULER, CONTROLLERS, WEBHOOKS)
Object = dict[str, Any]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with real_server(tmp_path_factory.mktemp("rights")) as real:
        (port,) = kubernetes.free_ports(1)
        assert pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")[0] == 0
        with at_work(real, port):
            day = Day(real)
            day.all()
            yield day


@pytest.fixture(scope="module")
def recorded(day: Day) -> list[Object]:
    """What was asked on that day."""
    return day.real.asked()


def shipped(component: str) -> list[Right]:
    """One right for each verb on each resource."""
    return [
        Right(right.group, (resource,), (verb,), right.names)
        for part in rights_of(component, Choices())
        for right in part
        for resource in right.resources
        for verb in right.verbs
    ]


def asked_by(component: str, recorded: list[Object]) -> list[Object]:
    user = f"system:serviceaccount:{HOME}:pumice-{component}"
    return [event for event in recorded if event["user"]["username"] == user]


def covers(right: Right, event: Object) -> bool:
    """Whether a right allows what was asked for."""
    verb, group, resource = use(event)
    named = not right.names or event["objectRef"].get("name") in right.names
    return group == right.group and resource in right.resources and verb in right.verbs and named


def test_nothing_was_refused(recorded):
    refused = [event for event in recorded if event["responseStatus"]["code"] in (401, 403)]
    policy = [event for event in refused if event["objectRef"].get("name") == "unlucky"]  # which no right would help
    assert [use(event) for event in refused if event not in policy] == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_may_be_done_is_what_is_done(component, recorded):
    done = {use(event) for event in asked_by(component, recorded)}
    assert {(right.verbs[0], right.group, right.resources[0]) for right in shipped(component)} == done


@pytest.mark.parametrize("component", COMPONENTS)
def test_each_right_is_needed(component, recorded):
    events = asked_by(component, recorded)
    for missing in shipped(component):
        rest = [right for right in shipped(component) if right != missing]
        assert not all(any(covers(right, event) for right in rest) for event in events), f"nobody misses {missing}"


# ---- some of them taken away, live ------------------------------------------------------------------------------


class Without:
    """A component without one of its rights, for a while."""

    def __init__(self, real: Real, component: str, resource: str) -> None:
        self.kubectl, self.role, self.resource = real.kubectl(), f"pumice-{component}", resource

    def __enter__(self) -> None:
        self.rules = self.kubectl.object("clusterrole", self.role)["rules"]
        rest = [
            {**rule, "resources": [one for one in rule["resources"] if one != self.resource]} for rule in self.rules
        ]
        self.write([rule for rule in rest if rule["resources"]])

    def __exit__(self, *_: object) -> None:
        self.write(self.rules)

    def write(self, rules: list[Object]) -> None:
        self.kubectl("patch", "clusterrole", self.role, "--type=merge", "-p", json.dumps({"rules": rules}))


def test_without_binding_no_pod_is_bound(day):
    with Without(day.real, SCHEDULER, "pods/binding"):
        until(lambda: not may(day, SCHEDULER, "create", "pods/binding"))
        day.make(day.pod("waits"))
        until(lambda: refusals(day, SCHEDULER, "pods/binding"))
        assert not day.node_of("waits")
    day.await_bound("waits")


def test_without_creating_pods_jobs_have_none(day):
    with Without(day.real, CONTROLLERS, "pods"):
        until(lambda: not may(day, CONTROLLERS, "create", "pods"))
        day.make(day.job("empty", 1))
        said = ("get", "events", "--field-selector=reason=FailedCreate", "-o", "jsonpath={.items[*].message}")
        until(lambda: "empty-work-0" in day.kubectl(*said), what="it is said why there are no pods")
        assert day.pods_of("empty") == []
    day.await_job("empty", 1)


def test_without_asking_nobody_acts_for_another(day):
    user = r"jsonpath={.metadata.annotations.volcano\.sh/user}"
    with Without(day.real, WEBHOOKS, "subjectaccessreviews"):
        until(lambda: not may(day, WEBHOOKS, "create", "subjectaccessreviews.authorization.k8s.io"))
        day.make(day.job("unasked", 1, annotations={"volcano.sh/user": "carla"}))
        assert day.kubectl("get", "jobs.batch.volcano.sh", "unasked", "-o", user) == "admin"


def may(day: Day, component: str, verb: str, resource: str) -> bool:
    account = f"--as=system:serviceaccount:{HOME}:pumice-{component}"
    return day.kubectl.tried("auth", "can-i", verb, resource, account)[0] == 0


def refusals(day: Day, component: str, resource: str) -> list[Object]:
    events = asked_by(component, day.real.asked())
    return [event for event in events if event["responseStatus"]["code"] == 403 and use(event)[2] == resource]
