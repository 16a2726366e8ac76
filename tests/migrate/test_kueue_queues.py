"""Kueue's queues as Queues: amounts, limits, weights, the tree, and what has no equivalent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.input_errors import BadInput
from pumice.migrate.kueue_queues import ConvertedQueues, convert_kueue
from pumice.migrate.report import Severity
from pumice.migrate.source_objects import SourceObjects

Object = dict[str, Any]


def kueue(kind: str, name: str, version: str = "v1beta2", namespace: str = "", **spec: Any) -> Object:
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": about, "spec": spec}


def quotas(*flavors: dict[str, Any]) -> list[Object]:
    """One group whose flavors have these quotas for cpu."""
    named = [{"name": f"flavor-{i}", "resources": [{"name": "cpu", **one}]} for i, one in enumerate(flavors)]
    return [{"coveredResources": ["cpu"], "flavors": named}]


def cluster_queue(name: str, *flavors: dict[str, Any], **spec: Any) -> Object:
    return kueue("ClusterQueue", name, namespaceSelector={}, resourceGroups=quotas(*flavors), **spec)


def converted(*documents: Object) -> ConvertedQueues:
    objects = SourceObjects()
    for one in documents:
        objects.add(one)
    return convert_kueue(objects)


def specs(found: ConvertedQueues) -> dict[str, Object]:
    return {one["metadata"]["name"]: one["spec"] for one in found.objects if one["kind"] == "Queue"}


def lost(found: ConvertedQueues) -> list[str]:
    return [str(finding) for finding in found.report.lost]


def test_a_queue_without_cohort_may_not_exceed_its_quota():
    found = converted(
        kueue("ResourceFlavor", "default-flavor"),
        kueue(
            "ClusterQueue",
            "cluster-queue",
            namespaceSelector={},
            resourceGroups=[
                {
                    "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                    "flavors": [
                        {
                            "name": "default-flavor",
                            "resources": [
                                {"name": "cpu", "nominalQuota": 9},
                                {"name": "memory", "nominalQuota": "36Gi"},
                                {"name": "nvidia.com/gpu", "nominalQuota": 9},
                            ],
                        }
                    ],
                }
            ],
        ),
        kueue("LocalQueue", "user-queue", namespace="default", clusterQueue="cluster-queue"),
    )
    amounts = {"cpu": "9", "memory": "36Gi", "nvidia.com/gpu": "9"}
    assert specs(found) == {
        "cluster-queue": {"parent": "root", "weight": 1, "deserved": amounts, "capability": amounts}
    }
    (namespace,) = [one for one in found.objects if one["kind"] == "Namespace"]
    assert namespace["metadata"] == {"name": "default", "annotations": {"volcano.sh/queue-name": "cluster-queue"}}
    assert lost(found) == []


def test_a_cohort_without_object_bounds_what_its_queues_may_borrow():
    found = specs(
        converted(
            cluster_queue("a", {"nominalQuota": 9, "borrowingLimit": 1}, cohortName="team"),
            cluster_queue("b", {"nominalQuota": 12, "lendingLimit": 5}, cohortName="team"),
        )
    )
    assert found["team"] == {"parent": "root", "weight": 1, "deserved": {"cpu": "21"}, "capability": {"cpu": "21"}}
    assert found["a"] == {"parent": "team", "weight": 1, "deserved": {"cpu": "9"}, "capability": {"cpu": "10"}}
    assert found["b"] == {
        "parent": "team",
        "weight": 1,
        "deserved": {"cpu": "12"},
        "guarantee": {"resource": {"cpu": "7"}},
    }


def test_a_cohort_keeps_at_least_what_the_queues_below_it_keep():
    # The cohort would keep 12 - 10 = 2 cpu, but its queue never lends its 12.
    cohort = kueue("Cohort", "team", parentName="all", resourceGroups=quotas({"nominalQuota": 0, "lendingLimit": 10}))
    found = converted(cohort, cluster_queue("a", {"nominalQuota": 12, "lendingLimit": 0}, cohortName="team"))
    assert specs(found)["team"]["guarantee"] == specs(found)["a"]["guarantee"] == {"resource": {"cpu": "12"}}
    assert lost(found) == []


def test_borrowing_beyond_the_cohort_is_cut_to_the_cohort():
    found = specs(
        converted(
            cluster_queue("a", {"nominalQuota": 3, "borrowingLimit": 100}, cohortName="team"),
            cluster_queue("b", {"nominalQuota": 4}, cohortName="team"),
        )
    )
    assert "capability" not in found["a"], "the parent's 7 bound it"


def test_old_names_of_fields_are_read():
    old = kueue("ClusterQueue", "a", "v1beta1", namespaceSelector={}, cohort="b", resourceGroups=quotas())
    assert [
        one["metadata"]["name"] for one in converted(old, kueue("Cohort", "b", "v1alpha1", parent="c")).objects
    ] == [
        "c",
        "b",
        "a",
    ]


def test_flavors_are_added_up_and_a_flavor_without_limit_leaves_none():
    both = converted(
        cluster_queue("a", {"nominalQuota": 4, "borrowingLimit": 1}, {"nominalQuota": 5}, cohortName="t"),
        cluster_queue("b", {"nominalQuota": 50}, cohortName="t"),
    )
    assert specs(both)["a"] == {"parent": "t", "weight": 1, "deserved": {"cpu": "9"}}
    assert [line for line in lost(both) if line.startswith("ClusterQueue a: the quotas of several flavors")]


def test_names_that_clash_get_a_suffix():
    found = specs(
        converted(cluster_queue("x", {"nominalQuota": 1}, cohortName="x"), kueue("Cohort", "root", parentName="x"))
    )
    assert {name: spec["parent"] for name, spec in found.items()} == {
        "x-cohort": "root",
        "root-cohort": "x-cohort",
        "x": "x-cohort",
    }


@pytest.mark.parametrize(
    ("given_weights", "expected"),
    [(("1", "1"), (1, 1)), (("0.5", "0.75"), (2, 3)), (("500m", 2), (1, 4)), ((2, 4), (1, 2))],
)
def test_weights_become_whole_numbers(given_weights: tuple[Any, Any], expected: tuple[int, int]) -> None:
    queues = [
        cluster_queue(name, {"nominalQuota": 1}, cohortName="t", fairSharing={"weight": weight})
        for name, weight in zip("ab", given_weights, strict=True)
    ]
    found = specs(converted(*queues))
    assert (found["a"]["weight"], found["b"]["weight"]) == expected


def test_a_weight_of_zero_becomes_the_smallest_and_is_reported():
    found = converted(
        cluster_queue("a", {"nominalQuota": 1}, cohortName="t", fairSharing={"weight": 0}),
        cluster_queue("b", {"nominalQuota": 1}, cohortName="t"),
    )
    assert specs(found)["a"]["weight"] == 1
    said = [str(finding) for finding in found.report.of(Severity.DIFFERS)]
    assert "ClusterQueue a: spec.fairSharing.weight: 0 becomes the weight 1; weights are 1 to 65535" in said


def test_strict_fifo_and_stop_policy():
    found = converted(
        cluster_queue("a", {"nominalQuota": 1}, queueingStrategy="StrictFIFO", stopPolicy="Hold"),
        cluster_queue("b", {"nominalQuota": 1}, queueingStrategy="BestEffortFIFO", stopPolicy="None"),
    )
    assert specs(found)["a"]["dequeueStrategy"] == "fifo"
    assert "dequeueStrategy" not in specs(found)["b"]
    stopped = [finding for finding in found.report.of(Severity.DIFFERS) if "stopPolicy" in finding.message]
    assert [finding.objects for finding in stopped] == [["a"]]


def test_local_queues_of_a_namespace():
    found = converted(
        cluster_queue("a", {"nominalQuota": 1}),
        cluster_queue("b", {"nominalQuota": 1}),
        kueue("LocalQueue", "default", namespace="x", clusterQueue="b"),
        kueue("LocalQueue", "other", namespace="x", clusterQueue="a"),
        kueue("LocalQueue", "one", namespace="y", clusterQueue="a"),
        kueue("LocalQueue", "two", namespace="y", clusterQueue="b"),
        kueue("LocalQueue", "gone", namespace="z", clusterQueue="c"),
    )
    annotated = {
        one["metadata"]["name"]: one["metadata"]["annotations"] for one in found.objects if one["kind"] == "Namespace"
    }
    assert annotated == {"x": {"volcano.sh/queue-name": "b"}}
    said = [str(finding) for finding in found.report.of(Severity.DIFFERS)]
    assert "LocalQueue x/other, y/one: is not the default queue of its namespace; its jobs set spec.queue: a" in said
    assert lost(found) == ["LocalQueue z/gone: spec.clusterQueue: Not found: ClusterQueue 'c'"]


def test_features_without_equivalent_are_lost():
    found = converted(
        kueue("ResourceFlavor", "spot", nodeLabels={"type": "spot"}, tolerations=[{"operator": "Exists"}]),
        kueue("AdmissionCheck", "budget", controllerName="x"),
        kueue("WorkloadPriorityClass", "high"),
        kueue("Workload", "job-x", namespace="y"),
        cluster_queue("a", {"nominalQuota": 1}, admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}),
        kueue("ClusterQueue", "b", resourceGroups=quotas({"nominalQuota": 1})),
    )
    assert [line.partition(";")[0] for line in lost(found)] == [
        "AdmissionCheck budget: has no equivalent",
        "WorkloadPriorityClass high: has no equivalent",
        "ClusterQueue a: spec.admissionChecksStrategy: has no equivalent",
        "ResourceFlavor spot: spec.nodeLabels: has no equivalent",
        "ResourceFlavor spot: spec.tolerations: has no equivalent",
        "ClusterQueue b: spec.namespaceSelector: all namespaces may use the Queue",
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            cluster_queue("a", {"nominalQuota": "4x"}),
            "ClusterQueue/a: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: '4x' is not a quantity",
        ),
        (cluster_queue("a", {"nominalQuota": -1}), "is negative"),
        (kueue("ClusterQueue", "a", resourceGroups={}), "ClusterQueue/a: spec.resourceGroups: Invalid value"),
        (kueue("LocalQueue", "a") | {"spec": []}, "LocalQueue/a: spec: Invalid value"),
        (kueue("Cohort", "a", parentName="a"), "Cohort/a: spec.parentName: Cohort 'a' is its own ancestor"),
    ],
)
def test_bad_input_names_object_and_field(wrong: Object, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        converted(wrong)
    assert message in str(refused.value)


amounts = st.integers(0, 20)
limits = st.none() | amounts


@st.composite
def quota(draw: st.DrawFn, *, limited: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"nominalQuota": draw(amounts)}
    for name in ("borrowingLimit", "lendingLimit"):
        value = draw(limits) if limited else None
        if value is not None:
            found[name] = value
    return found


@st.composite
def kueue_trees(draw: st.DrawFn) -> list[Object]:
    """Cohorts, each below an earlier one or a root, and ClusterQueues in them."""
    found: list[Object] = []
    cohorts: list[str] = []
    for i in range(draw(st.integers(0, 4))):
        parent = draw(st.sampled_from(["", *cohorts]))
        spec: dict[str, Any] = {"parentName": parent} if parent else {}
        if draw(st.booleans()):
            spec["resourceGroups"] = quotas(draw(quota(limited=bool(parent))))
        found.append(kueue("Cohort", f"cohort-{i}", **spec))
        cohorts.append(f"cohort-{i}")
    for i in range(draw(st.integers(1, 5))):
        cohort = draw(st.sampled_from(["", *cohorts]))
        weight = draw(st.sampled_from(["1", "0.3", "7", "0"]))
        spec = {"fairSharing": {"weight": weight}, **({"cohortName": cohort} if cohort else {})}
        found.append(cluster_queue(f"queue-{i}", draw(quota(limited=bool(cohort))), **spec))
    return found


@given(kueue_trees())
def test_admission_accepts_every_converted_tree(tree: list[Object]) -> None:
    found = converted(*tree)
    assert [line for line in lost(found) if line.startswith("Queue ")] == []
    assert all(1 <= spec["weight"] <= 65535 for spec in specs(found).values())
