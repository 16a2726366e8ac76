"""Pods with claims on the embedded cluster: the scheduler chooses nodes by volumes, and volumes by nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubesim.server import RunningCluster
from pumice.scheduler.volumes import volume_binder
from tests.support.live_cluster import GROUPS, eventually, live, scheduling

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
Object = dict[str, Any]


async def add_class(running: RunningCluster, name: str, mode: str = "WaitForFirstConsumer", **more: Any) -> None:
    found = {"metadata": {"name": name}, "provisioner": "disk.example.com", "volumeBindingMode": mode, **more}
    await running.api.create(CLASSES, "", found)


async def add_claim(running: RunningCluster, name: str, storage_class: str, size: str = "1Gi", **more: Any) -> None:
    asks = {"storage": size}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": {"requests": asks}}
    await running.api.create(CLAIMS, "default", {"metadata": {"name": name}, "spec": {**spec, **more}})


async def add_local_volume(running: RunningCluster, name: str, node: str, storage_class: str = "local") -> None:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await running.api.create(VOLUMES, "", {"metadata": {"name": name}, "spec": spec})


async def add_pods(running: RunningCluster, job: str, claims: list[list[str]], *, together: int = 1) -> None:
    """A job of one-cpu pods, each with these claims."""
    spec = {"minMember": together, "queue": "default"}
    await running.api.create(GROUPS, "default", {"metadata": {"name": job}, "spec": spec})
    for number, names in enumerate(claims):
        volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)]
        about = {"name": f"{job}-{number}", "annotations": {"scheduling.k8s.io/group-name": job}}
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        pod = {"schedulerName": "pumice", "containers": [container], "volumes": volumes}
        await running.api.create("pods", "default", {"metadata": about, "spec": pod})


def pod(running: RunningCluster, name: str) -> Object:
    return running.api.read("pods", "default", name) or {"spec": {}, "status": {}}


def node_of(running: RunningCluster, name: str) -> str:
    return str(pod(running, name)["spec"].get("nodeName", ""))


def runs(running: RunningCluster, *names: str) -> bool:
    return all(pod(running, name)["status"].get("phase") == "Running" for name in names)


def waiting(running: RunningCluster, name: str) -> tuple[str, str]:
    """The reason and message of a pod's condition PodScheduled."""
    conditions = pod(running, name)["status"].get("conditions") or ()
    return next(
        ((c.get("reason", ""), c.get("message", "")) for c in conditions if c["type"] == "PodScheduled"), ("", "")
    )


def claim(running: RunningCluster, name: str) -> Object:
    found = running.api.read(CLAIMS, "default", name)
    assert found is not None
    return found


def test_claim_that_waits_is_provisioned_on_the_node_of_its_pod(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await add_class(running, "disk", parameters={"topologyKey": HOST})
            await add_claim(running, "data", "disk")
            await add_pods(running, "uses", [["data"]])
            await eventually(lambda: runs(running, "uses-0"))
            found = claim(running, "data")
            assert found["metadata"]["annotations"][SELECTED] == node_of(running, "uses-0")
            # The volume is on this node now, so a second pod follows it there.
            await add_pods(running, "next", [["data"]])
            await eventually(lambda: runs(running, "next-0"))
            assert node_of(running, "next-0") == node_of(running, "uses-0")

    live(tmp_path, check)


def test_pods_follow_the_node_affinity_of_a_bound_volume(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await add_local_volume(running, "local-on-2", "node-002")
            await add_claim(running, "local", "local")
            await eventually(lambda: claim(running, "local")["status"]["phase"] == "Bound")
            await add_pods(running, "four", [["local"]] * 5)
            await eventually(lambda: runs(running, *(f"four-{i}" for i in range(4))))
            assert {node_of(running, f"four-{i}") for i in range(4)} == {"node-002"}
            # The node has four cpus: the fifth pod waits although other nodes are free.
            message = (
                "0/3 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity, 1 Insufficient cpu."
            )
            await eventually(lambda: waiting(running, "four-4") == ("Unschedulable", message))

    live(tmp_path, check)


def test_pod_waits_for_its_claim_and_says_so(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await add_claim(running, "unbound", "later")
            await add_pods(running, "first", [["missing"]])
            await add_pods(running, "second", [["unbound"]])
            message = '0/3 nodes are available: persistentvolumeclaim "missing" not found.'
            await eventually(lambda: waiting(running, "first-0") == ("WaitingForVolume", message))
            unbound = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
            await eventually(lambda: waiting(running, "second-0") == ("WaitingForVolume", unbound))
            await add_class(running, "later", "Immediate")
            await add_claim(running, "missing", "later")
            await eventually(lambda: runs(running, "first-0", "second-0"))

    live(tmp_path, check)


def test_gang_takes_local_volumes_where_they_are(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            storage = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
            await running.api.create(CLASSES, "", {**storage, "volumeBindingMode": "WaitForFirstConsumer"})
            for number, node in enumerate(("node-000", "node-001", "node-001", "node-001")):
                await add_local_volume(running, f"disk-{number}", node)
                await add_claim(running, f"data-{number}", "local")
            await add_pods(running, "gang", [[f"data-{number}"] for number in range(4)], together=4)
            names = [f"gang-{number}" for number in range(4)]
            await eventually(lambda: runs(running, *names))
            assert sorted(node_of(running, name) for name in names) == ["node-000", *["node-001"] * 3]
            # No pod was placed where another one of the gang takes the last volume.
            assert not any(event["reason"] == "FailedScheduling" for event in running.api.list("events"))

    live(tmp_path, check)


def test_gang_shares_a_claim_that_waits_for_its_first_pod(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await add_claim(running, "shared", "standard", accessModes=["ReadWriteMany"])
            await add_pods(running, "gang", [["shared"]] * 6, together=6)
            await eventually(lambda: runs(running, *(f"gang-{number}" for number in range(6))))
            assert len({node_of(running, f"gang-{number}") for number in range(6)}) > 1

    live(tmp_path, check)


def test_node_takes_no_more_volumes_than_its_driver_allows(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        driver = {"name": "disk.example.com", "nodeID": "x", "allocatable": {"count": 1}}
        for number in range(3):
            found = {"metadata": {"name": f"node-00{number}"}, "spec": {"drivers": [driver]}}
            await running.api.create("csinodes.storage.k8s.io", "", found)
        async with scheduling(running.server):
            await add_class(running, "disk")
            for number in range(4):
                await add_claim(running, f"data-{number}", "disk")
            await add_pods(running, "each", [[f"data-{number}"] for number in range(4)])
            names = [f"each-{number}" for number in range(4)]
            await eventually(lambda: sum(runs(running, name) for name in names) == 3)
            assert sorted(node_of(running, name) for name in names) == ["", "node-000", "node-001", "node-002"]
            last = next(name for name in names if not node_of(running, name))
            message = "0/3 nodes are available: 3 node(s) exceed max volume count."
            await eventually(lambda: waiting(running, last) == ("Unschedulable", message))
            await running.api.delete("pods", "default", next(name for name in names if name != last), grace=0)
            await eventually(lambda: runs(running, last))

    live(tmp_path, check)


def test_one_pod_at_a_time_uses_a_claim_with_read_write_once_pod(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server):
            await add_class(running, "disk")
            await add_claim(running, "alone", "disk", accessModes=["ReadWriteOncePod"])
            await add_pods(running, "two", [["alone"]] * 2)
            await eventually(lambda: runs(running, "two-0"))
            message = (
                "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
                "access mode already in-use by another pod."
            )
            await eventually(lambda: waiting(running, "two-1") == ("Unschedulable", message))
            await running.api.delete("pods", "default", "two-0", grace=0)
            await eventually(lambda: runs(running, "two-1"))

    live(tmp_path, check)


def test_failed_provisioning_is_reported_and_tried_again(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            # The volumes of this class need a label that no node has yet; the scheduler cannot know that.
            await add_class(running, "zonal", parameters={"topologyKey": "zone"})
            await add_claim(running, "data", "zonal")
            await add_pods(running, "zonal", [["data"]])
            words = 'binding volumes: provisioning failed for PVC "data"'

            def told() -> bool:
                about = ((e["involvedObject"]["name"], e["message"]) for e in running.api.list("events"))
                return ("zonal-0", words) in about

            await eventually(told)
            await eventually(lambda: SELECTED not in claim(running, "data")["metadata"].get("annotations", {}))

            def label(node: Object) -> None:
                node["metadata"].setdefault("labels", {})["zone"] = "a"

            for number in range(3):
                await running.api.modify("nodes", "", f"node-00{number}", label)
            await eventually(lambda: runs(running, "zonal-0"))
            scheduler.engine.state.validate()

    live(tmp_path, check)


def test_slow_volume_delays_no_other_pod_and_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_binder, "BIND_SECONDS", 1.0)

    async def check(running: RunningCluster) -> None:
        outside = {"metadata": {"name": "slow", "annotations": {"pumice.dev/simulated": "false"}}}
        await running.api.create(
            CLASSES, "", {**outside, "provisioner": "slow.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
        )
        async with scheduling(running.server) as scheduler:
            await add_claim(running, "slow", "slow")
            await add_pods(running, "slow", [["slow"]])
            await eventually(lambda: SELECTED in claim(running, "slow")["metadata"].get("annotations", {}))
            await add_pods(running, "quick", [[], [], []])
            await eventually(lambda: runs(running, "quick-0", "quick-1", "quick-2"))
            assert not node_of(running, "slow-0")
            words = 'binding volumes: persistentvolumeclaim "slow" was not bound within 1 s'
            await eventually(lambda: words in [event["message"] for event in running.api.list("events")])
            assert scheduler.binder.failed_binds

    live(tmp_path, check)


def test_deleted_pod_gives_up_its_volume(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        outside = {"metadata": {"name": "slow", "annotations": {"pumice.dev/simulated": "false"}}}
        await running.api.create(
            CLASSES, "", {**outside, "provisioner": "slow.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
        )
        async with scheduling(running.server) as scheduler:
            await add_claim(running, "slow", "slow")
            await add_pods(running, "slow", [["slow"]])
            await eventually(lambda: SELECTED in claim(running, "slow")["metadata"].get("annotations", {}))
            await running.api.delete("pods", "default", "slow-0")
            await eventually(lambda: scheduler.binder.waiting_for_volumes == 0)
            assert scheduler.cache.volumes.storage.selected == {}

    live(tmp_path, check)


def test_scheduler_stops_while_a_pod_waits_for_its_volume(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        outside = {"metadata": {"name": "slow", "annotations": {"pumice.dev/simulated": "false"}}}
        await running.api.create(
            CLASSES, "", {**outside, "provisioner": "slow.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
        )
        async with scheduling(running.server):
            await add_claim(running, "slow", "slow")
            await add_pods(running, "slow", [["slow"]])
            await eventually(lambda: SELECTED in claim(running, "slow")["metadata"].get("annotations", {}))
        chosen = claim(running, "slow")["metadata"]["annotations"][SELECTED]
        async with scheduling(running.server):  # the next one continues with the node that was chosen

            def provide(storage_class: Object) -> None:
                del storage_class["metadata"]["annotations"]["pumice.dev/simulated"]

            await asyncio.sleep(0)
            await running.api.modify(CLASSES, "", "slow", provide)
            await eventually(lambda: runs(running, "slow-0"))
            assert node_of(running, "slow-0") == chosen

    live(tmp_path, check)
