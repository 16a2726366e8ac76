"""From the previous release to the checkout with work in the cluster, and out of the cluster again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node import previous_release
from tests.node.cluster import NODES, SLOTS, NodeCluster
from tests.node.installation import (
    APPS,
    CHECKOUT_IMAGE,
    COMPONENTS,
    CORE,
    ENDLESS,
    HOME,
    PREVIOUS_COMPONENTS,
    WORK,
    Installation,
    names,
    uids,
)
from tests.node.web_page import web_page

pytestmark = pytest.mark.node
ALL = SLOTS * len(NODES)


@pytest.fixture
def upgraded(
    real_nodes: NodeCluster, previous: previous_release.Source | str
) -> Iterator[tuple[Installation, previous_release.Source]]:
    """A cluster, and the source of the release to begin with."""
    if isinstance(previous, str):
        pytest.skip(previous)
    installation = Installation(real_nodes)
    yield installation, previous
    installation.remove()


def test_upgrade_and_uninstall_leave_containers_alone(
    upgraded: tuple[Installation, previous_release.Source],
) -> None:
    pumice, previous = upgraded
    pumice.command("install", "--image", previous_release.IMAGE, "--wait", "150", source=previous.folder)
    assert pumice.images() == {name: {previous_release.IMAGE} for name in PREVIOUS_COMPONENTS}
    pumice.create_namespace()
    pumice.create_queue("team", weight=2)
    pumice.submit("running", ENDLESS, 2, queue="team")
    running = pumice.await_running("running", 2)
    pumice.submit("waiting", ENDLESS, ALL, queue="team")
    pumice.remain_pending("waiting")

    pumice.command("install", "--image", CHECKOUT_IMAGE, "--wait", "150")
    assert pumice.images() == {name: {CHECKOUT_IMAGE} for name in COMPONENTS}
    with web_page(pumice) as page:  # the previous release had none
        assert "<title>Pumice</title>" in page.text("/")
    pumice.remain_pending("waiting")
    assert uids(pumice.running("running")) == uids(running)
    pumice.delete("running")
    waiting = pumice.await_running("waiting", ALL)
    assert pumice.refused() == []

    pumice.uninstall()
    assert pumice.client.list(f"{APPS}/namespaces/{HOME}/deployments").items == []
    assert uids(pumice.running("waiting")) == uids(waiting)
    assert [len(pumice.notes(name, "started")) for name in names(waiting)] == [1] * ALL
    # Without Pumice nothing holds on to what it made: a namespace with jobs in it can be deleted.
    pumice.client.delete(f"{CORE}/namespaces/{WORK}")
    pumice.until(lambda: pumice.gone(f"{CORE}/namespaces/{WORK}"), "the namespace with the jobs is gone")
