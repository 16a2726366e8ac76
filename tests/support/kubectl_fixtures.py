"""The clusters that kubectl is tried on: each test on the embedded server, and on a real one by ``make test-kube``.

A module says in a fixture ``kubeconfig`` what cluster it needs; every test then works in a namespace of its own there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import Namespace, run
from tests.support.kubectl_clusters import Clusters, Embedded, Real, real_clusters
from tests.support.shell_pages import need_kubectl


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_clusters(tmp_path_factory.mktemp("kubernetes")) as found:
        yield found


@pytest.fixture(scope="module", params=["embedded", pytest.param("kubernetes", marks=pytest.mark.kube)])
def clusters(request: pytest.FixtureRequest) -> Clusters:
    need_kubectl()
    if request.param == "embedded":
        return Embedded()
    found: Real = request.getfixturevalue("real")
    return found


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Namespace:
    about = request.node.name.removeprefix("test_").replace("_", "-").split("[")[0]
    status, said = run(kubeconfig, "create", "namespace", name := about[:60].strip("-"))
    assert status == 0, said
    return Namespace(kubeconfig, name)
