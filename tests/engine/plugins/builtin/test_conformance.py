"""Who is never a victim."""

from __future__ import annotations

import pytest

from pumice.engine.plugins.builtin.conformance import ConformancePlugin
from tests.support.clusters import Cluster


@pytest.mark.parametrize(
    ("namespace", "priority_class", "evictable"),
    [
        ("default", None, True),
        ("default", "high", True),
        ("kube-system", None, False),
        ("kube-system-of-mine", None, True),
        ("default", "system-cluster-critical", False),
        ("default", "system-node-critical", False),
    ],
)
def test_evictable(namespace, priority_class, evictable):
    cluster = Cluster(ConformancePlugin({}))
    cluster.node("a")
    task = cluster.pod("p", on="a", namespace=namespace, priority_class=priority_class)
    assert cluster.plugin.evictable(task) is evictable
