"""The writes that bind volumes, and how a plan ends: bound, given up, or failed with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from pumice.kube.client.api_errors import ApiError
from pumice.kube.decode.storage import PodClaim
from pumice.kube.resources import CLAIMS, STORAGE_CLASSES, VOLUMES, Resource
from pumice.kube.watch.change_queue import Change
from pumice.scheduler.volumes.volume_binder import VolumeBinder, VolumeBindingError
from pumice.scheduler.volumes.volume_cache import VolumeCache

Object = dict[str, Any]
SELECTED = "volume.kubernetes.io/selected-node"
CONFLICT = ApiError(409, "Conflict", "the object has been modified")


class Cluster:
    """An API that keeps what is patched, and a cache that is told nothing by itself."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        self.refusal = refusal
        self.patches: list[tuple[str, str, Object]] = []
        self.cache = VolumeCache()
        for node in ("n1", "n2"):
            self.cache.set_node(node, {"host": node})
        self.show(STORAGE_CLASSES, {"metadata": {"name": "fast"}, **WAITS, "provisioner": "disk.example.com"})
        self.show(CLAIMS, claim())
        self.cache.set_pod("ns/p", (PodClaim("data"),))

    def show(self, resource: Resource[Any], document: Object | None, key: str = "", revision: str = "1") -> None:
        """A change that an informer delivers."""
        if document is None:
            self.cache.apply(Change(resource.name, key, "", "", None, None))
            return
        about = document["metadata"]
        key = f"{about['namespace']}/{about['name']}" if resource.namespaced else about["name"]
        found = resource.decode(msgspec.json.encode(document))
        self.cache.apply(Change(resource.name, key, f"uid-{about['name']}", revision, None, found))

    async def patch(self, resource: Any, name: str, patch: Object, namespace: str = "") -> None:
        self.patches.append((resource.plural, name, patch))
        if self.refusal is not None:
            raise self.refusal


WAITS = {"volumeBindingMode": "WaitForFirstConsumer"}


def claim(selected: str = "", volume: str = "") -> Object:
    annotations = {SELECTED: selected} if selected else {}
    spec: Object = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    if volume:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        spec["volumeName"] = volume
    return {"metadata": {"namespace": "ns", "name": "data", "annotations": annotations}, "spec": spec}


def volume(node: str, claimed: bool = True) -> Object:
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [node]}]}
    spec: Object = {"capacity": {"storage": "1Gi"}, "storageClassName": "fast"}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if claimed:
        spec["claimRef"] = {"namespace": "ns", "name": "data", "uid": "uid-data"}
    return {"metadata": {"name": "v"}, "spec": spec, "status": {"phase": "Available"}}


def bound(
    cluster: Cluster, *then: Callable[[], None], wanted: Callable[[], bool] = lambda: True, stop: bool = False
) -> bool:
    """Bind the pod to n1, while these changes arrive one after another."""

    async def once(key: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        return await ask()

    async def run() -> bool:
        plan = cluster.cache.assume("ns/p", "n1")
        assert plan is not None
        binder = VolumeBinder(cluster, cluster.cache, once)  # type: ignore[arg-type]  # as much of them as is needed
        work = asyncio.create_task(binder.bind("ns/p", plan, wanted))
        for step in then:
            await asyncio.sleep(0.01)
            step()
        if stop:
            await asyncio.sleep(0.01)
            binder.stop()
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(run())


def is_free(cluster: Cluster) -> bool:
    return not cluster.cache.storage.selected and not cluster.cache.storage.reserved


def test_claim_gets_its_node_and_is_awaited() -> None:
    cluster = Cluster()
    steps = (
        lambda: cluster.show(CLAIMS, claim("n1"), revision="2"),
        lambda: cluster.show(CLAIMS, claim("n1", "v"), revision="3"),
        lambda: cluster.show(VOLUMES, volume("n1")),  # its event may come last
    )
    assert bound(cluster, *steps)
    about = {"uid": "uid-data", "resourceVersion": "1", "annotations": {SELECTED: "n1"}}
    assert cluster.patches == [("persistentvolumeclaims", "data", {"metadata": about})]
    assert is_free(cluster)


def test_volume_that_exists_gets_the_claim() -> None:
    cluster = Cluster()
    cluster.show(VOLUMES, volume("n1", claimed=False))
    assert bound(cluster, lambda: cluster.show(CLAIMS, claim(volume="v")), lambda: cluster.show(VOLUMES, volume("n1")))
    ((plural, name, patch),) = cluster.patches
    assert (plural, name, patch["metadata"]["uid"]) == ("persistentvolumes", "v", "uid-v")
    reference = patch["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"], reference["uid"]) == ("ns", "data", "uid-data")
    assert is_free(cluster)


def test_volume_that_turns_out_to_be_elsewhere_fails_the_plan() -> None:
    cluster = Cluster()
    steps = (lambda: cluster.show(CLAIMS, claim("n1", "v")), lambda: cluster.show(VOLUMES, volume("n2")))
    with pytest.raises(VolumeBindingError, match='pv "v" node affinity doesn\'t match node "n1"'):
        bound(cluster, *steps)
    assert is_free(cluster)


def test_provisioner_that_gives_up_is_noticed_even_if_both_events_come_at_once() -> None:
    cluster = Cluster()

    def both() -> None:
        cluster.show(CLAIMS, claim("n1"), revision="2")
        cluster.show(CLAIMS, claim(), revision="3")

    with pytest.raises(VolumeBindingError, match='provisioning failed for PVC "data"'):
        bound(cluster, both)
    assert len(cluster.patches) == 1  # there is no node to withdraw
    assert is_free(cluster)


def test_plan_that_conflicts_ends_no_reservation_of_another_pod() -> None:
    cluster = Cluster()
    local = {"metadata": {"name": "fast"}, **WAITS, "provisioner": "kubernetes.io/no-provisioner"}
    cluster.show(STORAGE_CLASSES, local)
    conflicting = cluster.cache.assume("ns/p", "n1")
    assert conflicting is not None
    assert conflicting.conflict == "node(s) didn't find available persistent volumes to bind"
    cluster.show(STORAGE_CLASSES, {**local, "provisioner": "disk.example.com"})
    cluster.cache.set_pod("ns/q", (PodClaim("data"),))
    cluster.cache.assume("ns/q", "n2")
    cluster.cache.release(conflicting)
    assert cluster.cache.storage.selected == {"ns/data": "n2"}


def test_claim_that_is_deleted_fails_the_plan() -> None:
    cluster = Cluster()
    with pytest.raises(VolumeBindingError, match='persistentvolumeclaim "data" not found'):
        bound(cluster, lambda: cluster.show(CLAIMS, None, "ns/data"))


def test_refused_write_fails_the_plan() -> None:
    cluster = Cluster(refusal=CONFLICT)
    with pytest.raises(VolumeBindingError, match="the object has been modified"):
        bound(cluster)
    assert is_free(cluster)


def test_node_is_withdrawn_from_a_claim_that_was_not_bound_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.scheduler.volumes.volume_binder.BIND_SECONDS", 0.1)
    cluster = Cluster()
    with pytest.raises(VolumeBindingError, match='persistentvolumeclaim "data" was not bound within 0 s'):
        bound(cluster, lambda: cluster.show(CLAIMS, claim("n1"), revision="2"))
    about = {"uid": "uid-data", "resourceVersion": "2", "annotations": {SELECTED: None}}
    assert cluster.patches[1:] == [("persistentvolumeclaims", "data", {"metadata": about})]


def test_pod_that_is_no_longer_wanted_ends_the_wait() -> None:
    cluster, wanted = Cluster(), [True]

    def forget() -> None:
        wanted.clear()
        cluster.cache.drop_pod("ns/p")

    assert not bound(cluster, forget, wanted=lambda: bool(wanted))
    assert is_free(cluster)


def test_scheduler_that_stops_waits_no_longer() -> None:
    cluster = Cluster()
    assert not bound(cluster, stop=True)
    assert len(cluster.patches) == 1  # the claim keeps its node for the next scheduler
