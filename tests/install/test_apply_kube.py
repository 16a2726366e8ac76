"""Installing where something is already: nothing that works is harmed, and what cannot be done changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.admission.request import QUEUE_FINALIZER
from pumice.install.install_options import InstallOptions
from pumice.install.uninstall import remove_all
from tests.install.test_install_kube import settle_volcano
from tests.support.installed import HOME, Real, pumice, real_server, take_away, until
from tests.support.kubectl import Namespace, queue

pytestmark = pytest.mark.kube
BARE = "--no-webhooks"
ENFORCED = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_server(tmp_path_factory.mktemp("careful")) as real:
        yield real


@pytest.fixture
def kubectl(real: Real) -> Iterator[Namespace]:
    """The cluster, without us before and after."""
    yield real.kubectl(HOME)
    take_away(real)


def works(real: Real, *arguments: str) -> str:
    status, said, wrong = pumice(real.admin, *arguments)
    assert status == 0, wrong
    return said


def fails(real: Real, *arguments: str) -> str:
    status, _, wrong = pumice(real.admin, *arguments)
    assert status == 1
    return wrong


def test_a_namespace_that_is_there_is_left_as_it_is(real, kubectl):
    kubectl("create", "namespace", "shared")
    before = kubectl.object("namespace", "shared")["metadata"]
    assert "namespace/shared kept" in works(real, "install", "-n", "shared", BARE)
    assert kubectl.object("namespace", "shared")["metadata"] == before
    works(real, "uninstall", "-n", "shared")
    works(real, "install", "-n", "made", BARE)
    assert kubectl("get", "namespace", "made", "-o", ENFORCED) == "restricted"


def test_second_installation_in_another_namespace_is_refused(real, kubectl):
    works(real, "install", "-n", "team-a", BARE)
    account = "--as=system:serviceaccount:team-a:pumice-scheduler"
    until(lambda: kubectl.tried("auth", "can-i", "list", "pods", "-A", account)[0] == 0)
    for command in (["install", "-n", "team-b", BARE], ["install", BARE], ["uninstall"]):
        wrong = fails(real, *command)
        assert "Pumice is already installed in namespace team-a" in wrong and "Use -n team-a" in wrong
        assert kubectl.tried("auth", "can-i", "list", "pods", "-A", account)[0] == 0
    assert kubectl.tried("get", "namespace", "team-b")[0] == 1
    assert "another installation would fail" in pumice(real.admin, "install", "-n", "team-b", "--dry-run")[2]
    works(real, "uninstall", "-n", "team-a")
    works(real, "install", "-n", "team-b", BARE)


def test_fields_of_administrators_are_kept_unless_forced(real, kubectl):
    works(real, "install", BARE)
    kubectl("scale", "deployment", "pumice-scheduler", "--replicas=5")
    kubectl("set", "resources", "deployment", "pumice-scheduler", "--limits=memory=16Gi")
    kubectl("set", "env", "deployment", "pumice-scheduler", "MINE=1")

    def seen() -> tuple[int, str]:
        spec = kubectl.object("deployment", "pumice-scheduler")["spec"]
        return spec["replicas"], spec["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]

    wrong = fails(real, "install", BARE, "--image", "pumice:next")
    assert "deployment.apps/pumice-scheduler .spec.replicas (conflict with" in wrong
    assert '.spec.template.spec.containers[name="scheduler"].resources.limits.memory' in wrong
    assert "nothing was changed" in wrong and "--force" in wrong
    assert seen() == (5, "16Gi")
    image = ("get", "deployment", "pumice-controllers", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    assert kubectl(*image) != "pumice:next", "it was said before anything was changed"

    works(real, "install", BARE, "--image", "pumice:next", "--force")
    assert (seen(), kubectl(*image)) == ((2, "4Gi"), "pumice:next")
    container = kubectl.object("deployment", "pumice-scheduler")["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "MINE", "value": "1"}], "what we say nothing about stays"
    assert "configured" not in works(real, "install", BARE, "--image", "pumice:next")


def test_given_configuration_replaces_the_installed_one(real, kubectl, tmp_path: Path):
    works(real, "install", BARE)
    kubectl("patch", "configmap", "pumice-scheduler", "--type=merge", "-p", '{"data":{"scheduler.yaml":"mine"}}')
    (tmp_path / "config.yaml").write_text('actions: "allocate"\ntiers:\n- plugins: [{name: gang}]\n')
    works(real, "install", BARE)
    assert kubectl.object("configmap", "pumice-scheduler")["data"]["scheduler.yaml"] == "mine"
    works(real, "install", BARE, "--config", str(tmp_path / "config.yaml"))
    assert "allocate" in kubectl.object("configmap", "pumice-scheduler")["data"]["scheduler.yaml"]


def test_finalizers_are_removed_despite_conflicting_writes(real, kubectl):
    """Somebody is always faster than we are, three times for each queue."""
    works(real, "install", BARE)
    names = [f"busy-{number}" for number in range(3)]
    for name in names:
        made = queue(name, weight=1)
        kubectl("create", "-f", "-", given={**made, "metadata": {"name": name, "finalizers": [QUEUE_FINALIZER]}})
    client, other = real.client, real.client
    merged, tries = client.merge, dict.fromkeys(names, 0)

    def beaten(path: str, patch: dict[str, Any]) -> Any:
        name = path.rpartition("/")[2]
        if name in tries and tries[name] < 3:
            tries[name] += 1
            other.merge(path, {"metadata": {"annotations": {"some.body/was": str(tries[name])}}})
        return merged(path, patch)

    client.merge = beaten  # type: ignore[method-assign]  # stands in the way
    said = list(remove_all(client, InstallOptions()))
    assert [line for line in said if line.startswith("queue/busy")] == [
        f"queue/{name}: finalizer removed" for name in names
    ]
    for name in names:
        kubectl("delete", "queue", name, "--timeout=10s")
    client.close()
    other.close()


def test_volcano_keeps_running_if_the_installation_fails(real, kubectl):
    """Nobody is stopped for an installation that fails. The last test here: Volcano stays."""
    of_jobs = ("jobs.batch", "cronjobs.batch", "jobflows.flow", "jobtemplates.flow", "commands.bus")
    for name in (*of_jobs, "queues.scheduling", "podgroups.scheduling", "hypernodes.topology"):
        kubectl("delete", "crd", f"{name}.volcano.sh", "--timeout=20s", "--ignore-not-found")
    settle_volcano(real)
    kubectl("create", "namespace", "doomed")
    stay = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stay", "finalizers": ["test/stay"]}}
    kubectl("create", "-n", "doomed", "-f", "-", given=stay)
    kubectl("delete", "namespace", "doomed", "--wait=false")
    wrong = fails(real, "install", "-n", "doomed", "--take-over")
    assert "doomed" in wrong and "being terminated" in wrong
    assert kubectl("get", "deployment", "-n", "volcano-system", "-o", "jsonpath={.items[*].spec.replicas}") == "2"
    kubectl("get", "mutatingwebhookconfiguration", "volcano-admission-service-jobs-mutate")
    assert kubectl.tried("get", "clusterrole", "pumice-scheduler")[0] == 1, "and nothing else was changed"

    said = works(real, "install", "--take-over").splitlines()
    stopped = next(index for index, line in enumerate(said) if "volcano-scheduler stopped" in line)
    assert not any(line.startswith("deployment.apps/pumice") for line in said[:stopped])
    assert "serviceaccount/pumice-scheduler created" in said[:stopped]
