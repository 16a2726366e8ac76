"""A pytest fixture, loaded by pytest itself wherever kubesim is installed: ``kube_cluster``.

Override the fixture ``kube_cluster_options`` to choose the arguments of ``Cluster``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubesim import Cluster


@pytest.fixture
def kube_cluster_options() -> dict[str, Any]:
    """The arguments of ``Cluster`` for ``kube_cluster``; none by default."""
    return {}


@pytest.fixture
def kube_cluster(kube_cluster_options: dict[str, Any]) -> Iterator[Cluster]:
    """A cluster for one test: an API server with controllers and one simulated node, in memory."""
    from kubesim import Cluster

    with Cluster(**kube_cluster_options) as cluster:
        yield cluster
