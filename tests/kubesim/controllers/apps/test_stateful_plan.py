"""The order in which pods of a StatefulSet come, go and are replaced."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.clock import Clock
from kubesim.controllers.apps.stateful_plan import StatefulPlan, new_claims, new_pod, ordinal_of, plan_stateful_set
from tests.support.workloads import template

OLD, NEW = "s-old", "s-new"


def stateful_set(
    replicas: int = 3, policy: str = "OrderedReady", *, current: str = OLD, rolling: Any = None, **spec: Any
) -> dict[str, Any]:
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **(rolling or {})}}
    whole = {
        "replicas": replicas,
        "podManagementPolicy": policy,
        "updateStrategy": update,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(),
        "serviceName": "web",
        **spec,
    }
    about = {"name": "s", "namespace": "default", "uid": "u", "generation": 2}
    status = {"currentRevision": current}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": about, "spec": whole, "status": status}


def pod(ordinal: int, revision: str = OLD, *, ready: bool = True, leaving: bool = False, phase: str = "Running") -> Any:
    about: dict[str, Any] = {"name": f"s-{ordinal}", "labels": {"app": "web", "controller-revision-hash": revision}}
    if leaving:
        about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ready_condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"metadata": about, "spec": {}, "status": {"phase": phase, "conditions": [ready_condition]}}


def plan(owner: dict[str, Any], *pods: Any, newest: str = OLD) -> StatefulPlan:
    return plan_stateful_set(owner, list(pods), newest, Clock())


def deleted(planned: StatefulPlan) -> list[str]:
    return [gone["metadata"]["name"] for gone in planned.delete]


def test_ordered_pods_are_created_one_by_one() -> None:
    assert plan(stateful_set()).create == [(0, OLD)]
    assert plan(stateful_set(), pod(0, ready=False)).create == []
    assert plan(stateful_set(), pod(0)).create == [(1, OLD)]
    assert plan(stateful_set(), pod(0), pod(1), pod(2)).create == []


def test_parallel_pods_are_created_at_once() -> None:
    assert plan(stateful_set(policy="Parallel"), pod(1, ready=False)).create == [(0, OLD), (2, OLD)]


def test_ordinals_begin_where_the_set_says() -> None:
    assert plan(stateful_set(2, "Parallel", ordinals={"start": 5})).create == [(5, OLD), (6, OLD)]
    assert deleted(plan(stateful_set(1, ordinals={"start": 5}), pod(5), pod(0))) == ["s-0"]


def test_surplus_pods_go_from_the_highest_ordinal_on() -> None:
    pods = [pod(number) for number in range(4)]
    assert deleted(plan(stateful_set(1), *pods)) == ["s-3"]
    assert deleted(plan(stateful_set(1), *pods[:3], pod(3, leaving=True))) == []
    assert deleted(plan(stateful_set(1, "Parallel"), *pods)) == ["s-3", "s-2", "s-1"]


def test_scaling_down_waits_for_pods_that_are_not_ready() -> None:
    assert deleted(plan(stateful_set(2), pod(0), pod(1, ready=False), pod(2))) == []


def test_failed_pod_is_replaced() -> None:
    assert deleted(plan(stateful_set(2), pod(0, phase="Failed"), pod(1))) == ["s-0"]


def test_update_replaces_one_pod_at_a_time_from_the_highest_ordinal_on() -> None:
    assert deleted(plan(stateful_set(), pod(0), pod(1), pod(2), newest=NEW)) == ["s-2"]
    assert deleted(plan(stateful_set(), pod(0), pod(1), pod(2, NEW), newest=NEW)) == ["s-1"]
    assert deleted(plan(stateful_set(), pod(0), pod(1), pod(2, NEW, ready=False), newest=NEW)) == []


def test_max_unavailable_lets_an_update_replace_several() -> None:
    assert deleted(plan(stateful_set(rolling={"maxUnavailable": 2}), pod(0), pod(1), pod(2), newest=NEW)) == [
        "s-2",
        "s-1",
    ]


def test_partition_keeps_the_pods_below_it() -> None:
    owner = stateful_set(rolling={"partition": 2})
    assert deleted(plan(owner, pod(0), pod(1), pod(2), newest=NEW)) == ["s-2"]
    assert deleted(plan(owner, pod(0), pod(1), pod(2, NEW), newest=NEW)) == []
    assert plan(owner, newest=NEW).create == [(0, OLD)]
    assert plan(owner, pod(0), pod(1), newest=NEW).create == [(2, NEW)]


def test_on_delete_replaces_nothing_by_itself() -> None:
    owner = stateful_set(updateStrategy={"type": "OnDelete"})
    assert deleted(plan(owner, pod(0), pod(1), pod(2), newest=NEW)) == []
    assert plan(owner, pod(0), newest=NEW).create == [(1, NEW)]


def test_parallel_update_replaces_a_pod_that_never_became_ready() -> None:
    pods = [pod(0), pod(1), pod(2, ready=False)]
    assert deleted(plan(stateful_set(policy="Parallel"), *pods, newest=NEW)) == ["s-2"]
    assert deleted(plan(stateful_set(), *pods, newest=NEW)) == []


def test_status_counts_pods_by_revision() -> None:
    status = plan(stateful_set(), pod(0), pod(1), pod(2, NEW, ready=False), newest=NEW).status
    assert status == {
        "observedGeneration": 2, "replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
        "updatedReplicas": 1, "currentRevision": OLD, "updateRevision": NEW, "collisionCount": 0,
    }  # fmt: skip


def test_current_revision_follows_when_all_pods_are_new() -> None:
    status = plan(stateful_set(), pod(0, NEW), pod(1, NEW), pod(2, NEW), newest=NEW).status
    assert (status["currentRevision"], status["currentReplicas"]) == (NEW, 3)


def test_set_that_is_being_deleted_does_nothing() -> None:
    owner = stateful_set()
    owner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    planned = plan(owner, pod(0), pod(3))
    assert (planned.create, planned.delete) == ([], [])


@pytest.mark.parametrize(("name", "ordinal"), [("s-0", 0), ("s-12", 12), ("s-01", None), ("s-x", None), ("t-1", None)])
def test_ordinal_is_read_from_the_name(name: str, ordinal: int | None) -> None:
    assert ordinal_of({"metadata": {"name": name}}, stateful_set()) == ordinal


def test_pod_has_a_stable_name_and_the_claims_of_its_set() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    owner = stateful_set(volumeClaimTemplates=claims)
    made = new_pod(owner, 1, NEW, template())
    assert made["metadata"]["name"] == "s-1"
    assert made["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": NEW,
        "statefulset.kubernetes.io/pod-name": "s-1",
        "apps.kubernetes.io/pod-index": "1",
    }
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("s-1", "web")
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}]
    assert new_claims(owner, "s-1") == [
        {"metadata": {"name": "data-s-1", "labels": {"app": "web"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    ]
