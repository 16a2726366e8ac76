"""Host ports: protocol, address and port, where 0.0.0.0 is every address."""

from __future__ import annotations

import pytest

from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.model.specs import Constraints
from tests.support.clusters import Cluster

EVERY, ONE, TWO = "0.0.0.0", "10.0.0.1", "10.0.0.2"


def wants(*ports: tuple[str, str, int]) -> Constraints:
    return Constraints(ports=ports)


@pytest.mark.parametrize(
    ("used", "wanted", "free"),
    [
        (("TCP", EVERY, 80), ("TCP", EVERY, 80), False),
        (("TCP", EVERY, 80), ("TCP", EVERY, 81), True),
        (("TCP", EVERY, 80), ("UDP", EVERY, 80), True),
        (("TCP", ONE, 80), ("TCP", ONE, 80), False),
        (("TCP", ONE, 80), ("TCP", TWO, 80), True),
        # Every address includes each of them, whichever side has it.
        (("TCP", EVERY, 80), ("TCP", ONE, 80), False),
        (("TCP", ONE, 80), ("TCP", EVERY, 80), False),
    ],
)
def test_a_port_in_use(used, wanted, free):
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a")
    cluster.node("b")
    cluster.pod("user", on="a", constraints=wants(used))
    pod = cluster.pod("p", constraints=wants(wanted))
    assert cluster.allowed(pod) == ({"a", "b"} if free else {"b"})


def test_pod_with_two_ports_needs_node_with_both_free():
    cluster = Cluster(PredicatesPlugin({}))
    for name in "abc":
        cluster.node(name)
    cluster.pod("http", on="a", constraints=wants(("TCP", EVERY, 80)))
    cluster.pod("https", on="b", constraints=wants(("TCP", EVERY, 443)))
    pod = cluster.pod("p", constraints=wants(("TCP", EVERY, 80), ("TCP", EVERY, 443)))
    assert cluster.allowed(pod) == {"c"}


def test_a_port_is_free_again_when_its_last_user_has_left():
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a")
    users = [cluster.pod(f"user{i}", on="a", constraints=wants(("TCP", ip, 80))) for i, ip in enumerate((ONE, TWO))]
    pod = cluster.pod("p", constraints=wants(("TCP", EVERY, 80)))
    assert cluster.allowed(pod) == set()
    cluster.gone(users[0])
    assert cluster.allowed(pod) == set()
    cluster.gone(users[1])
    assert cluster.allowed(pod) == {"a"}


def test_a_pod_without_ports_does_not_mind():
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a")
    cluster.pod("user", on="a", constraints=wants(("TCP", EVERY, 80)))
    assert cluster.allowed(cluster.pod("p")) == {"a"}
