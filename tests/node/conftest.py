"""One cluster of real nodes for all tests of this folder, with the images that they need."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import cgroups, cluster, previous_release
from tests.node.cluster import PAUSE_IMAGE, NodeCluster, node_cluster
from tests.node.images import ROOT, program_image, pumice_image, write_archive, write_base
from tests.node.installation import CHECKOUT_IMAGE
from tests.node.namespaces import end_all_machines
from tools import node_binaries

MEMORY = Path("/dev/shm")
ROOM = 3 << 30
"""Bytes that are enough for images and nodes."""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """End the cluster of a run that was interrupted. After others its fixtures have done so."""
    end_all_machines()


@pytest.fixture(scope="session")
def work_folder() -> Iterator[Path]:
    """A folder outside of /run, /var/lib and /var/log, of which nodes have their own.

    It is in memory where there is enough: on many disks it takes a minute to delete the files of two nodes.
    """
    in_memory = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM and _available_memory() > 2 * ROOM
    parent = MEMORY if in_memory else Path(tempfile.gettempdir())
    for stale in parent.glob(f"{cgroups.PREFIX}*"):
        if not Path("/proc", stale.name.removeprefix(cgroups.PREFIX)).exists():  # its tests were killed
            shutil.rmtree(stale)
    folder = parent / f"{cgroups.PREFIX}{os.getpid()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def _available_memory() -> int:
    (kibibytes,) = re.findall(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(kibibytes) * 1024


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
