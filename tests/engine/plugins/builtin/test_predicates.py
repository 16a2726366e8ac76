"""The plugin as a whole: its switches, its reasons, and what following costs."""

from __future__ import annotations

import pytest

from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import Constraints, PodTerm, Spread, Taint
from tests.support.clusters import Cluster, is_in

DB = (is_in("app", "db"),)

# Each constraint keeps the pod off node a, where a db pod with port 80 runs, and only its switch lets it in.
SWITCHES = {
    "predicate.NodeAffinityEnable": Constraints(node_selector=(("zone", "b"),)),
    "predicate.TaintTolerationEnable": Constraints(),
    "predicate.NodePortsEnable": Constraints(ports=(("TCP", "0.0.0.0", 80),)),
    "predicate.PodAffinityEnable": Constraints(anti_affinity=(PodTerm("zone", DB, None),)),
    "predicate.PodTopologySpreadEnable": Constraints(spread=(Spread("zone", 1, DB),)),
}


def two_nodes(arguments: dict[str, object], tainted: bool) -> Cluster:
    cluster = Cluster(PredicatesPlugin(arguments))
    cluster.node("a", {"zone": "a"}, taints=[Taint("gpu")] if tainted else [])
    cluster.node("b", {"zone": "b"})
    cluster.pod("db", {"app": "db"}, on="a", constraints=Constraints(ports=(("TCP", "0.0.0.0", 80),)))
    return cluster


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("off", [False, "false", "False"])
def test_a_predicate_that_is_switched_off(name, off):
    labels = {"app": "db"}  # so that the spread counts the pod itself
    tainted = name == "predicate.TaintTolerationEnable"
    for arguments, expected in (({}, {"b"}), ({name: True}, {"b"}), ({name: off}, {"a", "b"})):
        cluster = two_nodes(arguments, tainted)
        assert cluster.allowed(cluster.pod("p", labels, constraints=SWITCHES[name])) == expected


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ({"predicate.NodePortsEnable": "maybe"}, "predicate.NodePortsEnable"),
        ({"predicate.NodeAffinityEnable": 1}, "predicate.NodeAffinityEnable"),
        ({"predicate.GPUSharingEnable": None}, "predicate.GPUSharingEnable"),
    ],
)
def test_a_switch_is_true_or_false(arguments, culprit):
    with pytest.raises(PluginError, match=r"write true or false") as caught:
        PredicatesPlugin(arguments)
    assert caught.value.argument == culprit


def test_arguments_without_effect_are_accepted():
    PredicatesPlugin(
        {
            "predicate.GPUSharingEnable": True,
            "predicate.CacheEnable": "true",
            "predicate.ProportionalEnable": False,
            "predicate.resources": "nvidia.com/gpu",
            "predicate.resources.nvidia.com/gpu.cpu": 4,
        }
    )


def test_reasons_name_what_rules_a_node_out_first():
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a", {"zone": "a"}, ready=False, unschedulable=True)
    cluster.node("b", {"zone": "a"}, unschedulable=True)
    cluster.node("c", {"zone": "other"}, taints=[Taint("gpu", "yes")])  # the selector comes first
    cluster.node("d", {"zone": "a"}, taints=[Taint("gpu", "yes"), Taint("old")])
    cluster.node("e", {"zone": "a"}, taints=[Taint("old", "", "NoExecute")])
    cluster.node("f", {"zone": "a"}, offers={"cpu": 2, "memory": "1Gi", "pods": 10})
    cluster.node("g", {"zone": "a"}, offers={"cpu": 2, "memory": "9Gi", "pods": 10})
    cluster.node("h", {"zone": "a"})
    cluster.pod("big", on="h", asks={"cpu": 6})  # 8 - 6 = 2 idle
    pod = cluster.pod(
        "p",
        asks={"cpu": 4, "memory": "2Gi"},
        constraints=Constraints(node_selector=(("zone", "a"),)),
    )
    assert cluster.reasons(pod) == {
        "not ready": 1,
        "cordoned": 1,
        "node selector or node affinity does not match": 1,
        "untolerated taint gpu=yes:NoSchedule": 1,
        "untolerated taint old:NoExecute": 1,
        "insufficient cpu": 2,  # g, h
        "insufficient cpu and memory": 1,  # f
    }


def test_reasons_of_other_pods():
    cluster = Cluster(PredicatesPlugin({}))
    for name in "abcde":
        cluster.node(name, {"zone": name, "all": "1"})
    cluster.pod("port", {"app": "x"}, on="a", constraints=Constraints(ports=(("TCP", "0.0.0.0", 80),)))
    cluster.pod("enemy", {"app": "enemy"}, on="b")
    avoids_web = Constraints(anti_affinity=(PodTerm("zone", (is_in("app", "web"),), None),))
    cluster.pod("loner", on="c", constraints=avoids_web)
    cluster.pod("web", {"app": "web"}, on="d")
    cluster.pod("friend", {"app": "friend"}, on="e")
    pod = cluster.pod(
        "p",
        {"app": "web"},
        constraints=Constraints(
            ports=(("TCP", "0.0.0.0", 80),),
            anti_affinity=(PodTerm("zone", (is_in("app", "enemy"),), None),),
            affinity=(PodTerm("all", (is_in("app", "friend"),), None),),
            spread=(Spread("zone", 1, (is_in("app", "web"),)),),
        ),
    )
    assert cluster.reasons(pod) == {
        "host port already in use": 1,
        "pod anti-affinity not satisfied": 1,
        "anti-affinity of a running pod not satisfied": 1,
        "topology spread constraint not satisfied": 1,  # d: 1 + 1 - 0 = 2 > 1
    }
    assert cluster.allowed(pod) == {"e"}
    elsewhere = cluster.pod("q", constraints=Constraints(affinity=(PodTerm("zone", DB, None),)))
    assert cluster.reasons(elsewhere) == {"pod affinity not satisfied": 5}


def test_following_is_only_written_down_until_somebody_asks():
    cluster = Cluster(PredicatesPlugin({}))
    census = cluster.plugin._census
    cluster.node("a", {"zone": "a"})
    pods = [cluster.pod(f"p{i}", {"app": "db", "index": str(i)}, on="a") for i in range(10)]
    cluster.gone(pods.pop())
    assert cluster.allowed(cluster.pod("plain")) == {"a"}
    assert (len(census._new), len(census._seats)) == (9, 0)
    near = Constraints(affinity=(PodTerm("zone", DB, None),))
    assert cluster.allowed(cluster.pod("asker", constraints=near)) == {"a"}
    # All nine are alike as far as anybody asks: the index is nobody's question.
    assert (len(census._new), len(census._seats), len(census._groups)) == (0, 9, 1)


def test_census_is_empty_after_all_pods_are_deleted():
    cluster = Cluster(PredicatesPlugin({}))
    census = cluster.plugin._census
    cluster.node("a", {"zone": "a"})
    loner = Constraints(anti_affinity=(PodTerm("zone", DB, None),), ports=(("TCP", "0.0.0.0", 80),))
    pods = [cluster.pod(f"p{i}", {"app": "db"}, on="a", constraints=loner) for i in range(2)]
    asker = cluster.pod("asker", {"app": "db"})
    assert cluster.allowed(asker) == set()
    cluster.gone(pods[0])
    assert cluster.allowed(asker) == set()
    cluster.gone(pods[1])
    assert cluster.allowed(asker) == {"a"}
    left = (census._new, census._seats, census._groups, census._groups_with, census._terms_with)
    assert not any(left)
