"""docs/commands.md: every command on it is typed, in order, and prints what is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from pumice.cli.cluster.volcano_programs import PROGRAMS
from pumice.cli.main import cli
from pumice.kube.client import credentials, exec_plugin
from pumice.kube.client.kubeconfig import read_kubeconfig
from tests.support.shell_pages import ROOT, Terminal, need_kubectl, shown

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_kubectl()
    found = Terminal(tmp_path)
    yield found
    found.stop()


def test_commands_page_commands_print_shown_output(terminal: Terminal) -> None:
    commands = shown(PAGE)
    assert len(commands) > 30
    for one in commands:
        terminal.type(one)


def test_completion(terminal: Terminal) -> None:
    (script,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in script.splitlines():
        command = re.sub(r"source <\((.*)\)|(.*) \| source", r"\1\2", line.partition("#")[0]).strip()
        assert re.fullmatch(r"pumice completion \w+", command)
        assert "_PUMICE_COMPLETE" in terminal.run(command).stdout


def test_the_exec_entry_can_be_used(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "config"
    around = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "gke"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(around) + block)
    found = read_kubeconfig(path).exec_plugin
    assert found is not None
    assert found.config.command == "gke-gcloud-auth-plugin" and found.config.cluster == {
        "server": "https://127.0.0.1:1"
    }


def test_figures_about_credentials() -> None:
    flat = " ".join(PAGE.split())
    assert f"read again every {credentials.TOKEN_FILE_SECONDS:.0f} s" in flat
    assert f"refreshed {exec_plugin.REFRESH_SECONDS:.0f} s before it expires" in flat
    assert f"runs again after {exec_plugin.RETRY_SECONDS:.0f} s at the earliest" in flat
    assert f"it has {exec_plugin.RUN_SECONDS:.0f} s to answer" in flat


def test_every_program_and_every_verb_is_on_the_page() -> None:
    for name in PROGRAMS:
        assert f"`{name}" in PAGE or f"$ {name} " in PAGE, name
    context = click.Context(cli)
    for name in ("queue", "job"):
        group = cli.get_command(context, name)
        assert isinstance(group, click.Group)
        for verb in group.commands:
            assert re.search(rf"\b{verb}\b", PAGE), f"{name} {verb}"


def test_links() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
