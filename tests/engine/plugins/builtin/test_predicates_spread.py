"""Topology spread that must hold, over zones: a1 and a2 in zone a, b1 in zone b, c1 in zone c, x in none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.model.specs import Constraints, Spread, Taint, TaskStatus, Toleration
from tests.support.clusters import Cluster, is_in

A, B, C = {"a1", "a2"}, {"b1"}, {"c1"}
EVEN = Spread("zone", 1, (is_in("app", "web"),))


@pytest.fixture
def cluster():
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a1", {"zone": "a", "disk": "ssd"})
    cluster.node("a2", {"zone": "a", "disk": "ssd"})
    cluster.node("b1", {"zone": "b", "disk": "ssd"})
    cluster.node("c1", {"zone": "c"})
    cluster.node("x", {"disk": "ssd"})
    return cluster


def webs(cluster: Cluster, *nodes: str, **rest: object) -> None:
    for node in nodes:
        count = len(cluster.state.tasks)
        cluster.pod(f"web{count}", {"app": "web"}, on=node, **rest)


def allowed(cluster: Cluster, *spreads: Spread, app: str = "web", **rest: object) -> set[str]:
    name = f"asker{len(cluster.state.tasks)}"
    return cluster.allowed(cluster.pod(name, {"app": app}, constraints=Constraints(spread=spreads, **rest)))


def test_an_empty_cluster_takes_it_anywhere_that_has_the_key(cluster):
    # 0 there + 1 itself - 0 the least = 1 <= 1
    assert allowed(cluster, EVEN) == A | B | C


def test_spread_allows_only_domains_with_fewest_pods(cluster):
    webs(cluster, "a1", "b1")
    # a: 1 + 1 - 0 = 2 > 1; b the same; c: 0 + 1 - 0 = 1
    assert allowed(cluster, EVEN) == C
    webs(cluster, "c1")
    # everywhere 1 + 1 - 1 = 1
    assert allowed(cluster, EVEN) == A | B | C


def test_a_domain_counts_as_a_whole(cluster):
    webs(cluster, "a1", "a2", "b1", "c1")
    # a: 2 + 1 - 1 = 2 > 1, on a1 and on a2
    assert allowed(cluster, EVEN) == B | C


def test_a_larger_skew(cluster):
    webs(cluster, "a1", "a2", "b1")
    # a: 2 + 1 - 0 = 3 > 2; b: 1 + 1 - 0 = 2; c: 0 + 1 - 0 = 1
    assert allowed(cluster, replace(EVEN, max_skew=2)) == B | C


def test_a_pod_that_its_own_selector_does_not_pick_adds_nothing(cluster):
    webs(cluster, "a1")
    # a: 1 + 0 - 0 = 1 <= 1
    assert allowed(cluster, EVEN, app="db") == A | B | C


def test_other_pods_and_other_namespaces_do_not_count(cluster):
    webs(cluster, "a1", namespace="prod")
    cluster.pod("db", {"app": "db"}, on="b1")
    assert allowed(cluster, EVEN) == A | B | C


def test_pods_that_are_being_deleted_do_not_count(cluster):
    webs(cluster, "a1", status=TaskStatus.RELEASING)
    assert allowed(cluster, EVEN) == A | B | C
    webs(cluster, "b1")
    assert allowed(cluster, EVEN) == A | C


def test_a_pod_that_starts_being_deleted_stops_counting(cluster):
    running = cluster.pod("web", {"app": "web"}, on="a1")
    assert allowed(cluster, EVEN) == B | C
    leaving = cluster.pod("web", {"app": "web"}, on="a1", status=TaskStatus.RELEASING)
    assert leaving is not running
    assert allowed(cluster, EVEN) == A | B | C
    # A question about another label sorts the pods anew; who is leaving stays so.
    allowed(cluster, replace(EVEN, selector=(is_in("tier", "hot"),)))
    cluster.plugin._census.validate()
    assert allowed(cluster, EVEN) == A | B | C


def test_too_few_domains(cluster):
    webs(cluster, "a1", "b1", "c1")
    # 3 zones are not 4: the least counts as 0, and everywhere 1 + 1 - 0 = 2 > 1
    assert allowed(cluster, replace(EVEN, min_domains=4)) == set()
    assert allowed(cluster, replace(EVEN, min_domains=3)) == A | B | C


SSD = {"node_selector": (("disk", "ssd"),)}


def test_domains_where_the_pod_may_not_run_do_not_hold_it_back(cluster):
    webs(cluster, "a1", "b1")
    # Zone c has no ssd. With the policy Honor it does not count: the least is 1, and 1 + 1 - 1 = 1 in a and b.
    assert allowed(cluster, EVEN, **SSD) == A | B
    # With Ignore it does: the least is 0 in c, where it can't go; a and b have 1 + 1 - 0 = 2 > 1.
    assert allowed(cluster, replace(EVEN, honor_affinity=False), **SSD) == set()


def test_pods_on_nodes_that_do_not_count_do_not_count(cluster):
    cluster.node("a3", {"zone": "a"})  # no ssd
    webs(cluster, "a3")
    # Honor: nobody is counted in a; 0 + 1 - 0 = 1 everywhere (c1 and a3 fail the selector itself).
    assert allowed(cluster, EVEN, **SSD) == A | B
    # Ignore: a has 1 + 1 - 0 = 2 > 1.
    assert allowed(cluster, replace(EVEN, honor_affinity=False), **SSD) == B


def test_tainted_domains_count_unless_the_policy_says_no(cluster):
    webs(cluster, "a1", "b1")
    cluster.node("c1", {"zone": "c"}, taints=[Taint("gpu")])
    # Ignore (as it is by default): c has 0, so a and b have 1 + 1 - 0 = 2 > 1, and c is tainted.
    assert allowed(cluster, EVEN) == set()
    # Honor: c is no domain, the least is 1, and 1 + 1 - 1 = 1.
    assert allowed(cluster, replace(EVEN, honor_taints=True)) == A | B
    # Honor, but tolerated: c is a domain again, and the only one with room.
    tolerant = {"tolerations": (Toleration("gpu", "Exists"),)}
    assert allowed(cluster, replace(EVEN, honor_taints=True), **tolerant) == C


def test_a_node_must_have_the_keys_of_all_constraints(cluster):
    by_disk = replace(EVEN, topology_key="disk", max_skew=5)
    webs(cluster, "a1", "b1")
    # c1 has no disk, so it is no candidate and zone c no domain: the least is 1, and 1 + 1 - 1 = 1 in a and b.
    # x has a disk but no zone. Disk ssd has 2 + 1 - 2 = 1 <= 5.
    assert allowed(cluster, EVEN, by_disk) == A | B


def test_a_constraint_that_only_should_hold_forbids_nothing(cluster):
    webs(cluster, "a1", "a1")
    assert allowed(cluster, replace(EVEN, hard=False)) == A | B | C | {"x"}
    # Nor does its key decide which nodes count for the one that must hold.
    assert allowed(cluster, EVEN, replace(EVEN, topology_key="disk", hard=False)) == B | C
