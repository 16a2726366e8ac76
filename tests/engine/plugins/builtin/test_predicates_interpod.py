"""Pod affinity and anti-affinity over zones: a1 and a2 are in zone a, b1 in zone b, x has no zone."""

from __future__ import annotations

import pytest

from kubebase.label_selector import Requirement
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.model.specs import Constraints, PodTerm, TaskStatus
from tests.support.clusters import Cluster, is_in

ALL = {"a1", "a2", "b1", "x"}
ZONED = {"a1", "a2", "b1"}


@pytest.fixture
def cluster():
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a1", {"zone": "a", "host": "a1"})
    cluster.node("a2", {"zone": "a", "host": "a2"})
    cluster.node("b1", {"zone": "b", "host": "b1"})
    cluster.node("x", {"host": "x"})
    return cluster


def near(*apps: str, key: str = "zone", namespaces: tuple[str, ...] | None = ("default",)) -> Constraints:
    return Constraints(affinity=tuple(PodTerm(key, (is_in("app", app),), namespaces) for app in apps))


def away(*apps: str, key: str = "zone", namespaces: tuple[str, ...] | None = ("default",)) -> Constraints:
    return Constraints(anti_affinity=tuple(PodTerm(key, (is_in("app", app),), namespaces) for app in apps))


# ---- affinity ------------------------------------------------------------------------------------------------


def test_affinity_wants_the_domain_of_the_company(cluster):
    cluster.pod("db", {"app": "db"}, on="a1")
    assert cluster.allowed(cluster.pod("p", constraints=near("db"))) == {"a1", "a2"}


def test_affinity_finds_nobody(cluster):
    cluster.pod("web", {"app": "web"}, on="a1")
    assert cluster.allowed(cluster.pod("p", constraints=near("db"))) == set()


def test_company_counts_only_in_the_namespaces_of_the_term(cluster):
    cluster.pod("db", {"app": "db"}, on="a1", namespace="prod")
    assert cluster.allowed(cluster.pod("p", constraints=near("db"))) == set()
    assert cluster.allowed(cluster.pod("q", constraints=near("db", namespaces=("prod",)))) == {"a1", "a2"}
    assert cluster.allowed(cluster.pod("r", constraints=near("db", namespaces=None))) == {"a1", "a2"}


def test_the_first_of_a_set_may_go_wherever_the_key_is(cluster):
    pod = cluster.pod("p", {"app": "db"}, constraints=near("db"))
    assert cluster.allowed(pod) == ZONED


def test_the_second_follows_the_first(cluster):
    first = cluster.pod("p1", {"app": "db"}, constraints=near("db"), on="b1")
    second = cluster.pod("p2", {"app": "db"}, constraints=near("db"))
    assert cluster.allowed(second) == {"b1"}
    cluster.gone(first)
    assert cluster.allowed(second) == ZONED


def test_company_on_a_node_without_the_key_is_no_company(cluster):
    # Nobody counts in any zone, so the pod is the first of its set.
    cluster.pod("p1", {"app": "db"}, on="x")
    assert cluster.allowed(cluster.pod("p2", {"app": "db"}, constraints=near("db"))) == ZONED


def test_several_terms_want_company_that_all_of_them_select(cluster):
    both = Constraints(
        affinity=(
            PodTerm("zone", (is_in("app", "db"),), None),
            PodTerm("host", (is_in("tier", "hot"),), None),
        )
    )
    cluster.pod("db", {"app": "db"}, on="a1")
    cluster.pod("hot", {"tier": "hot"}, on="a2")
    pod = cluster.pod("p", constraints=both)
    assert cluster.allowed(pod) == set()  # one pod of each is not one pod of both
    cluster.pod("hotdb", {"app": "db", "tier": "hot"}, on="a2")
    assert cluster.allowed(pod) == {"a2"}  # its zone is a, its host is a2


def test_a_pod_that_is_being_deleted_is_still_company(cluster):
    cluster.pod("db", {"app": "db"}, on="a1", status=TaskStatus.RELEASING)
    assert cluster.allowed(cluster.pod("p", constraints=near("db"))) == {"a1", "a2"}


def test_a_pod_on_a_node_nobody_describes_is_nowhere_until_somebody_does(cluster):
    cluster.pod("db", {"app": "db"}, on="b2")
    pod = cluster.pod("p", constraints=near("db"))
    assert cluster.allowed(pod) == set()
    cluster.node("b2", {"zone": "b"})
    assert cluster.allowed(pod) == {"b1", "b2"}


# ---- anti-affinity ----------------------------------------------------------------------------------------------


def test_anti_affinity_avoids_the_domain(cluster):
    cluster.pod("db", {"app": "db"}, on="a1")
    # x has no zone, so nothing there is near anything.
    assert cluster.allowed(cluster.pod("p", constraints=away("db"))) == {"b1", "x"}
    assert cluster.allowed(cluster.pod("q", constraints=away("db", key="host"))) == ALL - {"a1"}


def test_each_term_avoids_for_itself(cluster):
    cluster.pod("db", {"app": "db"}, on="a1")
    cluster.pod("web", {"app": "web"}, on="b1")
    assert cluster.allowed(cluster.pod("p", constraints=away("db", "web"))) == {"x"}


def test_self_anti_affinity_allows_one_pod_per_domain(cluster):
    constraints = away("db")
    pods = [cluster.pod("p0", {"app": "db"}, constraints=constraints)]
    assert cluster.allowed(pods[0]) == ALL
    cluster.pod("p0", {"app": "db"}, constraints=constraints, on="a2")
    assert cluster.allowed(cluster.pod("p1", {"app": "db"}, constraints=constraints)) == {"b1", "x"}


def test_anti_affinity_of_running_pod_repels_selected_pods(cluster):
    cluster.pod("loner", constraints=away("web"), on="a1")
    assert cluster.allowed(cluster.pod("p", {"app": "web"})) == {"b1", "x"}
    assert cluster.allowed(cluster.pod("q", {"app": "db"})) == ALL
    assert cluster.allowed(cluster.pod("r", {"app": "web"}, namespace="prod")) == ALL


def test_a_loner_that_arrives_later_keeps_away_who_already_waits(cluster):
    waiting = cluster.pod("p", {"app": "web"})
    assert cluster.allowed(waiting) == ALL
    loner = cluster.pod("loner", constraints=away("web"), on="a1")
    assert cluster.allowed(waiting) == {"b1", "x"}
    cluster.gone(loner)
    assert cluster.allowed(waiting) == ALL


def test_a_loner_that_avoids_by_something_else_than_a_value(cluster):
    term = PodTerm("zone", (Requirement("app", "Exists"),), None)
    cluster.pod("loner", constraints=Constraints(anti_affinity=(term,)), on="b1")
    assert cluster.allowed(cluster.pod("p", {"app": "web"})) == {"a1", "a2", "x"}
    assert cluster.allowed(cluster.pod("q")) == ALL


def test_a_second_loner_is_noticed(cluster):
    cluster.pod("loner1", constraints=away("web"), on="a1")
    waiting = cluster.pod("p", {"app": "web"})
    assert cluster.allowed(waiting) == {"b1", "x"}
    cluster.pod("loner2", constraints=away("web", key="host"), on="b1")
    assert cluster.allowed(waiting) == {"x"}


def test_a_selector_that_is_missing_selects_nobody_an_empty_one_everybody(cluster):
    cluster.pod("db", {"app": "db"}, on="a1")
    nobody = Constraints(anti_affinity=(PodTerm("zone", None, None),))
    everybody = Constraints(anti_affinity=(PodTerm("zone", (), None),))
    assert cluster.allowed(cluster.pod("p", constraints=nobody)) == ALL
    assert cluster.allowed(cluster.pod("q", constraints=everybody)) == {"b1", "x"}


def test_a_question_about_a_label_nobody_asked_for_before(cluster):
    # The groups are told apart by app alone until the second pod asks for tier.
    cluster.pod("hot", {"app": "db", "tier": "hot"}, on="a1")
    cluster.pod("cold", {"app": "db", "tier": "cold"}, on="b1", status=TaskStatus.RELEASING)
    assert cluster.allowed(cluster.pod("p", constraints=near("db"))) == ZONED
    term = PodTerm("zone", (is_in("tier", "hot"),), None)
    assert cluster.allowed(cluster.pod("q", constraints=Constraints(affinity=(term,)))) == {"a1", "a2"}
    cluster.plugin._census.validate()
