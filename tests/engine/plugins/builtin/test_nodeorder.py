"""nodeorder: each score with its arithmetic."""

from __future__ import annotations

from math import sqrt

import pytest

from pumice.engine.plugins.builtin.nodeorder import NodeOrderPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import Constraints, NodeTerm, Spread, Taint, Toleration
from tests.support.clusters import Cluster, is_in

NOTHING = {f"{name}.weight": 0 for name in ("leastrequested", "balancedresource", "nodeaffinity", "tainttoleration")}
GPU = "nvidia.com/gpu"


def only(name: str, weight: object = 1) -> Cluster:
    return Cluster(NodeOrderPlugin({**NOTHING, "podtopologyspread.weight": 0, f"{name}.weight": weight}))


def two_nodes(cluster: Cluster, asks: dict[str, str | int]) -> dict[str, float]:
    """Scores on a, half of whose cpu is in use, and b, which is empty and has 4 GPUs."""
    cluster.node("a", offers={"cpu": 8, "memory": "8Gi", "pods": 10})
    cluster.node("b", offers={"cpu": 8, "memory": "8Gi", "pods": 10, GPU: 4})
    cluster.pod("there", on="a", asks={"cpu": 4})
    return cluster.scores(cluster.pod("p", asks=asks))


# After cpu 2 and memory 2Gi: a has cpu (8-4-2)/8 = 1/4 and memory 6/8 idle, b 3/4 and 3/4.
ASKS = {"cpu": 2, "memory": "2Gi"}


def test_least_requested():
    # a: 100 * (1/4 + 3/4) / 2; b: 100 * (3/4 + 3/4) / 2
    assert two_nodes(only("leastrequested"), ASKS) == pytest.approx({"a": 50.0, "b": 75.0})


def test_most_requested():
    assert two_nodes(only("mostrequested", "2"), ASKS) == pytest.approx({"a": 100.0, "b": 50.0})


def test_balanced():
    # a: mean 1/2, both 1/4 away from it: 100 * (1 - 1/4); b: no difference
    assert two_nodes(only("balancedresource"), ASKS) == pytest.approx({"a": 75.0, "b": 100.0})


def test_balanced_with_an_extended_resource():
    # b: cpu 3/4, memory 3/4, 1 of 4 GPUs 3/4 idle: even. With 4 GPUs 0 idle: mean 1/2,
    # variance (1/16 + 1/16 + 1/4) / 3 = 1/8
    assert two_nodes(only("balancedresource"), {**ASKS, GPU: 1}) == pytest.approx({"b": 100.0})
    assert two_nodes(only("balancedresource"), {**ASKS, GPU: 4}) == pytest.approx({"b": 100 * (1 - sqrt(1 / 8))})


def test_default_score_is_sum_of_least_requested_and_balanced():
    cluster = Cluster(NodeOrderPlugin({}))
    assert two_nodes(cluster, ASKS) == pytest.approx({"a": 50.0 + 75.0, "b": 75.0 + 100.0})


def test_preferred_node_affinity():
    cluster = only("nodeaffinity")
    cluster.node("a", {"disk": "ssd", "zone": "1"})
    cluster.node("b", {"disk": "ssd"})
    cluster.node("c", {"zone": "1"})
    cluster.node("d")
    preferred = (
        NodeTerm((is_in("disk", "ssd"),), weight=30),
        NodeTerm((is_in("zone", "1"),), weight=10),
        NodeTerm(weight=50),  # says nothing, picks nobody
    )
    pod = cluster.pod("p", constraints=Constraints(node_preferred=preferred))
    # 40, 30, 10 and 0 on a scale that ends at 40
    assert cluster.scores(pod) == pytest.approx({"a": 100.0, "b": 75.0, "c": 25.0, "d": 0.0})


def test_preferred_node_affinity_that_no_node_meets():
    cluster = only("nodeaffinity")
    cluster.node("a")
    preferred = (NodeTerm((is_in("disk", "ssd"),), weight=30),)
    assert cluster.scores(cluster.pod("p", constraints=Constraints(node_preferred=preferred))) == {"a": 0.0}


def test_taints_that_are_better_avoided():
    soft = [Taint(key, effect="PreferNoSchedule") for key in ("old", "slow", "gpu")]
    cluster = only("tainttoleration", 3)
    cluster.node("a")
    cluster.node("b", taints=soft[:1])
    cluster.node("c", taints=soft[:2])
    cluster.node("d", taints=[*soft[2:], Taint("hard")])  # hard ones are not counted here
    # untolerated: 0, 1, 2, 1 of at most 2: 3 * 100 * (1 - count / 2)
    assert cluster.scores(cluster.pod("p")) == pytest.approx({"a": 300.0, "b": 150.0, "c": 0.0, "d": 150.0})
    # with gpu tolerated: 0, 1, 2, 0; a toleration of another effect does not help
    tolerations = (Toleration("gpu", "Exists"), Toleration("slow", "Exists", effect="NoSchedule"))
    pod = cluster.pod("q", constraints=Constraints(tolerations=tolerations))
    assert cluster.scores(pod) == pytest.approx({"a": 300.0, "b": 150.0, "c": 0.0, "d": 300.0})


def test_hard_taint_does_not_change_taint_toleration_score():
    cluster = only("tainttoleration")
    cluster.node("a", taints=[Taint("hard")])
    cluster.node("b")
    scores = cluster.scores(cluster.pod("p"))
    assert scores["a"] == scores["b"]


def spread_pod(cluster: Cluster, *keys: str):
    web = (is_in("app", "web"),)
    spread = tuple(Spread(key, 1, web, hard=False) for key in keys)
    return cluster.pod("p", {"app": "web"}, constraints=Constraints(spread=spread))


def test_topology_spread():
    cluster = only("podtopologyspread", 2)
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")):
        cluster.node(name, {"zone": zone, "host": name})
    cluster.node("x", {"host": "x"})
    pod = spread_pod(cluster, "zone")
    # Nobody yet: 100 in every zone, nothing without one.
    assert cluster.scores(pod) == {"a1": 200.0, "a2": 200.0, "b1": 200.0, "c1": 200.0, "x": 0.0}
    webs = [cluster.pod(f"web{i}", {"app": "web"}, on=node) for i, node in enumerate(["a1", "a2", "b1"])]
    cluster.pod("db", {"app": "db"}, on="c1")
    # a: 2 of at most 2, b: 1 of 2, c: 0 of 2
    assert cluster.scores(pod) == {"a1": 0.0, "a2": 0.0, "b1": 100.0, "c1": 200.0, "x": 0.0}
    cluster.gone(webs[0])
    assert cluster.scores(pod) == {"a1": 0.0, "a2": 0.0, "b1": 0.0, "c1": 200.0, "x": 0.0}


def test_topology_spread_over_two_keys():
    cluster = only("podtopologyspread")
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        cluster.node(name, {"zone": zone, "host": name})
    cluster.pod("web", {"app": "web"}, on="a1")
    # zone: 0, 0, 100; host: 0, 100, 100; on average
    assert cluster.scores(spread_pod(cluster, "zone", "host")) == {"a1": 0.0, "a2": 50.0, "b1": 100.0}


def test_topology_spread_follows_nodes_that_change():
    cluster = only("podtopologyspread")
    cluster.node("a", {"zone": "a"})
    cluster.node("b", {"zone": "b"})
    cluster.pod("web", {"app": "web"}, on="a")
    pod = spread_pod(cluster, "zone")
    assert cluster.scores(pod) == {"a": 0.0, "b": 100.0}
    cluster.node("b", {"zone": "a"})
    assert cluster.scores(pod) == {"a": 0.0, "b": 0.0}


@pytest.mark.parametrize(
    "name",
    [
        "leastrequested",
        "mostrequested",
        "balancedresource",
        "nodeaffinity",
        "tainttoleration",
        "podaffinity",
        "podtopologyspread",
        "imagelocality",
        "selectorspread",
        "volumeBinding",
    ],
)
def test_weights_are_numbers_from_0_up(name):
    for value in (0, 3, 2.5, "7"):
        NodeOrderPlugin({f"{name}.weight": value})
    for value in (-1, "-1", "heavy", None, True, float("inf"), float("nan")):
        with pytest.raises(PluginError, match=f"{name}.weight is .*; write a number, 0 or more") as caught:
            NodeOrderPlugin({f"{name}.weight": value})
        assert caught.value.argument == f"{name}.weight"
