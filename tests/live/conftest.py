"""The clusters that live tests run on: each test on the embedded server, and on a real one by ``make test-kube``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.end_to_end import Embedded, World
from tests.support.kubectl import KUBECTL


@pytest.fixture(scope="session")
def _real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from tests.support.real_cluster import real_cluster

    with real_cluster(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture(params=["embedded", pytest.param("kubernetes", marks=pytest.mark.kube)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A cluster of the test's own; the decision log of its scheduler is audited at the end."""
    if KUBECTL is None:
        pytest.skip("kubectl is not there")
    server = Embedded() if request.param == "embedded" else request.getfixturevalue("_real_cluster")
    with ExitStack() as stack:
        made = World(server, tmp_path, stack)
        yield made
    made.audit()
