"""By which configuration ``pumice why`` answers, and what it says of that."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from pumice.cli.why.scheduler_policy import policy_in_force, published_scheduler
from pumice.config.load import default_config, read_config
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES
from tests.cli.command import pumice_command
from tests.support.api_servers import pumice_up

OTHER = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: proportion}]}]\n'


def test_published_configuration_is_used() -> None:
    root = {"metadata": {"name": "root"}, "status": {"scheduler": {"configuration": OTHER, "source": "its.conf"}}}
    rules = policy_in_force(published_scheduler([{"metadata": {"name": "q"}}, root]), None)
    assert rules.config == read_config(OTHER, "its.conf")
    assert (rules.origin, rules.notes) == ("the running scheduler: its.conf", [])


def test_default_is_assumed_without_a_published_configuration() -> None:
    for queues in ([], [{"metadata": {"name": "root"}, "status": {"scheduler": "nonsense"}}]):
        rules = policy_in_force(published_scheduler(queues), None)
        assert rules.config == default_config() and rules.origin == "guessed"
        (note,) = rules.notes
        assert "no scheduler has published its configuration" in note and "assuming the default configuration" in note


def test_default_is_assumed_for_an_unusable_configuration() -> None:
    text = 'actions: "allocate"\ntiers: [{plugins: [{name: made-elsewhere}]}]'
    rules = policy_in_force({"configuration": text, "source": "its.conf"}, None)
    assert rules.config == default_config() and rules.origin == "guessed"
    (note,) = rules.notes
    assert "its.conf:2" in note and "made-elsewhere" in note and "assuming the default configuration" in note


def test_given_configuration_wins_and_a_difference_is_noted() -> None:
    given = read_config(OTHER, "mine.conf")
    assert policy_in_force({}, given).notes == []
    assert policy_in_force({"configuration": OTHER, "source": "its.conf"}, given).notes == []
    rules = policy_in_force({"configuration": DEFAULT_CONFIG, "source": "its.conf"}, given)
    assert rules.config is given
    assert rules.notes == ["explained with mine.conf; the running scheduler uses its.conf, which differs"]


def test_configuration_of_a_running_scheduler_is_used(tmp_path: Path) -> None:
    """Under proportion nobody has a target, so an answer by the default configuration would speak of entitlements."""
    config = tmp_path / "scheduler.conf"
    config.write_text(OTHER)
    options = ("--nodes", "1", "--node-capacity", "cpu=2,memory=8Gi", "--config", str(config))
    with (
        pumice_up(*options, everything=True) as (_, kubeconfig),
        closing(Client(read_kubeconfig(kubeconfig))) as client,
    ):
        spec = {"minMember": 1, "queue": "default"}
        about = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "large"}}
        client.create(POD_GROUPS.path("default"), {**about, "spec": spec})
        for number in range(3):
            client.create(PODS.path("default"), _pod(f"large-{number}", "large"))
        _until(lambda: "scheduler" in (client.get(QUEUES.path("", "root")).get("status") or {}))
        _until(lambda: client.get(POD_GROUPS.path("default", "large")).get("status", {}).get("running") == 2)
        answer = _why(kubeconfig, "large")
        assert answer["rules"] == f"the running scheduler: {config}"
        assert answer["target"] is None and not any("assuming" in note for note in answer["notes"])
        guessed = tmp_path / "other.conf"
        guessed.write_text(DEFAULT_CONFIG)
        assert _why(kubeconfig, "large", "--config", str(guessed))["target"] is not None

        # A queue above that is paused is named, although the leaf shows Paused as well.
        for name, parent in (("org", "root"), ("leaf", "org")):
            queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
            client.create(QUEUES.path(), {**queue, "spec": {"parent": parent}})
        _until(lambda: (client.get(QUEUES.path("", "leaf")).get("status") or {}).get("state") == "Open")
        done = pumice_command("queue", "operate", "org", "--action", "pause", "--kubeconfig", kubeconfig)
        assert done.returncode == 0, done.stderr
        _until(lambda: client.get(QUEUES.path("", "leaf"))["status"]["state"] == "Paused")
        about = {**about, "metadata": {"name": "held"}}
        client.create(POD_GROUPS.path("default"), {**about, "spec": {**spec, "queue": "leaf"}})
        client.create(PODS.path("default"), _pod("held-0", "held"))
        done = pumice_command("why", "held", "--kubeconfig", kubeconfig)
        assert done.stdout.splitlines()[0] == "default/held waits: queue org, an ancestor of its queue, is Paused"


def _pod(name: str, group: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    about = {"name": name, "annotations": {"scheduling.k8s.io/group-name": group}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": {"schedulerName": "pumice", "containers": [container]},
    }


def _why(kubeconfig: Path, *arguments: str) -> dict[str, Any]:
    done = pumice_command("why", *arguments, "-o", "json", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
