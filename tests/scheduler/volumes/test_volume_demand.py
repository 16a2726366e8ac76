"""The nodes that a pod's claims allow, as the engine is told, are those that kube-scheduler's rules allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.kube.decode.storage import NODE_NAME, PodClaim, selects_node
from pumice.kube.resources import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import Attachment, NodeTerm, VolumeDemand, VolumeNodes
from pumice.scheduler.volumes.volume_cache import VolumeCache
from tests.oracles.slow_volumes import COMPLETED, SELECTED, Objects, may_use

Object = dict[str, Any]
NODES = {
    "n0": {"zone": "a", "host": "n0"},
    "n1": {"zone": "a", "host": "n1"},
    "n2": {"zone": "b", "host": "n2"},
    "n3": {"host": "n3"},
}
SIZES = ("1Gi", "2Gi", "3Gi")


def change(resource: Resource[Any], document: Object | None, name: str = "") -> Change[Any]:
    if document is None:
        return Change(resource.name, name, "", "", None, None)
    about = document["metadata"]
    key = f"{about['namespace']}/{about['name']}" if resource.namespaced else about["name"]
    found = resource.decode(msgspec.json.encode(document))
    return Change(resource.name, key, about.get("uid", about["name"]), "1", None, found)


def claim(name: str, storage_class: str = "wait", size: str = "1Gi", **spec: Any) -> Object:
    asks = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}
    return {
        "metadata": {"name": name, "namespace": "ns", "annotations": {}},
        "spec": {"storageClassName": storage_class, **asks, **spec},
    }


def volume(name: str, storage_class: str = "wait", size: str = "1Gi", **spec: Any) -> Object:
    has = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    return {"metadata": {"name": name, "labels": {}}, "spec": {**has, **spec}, "status": {"phase": "Available"}}


def storage_class(name: str, mode: str = "WaitForFirstConsumer", **more: Any) -> Object:
    return {"metadata": {"name": name}, "provisioner": "disk.example.com", "volumeBindingMode": mode, **more}


def on(key: str, *values: str) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}


def cache_of(*changes: Change[Any]) -> VolumeCache:
    cache = VolumeCache()
    for node, labels in NODES.items():
        cache.set_node(node, labels)
    for each in changes:
        cache.apply(each)
    return cache


def allowed(demand: VolumeDemand | None) -> set[str]:
    if demand is None:
        return set(NODES)
    if demand.waits_for:
        return set()
    return {n for n, labels in NODES.items() if all(selects_node(v.terms, n, labels) for v in demand.nodes)}


# ---- against the oracle -------------------------------------------------------------------------------------------


WAITING = st.sampled_from(("wait", "wait", "local", "local", "now", "none"))
PLACES = st.sampled_from([{}, on("zone", "a"), on("zone", "b"), on("host", "n0"), on("host", "n1", "n3")])
TOPOLOGIES = st.sampled_from([[], [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]])
CAPACITY_PLACES = st.sampled_from([None, {}, {"matchLabels": {"zone": "a"}}, {"matchLabels": {"host": "n2"}}])
DRIVER = {"metadata": {"name": "disk.example.com"}}


def rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 5)) == 5


@st.composite
def drawn_volumes(draw: st.DrawFn, number: int) -> Object:
    made = volume(f"v{number}", draw(WAITING), draw(st.sampled_from(SIZES)), **draw(PLACES))
    if rarely(draw):
        made["metadata"]["labels"] = {"tier": "fast"}
    if rarely(draw):
        made["status"]["phase"] = "Released"
    if rarely(draw):
        made["spec"]["accessModes"] = ["ReadOnlyMany"]
    if draw(st.integers(0, 2)) == 2:
        made["spec"]["claimRef"] = {"namespace": "ns", "name": draw(st.sampled_from(["c0", "c1", "other"]))}
    return made


@st.composite
def drawn_claims(draw: st.DrawFn, number: int) -> Object:
    asked = claim(f"c{number}", draw(WAITING), draw(st.sampled_from(SIZES)))
    if rarely(draw):
        asked["spec"]["selector"] = {"matchLabels": {"tier": "fast"}}
    annotations = asked["metadata"]["annotations"]
    match draw(st.integers(0, 9)):
        case 9:
            asked["spec"]["volumeName"] = "v0"
        case 8 | 7:
            asked["spec"]["volumeName"] = draw(st.sampled_from(["v0", "v1", "gone"]))
            annotations[COMPLETED] = "yes"
        case 6:
            annotations[SELECTED] = draw(st.sampled_from(sorted(NODES)))
    return asked


@st.composite
def drawn_capacities(draw: st.DrawFn, number: int) -> Object:
    about = {"name": f"k{number}", "namespace": "kube-system"}
    found: Object = {"metadata": about, "storageClassName": draw(st.sampled_from(("wait", "wait", "now")))}
    if (where := draw(CAPACITY_PLACES)) is not None:
        found["nodeTopology"] = where
    for amount in draw(st.sampled_from([("capacity",), ("capacity", "maximumVolumeSize"), ()])):
        found[amount] = draw(st.sampled_from(SIZES))
    return found


@st.composite
def worlds(draw: st.DrawFn) -> Objects:
    local = {**storage_class("local"), "provisioner": "kubernetes.io/no-provisioner"}
    classes = (storage_class("wait", allowedTopologies=draw(TOPOLOGIES)), local, storage_class("now", "Immediate"))
    drivers = [{**DRIVER, "spec": {"storageCapacity": draw(st.booleans())}}]
    return Objects(
        nodes=dict(NODES),
        claims=_named([draw(drawn_claims(number)) for number in range(draw(st.integers(1, 3)))]),
        volumes=_named([draw(drawn_volumes(number)) for number in range(draw(st.integers(0, 4)))]),
        classes=_named(classes),
        drivers=_named(drivers if draw(st.booleans()) else ()),
        capacities=_named([draw(drawn_capacities(number)) for number in range(draw(st.integers(0, 2)))]),
    )


def _named(objects: Sequence[Object]) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in objects}


def pods_of(objects: Objects) -> st.SearchStrategy[list[str]]:
    """The claims of a pod: mostly claims that exist."""
    there = st.lists(st.sampled_from(sorted(objects.claims)), min_size=1, max_size=3)
    return st.one_of(there, there, there, st.just(["c0", "missing"]))


def changes(objects: Objects) -> list[Change[Any]]:
    kinds = (
        (CLAIMS, objects.claims),
        (VOLUMES, objects.volumes),
        (STORAGE_CLASSES, objects.classes),
        (CSI_DRIVERS, objects.drivers),
        (STORAGE_CAPACITIES, objects.capacities),
    )
    return [change(resource, document) for resource, found in kinds for document in found.values()]


@given(objects=worlds(), data=st.data())
def test_nodes_for_a_pod_are_those_of_kube_scheduler(objects: Objects, data: st.DataObject) -> None:
    names = data.draw(pods_of(objects))
    cache = cache_of(*data.draw(st.permutations(changes(objects))))
    cache.set_pod("ns/p", tuple(map(PodClaim, names)))
    expected = {node for node in NODES if may_use(objects, names, node)}
    assert allowed(cache.demand("ns/p", placed=False)) == expected


@given(before=worlds(), after=worlds(), names=st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, max_size=3))
def test_every_pod_that_a_change_concerns_is_looked_at_again(before: Objects, after: Objects, names: list[str]) -> None:
    cache = cache_of(*changes(before))
    cache.set_pod("ns/p", tuple(map(PodClaim, names)))
    cache.take_changed_pods()
    demand = cache.demand("ns/p", placed=False)
    gone = {(each.resource, each.key) for each in changes(before)} - {(e.resource, e.key) for e in changes(after)}
    for each in (*changes(after), *(Change(resource, key, "", "", None, None) for resource, key in sorted(gone))):
        cache.apply(each)
        now = cache.demand("ns/p", placed=False)
        assert now == demand or "ns/p" in cache.take_changed_pods(), each
        demand = now


@given(objects=worlds(), data=st.data())
def test_plan_on_an_allowed_node_never_conflicts(objects: Objects, data: st.DataObject) -> None:
    names = data.draw(pods_of(objects))
    for node in NODES:
        if not may_use(objects, names, node):
            continue
        cache = cache_of(*changes(objects))
        cache.set_pod("ns/p", tuple(map(PodClaim, names)))
        plan = cache.assume("ns/p", node)
        if plan is not None:
            assert not plan.conflict
            assert len(set(plan.bindings.values())) == len(plan.bindings)
            cache.release(plan)
            assert not cache.storage.reserved and not cache.storage.selected


# ---- single rules -------------------------------------------------------------------------------------------------


def demand_for(cache: VolumeCache, *names: str) -> VolumeDemand | None:
    cache.set_pod("ns/p", tuple(map(PodClaim, names)))
    return cache.demand("ns/p", placed=False)


def waits(cache: VolumeCache, *names: str) -> str:
    demand = demand_for(cache, *names)
    return demand.waits_for if demand is not None else ""


def test_words_of_kube_scheduler_for_claims_that_are_not_ready() -> None:
    lost = claim("lost", volumeName="v")
    lost["status"] = {"phase": "Lost"}
    leaving = claim("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cache = cache_of(change(CLAIMS, lost), change(CLAIMS, leaving), change(CLAIMS, claim("now", "")))
    assert waits(cache, "missing") == 'persistentvolumeclaim "missing" not found'
    assert waits(cache, "lost") == 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "v"'
    assert waits(cache, "leaving") == 'persistentvolumeclaim "leaving" is being deleted'
    assert waits(cache, "now") == "pod has unbound immediate PersistentVolumeClaims"
    cache.set_pod("ns/p", (PodClaim("p-scratch", ephemeral=True),))
    demand = cache.demand("ns/p", placed=False)
    assert demand is not None
    assert demand.waits_for == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    )


def test_zone_labels_of_a_volume_limit_its_nodes() -> None:
    bound = claim("c", volumeName="v")
    bound["metadata"]["annotations"][COMPLETED] = "yes"
    zonal = volume("v")
    zonal["metadata"]["labels"] = {"topology.kubernetes.io/zone": "a__b"}
    demand = demand_for(cache_of(change(CLAIMS, bound), change(VOLUMES, zonal)), "c")
    assert demand is not None
    (found,) = demand.nodes
    assert found.reason == "node(s) had no available volume zone"
    assert selects_node(found.terms, "n", {"topology.kubernetes.io/zone": "b"})
    assert not selects_node(found.terms, "n", {"topology.kubernetes.io/zone": "c"})
    assert selects_node(found.terms, "n", {})


def test_selected_node_pins_the_pods_of_a_claim() -> None:
    cache = cache_of(change(CLAIMS, claim("c")), change(STORAGE_CLASSES, storage_class("wait")))
    assert demand_for(cache, "c") is None
    plan = cache.assume("ns/p", "n1")
    assert plan is not None
    assert plan.provisions == ("ns/c",)
    named = NodeTerm(fields=(Requirement(NODE_NAME, "In", ("n1",)),))
    assert demand_for(cache, "c") == VolumeDemand(
        nodes=(VolumeNodes((named,), "node(s) didn't find available persistent volumes to bind"),)
    )


def test_volumes_of_limited_drivers_are_counted_and_shared_ones_named() -> None:
    drivers = [
        {"name": "disk.example.com", "nodeID": "x", "allocatable": {"count": 2}},
        {"name": "free.example.com", "nodeID": "x"},
    ]
    csi_node = {"metadata": {"name": "n0"}, "spec": {"drivers": drivers}}
    free = {**storage_class("free"), "provisioner": "free.example.com"}
    cache = cache_of(
        *(change(CLAIMS, claim(name)) for name in ("a", "b", "c")),
        change(CLAIMS, claim("d", "free")),
        change(STORAGE_CLASSES, storage_class("wait")),
        change(STORAGE_CLASSES, free),
        change(CSI_NODES, csi_node),
    )
    assert cache.limits_of("n0") == (("disk.example.com", 2),)
    demand = demand_for(cache, "a", "b", "c", "d")
    assert demand == VolumeDemand(attached=(Attachment("disk.example.com", private=3),))
    cache.take_changed_pods()
    cache.set_pod("ns/q", (PodClaim("b"),))
    assert cache.take_changed_pods() == ["ns/p", "ns/q"]
    assert cache.demand("ns/p", placed=True) == VolumeDemand(
        attached=(Attachment("disk.example.com", private=2, shared=("ns/b",)),)
    )
    cache.drop_pod("ns/q")
    assert cache.take_changed_pods() == ["ns/p"]
    assert cache.demand("ns/p", placed=False) == demand


def test_class_that_makes_no_volumes_is_limited_by_those_that_exist() -> None:
    volumes = [volume("v0", "local", **on("host", "n0")), volume("v1", "local", **on("host", "n0", "n1"))]
    cache = world_with_two_claims(*volumes, volume("v2", "local", **on("zone", "b")), volume("v3", "wait"))
    name, words = "persistentvolumes of class local", "node(s) didn't find available persistent volumes to bind"
    assert {node: dict(cache.limits_of(node)) for node in NODES} == {
        "n0": {name: 2},
        "n1": {name: 1},
        "n2": {name: 1},
        "n3": {name: 0},
    }
    demand = demand_for(cache, "c0", "c1")
    assert demand is not None
    assert demand.attached == (Attachment(name, private=2, reason=words),)
    cache.apply(change(VOLUMES, volume("v4", "local")))
    assert dict(cache.limits_of("n3")) == {name: 1}
    cache.apply(change(VOLUMES, None, "v0"))
    assert dict(cache.limits_of("n0")) == {name: 2}


def test_claim_for_one_pod_is_exclusive_once_two_pods_ask_for_it() -> None:
    alone = claim("c", accessModes=["ReadWriteOncePod"])
    cache = cache_of(change(CLAIMS, alone), change(STORAGE_CLASSES, storage_class("wait")))
    assert demand_for(cache, "c") is None
    cache.set_pod("ns/q", (PodClaim("c"),))
    assert cache.demand("ns/p", placed=False) == VolumeDemand(exclusive=("ns/c",))


def test_placed_pod_keeps_the_nodes_it_could_use_before() -> None:
    cache = cache_of(change(CLAIMS, claim("c", "local")), change(VOLUMES, volume("v", "local", **on("zone", "a"))))
    cache.apply(change(STORAGE_CLASSES, {**storage_class("local"), "provisioner": "kubernetes.io/no-provisioner"}))
    demand = demand_for(cache, "c")
    assert allowed(demand) == {"n0", "n1"}
    cache.apply(change(VOLUMES, None, "v"))
    assert cache.demand("ns/p", placed=True) == demand
    assert allowed(cache.demand("ns/p", placed=False)) == set()


def world_with_two_claims(*volumes: Object) -> VolumeCache:
    local = {**storage_class("local"), "provisioner": "kubernetes.io/no-provisioner"}
    found = [change(CLAIMS, claim("c0", "local")), change(CLAIMS, claim("c1", "local", "2Gi"))]
    return cache_of(*found, change(STORAGE_CLASSES, local), *(change(VOLUMES, each) for each in volumes))


def test_claims_of_one_pod_do_not_share_a_volume() -> None:
    one = world_with_two_claims(volume("v0", "local", "2Gi", **on("host", "n0")))
    assert allowed(demand_for(one, "c0", "c1")) == set()
    volumes = [volume("v0", "local", "2Gi", **on("zone", "a")), volume("v1", "local", "3Gi", **on("host", "n1", "n2"))]
    assert allowed(demand_for(world_with_two_claims(*volumes), "c0", "c1")) == {"n1"}


def test_volume_that_is_reserved_for_a_claim_is_the_only_one_for_it() -> None:
    reserved = volume("v0", "local", claimRef={"namespace": "ns", "name": "c0"}, **on("host", "n2"))
    cache = world_with_two_claims(reserved, volume("v1", "local", **on("host", "n0")))
    assert allowed(demand_for(cache, "c0")) == {"n2"}


def test_class_with_capacity_makes_volumes_only_where_they_fit() -> None:
    driver = {**DRIVER, "spec": {"storageCapacity": True}}
    about = {"name": "k", "namespace": "kube-system"}
    capacity = {"metadata": about, "storageClassName": "wait", "nodeTopology": {"matchLabels": {"zone": "a"}}}
    cache = cache_of(
        change(CLAIMS, claim("c", size="2Gi")),
        change(STORAGE_CLASSES, storage_class("wait")),
        change(CSI_DRIVERS, driver),
        change(STORAGE_CAPACITIES, {**capacity, "capacity": "5Gi"}),
    )
    demand = demand_for(cache, "c")
    assert allowed(demand) == {"n0", "n1"}
    assert demand is not None
    assert [found.reason for found in demand.nodes] == ["node(s) did not have enough free storage"]
    cache.apply(change(STORAGE_CAPACITIES, {**capacity, "capacity": "5Gi", "maximumVolumeSize": "1Gi"}))
    assert allowed(demand_for(cache, "c")) == set()
