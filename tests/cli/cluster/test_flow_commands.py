"""``vcctl jobflow`` and ``vcctl jobtemplate`` against the embedded API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pumice.cli.cluster import flow_commands
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import JOB_FLOWS, JOB_TEMPLATES, NAMESPACES
from tests.cli.cluster.calls import Caller

FLOW, TEMPLATE = "jobflow.flow.volcano.sh", "jobtemplate.flow.volcano.sh"


@pytest.fixture(scope="module", autouse=True)
def other_namespace(cluster: tuple[Client, Path]) -> None:
    cluster[0].create(NAMESPACES.path(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})


@pytest.fixture(autouse=True)
def no_flows(client: Client) -> Iterator[None]:
    yield
    for resource in (JOB_FLOWS, JOB_TEMPLATES):
        for found in client.list(resource.path()).items:
            client.delete(resource.path(found["metadata"]["namespace"], found["metadata"]["name"]))


def template(name: str, **about: str) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    spec = {"queue": "default", "minAvailable": 1, "tasks": [{"name": "main", "replicas": 2, "template": pod}]}
    return {
        "apiVersion": JOB_TEMPLATES.api_version,
        "kind": "JobTemplate",
        "metadata": {"name": name, **about},
        "spec": spec,
    }


def flow(name: str, *templates: str, **about: str) -> dict[str, Any]:
    spec = {"flows": [{"name": each} for each in templates]}
    return {"apiVersion": JOB_FLOWS.api_version, "kind": "JobFlow", "metadata": {"name": name, **about}, "spec": spec}


def written(folder: Path, *manifests: dict[str, Any]) -> str:
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return str(file)


def test_objects_of_a_file_are_created_listed_and_deleted(call: Caller, client: Client, tmp_path: Path) -> None:
    flows = written(tmp_path, flow("nightly", "data"), flow("weekly", "data", namespace="other"))
    assert call.said(f"vcctl jobflow create -f {flows}") == f"{FLOW}/nightly created\n{FLOW}/weekly created\n"
    status = {"state": {"phase": "Running"}, "completedJobs": ["a", "b"], "runningJobs": ["c"]}
    client.merge(JOB_FLOWS.path("default", "nightly", "status"), {"status": status})
    heading, *rows = call.said("vcctl jobflow list -A").splitlines()
    assert heading.split() == ["Namespace", "Name", "Phase", "Pending", "Running", "Completed", "Failed", "Age"]
    assert [row.split()[:-1] for row in rows] == [
        ["default", "nightly", "Running", "0", "1", "2", "0"],
        ["other", "weekly", "Pending", "0", "0", "0", "0"],
    ]
    assert call.said("vcctl jobflow list -o name") == f"{FLOW}/nightly\n"
    assert call.said(f"vcctl jobflow delete -f {flows}") == f"{FLOW}/nightly deleted\n{FLOW}/weekly deleted\n"
    assert call("vcctl jobflow list") == (0, "", "no jobflows in namespace default; -A looks in all\n")
    assert call("vcctl jobflow list -A") == (0, "", "no jobflows in any namespace\n")


def test_templates_show_the_jobs_that_they_make(call: Caller, tmp_path: Path) -> None:
    call.said(f"vcctl jobtemplate create -n other -f {written(tmp_path, template('data'))}")
    heading, row = call.said("vcctl jobtemplate get -N data -n other").splitlines()
    assert heading.split() == ["Name", "Queue", "Replicas", "Min", "Age"]
    assert row.split()[:-1] == ["data", "default", "2", "1"]
    assert call.said("vcctl -n other jobtemplate delete data") == f"{TEMPLATE}/data deleted\n"


def test_describe_prints_whole_objects(call: Caller, tmp_path: Path) -> None:
    call.said(f"vcctl jobtemplate create -f {written(tmp_path, template('data'), template('model'))}")
    both = list(yaml.safe_load_all(call.said("vcctl jobtemplate describe")))
    assert [one["metadata"]["name"] for one in both] == ["data", "model"]
    assert both[0]["kind"] == "JobTemplate" and "managedFields" not in both[0]["metadata"]
    assert json.loads(call.said("vcctl jobtemplate describe model -o json")) == both[1]


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("get nightli", 1, 'jobflows.flow.volcano.sh "nightli" not found; did you mean nightly?'),
        ("describe nightli", 1, 'jobflows.flow.volcano.sh "nightli" not found; did you mean nightly?'),
        (
            "delete nightli",
            1,
            '"nightli" not found; did you mean nightly? (namespace default)',
        ),
        ("get", 2, "a NAME is required"),
        ("delete", 2, "a NAME is required"),
        ("create", 2, "Missing option '-f' / '--file'"),
        ("create -f {template}", 2, "JobTemplate is not a JobFlow of flow.volcano.sh/v1alpha1; use kubectl apply"),
        ("delete nightly -f {template}", 2, "a NAME cannot be combined with --file"),
        ("create -f {again}", 1, 'jobflows.flow.volcano.sh "nightly" already exists'),
    ],
)
def test_mistakes_are_named(call: Caller, tmp_path: Path, line: str, status: int, message: str) -> None:
    again = written(tmp_path, flow("nightly", "data"))
    call.said(f"vcctl jobflow create -f {again}")
    other = tmp_path / "template.yaml"
    other.write_text(yaml.safe_dump(template("data")))
    ended = call(f"vcctl jobflow {line.format(template=other, again=again)}")
    assert ended.status == status
    assert message in ended.err


@pytest.mark.parametrize("group", [flow_commands.jobflow, flow_commands.jobtemplate], ids=lambda group: group.name)
def test_every_command_has_examples(call: Caller, group: click.Group) -> None:
    for name in group.commands:
        said = call.said(f"vcctl {group.name} {name} --help")
        assert f"  vcctl {group.name} {name}" in said.partition("Examples:")[2]
