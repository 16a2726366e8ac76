"""The rights that are shipped are those that are used: with them all works, without any one of them something fails.

A real API server writes down what each component asks for during a day in which everything happens once. It guards
owners, as many clusters do: whoever lets an object keep its owner from going needs a right to that.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from benchmarks import kubernetes
from pumice.install.install_options import InstallOptions
from pumice.install.rbac import CONTROLLERS, SCHEDULER, WEBHOOKS, PolicyRule, policy_rules_of
from pumice.kube.client.sync_client import Client
from tests.install.working_day import Day, at_work, use
from tests.support.installed import HOME, Real, pumice, real_server, until

pytestmark = pytest.mark.kube
GUARD = "OwnerReferencesPermissionEnforcement"
GUARDED = {
    ("update", "batch.volcano.sh", "jobs/finalizers"),
    ("update", "batch.volcano.sh", "cronjobs/finalizers"),
    ("update", "flow.volcano.sh", "jobflows/finalizers"),
    ("name", "pumice.dev", "users"),
    ("protect", "pumice.dev", "pods"),
    ("update", "scheduling.volcano.sh", "podgroups/status"),
}
"""What nobody asks for: the guard and our policies look whether they might."""
COMPONENTS = (SCHEDULER, CONTROLLERS, WEBHOOKS)
Object = dict[str, Any]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with real_server(tmp_path_factory.mktemp("rights"), plugins=[GUARD]) as real:
        (port,) = kubernetes.free_ports(1)
        assert pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")[0] == 0
        with at_work(real, port):
            day = Day(real)
            day.all()
            yield day


@pytest.fixture
def client(day: Day) -> Iterator[Client]:
    """The administrator's."""
    with contextlib.closing(day.real.client) as client:
        yield client


@pytest.fixture(scope="module")
def recorded(day: Day) -> list[Object]:
    """What was asked on that day."""
    return day.real.asked()


def single(rights: Sequence[PolicyRule]) -> list[PolicyRule]:
    """One right for each verb on each resource."""
    return [
        PolicyRule(right.group, (resource,), (verb,), right.names)
        for right in rights
        for resource in right.resources
        for verb in right.verbs
    ]


def shipped(component: str) -> list[PolicyRule]:
    return [right for part in policy_rules_of(component, InstallOptions()) for right in single(part)]


def asked_by(component: str, recorded: list[Object]) -> list[Object]:
    user = f"system:serviceaccount:{HOME}:pumice-{component}"
    return [event for event in recorded if event["user"]["username"] == user]


def covers(right: PolicyRule, event: Object) -> bool:
    """Whether a right allows what was asked for."""
    verb, group, resource = use(event)
    named = not right.names or event["objectRef"].get("name") in right.names
    return group == right.group and resource in right.resources and verb in right.verbs and named


def test_no_request_of_components_was_refused(recorded):
    refused = [event for event in recorded if event["responseStatus"]["code"] in (401, 403)]
    policy = [event for event in refused if event["objectRef"].get("name") == "unlucky"]  # which no right would help
    assert [use(event) for event in refused if event not in policy] == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_permissions_equal_the_requests(component, recorded):
    done = {use(event) for event in asked_by(component, recorded)}
    assert {(right.verbs[0], right.group, right.resources[0]) for right in shipped(component)} - GUARDED == done


# ---- each of them taken away ------------------------------------------------------------------------------------

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_permission_is_needed_by_some_request(component, day, client, recorded):
    name = f"pumice-{component}"
    places = (f"{ROLES}/clusterroles/{name}", f"{ROLES}/namespaces/{HOME}/roles/{name}")
    tried = 0
    for place, part in zip(places, policy_rules_of(component, InstallOptions()), strict=True):
        before = client.get(place)["rules"]
        singles = single(part)
        for missing in singles:
            needing = wanting(component, missing, recorded)
            client.merge(place, {"rules": [right.rule() for right in singles if right != missing]})
            until(lambda needing=needing: not allowed(client, component, needing), what=f"{missing} is missed")
            client.merge(place, {"rules": before})
            until(lambda needing=needing: allowed(client, component, needing), what=f"{missing} is there again")
            tried += 1
    assert tried == len(shipped(component)) > 15


def wanting(component: str, missing: PolicyRule, recorded: list[Object]) -> Object:
    """What the server looks at when it is asked for something for which just this right is needed."""
    (verb,), (whole,) = missing.verbs, missing.resources
    resource, _, part = whole.partition("/")
    wanted = {"verb": verb, "group": missing.group, "resource": resource, "subresource": part}
    if (verb, missing.group, whole) in GUARDED:
        return {**wanted, "namespace": "default", "name": "short"}
    rest = [right for right in shipped(component) if right != missing]
    events = [event for event in asked_by(component, recorded) if covers(missing, event)]
    needing = [event for event in events if not any(covers(right, event) for right in rest)]
    assert needing, f"nobody misses {missing}"
    about = needing[0]["objectRef"]
    return {**wanted, "namespace": about.get("namespace", ""), "name": about.get("name", "")}


def allowed(client: Client, component: str, wanted: Object) -> bool:
    """What the server's own authorizer says of a component."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"]
    who = {"user": f"system:serviceaccount:{HOME}:pumice-{component}", "groups": groups}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    return bool(client.create(REVIEWS, {**review, "spec": {**who, "resourceAttributes": wanted}})["status"]["allowed"])


# ---- and what becomes of that -----------------------------------------------------------------------------------


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


def test_scheduler_without_binding_permission_binds_no_pod(day):
    with Without(day.real, SCHEDULER, "pods/binding"):
        until(lambda: not may(day, SCHEDULER, "create", "pods/binding"))
        day.make(day.pod("waits"))
        until(lambda: refusals(day, SCHEDULER, "pods/binding"))
        assert not day.node_of("waits")
    day.await_bound("waits")


def test_controllers_without_pod_permission_create_no_pods(day):
    with Without(day.real, CONTROLLERS, "pods"):
        until(lambda: not may(day, CONTROLLERS, "create", "pods"))
        day.make(day.job("empty", 1))
        said = ("get", "events", "--field-selector=reason=FailedCreate", "-o", "jsonpath={.items[*].message}")
        until(lambda: "empty-work-0" in day.kubectl(*said), what="it is said why there are no pods")
        assert day.pods_of("empty") == []
    day.await_job("empty", 1)


def test_controllers_without_claim_permission_say_so_on_the_job(day):
    with Without(day.real, CONTROLLERS, "persistentvolumeclaims"):
        until(lambda: not may(day, CONTROLLERS, "create", "persistentvolumeclaims"))
        day.make(day.job("output", 1, volumes=[{"mountPath": "/out", "volumeClaim": day.claim("local")}]))
        state = ("get", "jobs.batch.volcano.sh", "output", "-o", "jsonpath={.status.state}")
        until(lambda: '"reason":"PVCError"' in day.kubectl(*state), what="its state says why there are no pods")
        assert "Failed to create PersistentVolumeClaim output-volume-0: " in day.kubectl(*state)
        said = ("get", "events", "--field-selector=reason=PVCError", "-o", "jsonpath={.items[*].message}")
        until(lambda: "output-volume-0" in day.kubectl(*said), what="an Event says so too")
        assert day.pods_of("output") == []
    until(lambda: len(day.pods_of("output")) == 1, what="the pod is created once the claim is")
    until(lambda: "PVCError" not in day.kubectl(*state), what="its state is clear again")
    day.kubectl("delete", "jobs.batch.volcano.sh", "output")


@pytest.mark.parametrize(
    ("name", "right", "verb", "resource"),
    [
        ("blocked", "jobs/finalizers", "update", "jobs.batch.volcano.sh/finalizers"),  # where owners are guarded
        ("nameless", "users", "name", "users.pumice.dev"),
    ],
)
def test_controllers_without_podgroup_permissions_create_no_pods(day, name, right, verb, resource):
    before = len(refusals(day, CONTROLLERS, "podgroups"))
    with Without(day.real, CONTROLLERS, right):
        until(lambda: not may(day, CONTROLLERS, verb, resource))
        day.make(day.job(name, 1))
        until(lambda: len(refusals(day, CONTROLLERS, "podgroups")) > before, what="its podgroup is refused")
        assert day.pods_of(name) == []
    day.await_job(name, 1)


def test_webhooks_without_access_reviews_ignore_other_users(day):
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
