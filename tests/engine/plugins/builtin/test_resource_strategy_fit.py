"""resource-strategy-fit: packed and spread resources averaged by weights, and scarce resources avoided."""

from __future__ import annotations

import pytest

from pumice.engine.plugins.builtin.resource_strategy_fit import ResourceStrategyFitPlugin
from pumice.engine.plugins.plugin import PluginError
from tests.support.clusters import Cluster

GPU, T4 = "nvidia.com/gpu", "nvidia.com/t4"
PACKED = {"type": "MostAllocated", "weight": 2}


def scores(arguments: dict[str, object], asks: dict[str, str | int]) -> dict[str, float]:
    """Node a: half of the cpu in use, 1 of 4 GPUs. Node b: empty, without GPUs. Node c: empty, with GPUs and T4."""
    cluster = Cluster(ResourceStrategyFitPlugin(arguments))
    cluster.node("a", offers={"cpu": 8, "memory": "8Gi", "pods": 10, GPU: 4})
    cluster.node("b", offers={"cpu": 8, "memory": "8Gi", "pods": 10})
    cluster.node("c", offers={"cpu": 8, "memory": "8Gi", "pods": 10, GPU: 4, T4: 1})
    cluster.pod("there", on="a", asks={"cpu": 4, GPU: 1})
    return cluster.scores(cluster.pod("p", asks=asks))


@pytest.mark.parametrize(
    ("arguments", "asks", "expected"),
    [
        # a: idle cpu (8 - 4 - 2) / 8 = 1/4. b and c: 3/4.
        ({}, {"cpu": 2}, {"a": 250.0, "b": 750.0, "c": 750.0}),
        ({"resourceStrategyFitWeight": "1"}, {"cpu": 2}, {"a": 25.0, "b": 75.0, "c": 75.0}),
        ({"resourceStrategyFitWeight": 0}, {"cpu": 2}, {"a": 0.0, "b": 0.0, "c": 0.0}),
        # a: used GPUs (1 + 1) / 4 = 1/2, idle cpu 1/4: (2 * 1/2 + 1 * 1/4) / 3 = 5/12. c: (2 * 1/4 + 3/4) / 3 = 5/12.
        (
            {"resourceStrategyFitWeight": 1, "resources": {GPU: PACKED, "cpu": {"type": "LeastAllocated"}}},
            {"cpu": 2, GPU: 1},
            {"a": 500 / 12, "c": 500 / 12},
        ),
        ({"resourceStrategyFitWeight": 1, "resources": {GPU: PACKED}}, {"cpu": 2, GPU: 1}, {"a": 50.0, "c": 25.0}),
        # Only what is asked for and listed counts.
        ({"resources": {GPU: PACKED}}, {"cpu": 2}, {"a": 0.0, "b": 0.0, "c": 0.0}),
        # b has no scarce resource, a one of two, c both; GPUs weigh three times as much as T4.
        (
            {
                "resources": {GPU: PACKED},
                "sra.policy": "retention",
                "sra.resources": f"{GPU}, {T4}",
                "sra.retention.weight": 2,
                f"sra.retention.{GPU}": 3,
            },
            {"cpu": 2},
            {"a": 50.0, "b": 200.0, "c": 0.0},
        ),
    ],
)
def test_score(arguments, asks, expected):
    assert scores(arguments, asks) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"resourceStrategyFitWeight": -1}, "resourceStrategyFitWeight", "write a number, 0 or more"),
        ({"resources": "cpu"}, "resources", "write a mapping such as"),
        ({"resources": {"cpu": "most"}}, "resources", "resources.cpu is 'most'; write a mapping with type and weight"),
        ({"resources": {"cpu": {"typ": 1}}}, "resources", "resources.cpu.typ is unknown"),
        ({"resources": {"cpu": {"type": "Most"}}}, "resources", "write MostAllocated or LeastAllocated"),
        ({"resources": {"cpu": {"weight": "x"}}}, "resources", "resources.cpu.weight is 'x'"),
        ({"sra.policy": "proportional"}, "sra.policy", "is not part of this version"),
        ({"sra.policy": "keep"}, "sra.policy", "write retention"),
        ({"sra.policy": "retention", "sra.resources": 1}, "sra.resources", "write names with commas between"),
    ],
)
def test_a_bad_argument_is_refused(arguments, argument, message):
    with pytest.raises(PluginError, match=message) as refused:
        ResourceStrategyFitPlugin(arguments)
    assert refused.value.argument == argument
