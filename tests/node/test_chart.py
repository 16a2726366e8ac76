"""The chart in the hands of Helm, on real nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.cluster import NodeCluster
from tests.node.installation import CHECKOUT_IMAGE, COMPONENTS, ENDLESS, HOME, QUEUES, Installation
from tests.node.web_page import viewer, web_page
from tests.support.helm import Helm
from tools.deploy_files import DEPLOY

pytestmark = pytest.mark.node


@pytest.fixture
def helm(real_nodes: NodeCluster, work_folder: Path) -> Helm:
    return Helm(work_folder / "helm", real_nodes.kubeconfig, HOME)


@pytest.fixture
def pumice(real_nodes: NodeCluster, helm: Helm) -> Iterator[Installation]:
    installation = Installation(real_nodes)
    repository, _, tag = CHECKOUT_IMAGE.partition(":")
    values = ("--set", f"image.repository={repository}", "--set", f"image.tag={tag}")
    helm("install", "pumice", str(DEPLOY / "helm" / "pumice"), "--create-namespace", "--wait", *values)
    installation.create_namespace()
    # The controllers make it once one of them leads; Helm waits for their pods only.
    installation.until(lambda: not installation.gone(f"{QUEUES}/default"), "queue default is there")
    yield installation
    installation.remove()


def test_chart_runs_jobs_and_goes(pumice: Installation, helm: Helm) -> None:
    assert pumice.images() == {name: {CHECKOUT_IMAGE} for name in COMPONENTS}
    pumice.submit("gang", ENDLESS, 2)
    pumice.await_running("gang", 2)
    with viewer(pumice, "admin", "cluster-admin", everywhere=True) as token, web_page(pumice) as page:
        page.await_job("gang", token, running=2)
    pumice.clear()
    pumice.command("uninstall")
    helm("uninstall", "pumice", "--wait")
    assert helm("list", "--short") == ""
