"""The pages about ``pumice up``: every command runs and prints what is shown, and what they claim is so."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kubebase import certificates
from kubesim.controllers import events
from kubesim.controllers.nodes import node_lifecycle
from kubesim.http import content_negotiation, listen
from kubesim.kubelet import node_template, pod_behavior
from kubesim.storage import fsck
from pumice.decision_log import writer
from pumice.embedded.identity import PUMICE
from pumice.engine.recovery import partial_gangs as mend
from pumice.scheduler import config_watcher, loop
from tests.support.api_servers import pumice_up
from tests.support.shell_pages import ROOT, Terminal, need_kubectl, shown

DOCS = ROOT / "docs"
TRY = (DOCS / "try-without-a-cluster.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_kubectl()
    found = Terminal(tmp_path, stop=signal.SIGKILL)  # the page says that even this is survived
    yield found
    found.stop()


def test_trying_it(terminal: Terminal) -> None:
    commands = shown(TRY)
    assert len(commands) > 30
    for one in commands:
        terminal.type(one)


def test_the_readme(terminal: Terminal) -> None:
    commands = shown(README)
    assert len(commands) > 3
    for one in commands:
        terminal.type(one)


def test_the_annotations_are_those_that_are_read() -> None:
    listed = set(re.findall(r"^\| `(pumice\.dev/[\w-]+)`", TRY, re.MULTILINE))
    assert listed == {
        PUMICE.annotation(key) for key in (pod_behavior.RUN_SECONDS, pod_behavior.FAIL, pod_behavior.STOP_SECONDS)
    }


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links(page: Path) -> None:
    """Files are there, and places in them."""
    for file, _, place in re.findall(r"\]\(([^)#:]*)(#([\w-]+))?\)", page.read_text(encoding="utf-8")):
        target = DOCS / file if file else page
        assert target.exists(), file
        if place:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            places = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert place in places, f"{file}#{place}"


# ---- docs/operations.md -----------------------------------------------------------------------------------

OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")


def test_running_it(tmp_path: Path) -> None:
    need_kubectl()
    terminal = Terminal(tmp_path, folder=tmp_path)
    try:
        for one in shown(OPERATIONS):
            if one.command.startswith("cp "):  # "when it is stopped"
                terminal.stop()
            terminal.type(one)
    finally:
        terminal.stop()


def test_the_script_for_ci(tmp_path: Path) -> None:
    need_kubectl()
    (script,) = re.findall(r"^```sh\n(.*?)^```$", OPERATIONS, re.MULTILINE | re.DOTALL)
    said = Terminal(tmp_path, folder=tmp_path).run(f"set -e\n{script}")
    assert said.returncode == 0, said.stderr
    assert [line.split()[:2] for line in said.stdout.splitlines()[-2:]] == [
        ["node-000", "Ready"],
        ["node-001", "Ready"],
    ]


def test_an_online_backup_is_clean(tmp_path: Path) -> None:
    with pumice_up(data=tmp_path / "data"):
        (tmp_path / "copy").mkdir()
        source, copy = (sqlite3.connect(tmp_path / name / PUMICE.database) for name in ("data", "copy"))
        with closing(source), closing(copy):
            source.backup(copy)
    assert fsck.check_directory(tmp_path / "copy", PUMICE) == []


def test_the_figures_are_those_of_the_code() -> None:
    operations, trying = (" ".join(page.split()) for page in (OPERATIONS, TRY))  # wherever lines end
    minutes = listen.COMPACT_SECONDS / 60
    assert f"every {minutes:.0f} minutes, so that {minutes:.0f} to {2 * minutes:.0f} minutes of it" in operations
    assert f"{node_template.PODS} pods unless" in operations
    assert f"room for {node_template.MAX_NODES:,} nodes" in operations
    assert f"and {node_lifecycle.POD_GC_QUARANTINE_SECONDS:.0f} seconds later its pods" in operations
    assert f"After {node_lifecycle.NODE_MONITOR_GRACE_SECONDS:.0f} seconds (here one) it is NotReady" in trying
    assert (events.EVENT_TTL_SECONDS, certificates.VALID.days, listen.SHUTDOWN_SECONDS) == (
        3600,
        365,
        2,
    )  # an hour, a year, two seconds
    assert f"larger than {content_negotiation.LARGEST_BODY >> 20} MiB" in API
    log = f"after {writer.SIZE >> 20} MiB and {writer.FILES} are kept, so half a GiB at most"
    assert log in operations and writer.SIZE * writer.FILES == 1 << 29
    assert f"tries again after {writer.AGAIN / 60:.0f} minutes" in operations
    assert f"no cycle has ended for {loop.STALLED:.0f} s" in operations
    assert f"possible for {mend.REPAIR_LIMIT // 1_000_000} s" in operations
    assert config_watcher.EVERY == 2  # in force within two seconds


# ---- docs/kubernetes-api.md -------------------------------------------------------------------------------

API = (DOCS / "kubernetes-api.md").read_text(encoding="utf-8")
PODS = "/api/v1/namespaces/default/pods"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "lamps.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Lamp", "plural": "lamps"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"scale": {"specReplicasPath": ".spec.lit", "statusReplicasPath": ".status.lit"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"lit": {"type": "integer"}},
                                "x-kubernetes-validations": [{"rule": "self.lit < 3"}],
                            },
                            "status": {"type": "object", "properties": {"lit": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}
LAMP = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "one"}, "spec": {"lit": 7}}


class Asker:
    """Asks a server over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, Any]:
        """The status of the answer, and the answer."""
        content = None if body is None else json.dumps(body).encode()
        named = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        request = urllib.request.Request(f"{self._url}{path}", content, named, method=method or None)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture(scope="module")
def ask() -> Iterator[Asker]:
    with pumice_up("--nodes", "1") as (endpoint, _):
        found = Asker(endpoint.url)
        assert found("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)[0] == 201
        yield found


def test_the_kinds_are_those_that_are_served(ask: Asker) -> None:
    pages = {"v1": "/api/v1"}
    for group in ask("/apis")[1]["groups"]:
        pages |= {version["groupVersion"]: f"/apis/{version['groupVersion']}" for version in group["versions"]}
    del pages["example.com/v1"]  # our own, above
    served = {
        name: {resource["kind"] for resource in ask(page)[1]["resources"] if "/" not in resource["name"]}
        for name, page in pages.items()
    }
    listed: dict[str, set[str]] = {}
    for groups, kinds in re.findall(r"^\| ((?:core )?`.*?) \| ([A-Z].*?) \|$", API, re.MULTILINE):
        together = re.findall(r"`(.*?)`", groups)
        listed[" ".join(together)] = {*kinds.split(", ")}
    assert {name for names in listed for name in names.split()} == {*served}
    for names, kinds in listed.items():
        assert set().union(*(served[name] for name in names.split())) == kinds, names


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/apis/autoscaling/v2/horizontalpodautoscalers", 404, "autoscalers"),
        ("/apis/storage.k8s.io/v1/volumeattachments", 404, "VolumeAttachments"),
        ("/apis/rbac.authorization.k8s.io/v1/roles", 404, "RBAC objects"),
        ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", 404, "webhooks"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", 404, "API aggregation"),
        ("/apis/events.k8s.io/v1/events", 404, "`events.k8s.io`"),
        (f"{PODS}/x/exec", 400, "`exec`"),
        (f"{PODS}/x/attach", 400, "`attach`"),
        (f"{PODS}/x/portforward", 400, "`port-forward`"),
        (f"{PODS}/x/proxy", 400, "`proxy`"),
        (f"{PODS}/x/ephemeralcontainers", 400, "ephemeral containers"),
        (f"{PODS}/x/resize", 404, "resizing"),
        ("/apis/example.com/v1/namespaces/default/lamps/one/scale", 404, "`scale`"),
        ("/metrics", 404, "`/metrics`"),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", 404, "no tokens"),
    ],
)
def test_what_is_not_served(ask: Asker, path: str, status: int, words: str) -> None:
    assert ask(path)[0] == status
    assert words in API


def test_forms_that_are_refused(ask: Asker) -> None:
    for form in ("application/vnd.kubernetes.protobuf", "application/cbor"):
        assert ask("/api/v1/nodes", Accept=form)[0] == 406
        assert ask("/api/v1/nodes", Accept=f"{form},application/json")[0] == 200
    large = {"metadata": {"name": "large"}, "data": {"a": "x" * content_negotiation.LARGEST_BODY}}
    assert ask("/api/v1/namespaces/default/configmaps", large)[0] == 413
    two = json.loads(json.dumps(DEFINITION).replace("lamp", "lantern").replace("Lamp", "Lantern"))
    two["spec"]["versions"].append({**two["spec"]["versions"][0], "name": "v2", "storage": False})
    two["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    assert ask("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", two)[0] == 422


def test_fields_documented_as_without_effect_are_accepted(ask: Asker) -> None:
    status, lamp = ask("/apis/example.com/v1/namespaces/default/lamps", LAMP)
    assert (status, lamp["spec"]["lit"]) == (201, 7)  # although the rule says less than 3
    assert "managedFields" not in lamp["metadata"]
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    status, who = ask(review, {"apiVersion": "authentication.k8s.io/v1"}, Impersonate_User="bob")
    assert (status, who["status"]["userInfo"]["username"]) == (201, "admin")
