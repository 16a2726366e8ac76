"""Tenants on a real API server: what each may do to the shares of others (docs/who-may-do-what.md).

The user tenant submits jobs in the namespace of that name and has Kubernetes' own role edit there, which lets it create
pods, budgets and quotas too; lead leads the team of namespace lead; administrator administers queues; keeper may
protect pods in namespace keeper.
"""

from __future__ import annotations

import json
import re
import shlex
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
PAGE = Path(__file__).parent.parent.parent / "docs" / "who-may-do-what.md"
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
        roles = {"tenant": (SUBMITTER, "editor"), "lead": (TEAM_LEAD,), "keeper": (SUBMITTER, "editor", PROTECTOR)}
        for user, given in roles.items():
            admin("create", "namespace", user)
            for role in given:
                name = ("--namespace", user, f"--clusterrole={role}", f"--user={user}")
                admin("create", "rolebinding", f"{user}-{role}", *name)
        admin("create", "clusterrolebinding", "administrator", f"--clusterrole={QUEUE_ADMIN}", "--user=administrator")
        admin("create", "clusterrolebinding", "administrator-edits", "--clusterrole=editor", "--user=administrator")
        for queue in ("tenant", "neighbour", "lead", "lead-day"):
            self.day.make(self.day.queue(queue, **({"parent": "lead"} if queue == "lead-day" else {})))
        queues = ("--verb=get,update,patch", "--resource=queues.scheduling.volcano.sh", "--resource-name=lead-day")
        admin("create", "clusterrole", "queues-of-lead", *queues)
        admin("create", "clusterrolebinding", "lead", "--clusterrole=queues-of-lead", "--user=lead")

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
    return {**about, "spec": {"minMember": 1, "queue": "tenant", **rest.pop("spec", {})}, **rest}


def job(template: Object | None = None, priority: str = "", **about: Any) -> Object:
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    for part, value in (template or {}).items():
        task["template"][part] = {**task["template"].get(part, {}), **value}
    spec = {"queue": "tenant", "minAvailable": 1, "schedulerName": "pumice", "tasks": [task]}
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
    assert COMMAND_POLICY in tenants.tries("tenant", command("neighbour"))
    assert COMMAND_POLICY in tenants.tries("lead", command("lead"))
    assert tenants.tries("lead", command("lead-day")) == ""
    assert tenants.tries("administrator", command("neighbour"), namespace="default") == ""


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
    said = tenants.tries("tenant", made)
    assert f"ValidatingAdmissionPolicy '{PROTECTED}-" in said and "tenant may not protect pods from eviction" in said
    assert "needs verb protect on pods of group pumice.dev in this namespace" in said
    assert tenants.tries("keeper", made) == ""
    assert "forbidden" in tenants.tries("keeper", made, namespace="tenant")  # the right is one of a namespace


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
        assert tenants.tries("tenant", made) == "", made["kind"]


def test_pods_of_other_schedulers_are_left_alone(tenants):
    made = pod(tenants.day, annotations=KEEP)
    made["spec"]["schedulerName"] = "default-scheduler"
    assert tenants.tries("tenant", made) == ""


def test_protection_cannot_be_added_later_and_stays_if_it_was_allowed(tenants):
    kubectl = tenants.real.kubectl("tenant")
    kubectl("create", "-f", "-", given=pod(tenants.day, "later"))
    assert PROTECTED in tenants.patches("tenant", "pod", "later", {"metadata": {"annotations": KEEP}})
    kubectl("create", "-f", "-", given=pod(tenants.day, "kept", annotations=KEEP))  # by the administrator
    assert tenants.patches("tenant", "pod", "kept", {"metadata": {"labels": {"a": "b"}}}) == ""
    kubectl("delete", "pod", "later", "kept", "--grace-period=0", "--force")


def test_status_of_podgroups(tenants):
    assert STATUS in tenants.tries("tenant", group(status={"phase": "Inqueue"}))
    kubectl = tenants.real.kubectl("tenant")
    kubectl("create", "-f", "-", "--as=tenant", given=group())
    phase = ("get", "podgroup", "g", "-o", "jsonpath={.status.phase}")
    until(lambda: kubectl(*phase) != "", what="the scheduler has written its status")
    said = tenants.patches("tenant", "podgroup", "g", {"status": {"phase": "Pending"}})
    assert STATUS in said and "status: tenant may not set this; the scheduler does" in said
    assert STATUS in tenants.patches(
        "tenant", "podgroup", "g", {"status": {"phase": "Pending"}, "spec": {"queue": "neighbour"}}
    )
    assert tenants.patches("tenant", "podgroup", "g", {"metadata": {"labels": {"a": "b"}}}) == ""
    kubectl("delete", "podgroup", "g")


def test_weight_of_a_namespace(tenants):
    said = tenants.tries("tenant", quota("1000"))
    assert WEIGHT in said and "tenant may not set the weight of a namespace" in said
    kubectl = tenants.real.kubectl("tenant")
    kubectl("create", "-f", "-", "--as=tenant", given=quota())
    assert WEIGHT in tenants.patches("tenant", "resourcequota", "q", {"spec": {"hard": {NAMESPACE_WEIGHT: "7"}}})
    assert tenants.tries("administrator", quota("3"), namespace="keeper") == ""
    kubectl("delete", "resourcequota", "q")


def test_budget_of_a_tenant_keeps_no_share_from_others(tenants):
    day, kubectl = tenants.day, tenants.real.kubectl("tenant")
    for number in range(4):
        kubectl("create", "-f", "-", given=group(metadata={"name": f"g{number}"}))
        about = {"annotations": {"scheduling.k8s.io/group-name": f"g{number}"}, "labels": {"of": "tenant"}}
        kubectl("create", "-f", "-", "--as=tenant", given=day.pod(f"p{number}", cpu="1", **about))
    bound = ("get", "pods", "-o", "jsonpath={.items[?(@.spec.nodeName)].metadata.name}")
    until(lambda: len(kubectl(*bound).split()) == 4, what="tenant holds all")
    for name in ("one", "two"):  # the Eviction API refuses a pod that several budgets select in another way
        spec = {"minAvailable": 4, "selector": {"matchLabels": {"of": "tenant"}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        kubectl("create", "-f", "-", "--as=tenant", given=budget)
    theirs = tenants.real.kubectl("keeper")
    theirs("create", "-f", "-", given=group(metadata={"name": "b"}, spec={"queue": "neighbour"}))
    about = {"annotations": {"scheduling.k8s.io/group-name": "b"}}
    theirs("create", "-f", "-", given=day.pod("b", cpu="1", **about))
    until(lambda: len(kubectl(*bound).split()) == 3, what="tenant gives one back")
    kubectl("delete", "pdb", "one")
    theirs("create", "-f", "-", given=group(metadata={"name": "c"}, spec={"queue": "neighbour"}))
    theirs("create", "-f", "-", given=day.pod("c", cpu="1", annotations={"scheduling.k8s.io/group-name": "c"}))
    until(lambda: len(kubectl(*bound).split()) == 2, what="tenant gives another one back")


def test_the_commands_of_the_page(tenants):
    kubectl = tenants.real.kubectl()
    kubectl("create", "namespace", "team")
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(commands) == 7
    for program, *arguments in commands:
        assert program == "kubectl"
        kubectl(*arguments)
    who = ("--as=somebody", "--as-group=queue-admins")
    assert "yes" in kubectl.tried("auth", "can-i", "create", "queues.scheduling.volcano.sh", *who)[1].split()
