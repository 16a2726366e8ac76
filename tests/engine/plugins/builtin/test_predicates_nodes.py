"""Node selectors, node affinity and taints: what the nodes themselves decide."""

from __future__ import annotations

import pytest

from kubebase.label_selector import Requirement
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.model.specs import Constraints, NodeTerm, Taint, Toleration
from tests.support.clusters import Cluster, is_in


@pytest.fixture
def cluster():
    """Four nodes: a and b have a disk label, c has none, d is cordoned."""
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a", {"disk": "ssd", "cores": "16"})
    cluster.node("b", {"disk": "hdd", "cores": "8"})
    cluster.node("c", {"cores": "many"})
    cluster.node("d", {"disk": "ssd"}, unschedulable=True)
    return cluster


def term(*requirements: Requirement, name: Requirement | None = None) -> NodeTerm:
    return NodeTerm(requirements, (name,) if name is not None else ())


@pytest.mark.parametrize(
    ("constraints", "allowed"),
    [
        # Nothing is asked: all nodes that are open.
        (Constraints(), "abc"),
        # The label must be there with that value.
        (Constraints(node_selector=(("disk", "ssd"),)), "a"),
        (Constraints(node_selector=(("disk", "ssd"), ("cores", "8"))), ""),
        # In needs the label, NotIn is content without it.
        (Constraints(node_required=(term(is_in("disk", "ssd", "nvme")),)), "a"),
        (Constraints(node_required=(term(Requirement("disk", "NotIn", ("ssd",))),)), "bc"),
        (Constraints(node_required=(term(Requirement("disk", "Exists")),)), "ab"),
        (Constraints(node_required=(term(Requirement("disk", "DoesNotExist")),)), "c"),
        # 16 > 8; 8 is not; "many" is no number.
        (Constraints(node_required=(term(Requirement("cores", "Gt", ("8",))),)), "a"),
        (Constraints(node_required=(term(Requirement("cores", "Lt", ("9",))),)), "b"),
        # Requirements of a term hold together, of several terms one suffices.
        (Constraints(node_required=(term(is_in("disk", "ssd"), is_in("cores", "8")),)), ""),
        (Constraints(node_required=(term(is_in("disk", "ssd")), term(is_in("cores", "8")))), "ab"),
        # By name, alone or with labels.
        (Constraints(node_required=(term(name=is_in("metadata.name", "b", "d")),)), "b"),
        (Constraints(node_required=(term(name=Requirement("metadata.name", "NotIn", ("b",))),)), "ac"),
        (Constraints(node_required=(term(is_in("disk", "hdd"), name=is_in("metadata.name", "a")),)), ""),
        # Selector and affinity hold together.
        (Constraints(node_selector=(("disk", "hdd"),), node_required=(term(is_in("cores", "16")),)), ""),
        # A term that says nothing picks nothing; so do no terms at all.
        (Constraints(node_required=(NodeTerm(),)), ""),
        (Constraints(node_required=()), ""),
    ],
)
def test_selection(cluster, constraints, allowed):
    assert cluster.allowed(cluster.pod("p", constraints=constraints)) == set(allowed)


def test_a_node_that_changes_its_labels_is_selected_anew(cluster):
    pod = cluster.pod("p", constraints=Constraints(node_selector=(("disk", "ssd"),)))
    assert cluster.allowed(pod) == {"a"}
    cluster.node("b", {"disk": "ssd"})
    assert cluster.allowed(pod) == {"a", "b"}


@pytest.mark.parametrize(
    ("toleration", "allowed"),
    [
        # a: gpu=yes:NoSchedule, b: gpu=yes:NoExecute, c: gpu=yes:PreferNoSchedule, d: old:NoSchedule and a's.
        # PreferNoSchedule keeps nobody off.
        (None, "c"),
        (Toleration("gpu", "Equal", "yes"), "abc"),
        (Toleration("gpu", "Equal", "no"), "c"),
        (Toleration("gpu", "Exists"), "abc"),
        (Toleration("gpu", "Exists", effect="NoSchedule"), "ac"),
        (Toleration("gpu", "Equal", "yes", "NoExecute"), "bc"),
        (Toleration("old", "Exists"), "c"),  # d has another taint
        (Toleration("", "Exists"), "abcd"),
        (Toleration("", "Exists", effect="NoSchedule"), "acd"),
        (Toleration("gpu", "Sometimes", "yes"), "c"),  # nobody knows what that means
    ],
)
def test_taints(toleration, allowed):
    cluster = Cluster(PredicatesPlugin({}))
    gpu = Taint("gpu", "yes", "NoSchedule")
    cluster.node("a", taints=[gpu])
    cluster.node("b", taints=[Taint("gpu", "yes", "NoExecute")])
    cluster.node("c", taints=[Taint("gpu", "yes", "PreferNoSchedule")])
    cluster.node("d", taints=[Taint("old", "", "NoSchedule"), gpu])
    constraints = Constraints(tolerations=(toleration,) if toleration is not None else ())
    assert cluster.allowed(cluster.pod("p", constraints=constraints)) == set(allowed)


def test_two_tolerations_cover_two_taints():
    cluster = Cluster(PredicatesPlugin({}))
    cluster.node("a", taints=[Taint("gpu"), Taint("old")])
    both = (Toleration("gpu", "Exists"), Toleration("old", "Exists"))
    assert cluster.allowed(cluster.pod("p", constraints=Constraints(tolerations=both))) == {"a"}
