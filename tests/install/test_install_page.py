"""docs/install.md: its commands are understood, and what it names is what is installed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from pumice.cli.main import cli
from pumice.install.install_options import InstallOptions
from pumice.install.manifests import all_manifests
from pumice.install.pod_settings import read_pod_settings

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "install.md").read_text()
(POD_SETTINGS,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("pumice ")])
def test_its_commands_are_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pods.yaml").write_text(POD_SETTINGS)
    monkeypatch.chdir(tmp_path)
    _, name, *arguments = shlex.split(line)
    context = cli.make_context("pumice", [name, *arguments], resilient_parsing=False)
    command = cli.get_command(context, name)
    assert command is not None
    command.make_context(name, arguments, parent=context)  # or it says what it does not know


def test_the_others_name_what_is_there() -> None:
    others = [shlex.split(line) for line in COMMANDS if not line.startswith("pumice ")]
    programs = ["docker", "docker", "kubectl", "kubectl", "helm", "kubectl", "kubectl", "helm"]
    assert [words[0] for words in others] == programs
    chart = next(word for words in others for word in words if word.startswith("deploy/helm"))
    values = yaml.safe_load((ROOT / chart / "values.yaml").read_text())
    setting = next(words[words.index("--set") + 1] for words in others if "--set" in words)
    for step in setting.partition("=")[0].split("."):
        values = values[step]
    assert (ROOT / others[-3][-1] / "kustomization.yaml").exists()
    assert list((ROOT / others[-2][-1]).glob("*.yaml"))


def test_the_pod_settings_of_the_page_are_read() -> None:
    found = read_pod_settings(POD_SETTINGS, "pods.yaml")
    assert found.resources["scheduler"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert found.image_pull_secrets and found.node_selector and found.tolerations


def test_the_deployments_are_those_in_its_table() -> None:
    listed = re.findall(r"^\| `(pumice-\w+)` \|", PAGE, re.MULTILINE)
    made = [found for found in all_manifests(InstallOptions()) if found["kind"] == "Deployment"]
    assert sorted(listed) == sorted(found["metadata"]["name"] for found in made)
    for found in made:
        elects = "--leader-elect" in found["spec"]["template"]["spec"]["containers"][0]["args"]
        assert elects == (f"the Lease `{found['metadata']['name']}`" in PAGE)


def test_the_roles_of_users_are_those_installed() -> None:
    table = PAGE.partition("## Roles for users")[2].partition("\n## ")[0]
    roles = {
        one["metadata"]["name"]
        for one in all_manifests(InstallOptions())
        if one["kind"] == "ClusterRole" and one["metadata"]["labels"]["app.kubernetes.io/component"] == "users"
    }
    assert set(re.findall(r"^\| [a-z ]+ \| `([a-z-]+)`", table, re.MULTILINE)) == roles
    bound = {
        words[words.index("--clusterrole") + 1] for words in map(shlex.split, COMMANDS) if "--clusterrole" in words
    }
    assert bound and bound <= roles
    policies = {one["metadata"]["name"] for one in all_manifests(InstallOptions()) if one["kind"].endswith("Policy")}
    assert set(re.findall(r"policy `([a-z-]+)`", table)) <= policies
