"""Claims get volumes, volumes are reclaimed, and pods wait for their claims: through the real API."""

from __future__ import annotations

from typing import Any

from kubesim.api.status import ApiError
from tests.support.simulated import Cluster, cluster, eventually, lasting, pod, run

SELECTED = "volume.kubernetes.io/selected-node"
HOST = "kubernetes.io/hostname"
Object = dict[str, Any]


def claim(name: str = "data", size: str = "1Gi", storage_class: str | None = "fast", **spec: Any) -> Object:
    asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        asks["storageClassName"] = storage_class
    return {"metadata": {"name": name}, "spec": asks}


def volume(name: str, size: str = "1Gi", storage_class: str = "fast", **spec: Any) -> Object:
    has = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return {"metadata": {"name": name}, "spec": {**has, "storageClassName": storage_class}}


def storage_class(name: str = "fast", mode: str = "Immediate", **more: Any) -> Object:
    return {"metadata": {"name": name}, "provisioner": "disk.example.com", "volumeBindingMode": mode, **more}


async def add(c: Cluster, *objects: Object) -> None:
    for each in objects:
        if "provisioner" in each:
            await c.api.create("storageclasses.storage.k8s.io", "", each)
        elif "capacity" in each.get("spec", {}):
            await c.api.create("persistentvolumes", "", each)
        else:
            await c.api.create("persistentvolumeclaims", "default", each)


def found(c: Cluster, name: str = "data") -> Object:
    read = c.api.read("persistentvolumeclaims", "default", name)
    assert read is not None
    return read


def phase(c: Cluster, name: str = "data") -> str:
    return str(found(c, name)["status"]["phase"])


def volume_phase(c: Cluster, name: str) -> str:
    read = c.api.read("persistentvolumes", "", name)
    return str(read["status"]["phase"]) if read else "gone"


def reasons(c: Cluster, name: str) -> set[str]:
    return {event["reason"] for event in c.api.list("events") if event["involvedObject"]["name"] == name}


def test_claim_is_bound_to_the_smallest_volume_that_fits() -> None:
    async def scenario() -> tuple[str, str, Object]:
        async with cluster(0) as c:
            sizes = {"large": "10Gi", "small": "1Gi", "medium": "5Gi"}
            await add(c, *(volume(name, size) for name, size in sizes.items()), volume("other", "2Gi", "slow"))
            await eventually(lambda: volume_phase(c, "medium") == "Available")
            await add(c, claim(size="2Gi"))
            await eventually(lambda: phase(c) == "Bound" and volume_phase(c, "medium") == "Bound")
            return found(c)["spec"]["volumeName"], volume_phase(c, "large"), found(c)["status"]["capacity"]

    assert run(scenario()) == ("medium", "Available", {"storage": "5Gi"})


def test_two_claims_never_get_the_same_volume() -> None:
    async def scenario() -> tuple[set[str], str]:
        async with cluster(0) as c:
            await add(c, claim("a"), claim("b"), claim("c"), volume("one"), volume("two"))
            names = ("a", "b", "c")
            await eventually(lambda: [phase(c, name) for name in names].count("Bound") == 2)
            bound = [found(c, name)["spec"]["volumeName"] for name in names if phase(c, name) == "Bound"]
            return set(bound), next(phase(c, name) for name in names if "volumeName" not in found(c, name)["spec"])

    assert run(scenario()) == ({"one", "two"}, "Pending")


def test_volume_that_is_reserved_for_a_claim_is_kept_for_it() -> None:
    async def scenario() -> list[str]:
        async with cluster(0) as c:
            await add(c, volume("kept", claimRef={"namespace": "default", "name": "later"}))
            await add(c, claim("first"))
            await eventually(lambda: "ProvisioningFailed" in reasons(c, "first"))
            await add(c, claim("later"))
            await eventually(lambda: phase(c, "later") == "Bound")
            return [phase(c, "first"), found(c, "later")["spec"]["volumeName"]]

    assert run(scenario()) == ["Pending", "kept"]


def test_immediate_class_provisions_and_deletes_with_the_claim() -> None:
    async def scenario() -> tuple[str, Object]:
        async with cluster(0) as c:
            await add(c, storage_class(), claim(size="3Gi"))
            await eventually(lambda: phase(c) == "Bound")
            name = found(c)["spec"]["volumeName"]
            made = c.api.read("persistentvolumes", "", name)
            assert made is not None
            await c.api.delete("persistentvolumeclaims", "default", "data")
            await eventually(lambda: volume_phase(c, name) == "gone")
            return made["spec"]["csi"]["driver"], made["spec"]["capacity"]

    assert run(scenario()) == ("disk.example.com", {"storage": "3Gi"})


def test_retained_volume_is_released_and_not_bound_again() -> None:
    async def scenario() -> tuple[str, str]:
        async with cluster(0) as c:
            await add(c, volume("kept"), claim())
            await eventually(lambda: phase(c) == "Bound")
            await c.api.delete("persistentvolumeclaims", "default", "data")
            await eventually(lambda: volume_phase(c, "kept") == "Released")
            await add(c, claim("next"))
            await eventually(lambda: "ProvisioningFailed" in reasons(c, "next"))
            return phase(c, "next"), volume_phase(c, "kept")

    assert run(scenario()) == ("Pending", "Released")


def test_waiting_claim_is_provisioned_on_the_selected_node() -> None:
    async def scenario() -> tuple[str, Object]:
        async with cluster(2) as c:
            local = storage_class(mode="WaitForFirstConsumer", parameters={"topologyKey": HOST})
            await add(c, local, volume("free"), claim())
            await eventually(lambda: "WaitForFirstConsumer" in reasons(c, "data"))
            before = phase(c)

            def select(newest: Object) -> None:
                newest["metadata"].setdefault("annotations", {})[SELECTED] = "node-001"

            await c.api.modify("persistentvolumeclaims", "default", "data", select)
            await eventually(lambda: phase(c) == "Bound")
            made = c.api.read("persistentvolumes", "", found(c)["spec"]["volumeName"])
            assert made is not None
            return before, made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]

    requirement = {"key": HOST, "operator": "In", "values": ["node-001"]}
    assert run(scenario()) == ("Pending", {"matchExpressions": [requirement]})


def test_failed_provisioning_clears_the_selected_node() -> None:
    async def scenario() -> tuple[str, set[str]]:
        async with cluster(1) as c:
            zone = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
            wanted = claim()
            wanted["metadata"]["annotations"] = {SELECTED: "node-000"}
            await add(c, storage_class(mode="WaitForFirstConsumer", allowedTopologies=zone), wanted)
            await eventually(lambda: SELECTED not in found(c)["metadata"].get("annotations", {}))
            await eventually(lambda: "WaitForFirstConsumer" in reasons(c, "data"))
            return phase(c), reasons(c, "data")

    assert run(scenario()) == ("Pending", {"ProvisioningFailed", "WaitForFirstConsumer"})


def test_claim_without_a_class_gets_the_default_one_even_later() -> None:
    async def scenario() -> str:
        async with cluster(0) as c:
            await add(c, claim(storage_class=None))
            await eventually(lambda: "FailedBinding" in reasons(c, "data"))
            marked = storage_class("usual")
            marked["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
            await add(c, marked)
            await eventually(lambda: phase(c) == "Bound")
            return str(found(c)["spec"]["storageClassName"])

    assert run(scenario()) == "usual"


def test_class_that_is_not_simulated_is_left_to_its_provisioner() -> None:
    async def scenario() -> str:
        async with cluster(0) as c:
            outside = storage_class()
            outside["metadata"]["annotations"] = {"kubesim.dev/simulated": "false"}
            await add(c, outside, claim())
            await eventually(lambda: "ExternalProvisioning" in reasons(c, "data"))
            return phase(c)

    assert run(scenario()) == "Pending"


def test_kubelet_starts_no_pod_before_its_claim_is_bound() -> None:
    async def scenario() -> tuple[str | None, set[str]]:
        async with cluster(1) as c:
            mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
            await c.api.create("pods", "default", pod("p", node="node-000", annotations=lasting(1e6), volumes=mounted))
            await eventually(lambda: "FailedMount" in reasons(c, "p"))
            waiting = c.phase("p")
            await add(c, storage_class(), claim())
            await eventually(lambda: c.phase("p") == "Running")
            return waiting, reasons(c, "p")

    waiting, seen = run(scenario())
    assert waiting == "Pending"
    assert "FailedMount" in seen


def test_pod_with_an_ephemeral_volume_gets_its_claim_and_takes_it_away() -> None:
    async def scenario() -> tuple[str, bool]:
        async with cluster(1) as c:
            template = {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}
            mounted = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
            await add(c, storage_class())
            await c.api.create("pods", "default", pod("p", node="node-000", annotations=lasting(1e6), volumes=mounted))
            await eventually(lambda: c.phase("p") == "Running")
            made = found(c, "p-scratch")
            await c.api.delete("pods", "default", "p", grace=0)
            await eventually(lambda: c.api.read("persistentvolumeclaims", "default", "p-scratch") is None)
            return made["metadata"]["ownerReferences"][0]["name"], made["metadata"]["labels"] == {"a": "b"}

    assert run(scenario()) == ("p", True)


def test_quota_counts_claims() -> None:
    async def scenario() -> str:
        async with cluster(0) as c:
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"persistentvolumeclaims": "1"}}}
            await c.api.create("resourcequotas", "default", quota)
            await add(c, claim("one"))
            try:
                await add(c, claim("two"))
            except ApiError as error:
                return error.message
            return ""

    assert run(scenario()) == (
        'persistentvolumeclaims "two" is forbidden: exceeded quota: q, requested: persistentvolumeclaims=1, '
        "used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1"
    )
