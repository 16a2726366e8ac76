"""Tenants on a real API server: what each may do to the shares of others (docs/who-may-do-what.md).

eve submits jobs in namespace eve and has Kubernetes' own role edit there, so that she may create pods, budgets and
quotas too; lea leads the team of namespace lea; ada administers queues; kit may protect pods in namespace kit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kubernetes
from pumice.install.tenant_policies import PROTECTED, STATUS, WEIGHT
from pumice.install.user_roles import COMMAND_POLICY, PROTECTOR, QUEUE_ADMIN, SUBMITTER, TEAM_LEAD
from pumice.kube.decode.convert import NAMESPACE_WEIGHT
from tests.install.working_day import QUICK, Day
from tests.support.installed import Real, everything, pumice, real_server, until

pytestmark = pytest.mark.kube
Object = dict[str, Any]

QUEUE_GROUP, JOB_GROUP = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
KEEP = {"volcano.sh/preemptable": "false"}
CRITICAL = "system-node-critical"
EDIT = [
    {"apiGroups": [""], "resources": ["pods", "resourcequotas"], "verbs": ["*"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["*"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["*"]},
]
"""More than edit gives in a namespace: quotas too."""


class Tenants:
    """The users, and what each is answered."""

    def __init__(self, real: Real) -> None:
        self.real = real
        self.day = Day(real)
        admin = real.kubectl()
        rules = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "editor"}}
        admin("create", "-f", "-", given={**rules, "rules": EDIT})
        roles = {"eve": (SUBMITTER, "editor"), "lea": (TEAM_LEAD,), "kit": (SUBMITTER, "editor", PROTECTOR)}
        for user, given in roles.items():
            admin("create", "namespace", user)
            for role in given:
                name = ("--namespace", user, f"--clusterrole={role}", f"--user={user}")
                admin("create", "rolebinding", f"{user}-{role}", *name)
        admin("create", "clusterrolebinding", "ada", f"--clusterrole={QUEUE_ADMIN}", "--user=ada")
        admin("create", "clusterrolebinding", "ada-edits", "--clusterrole=editor", "--user=ada")
        for queue in ("eve", "bob", "lea", "lea-day"):
            self.day.make(self.day.queue(queue, **({"parent": "lea"} if queue == "lea-day" else {})))
        queues = ("--verb=get,update,patch", "--resource=queues.scheduling.volcano.sh", "--resource-name=lea-day")
        admin("create", "clusterrole", "queues-of-lea", *queues)
        admin("create", "clusterrolebinding", "lea", "--clusterrole=queues-of-lea", "--user=lea")

    def tries(self, user: str, made: Object, *, namespace: str = "", verb: str = "create") -> str:
        """What kubectl says when a user creates an object; empty if it is created."""
        kubectl = self.real.kubectl(namespace or user)
        status, said = kubectl.tried(verb, "-f", "-", f"--as={user}", "--dry-run=server", given=made)
        return "" if status == 0 else said

    def patches(self, user: str, kind: str, name: str, patch: Object) -> str:
        changed = ("patch", kind, name, "--type=merge", "-p", json.dumps(patch), f"--as={user}")
        status, said = self.real.kubectl(user).tried(*changed)
        return "" if status == 0 else said


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder: Path = tmp_path_factory.mktemp("tenants")
    (folder / "scheduler.yaml").write_text(QUICK)
    with real_server(folder) as real:
        (port,) = kubernetes.free_ports(1)
        assert pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")[0] == 0
        with everything(real, port, ["--config", str(folder / "scheduler.yaml")]):
            Day(real).node("n", 4)
            until(lambda: pumice(real.admin, "queue", "create", "first")[0] == 0, what="webhooks answer")
            yield Tenants(real)


def command(queue: str) -> Object:
    target = {"apiVersion": QUEUE_GROUP, "kind": "Queue", "name": queue, "uid": ""}
    about = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"generateName": "c-"}}
    return {**about, "action": "CloseQueue", "target": target}


def pod(day: Day, name: str = "p", *, priority: str = "", **about: Any) -> Object:
    found = day.pod(name, **about)
    return {**found, "spec": {**found["spec"], **({"priorityClassName": priority} if priority else {})}}


def group(**rest: Any) -> Object:
    about = {"apiVersion": QUEUE_GROUP, "kind": "PodGroup", "metadata": {"name": "g", **rest.pop("metadata", {})}}
    return {**about, "spec": {"minMember": 1, "queue": "eve", **rest.pop("spec", {})}, **rest}


def job(template: Object | None = None, priority: str = "", **about: Any) -> Object:
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    for part, value in (template or {}).items():
        task["template"][part] = {**task["template"].get(part, {}), **value}
    spec = {"queue": "eve", "minAvailable": 1, "schedulerName": "pumice", "tasks": [task]}
    spec |= {"priorityClassName": priority} if priority else {}
    return {"apiVersion": JOB_GROUP, "kind": "Job", "metadata": {"name": "j", **about}, "spec": spec}


def template_of(made: Object) -> Object:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": "t"},
        "spec": made["spec"],
    }


def flow(patch: Object) -> Object:
    spec = {"flows": [{"name": "t", "patch": {"jobSpec": patch}}], "jobRetainPolicy": "retain"}
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}, "spec": spec}


def cron(made: Object) -> Object:
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"metadata": made["metadata"], "spec": made["spec"]}}
    return {"apiVersion": JOB_GROUP, "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}


def quota(weight: str = "") -> Object:
    hard = {"pods": "50", **({NAMESPACE_WEIGHT: weight} if weight else {})}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


def test_commands_to_queues(tenants):
    assert COMMAND_POLICY in tenants.tries("eve", command("bob"))
    assert COMMAND_POLICY in tenants.tries("lea", command("lea"))
    assert tenants.tries("lea", command("lea-day")) == ""
    assert tenants.tries("ada", command("bob"), namespace="default") == ""


IN_TEMPLATE = {"metadata": {"annotations": KEEP}}
PROTECTING = {
    "pod-annotation": lambda day: pod(day, annotations=KEEP),
    "pod-label": lambda day: pod(day, labels=KEEP),
    "pod-spelling": lambda day: pod(day, annotations={"volcano.sh/preemptable": "F"}),
    "pod-class": lambda day: pod(day, priority=CRITICAL),
    "podgroup": lambda day: group(metadata={"annotations": KEEP}),
    "podgroup-class": lambda day: group(spec={"priorityClassName": CRITICAL}),
    "job": lambda day: job(annotations=KEEP),
    "job-class": lambda day: job(priority="system-cluster-critical"),
    "job-template": lambda day: job(IN_TEMPLATE),
    "job-template-class": lambda day: job({"spec": {"priorityClassName": CRITICAL}}),
    "cronjob": lambda day: cron(job(annotations=KEEP)),
    "cronjob-template": lambda day: cron(job(IN_TEMPLATE)),
    "jobtemplate": lambda day: template_of(job(IN_TEMPLATE)),
    "jobtemplate-class": lambda day: template_of(job(priority=CRITICAL)),
    "jobflow": lambda day: flow({"tasks": [{"name": "t", "template": IN_TEMPLATE}]}),
    "jobflow-class": lambda day: flow({"priorityClassName": CRITICAL}),
}


@pytest.mark.parametrize("way", PROTECTING)
def test_pods_that_are_never_evicted(tenants, way):
    made = PROTECTING[way](tenants.day)
    said = tenants.tries("eve", made)
    assert f"ValidatingAdmissionPolicy '{PROTECTED}-" in said and "eve may not protect pods from eviction" in said
    assert "needs verb protect on pods of group pumice.dev in this namespace" in said
    assert tenants.tries("kit", made) == ""
    assert "forbidden" in tenants.tries("kit", made, namespace="eve")  # the right is one of a namespace


def test_usual_objects_are_admitted(tenants):
    for made in (
        pod(tenants.day),
        pod(tenants.day, annotations={"volcano.sh/preemptable": "true"}),
        group(),
        job(),
        cron(job()),
        template_of(job()),
        flow({"tasks": [{"name": "t", "replicas": 2}]}),
        quota(),
    ):
        assert tenants.tries("eve", made) == "", made["kind"]


def test_pods_of_other_schedulers_are_left_alone(tenants):
    made = pod(tenants.day, annotations=KEEP)
    made["spec"]["schedulerName"] = "default-scheduler"
    assert tenants.tries("eve", made) == ""


def test_protection_cannot_be_added_later_and_stays_if_it_was_allowed(tenants):
    kubectl = tenants.real.kubectl("eve")
    kubectl("create", "-f", "-", given=pod(tenants.day, "later"))
    assert PROTECTED in tenants.patches("eve", "pod", "later", {"metadata": {"annotations": KEEP}})
    kubectl("create", "-f", "-", given=pod(tenants.day, "kept", annotations=KEEP))  # by the administrator
    assert tenants.patches("eve", "pod", "kept", {"metadata": {"labels": {"a": "b"}}}) == ""
    kubectl("delete", "pod", "later", "kept", "--grace-period=0", "--force")


def test_status_of_podgroups(tenants):
    assert STATUS in tenants.tries("eve", group(status={"phase": "Inqueue"}))
    kubectl = tenants.real.kubectl("eve")
    kubectl("create", "-f", "-", "--as=eve", given=group())
    phase = ("get", "podgroup", "g", "-o", "jsonpath={.status.phase}")
    until(lambda: kubectl(*phase) != "", what="the scheduler has written its status")
    said = tenants.patches("eve", "podgroup", "g", {"status": {"phase": "Pending"}})
    assert STATUS in said and "status: eve may not set this; the scheduler does" in said
    assert STATUS in tenants.patches("eve", "podgroup", "g", {"status": {"phase": "Pending"}, "spec": {"queue": "bob"}})
    assert tenants.patches("eve", "podgroup", "g", {"metadata": {"labels": {"a": "b"}}}) == ""
    kubectl("delete", "podgroup", "g")


def test_weight_of_a_namespace(tenants):
    said = tenants.tries("eve", quota("1000"))
    assert WEIGHT in said and "eve may not set the weight of a namespace" in said
    kubectl = tenants.real.kubectl("eve")
    kubectl("create", "-f", "-", "--as=eve", given=quota())
    assert WEIGHT in tenants.patches("eve", "resourcequota", "q", {"spec": {"hard": {NAMESPACE_WEIGHT: "7"}}})
    assert tenants.tries("ada", quota("3"), namespace="kit") == ""
    kubectl("delete", "resourcequota", "q")


def test_budget_of_a_tenant_keeps_no_share_from_others(tenants):
    day, kubectl = tenants.day, tenants.real.kubectl("eve")
    for number in range(4):
        kubectl("create", "-f", "-", given=group(metadata={"name": f"g{number}"}))
        about = {"annotations": {"scheduling.k8s.io/group-name": f"g{number}"}, "labels": {"of": "eve"}}
        kubectl("create", "-f", "-", "--as=eve", given=day.pod(f"p{number}", cpu="1", **about))
    bound = ("get", "pods", "-o", "jsonpath={.items[?(@.spec.nodeName)].metadata.name}")
    until(lambda: len(kubectl(*bound).split()) == 4, what="eve holds all")
    for name in ("one", "two"):  # the Eviction API refuses a pod that several budgets select in another way
        spec = {"minAvailable": 4, "selector": {"matchLabels": {"of": "eve"}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        kubectl("create", "-f", "-", "--as=eve", given=budget)
    theirs = tenants.real.kubectl("kit")
    theirs("create", "-f", "-", given=group(metadata={"name": "b"}, spec={"queue": "bob"}))
    about = {"annotations": {"scheduling.k8s.io/group-name": "b"}}
    theirs("create", "-f", "-", given=day.pod("b", cpu="1", **about))
    until(lambda: len(kubectl(*bound).split()) == 3, what="eve gives one back")
    kubectl("delete", "pdb", "one")
    theirs("create", "-f", "-", given=group(metadata={"name": "c"}, spec={"queue": "bob"}))
    theirs("create", "-f", "-", given=day.pod("c", cpu="1", annotations={"scheduling.k8s.io/group-name": "c"}))
    until(lambda: len(kubectl(*bound).split()) == 2, what="eve gives another one back")
