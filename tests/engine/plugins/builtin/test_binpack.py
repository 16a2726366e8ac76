"""binpack: the used part after placement, averaged by weights."""

from __future__ import annotations

import pytest

from pumice.engine.plugins.builtin.binpack import BinpackPlugin
from pumice.engine.plugins.plugin import PluginError
from tests.support.clusters import Cluster

GPU = "nvidia.com/gpu"


def scores(arguments: dict[str, object], asks: dict[str, str | int]) -> dict[str, float]:
    """Node a: half of the cpu and a quarter of the memory in use, 1 of 2 GPUs. Node b: empty, without GPUs."""
    cluster = Cluster(BinpackPlugin(arguments))
    cluster.node("a", offers={"cpu": 8, "memory": "8Gi", "pods": 10, GPU: 2})
    cluster.node("b", offers={"cpu": 8, "memory": "8Gi", "pods": 10})
    cluster.pod("there", on="a", asks={"cpu": 4, "memory": "2Gi", GPU: 1})
    return cluster.scores(cluster.pod("p", asks=asks))


@pytest.mark.parametrize(
    ("arguments", "asks", "expected"),
    [
        # a: cpu (4+2)/8 = 3/4, memory (2+2)/8 = 1/2, mean 5/8. b: cpu 1/4, memory 1/4.
        ({}, {"cpu": 2, "memory": "2Gi"}, {"a": 62.5, "b": 25.0}),
        ({"binpack.weight": 10}, {"cpu": 2, "memory": "2Gi"}, {"a": 625.0, "b": 250.0}),
        # a: (3 * 3/4 + 1 * 1/2) / 4 = 11/16
        ({"binpack.cpu": 3}, {"cpu": 2, "memory": "2Gi"}, {"a": 68.75, "b": 25.0}),
        ({"binpack.memory": "0"}, {"cpu": 2, "memory": "2Gi"}, {"a": 75.0, "b": 25.0}),
        # Only what is asked for counts.
        ({}, {"cpu": 2}, {"a": 75.0, "b": 25.0}),
        # A GPU counts only if it is listed: a: cpu 3/4; then GPU (1+1)/2 = 1, (3/4 + 1) / 2 = 7/8;
        # then with weight 3: (3/4 + 3) / 4 = 15/16.
        ({}, {"cpu": 2, GPU: 1}, {"a": 75.0}),
        ({"binpack.resources": GPU}, {"cpu": 2, GPU: 1}, {"a": 87.5}),
        (
            {"binpack.resources": f" example.com/foo, {GPU} ,", f"binpack.resources.{GPU}": 3},
            {"cpu": 2, GPU: 1},
            {"a": 93.75},
        ),
        # Nothing counts, nothing moves.
        ({}, {}, {"a": 0.0, "b": 0.0}),
        ({"binpack.weight": 0}, {"cpu": 2}, {"a": 0.0, "b": 0.0}),
        ({"binpack.cpu": 0}, {"cpu": 2}, {"a": 0.0, "b": 0.0}),
    ],
)
def test_score(arguments, asks, expected):
    assert scores(arguments, asks) == pytest.approx(expected)


def test_resources_that_nobody_has_are_not_registered():
    cluster = Cluster(BinpackPlugin({"binpack.resources": "example.com/foo"}))
    cluster.node("a")
    assert cluster.scores(cluster.pod("p", asks={"cpu": 2})) == {"a": 25.0}
    assert "example.com/foo" not in cluster.state.registry


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ({"binpack.weight": -1}, "binpack.weight"),
        ({"binpack.cpu": "much"}, "binpack.cpu"),
        ({"binpack.memory": True}, "binpack.memory"),
        ({"binpack.memory": "nan"}, "binpack.memory"),
        ({"binpack.weight": 10**400}, "binpack.weight"),
        ({"binpack.resources": [GPU]}, "binpack.resources"),
        ({"binpack.resources": GPU, f"binpack.resources.{GPU}": "x"}, f"binpack.resources.{GPU}"),
    ],
)
def test_arguments_that_make_no_sense(arguments, culprit):
    with pytest.raises(PluginError, match=culprit) as caught:
        BinpackPlugin(arguments)
    assert caught.value.argument == culprit
