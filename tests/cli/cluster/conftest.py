"""One cluster for all tests of a module; each test uses names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.kube.client.sync_client import Client
from tests.cli.cluster.calls import Caller
from tests.support.bare_cluster import bare_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    with bare_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def client(cluster: tuple[Client, Path]) -> Client:
    return cluster[0]


@pytest.fixture
def kubeconfig(cluster: tuple[Client, Path]) -> Path:
    return cluster[1]


@pytest.fixture
def call(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(kubeconfig, monkeypatch)
