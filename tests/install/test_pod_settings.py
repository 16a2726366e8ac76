"""The file of ``pumice install --pod-settings``: what it sets in every deployment, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pumice.cli.install_command import install
from pumice.input_errors import BadInput
from pumice.install.install_options import InstallOptions
from pumice.install.manifests import all_manifests
from pumice.install.pod_settings import DEFAULT_RESOURCES, PodSettings, read_pod_settings

SETTINGS = """
resources:
  scheduler: {requests: {cpu: 2}, limits: {memory: null}}
imagePullSecrets: [{name: registry}]
nodeSelector: {pool: system}
tolerations: [{key: pool, operator: Exists}]
affinity: {nodeAffinity: {}}
podAnnotations: {team: batch}
podLabels: {cost: "17"}
priorityClassName: high
"""


def templates(settings: PodSettings) -> dict[str, dict[str, Any]]:
    made = [one for one in all_manifests(InstallOptions(pods=settings)) if one["kind"] == "Deployment"]
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"] for one in made}


def test_settings_apply_to_all_components():
    for component, spec in templates(read_pod_settings(SETTINGS, "file")).items():
        pod, about = spec["template"]["spec"], spec["template"]["metadata"]
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["nodeSelector"] == {"pool": "system"}
        assert pod["tolerations"] == [{"key": "pool", "operator": "Exists"}]
        assert pod["affinity"] == {"nodeAffinity": {}}
        assert pod["priorityClassName"] == "high"
        assert about["annotations"] == {"team": "batch"}
        assert about["labels"] == {**spec["selector"]["matchLabels"], "cost": "17"}
        wanted = {"requests": {"cpu": 2, "memory": "256Mi"}, "limits": {}}
        assert pod["containers"][0]["resources"] == (
            wanted if component == "scheduler" else DEFAULT_RESOURCES[component]
        )


def test_an_empty_file_changes_nothing():
    assert templates(read_pod_settings("", "file")) == templates(PodSettings())
    pod = templates(PodSettings())["scheduler"]["template"]
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert not {"nodeSelector", "tolerations", "affinity", "imagePullSecrets"} & pod["spec"].keys()
    assert "annotations" not in pod["metadata"]


def test_an_empty_priority_class_leaves_the_field_out():
    pods = templates(read_pod_settings('priorityClassName: ""', "file"))
    assert all("priorityClassName" not in spec["template"]["spec"] for spec in pods.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodeselector: {a: b}", "file: nodeselector: unknown setting, did you mean 'nodeSelector'?"),
        ("resources: {webhook: {}}", "file: resources.webhook: unknown setting, did you mean 'webhooks'?"),
        ("tolerations: {}", "file: tolerations: Invalid value"),
        ("podLabels: {app.kubernetes.io/name: x}", "file: podLabels.app.kubernetes.io/name: Forbidden"),
        ("nodeSelector: {a: 1}", "file: nodeSelector[a]: Invalid value"),
        ("a: [", "file: not valid YAML"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_pod_settings(text, "file")
    assert message in str(refused.value)


def test_the_command_reads_the_file(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(SETTINGS)
    ended = CliRunner().invoke(install, ["--dry-run", "--pod-settings", str(tmp_path / "pods.yaml")])
    assert ended.exit_code == 0
    printed = [one for one in yaml.safe_load_all(ended.stdout) if one["kind"] == "Deployment"]
    assert {one["spec"]["template"]["spec"]["priorityClassName"] for one in printed} == {"high"}
