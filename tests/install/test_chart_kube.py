"""The chart in the hands of Helm itself: what it gives, and its life in a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.admission.request import QUEUE_FINALIZER
from pumice.install.install_options import InstallOptions
from pumice.install.installed_kinds import path_of
from pumice.install.manifests import all_manifests
from pumice.install.pod_settings import read_pod_settings
from tests.cli.command import pumice_command
from tests.install.test_pod_settings import SETTINGS
from tests.support.helm import Helm
from tests.support.installed import Real, pumice, real_server
from tools.deploy_files import DEPLOY
from tools.kubernetes_binaries import KUBERNETES

pytestmark = pytest.mark.kube
CHART = str(DEPLOY / "helm" / "pumice")
TEMPLATE = ("template", "pumice", CHART, "--kube-version", KUBERNETES)  # else each Helm takes what it was built with
HOME = "batch"
OURS = "app.kubernetes.io/part-of=pumice"
Object = dict[str, Any]
Key = tuple[str, str]

CHOSEN: dict[str, tuple[list[str], InstallOptions]] = {
    "nothing": ([], InstallOptions()),
    "beside": (["besideVolcano=true"], InstallOptions(beside_volcano=True)),
    "monitored": (["serviceMonitor=true"], InstallOptions(service_monitor=True)),
    "kept": (["dataClaim=mine"], InstallOptions(data_claim="mine")),
    "recorded": (["dataClaim=mine", "decisionLog=true"], InstallOptions(data_claim="mine", decision_log=True)),
    "recorded beside": (
        ["dataClaim=mine", "decisionLog=true", "besideVolcano=true"],
        InstallOptions(data_claim="mine", decision_log=True, beside_volcano=True),
    ),
    "unjudged": (["webhooks=false"], InstallOptions(webhooks=False)),
    "most": (
        ["besideVolcano=true", "serviceMonitor=true", "image.repository=mine", "replicas=5"],
        InstallOptions(image="mine:0.1.0", replicas=5, beside_volcano=True, service_monitor=True),
    ),
    "least": (["besideVolcano=true", "webhooks=false"], InstallOptions(beside_volcano=True, webhooks=False)),
}
every_choice = pytest.mark.parametrize(("values", "choices"), CHOSEN.values(), ids=CHOSEN)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("helm")


@pytest.fixture(scope="module")
def offline(home: Path) -> Helm:
    """Helm that knows no cluster."""
    return Helm(home, home / "none", HOME)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_server(tmp_path_factory.mktemp("chart")) as real:
        yield real


@pytest.fixture(scope="module")
def helm(home: Path, real: Real) -> Helm:
    return Helm(home, real.admin, HOME)


def given(values: list[str]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def by_key(objects: Any) -> dict[Key, Object]:
    found = [one for one in objects if one]
    keyed = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(keyed) == len(found)
    return keyed


def wanted(choices: InstallOptions, *without: str) -> dict[Key, Object]:
    """What the installer gives, but for what is Helm's, or the controllers'."""
    left = {"Namespace", "Queue", *without}
    return by_key(one for one in all_manifests(replace(choices, namespace=HOME)) if one["kind"] not in left)


# ---- what it gives ----------------------------------------------------------------------------------------------


@every_choice
def test_helm_finds_nothing_wrong(offline, values, choices):
    assert "0 chart(s) failed" in offline("lint", "--strict", CHART, *given(values))


@every_choice
def test_chart_installs_the_same_objects_as_the_installer(offline, values, choices):
    crds = [] if choices.beside_volcano else ["--include-crds"]
    assert by_key(yaml.safe_load_all(offline(*TEMPLATE, *crds, *given(values)))) == wanted(choices)


def test_chart_renders_the_manifests_of_a_dry_run(offline):
    printed = pumice_command("install", "--dry-run", "--namespace", HOME, "--image", "mine:7", "--replicas", "3")
    values = ["--set", "image.repository=mine,replicas=3", "--set-string", "image.tag=7"]
    rendered = by_key(yaml.safe_load_all(offline(*TEMPLATE, "--include-crds", *values)))
    assert rendered == {
        key: one
        for key, one in by_key(yaml.safe_load_all(printed.stdout)).items()
        if key[0] not in {"Namespace", "Queue"}
    }


def test_chart_values_and_pod_settings_give_the_same(offline, tmp_path):
    """One file for both: the values of the chart have the names of the settings."""
    (tmp_path / "pods.yaml").write_text(SETTINGS)
    rendered = by_key(yaml.safe_load_all(offline(*TEMPLATE, "--values", str(tmp_path / "pods.yaml"))))
    choices = InstallOptions(pods=read_pod_settings(SETTINGS, ""))
    assert rendered == wanted(choices, "CustomResourceDefinition")


def test_chart_renders_scheduler_configuration_of_any_form(offline, tmp_path):
    settings = 'actions: "allocate"  # {{ not a template }}\ntiers:\n- plugins: [{name: gang}]\n'
    (tmp_path / "scheduler.yaml").write_text(settings)
    text = offline(*TEMPLATE, "--set-file", f"schedulerConfig={tmp_path / 'scheduler.yaml'}")
    assert by_key(yaml.safe_load_all(text)) == wanted(
        InstallOptions(configuration=settings), "CustomResourceDefinition"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["--set", "replica=3"], "replica"),
        (["--set-string", "besideVolcano=false"], "/besideVolcano"),
        (["--set", "replicas=0"], "/replicas"),
        (["--set", "image.tag=20261115"], "/image/tag"),
        (["--set", "resources.webhook.limits=1"], "/resources"),
        (["--set", r"podLabels.app\.kubernetes\.io/name=x"], "app.kubernetes.io/name"),
        (["--set", "tolerations=x"], "/tolerations"),
        (["--set", "decisionLog=true"], "/dataClaim"),
        (["--set-json", 'schedulerConfig={"actions":"allocate"}'], "/schedulerConfig"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_invalid_values_are_refused(offline, value, said):
    status, _, wrong = offline.tried(*TEMPLATE, *value)
    assert status == 1 and "values don't meet the specifications of the schema" in wrong and said in wrong


# ---- in a cluster -----------------------------------------------------------------------------------------------


@pytest.fixture
def clean(real: Real, helm: Helm) -> Iterator[Real]:
    """The cluster, without us before and after."""
    yield real
    helm.tried("uninstall", "pumice")
    assert pumice(real.admin, "uninstall", "--namespace", HOME)[0] == 0


def test_chart_installs_upgrades_rolls_back_and_uninstalls(helm, clean, home):
    kubectl = clean.kubectl(HOME)
    said = helm("install", "pumice", CHART, "--create-namespace", "--set", "replicas=1")
    assert "STATUS: deployed" in said and f"pumice uninstall --namespace {HOME}" in said
    assert_there(clean, InstallOptions(replicas=1))
    status, _, wrong = Helm(home, clean.admin, "other").tried("install", "twice", CHART, "--create-namespace")
    assert status == 1 and "invalid ownership metadata" in wrong, "it is there only once"
    trust(clean, "QUFB")

    kubectl("apply", "--server-side", "--force-conflicts", "-f", f"{CHART}/crds")
    helm("upgrade", "pumice", CHART, "--set", "replicas=3,image.repository=registry.example/pumice,image.tag=x")
    assert_there(clean, InstallOptions(replicas=3, image="registry.example/pumice:x"))
    assert trusted(clean) == {"QUFB"}, "what the webhooks have written stays"

    helm("upgrade", "pumice", CHART, "--set", "besideVolcano=true,webhooks=false")
    assert_there(clean, InstallOptions(beside_volcano=True, webhooks=False), "CustomResourceDefinition")
    assert "webhook" not in kubectl("get", "deployments,services,clusterroles", "-l", OURS, "-o", "name")
    kubectl("create", "-f", "-", given=queue("mine"))  # while nobody judges

    helm("rollback", "pumice", "1")
    assert_there(clean, InstallOptions(replicas=1))

    helm("uninstall", "pumice")
    left = kubectl("get", LEAVES, "-A", "-l", OURS, "-o", "name")
    assert left == "", "nothing but definitions and what people have made"
    assert kubectl("get", "crd", "-l", OURS, "-o", "name").count("\n") == 8
    kubectl("get", "queue", "mine")
    helm("install", "pumice", CHART, "--set", "webhooks=false")  # over definitions and queues that are there
    assert_there(clean, InstallOptions(webhooks=False))


def test_out_of_the_way_first_then_out(helm, clean):
    """As the notes of the chart say, so that queues can be deleted afterwards."""
    kubectl = clean.kubectl(HOME)
    helm("install", "pumice", CHART, "--create-namespace")
    assert pumice(clean.admin, "uninstall", "--namespace", HOME)[0] == 0
    kubectl("create", "-f", "-", given=queue("held", finalizers=[QUEUE_FINALIZER]))
    assert "queue/held: finalizer removed" in pumice(clean.admin, "uninstall", "--namespace", HOME)[1]
    helm("uninstall", "pumice")
    assert kubectl.tried("get", "configmap", "pumice-scheduler")[0] == 1, "what is Helm's goes with it"
    kubectl("delete", "queue", "held", "--timeout=10s")


def test_service_monitor_is_refused_without_prometheus_operator(helm, clean):
    arguments = ("install", "pumice", CHART, "--create-namespace", "--set", "serviceMonitor=true")
    status, _, wrong = helm.tried(*arguments)
    assert status == 1 and 'no matches for kind "ServiceMonitor"' in wrong
    kubectl = clean.kubectl(HOME)
    kubectl("create", "-f", "-", given=MONITORS)
    kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "--timeout=30s")
    helm("upgrade", "--install", "pumice", CHART, "--create-namespace", "--set", "serviceMonitor=true")
    assert_there(clean, InstallOptions(service_monitor=True))


LEAVES = (
    "serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,services,deployments,poddisruptionbudgets,"
    "configmaps,mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
MONITORS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"plural": "servicemonitors", "singular": "servicemonitor", "kind": "ServiceMonitor"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


def queue(name: str, **about: Any) -> Object:
    spec = {"weight": 1}
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name, **about}}
    return {**made, "spec": spec}


def assert_there(real: Real, choices: InstallOptions, *without: str) -> None:
    """All that was asked for is in the cluster, whatever the server has added."""
    client = real.client
    try:
        for key, one in wanted(choices, *without).items():
            found = client.get(path_of(one))
            assert holds(found, one), f"{key}: {json.dumps(found)}"
    finally:
        client.close()


def holds(found: Any, asked: Any) -> bool:
    if isinstance(asked, dict):
        return isinstance(found, dict) and all(holds(found.get(name), one) for name, one in asked.items())
    if isinstance(asked, list):
        return isinstance(found, list) and len(found) == len(asked) and all(map(holds, found, asked))
    return bool(found == asked)


def trust(real: Real, bundle: str) -> None:
    """As the webhooks do it."""
    for kind in ("mutating", "validating"):
        kubectl = real.kubectl()
        names = [one["name"] for one in kubectl.object(f"{kind}webhookconfiguration", "pumice")["webhooks"]]
        patch = {"webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in names]}
        kubectl("patch", f"{kind}webhookconfiguration", "pumice", "--type=strategic", "-p", json.dumps(patch))


def trusted(real: Real) -> set[str]:
    kinds = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
    found = [real.kubectl().object(kind, "pumice")["webhooks"] for kind in kinds]
    return {one["clientConfig"].get("caBundle", "") for webhooks in found for one in webhooks}
