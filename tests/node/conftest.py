"""One cluster of real nodes for all tests of this folder, with the images that they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import cluster, previous_release
from tests.node import work_folder as folders
from tests.node.cluster import NODES, PAUSE_IMAGE, NodeCluster, node_cluster
from tests.node.images import ROOT, program_image, pumice_image, write_archive, write_base
from tests.node.installation import CHECKOUT_IMAGE
from tests.node.namespaces import end_all_machines
from tools import node_binaries


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """End the cluster of a run that was interrupted. After others its fixtures have done so."""
    end_all_machines()


@pytest.fixture(scope="session")
def work_folder() -> Iterator[Path]:
    """A folder for the cluster and its images."""
    with folders.work_folder(len(NODES)) as folder:
        yield folder


@pytest.fixture(scope="session")
def previous(work_folder: Path) -> previous_release.Source | str:
    """The source of the previous release, or why there is none."""
    return previous_release.unpack(work_folder / "previous")


@pytest.fixture(scope="session")
def real_nodes(work_folder: Path, previous: previous_release.Source | str) -> Iterator[NodeCluster]:
    """The cluster; a skip where none can be started, and a failure where one must be."""
    if reason := cluster.unavailable():
        assert os.environ.get("PUMICE_TEST_NODE") != "1", reason
        pytest.skip(reason)
    base = write_base(work_folder / "base.tar")
    images = [
        program_image(PAUSE_IMAGE, node_binaries.folder() / node_binaries.PAUSE, work_folder / "pause.tar"),
        pumice_image(CHECKOUT_IMAGE, ROOT, base, work_folder / "checkout"),
    ]
    if isinstance(previous, previous_release.Source):
        images.append(pumice_image(previous_release.IMAGE, previous.folder, base, work_folder / "previous-image"))
    archive = write_archive(work_folder / "images.tar", images)
    folder = work_folder / "cluster"
    folder.mkdir()
    with node_cluster(folder, archive) as running:
        yield running
