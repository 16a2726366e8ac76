"""What would be installed: complete, harmless, and startable with the arguments it is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pumice.admission.rules import DEFAULTS, RULES
from pumice.admission.webhooks import server
from pumice.cli.main import cli
from pumice.install import webhook_configurations
from pumice.install.install_options import InstallOptions
from pumice.install.installed_kinds import KINDS, path_of
from pumice.install.manifests import all_manifests
from pumice.install.rbac import components
from pumice.install.webhook_configurations import both_configurations
from pumice.install.workloads import arguments, deployment
from tests.cli.command import pumice_command

ROOT = Path(__file__).parents[2]
CHOICES = {
    "usual": InstallOptions(),
    "elsewhere": InstallOptions(namespace="batch", image="registry.example/pumice:1", replicas=1),
    "beside": InstallOptions(beside_volcano=True),
    "bare": InstallOptions(webhooks=False),
    "kept": InstallOptions(data_claim="pumice-data"),
    "recorded": InstallOptions(data_claim="pumice-data", decision_log=True),
    "everything": InstallOptions(service_monitor=True, webhook_url="https://192.0.2.7:9443/"),
}
every_choice = pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
Object = dict[str, Any]


@every_choice
def test_every_object_has_a_place_and_a_namespace_where_it_needs_one(choices):
    found = all_manifests(choices)
    paths = [path_of(one) for one in found]
    assert len(set(paths)) == len(paths)
    for one in found:
        home = choices.namespace if KINDS[one["kind"]].namespaced else None
        assert one["metadata"].get("namespace") == home, one["kind"]
        assert one["apiVersion"] == KINDS[one["kind"]].api_version


@every_choice
def test_commands_take_the_arguments_that_they_are_started_with(choices):
    for component in components(choices):
        name, *rest = arguments(component, choices)
        settings = [one for one in rest if not one.startswith("--config=")]  # a file that is there in the pod only
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, settings)


@every_choice
def test_containers_are_non_root_and_read_only(choices):
    for component in components(choices):
        pod = deployment(component, choices)["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"livenessProbe", "readinessProbe", "resources"} <= container.keys()
        assert container["image"] == choices.image
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_services_and_budgets_choose_the_pods_they_are_for():
    found = all_manifests(InstallOptions())
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in found if one["kind"] == "Deployment"}

    def chosen(labels: Object) -> set[str]:
        return {name for name, pod in pods.items() if labels.items() <= pod["metadata"]["labels"].items()}

    services = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "Service"}
    assert chosen(services["pumice-metrics"]["selector"]) == set(pods)
    assert chosen(services["pumice-webhooks"]["selector"]) == {"pumice-webhooks"}
    budgets = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "PodDisruptionBudget"}
    assert {name: chosen(spec["selector"]["matchLabels"]) for name, spec in budgets.items()} == {
        name: {name} for name in pods
    }
    for name, pod in pods.items():
        ports = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        assert all(port["targetPort"] in ports for port in services["pumice-metrics"]["ports"]), name


def asked(configuration: Object) -> set[tuple[str, str]]:
    found = set()
    for webhook in configuration["webhooks"]:
        for rule in webhook["rules"]:
            for operation in rule["operations"]:
                name = ".".join(part for part in (rule["resources"][0], rule["apiGroups"][0]) if part)
                found.add((name, operation))
    return found


def test_webhooks_match_the_admission_rules():
    mutating, validating = both_configurations(InstallOptions())
    assert asked(mutating) == set(DEFAULTS)
    assert asked(validating) == set(RULES)
    assert (webhook_configurations.MUTATE, webhook_configurations.VALIDATE) == (server.MUTATE, server.VALIDATE)
    assert mutating["metadata"]["name"] == server.CONFIGURATION


def test_pods_do_not_wait_for_the_webhooks():
    for configuration in both_configurations(InstallOptions()):
        for webhook in configuration["webhooks"]:
            pods = webhook["name"].startswith("pods.")
            assert webhook["failurePolicy"] == ("Ignore" if pods else "Fail")
            assert webhook["timeoutSeconds"] <= (2 if pods else 5)
            (selected,) = webhook["namespaceSelector"]["matchExpressions"]
            assert selected["values"] == ["kube-system", "pumice-system"]
            assert webhook["sideEffects"] == "None"


def test_beside_volcano_its_own_is_left_alone():
    found = all_manifests(CHOICES["beside"])
    assert not any(one["kind"] == "CustomResourceDefinition" for one in found)
    for configuration in both_configurations(CHOICES["beside"]):
        assert {webhook["failurePolicy"] for webhook in configuration["webhooks"]} == {"Ignore"}
        assert not any("jobs" in name for name, _ in asked(configuration))
    text = yaml.safe_dump([one for one in found if one["kind"] == "Deployment"])
    assert "--no-jobs" in text and not re.search(r"^ *- volcano$", text, re.MULTILINE)


def test_dry_run_prints_the_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    ended = pumice_command("install", "--dry-run", "--namespace", "batch", "--image", "x:1", "--replicas", "3")
    assert ended.returncode == 0
    assert list(yaml.safe_load_all(ended.stdout)) == all_manifests(InstallOptions("batch", "x:1", 3))
    assert "could not reach a cluster" in ended.stderr


def test_the_image_is_made_of_files_that_are_there_and_not_ignored():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    everything, *rest = (ROOT / ".dockerignore").read_text().split()
    kept = {line.removeprefix("!") for line in rest if line.startswith("!")}
    assert everything == "*"
    assert {name.partition("/")[0] for name in names} == kept
    assert all((ROOT / name).exists() for name in names)


def test_invalid_options_are_usage_errors(tmp_path: Path):
    plain = pumice_command("install", "--dry-run", "--webhook-url", "http://192.0.2.7")
    assert plain.returncode == 2 and "must be an https:// URL" in plain.stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("actions: nonsense\n")
    refused = pumice_command("install", "--dry-run", "--config", str(bad))
    assert refused.returncode == 2 and "bad.yaml" in refused.stderr
