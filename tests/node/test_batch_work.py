"""Jobs in real containers, with Pumice installed by ``pumice install``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.cluster import NodeCluster
from tests.node.installation import CHECKOUT_IMAGE, COMPONENTS, Installation

pytestmark = pytest.mark.node
CONFIGURATION = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}, {name: overcommit}]
configurations:
- {name: reclaim, arguments: {reclaim.patience: 1, reclaim.minRuntime: 1}}
"""


@pytest.fixture(scope="module")
def installation(real_nodes: NodeCluster, work_folder: Path) -> Iterator[Installation]:
    installation = Installation(real_nodes)
    configuration = work_folder / "scheduler.yaml"
    configuration.write_text(CONFIGURATION)
    installation.command("install", "--image", CHECKOUT_IMAGE, "--config", str(configuration), "--wait", "150")
    installation.create_namespace()
    yield installation
    installation.remove()


@pytest.fixture
def pumice(installation: Installation) -> Iterator[Installation]:
    yield installation
    installation.clear()


def test_install_runs_the_image_of_the_checkout(pumice: Installation) -> None:
    assert pumice.images() == {name: {CHECKOUT_IMAGE} for name in COMPONENTS}


def test_job_runs_in_a_container_and_completes(pumice: Installation) -> None:
    pumice.submit("hello", "print('hello from a container')")
    assert pumice.await_phase("hello", "Completed")["succeeded"] == 1
    assert pumice.kubectl("logs", "hello-task-0") == "hello from a container\n"
