"""On which nodes a DaemonSet has pods, and how it replaces them."""

from __future__ import annotations

from typing import Any

from kubesim.clock import Clock
from kubesim.controllers.apps.daemon_plan import DaemonPlan, new_pod, node_of, plan_daemon_set
from kubesim.controllers.nodes.node_matching import REQUIRED, matches_node
from tests.support.workloads import template

OLD, NEW = "old", "new"
TAINT = {"key": "special", "effect": "NoSchedule"}


def daemon_set(unavailable: Any = 1, surge: Any = 0, kind: str = "RollingUpdate", **pod_spec: Any) -> dict[str, Any]:
    whole = template()
    whole["spec"] |= pod_spec
    update = {"type": kind, "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}
    about = {"name": "d", "namespace": "default", "uid": "u", "generation": 1}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": whole, "updateStrategy": update}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": about, "spec": spec, "status": {}}


def node(name: str, *taints: Any, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def pod(place: str, revision: str = NEW, *, ready: bool = True, phase: str = "Running") -> dict[str, Any]:
    about = {"name": f"{place}-{revision}", "labels": {"controller-revision-hash": revision}}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": about, "spec": {"nodeName": place}, "status": {"phase": phase, "conditions": [condition]}}


def plan(owner: dict[str, Any], nodes: list[Any], *pods: Any) -> DaemonPlan:
    return plan_daemon_set(owner, list(pods), nodes, NEW, Clock())


def deleted(planned: DaemonPlan) -> list[str]:
    return [gone["metadata"]["name"] for gone in planned.delete]


NODES = [node("a"), node("b"), node("c")]


def test_every_node_gets_one_pod() -> None:
    assert plan(daemon_set(), NODES).create == ["a", "b", "c"]
    assert plan(daemon_set(), NODES, pod("b")).create == ["a", "c"]
    assert deleted(plan(daemon_set(), NODES, pod("b"), {**pod("b"), "metadata": pod("b", "new")["metadata"]})) == [
        "b-new"
    ]


def test_selector_affinity_and_taints_choose_the_nodes() -> None:
    nodes = [node("a", zone="1"), node("b", zone="2"), node("c", TAINT, zone="1")]
    assert plan(daemon_set(nodeSelector={"zone": "1"}), nodes).create == ["a"]
    tolerant = daemon_set(nodeSelector={"zone": "1"}, tolerations=[{"key": "special", "operator": "Exists"}])
    assert plan(tolerant, nodes).create == ["a", "c"]
    term = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["1"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    assert plan(daemon_set(affinity=affinity), nodes).create == ["b"]


def test_pods_tolerate_cordons_and_lost_nodes() -> None:
    cordoned = node("a", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    lost = node("b", {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})
    assert plan(daemon_set(), [cordoned, lost]).create == ["a", "b"]


def test_pods_on_other_nodes_go_but_a_new_taint_lets_them_stay() -> None:
    assert deleted(plan(daemon_set(nodeSelector={"zone": "1"}), NODES, pod("a"))) == ["a-new"]
    assert deleted(plan(daemon_set(), [node("a", TAINT)], pod("a"))) == []
    assert deleted(plan(daemon_set(), [], pod("a"))) == ["a-new"]


def test_failed_pod_is_deleted_before_its_node_gets_another() -> None:
    planned = plan(daemon_set(), [node("a")], pod("a", phase="Failed"))
    assert (deleted(planned), planned.create, len(planned.failed)) == (["a-new"], [], 1)


def test_update_keeps_enough_pods_available() -> None:
    old = [pod(name, OLD) for name in "abc"]
    assert deleted(plan(daemon_set(), NODES, *old)) == ["a-old"]
    assert deleted(plan(daemon_set("67%"), NODES, *old)) == ["a-old", "b-old", "c-old"]
    assert deleted(plan(daemon_set(), NODES, pod("a", ready=False), *old[1:])) == []
    assert deleted(plan(daemon_set(), NODES, pod("a"), *old[1:])) == ["b-old"]
    assert deleted(plan(daemon_set(kind="OnDelete"), NODES, *old)) == []


def test_update_replaces_broken_pods_at_once() -> None:
    old = [pod("a", OLD), pod("b", OLD, ready=False), pod("c", OLD)]
    assert deleted(plan(daemon_set(), NODES, *old)) == ["b-old"]


def test_surge_creates_new_pods_beside_the_old_ones() -> None:
    owner, old = daemon_set(0, 1), [pod(name, OLD) for name in "abc"]
    assert (plan(owner, NODES, *old).create, deleted(plan(owner, NODES, *old))) == (["a"], [])
    assert deleted(plan(owner, NODES, pod("a", ready=False), *old)) == []
    assert deleted(plan(owner, NODES, pod("a"), *old)) == ["a-old"]


def test_status_counts_nodes() -> None:
    pods = [pod("a"), pod("b", OLD), pod("c", ready=False), pod("elsewhere")]
    assert plan(daemon_set(), NODES, *pods).status == {
        "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": 2, "numberAvailable": 2,
        "numberUnavailable": 1, "updatedNumberScheduled": 2, "numberMisscheduled": 1, "observedGeneration": 1,
    }  # fmt: skip


def test_pod_asks_for_its_node_beside_what_the_template_requires() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    for owner in (daemon_set(), daemon_set(affinity=affinity)):
        made = new_pod(owner, "b", NEW)
        assert node_of(made) == "b"
        assert [name for name in "abc" if matches_node(made["spec"], node(name, zone="1"))] == ["b"]
    assert "matchFields" not in term


def test_numbers_of_labels_are_compared() -> None:
    def greater(than: str, operator: str = "Gt") -> dict[str, Any]:
        term = {"matchExpressions": [{"key": "size", "operator": operator, "values": [than]}]}
        return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}

    assert matches_node(greater("9"), node("a", size="10"))
    assert not matches_node(greater("10"), node("a", size="10"))
    assert matches_node(greater("11", "Lt"), node("a", size="10"))
    assert not matches_node(greater("1"), node("a", size="big"))
