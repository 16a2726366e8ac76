"""Installing into a real API server: once, twice, out again, and where Volcano is."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.install.manifests import definitions
from tests.support.controller_manager import controller_manager
from tests.support.installed import HOME, Real, pumice, real_server, until
from tests.support.kubectl import Namespace

pytestmark = pytest.mark.kube
OURS = "app.kubernetes.io/part-of=pumice"
KINDS = (
    "serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,services,deployments,poddisruptionbudgets,networkpolicies,"
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
KUSTOMIZE = Path(__file__).parents[2] / "deploy" / "kustomize"
Object = dict[str, Any]
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
UNSUPPORTED_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "numatopologies.nodeinfo.volcano.sh"},
    "spec": {
        "group": "nodeinfo.volcano.sh",
        "scope": "Cluster",
        "names": {"plural": "numatopologies", "singular": "numatopology", "kind": "Numatopology"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": SCHEMA}],
    },
}
STATUS_CONTROLLER = "validatingadmissionpolicy-status-controller"
UNSUPPORTED = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology", "metadata": {"name": "node-1"}}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with real_server(tmp_path) as real:
        yield real


def install(real: Real, *more: str) -> list[str]:
    status, said, wrong = pumice(real.admin, "install", *more)
    assert status == 0, wrong
    return said.splitlines()


def test_installer_installs_reinstalls_and_uninstalls(real):
    kubectl = real.kubectl()
    assert all(line.endswith(" created") for line in install(real, "--no-webhooks"))
    mine = '{"metadata":{"finalizers":["pumice.dev/queue","some.body/else"]},"spec":{"weight":7}}'
    kubectl("patch", "queue", "default", "--type=merge", "-p", mine)
    kubectl("annotate", "deployment", "-n", HOME, "pumice-scheduler", "some.body/knows=this")
    install(real)
    # three times an account, 2 roles and 2 bindings, a budget, a network policy and a deployment; for the page the same
    # with 1 role and 1 binding; 4 services, 2 configurations, 11 policies with what puts them into force, 6 user roles
    everything = 3 * 8 + 6 + 4 + 2 + 11 * 2 + 6
    assert kubectl("get", KINDS, "-A", "-l", OURS, "-o", "name").count("\n") == everything

    for component in ("scheduler", "controllers", "webhooks", "ui"):
        template = kubectl.object("deployment", "-n", HOME, f"pumice-{component}")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "trial"}}
        kubectl("create", "--dry-run=server", "-n", HOME, "-f", "-", given=pod)  # harmless enough for the namespace

    again = install(real)
    kept = {"queue.scheduling.volcano.sh/root", "queue.scheduling.volcano.sh/default", "configmap/pumice-scheduler"}
    kept.add(f"namespace/{HOME}")
    assert {line.split()[0] for line in again if line.endswith(" kept")} == kept
    assert [line for line in again if not line.endswith((" unchanged", " kept"))] == []
    changed = install(real, "--replicas", "3")
    assert [line.split()[0] for line in changed if line.endswith(" configured")] == [
        "deployment.apps/pumice-scheduler",
        "deployment.apps/pumice-controllers",
        "deployment.apps/pumice-webhooks",
    ]
    gone = [line.split()[0] for line in install(real, "--no-webhooks") if line.endswith(" deleted")]
    ends = ("/pumice", "/pumice-webhooks", "/pumice-users-of-pods", "/pumice-users-of-podgroups")
    assert len(gone) == 2 + 8 + 1 + 2 * 2 and all(name.endswith(ends) for name in gone)
    unseen = [line.split()[0] for line in install(real, "--no-webhooks", "--no-ui") if line.endswith(" deleted")]
    assert len(unseen) == 6 + 2 and all(name.endswith(("/pumice-ui", "/pumice-scheduler")) for name in unseen)
    status, _, wrong = pumice(real.admin, "install", "--service-monitor")
    assert status == 1 and "the cluster does not serve monitoring.coreos.com/v1 ServiceMonitor" in wrong
    about = kubectl.object("deployment", "-n", HOME, "pumice-scheduler")["metadata"]
    assert about["annotations"]["some.body/knows"] == "this"

    assert pumice(real.admin, "uninstall")[0] == 0
    assert kubectl("get", KINDS, "-A", "-l", OURS, "-o", "name") == ""
    left = kubectl.object("queue", "default")
    assert left["spec"]["weight"] == 7
    assert left["metadata"]["finalizers"] == ["some.body/else"]
    kubectl("get", "configmap", "-n", HOME, "pumice-scheduler")
    assert kubectl("get", "crd", "-l", OURS, "-o", "name").count("\n") == 8
    status, said, _ = pumice(real.admin, "uninstall")
    assert status == 0 and "deleted" not in said, "there is nothing to do, and nothing wrong with that"

    real.kubectl(HOME)("apply", "--server-side", "-k", str(KUSTOMIZE))
    assert kubectl("get", KINDS, "-A", "-l", OURS, "-o", "name").count("\n") == everything


def test_what_controllers_write_is_no_change_of_the_installation(real):
    kubectl = real.kubectl()

    def judged() -> bool:
        found = kubectl.object("validatingadmissionpolicies", "-l", OURS)["items"]
        return bool(found) and all((one.get("status") or {}).get("observedGeneration") for one in found)

    with controller_manager(real.admin, real.folder / "controllers.log", (STATUS_CONTROLLER,)):
        first = install(real)
        assert any("validatingadmissionpolicy" in line for line in first)
        until(judged, what="kube-controller-manager writes the status of the policies")
        for _ in range(2):
            assert [line for line in install(real) if line.endswith(" configured")] == []


def test_beside_volcano_and_in_its_place(real):
    kubectl = real.kubectl("volcano-system")
    settle_volcano(real)
    before = kubectl.object("crd", "jobs.batch.volcano.sh")["metadata"]["resourceVersion"]

    status, said, notes = pumice(real.admin, "install")
    assert status == 0
    assert "Volcano is installed (deployment volcano-system/volcano-scheduler, webhooks volcano-admission" in notes
    assert "customresourcedefinition" not in said
    assert kubectl.object("crd", "jobs.batch.volcano.sh")["metadata"]["resourceVersion"] == before
    assert arguments(real, "scheduler")[2:4] == ["--scheduler-name", "pumice"]
    assert "volcano" not in arguments(real, "scheduler")
    assert "--no-jobs" in arguments(real, "controllers")
    judged = kubectl.object("validatingwebhookconfiguration", "pumice")["webhooks"]
    assert {one["name"].split(".")[0]: one["failurePolicy"] for one in judged} == {
        "podgroups": "Ignore",
        "queues": "Ignore",
    }
    assert kubectl.object("deployment", "volcano-scheduler")["spec"]["replicas"] == 2
    podgroups_are_nobody_elses(kubectl)

    kubectl("create", "-f", "-", given=UNSUPPORTED_DEFINITION)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    kubectl("create", "-f", "-", given=UNSUPPORTED)
    status, _, notes = pumice(real.admin, "install", "--take-over")
    assert status == 1, notes
    assert "--take-over would lose:\n  Numatopology node-1: no controller of Pumice handles" in notes
    assert kubectl.object("deployment", "volcano-scheduler")["spec"]["replicas"] == 2

    status, said, notes = pumice(real.admin, "install", "--take-over", "--accept-losses")
    assert status == 0 and "jobs that name no queue go to queue default, as in Volcano" in notes
    assert kubectl.object("configmap", "pumice-scheduler", "-n", HOME)["data"]["scheduler.yaml"] == (
        f"{DEFAULT_CONFIG}defaultQueue: default\n"
    )
    assert "deployment.apps/volcano-scheduler stopped (it had 2 replicas" in said
    assert "mutatingwebhookconfiguration/volcano-admission-service-jobs-mutate deleted" in said
    assert kubectl.object("deployment", "volcano-scheduler")["spec"]["replicas"] == 0
    assert kubectl.tried("get", "mutatingwebhookconfiguration", "volcano-admission-service-jobs-mutate")[0] == 1
    assert kubectl.object("crd", "jobs.batch.volcano.sh")["metadata"]["resourceVersion"] != before
    assert "volcano" in arguments(real, "scheduler") and "--no-jobs" not in arguments(real, "controllers")
    status, _, notes = pumice(real.admin, "install")
    assert (status, notes) == (0, ""), "from now on there is nobody beside us"


def podgroups_are_nobody_elses(kubectl: Namespace) -> None:
    """Beside Volcano they do not wait for webhooks, of which none answers here; who names a user is still judged."""
    kubectl("create", "clusterrole", "group", "--verb=create", "--resource=podgroups.scheduling.volcano.sh")
    volcanos = "system:serviceaccount:volcano-system:volcano-controllers"
    kubectl("create", "clusterrolebinding", "group", "--clusterrole=group", "--user=mallory", f"--user={volcanos}")

    def group(name: str, user: str, who: str) -> str:
        about = {"name": name, "annotations": {"volcano.sh/user": user}}
        made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": about, "spec": {}}
        return kubectl.tried("create", f"--as={who}", "-f", "-", given=made)[1]

    names = (f"forged-{number}" for number in itertools.count())  # it takes a moment until a policy is in force
    until(lambda: "may not set this" in group(next(names), "victim", "mallory"), what="a forged name is refused")
    assert "created" in group("honest", "mallory", "mallory")
    assert "created" in group("of-a-job", "victim", volcanos)


def arguments(real: Real, component: str) -> list[str]:
    found = real.kubectl(HOME).object("deployment", f"pumice-{component}")
    return found["spec"]["template"]["spec"]["containers"][0]["args"]


def settle_volcano(real: Real) -> None:
    """As much of Volcano as can be seen from outside."""
    kubectl = real.kubectl("volcano-system")
    kubectl("create", "namespace", "volcano-system")
    for definition in definitions():
        theirs = copy.deepcopy(definition)
        theirs["metadata"]["labels"] = {"app.kubernetes.io/name": "volcano"}
        kubectl("create", "-f", "-", given=theirs)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    kubectl("create", "deployment", "volcano-scheduler", "--image=x", "--replicas=2")  # with the label app
    rule = {
        "apiGroups": ["batch.volcano.sh"],
        "apiVersions": ["v1alpha1"],
        "resources": ["jobs"],
        "operations": ["CREATE"],
    }
    webhook = {
        "name": "mutatejob.volcano.sh",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    made = {**about, "metadata": {"name": "volcano-admission-service-jobs-mutate"}, "webhooks": [webhook]}
    kubectl("create", "-f", "-", given=made)
