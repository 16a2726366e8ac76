"""``pumice migrate``: files and clusters, formats, exit statuses, and the two guides that show it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pumice.cli.main import cli
from pumice.kube.client.sync_client import Client
from tests.cli.cluster.calls import Caller
from tests.support.bare_cluster import bare_cluster
from tests.support.shell_pages import ROOT, Shown, shown

VOLCANO = ROOT / "examples" / "migrate" / "volcano"
KUEUE = ROOT / "examples" / "migrate" / "kueue"
PAGES = {name: (ROOT / "docs" / f"migrate-from-{name}.md").read_text() for name in ("volcano", "kueue")}
COMMANDS = [(page, one) for page, text in PAGES.items() for one in shown(text)]
TYPED = [
    line
    for text in PAGES.values()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    with bare_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def call(cluster: tuple[Client, Path], monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.chdir(ROOT)
    return Caller(cluster[1], monkeypatch)


@pytest.mark.parametrize(("page", "one"), COMMANDS, ids=[f"{page}-{one.command}" for page, one in COMMANDS])
def test_guide_shows_what_is_printed(call: Caller, page: str, one: Shown) -> None:
    ended = call(one.command)
    assert ended.status == (0 if "nothing would be lost" in one.output else 1)
    printed = iter([line.strip() for line in (ended.out + ended.err).splitlines()])
    assert one.output
    for line in one.output:  # in this order; the page may leave lines out
        assert line.strip() in printed, line


@pytest.mark.parametrize("line", [line for line in TYPED if line.startswith("pumice ")])
def test_commands_of_the_guides_are_understood(line: str) -> None:
    _, name, *arguments = shlex.split(line.partition(" >")[0])
    context = cli.make_context("pumice", [name, *arguments])
    command = cli.get_command(context, name)
    assert command is not None
    command.make_context(name, _existing(arguments))


def _existing(arguments: list[str]) -> list[str]:
    """The arguments, with a file that exists for one that the reader writes."""
    return [str(VOLCANO / word) if word == "scheduler.conf" else word for word in arguments]


@pytest.mark.parametrize("link", [link for text in PAGES.values() for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text)])
def test_links_of_the_guides(link: str) -> None:
    assert (ROOT / "docs" / link).exists()


def test_manifest_can_be_applied(call: Caller, cluster: tuple[Client, Path]) -> None:
    ended = call(f"pumice migrate --from kueue -o yaml -f {KUEUE}")
    assert ended.err == ""
    client = cluster[0]
    for one in yaml.safe_load_all(ended.out):
        name = one["metadata"]["name"]
        path = "/api/v1/namespaces" if one["kind"] == "Namespace" else "/apis/scheduling.volcano.sh/v1beta1/queues"
        client.apply(f"{path}/{name}", one, "test")
    stored = client.get("/apis/scheduling.volcano.sh/v1beta1/queues/research")
    assert stored["spec"]["guarantee"] == {"resource": {"cpu": "4"}}


def test_cluster_is_read_where_no_file_is_given(call: Caller, cluster: tuple[Client, Path]) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "numatopologies.nodeinfo.volcano.sh"},
        "spec": {
            "group": "nodeinfo.volcano.sh",
            "scope": "Cluster",
            "names": {"plural": "numatopologies", "kind": "Numatopology"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    client = cluster[0]
    assert call("pumice migrate --check").status == 0
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    one = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology", "metadata": {"name": "node-1"}}
    client.create("/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies", one)
    ended = call("pumice migrate --check -o json")
    assert ended.status == 1
    report = json.loads(ended.out)
    assert report["lost"] == 1 and report["checked"]["Numatopology"] == 1
    lost = [finding for finding in report["findings"] if finding["severity"] == "lost"]
    assert [finding["objects"] for finding in lost] == [["node-1"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pumice migrate -o yaml -f x", "-o yaml prints converted Queues"),
        ("pumice migrate --from slurm", "'slurm' is not one of"),
        ("pumice migrate -f no-such-file.yaml", "no-such-file.yaml: No such file or directory"),
        ("pumice migrate -f x --context y", "-f reads files and no cluster"),
    ],
)
def test_errors_end_with_status_2(call: Caller, line: str, message: str) -> None:
    ended = call(line)
    assert ended.status == 2 and message in ended.err


def test_unreachable_cluster_ends_with_status_2(call: Caller, tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(
        yaml.safe_dump(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "a", "user": {}}],
            }
        )
    )
    ended = call(f"pumice migrate --check --kubeconfig {nowhere}")
    assert ended.status == 2 and "127.0.0.1:1" in ended.err
