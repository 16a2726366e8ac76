"""Taking over from Volcano: ours begin only when its pods have ended."""

from __future__ import annotations

from typing import Any

from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.install.volcano_takeover import VolcanoInstallation, stop_volcano, with_default_queue
from pumice.kube.client.sync_client import Listing

DEPLOYMENT = {
    "metadata": {"name": "volcano-scheduler", "namespace": "volcano-system"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "volcano-scheduler"}}},
}


class Ending:
    """A cluster in which two pods take their time."""

    def __init__(self) -> None:
        self.pods = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
        self.scaled: list[dict[str, Any]] = []
        self.waited = 0

    def merge(self, path: str, patch: dict[str, Any]) -> None:
        assert path.endswith("/namespaces/volcano-system/deployments/volcano-scheduler")
        self.scaled.append(patch["spec"])

    def list(self, path: str, query: dict[str, str]) -> Listing:
        assert (path, query) == ("/api/v1/namespaces/volcano-system/pods", {"labelSelector": "app=volcano-scheduler"})
        return Listing([*self.pods], "1")

    def sleep(self, _: float) -> None:
        assert self.scaled == [{"replicas": 0}], "they are told to end before anybody waits for that"
        self.pods.pop()
        self.waited += 1


def test_its_pods_have_ended():
    cluster = Ending()
    said = list(stop_volcano(cluster, VolcanoInstallation((DEPLOYMENT,)), cluster.sleep))  # type: ignore[arg-type]  # as much as it asks for
    assert (cluster.pods, cluster.waited) == ([], 2)
    assert len(said) == 1 and "stopped (it had 2 replicas" in said[0]


def test_a_takeover_names_the_default_queue_of_volcano():
    assert with_default_queue(DEFAULT_CONFIG) == f"{DEFAULT_CONFIG}defaultQueue: default\n"
    assert with_default_queue('actions: "allocate"') == 'actions: "allocate"\ndefaultQueue: default\n'


def test_a_takeover_keeps_the_default_queue_of_the_administrator():
    assert with_default_queue('actions: "allocate"\ndefaultQueue: team\n') is None


def test_a_takeover_leaves_a_configuration_alone_that_a_line_would_break():
    assert with_default_queue('{actions: "allocate"}') is None
    assert with_default_queue("actions: 3x") is None
