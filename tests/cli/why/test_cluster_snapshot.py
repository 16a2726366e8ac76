"""Which PodGroup a name stands for, and what is known of a cluster from its objects alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pumice.cli.why.cluster_snapshot import WATCHED_RESOURCES, ClusterSnapshot, NoSuchJobError
from pumice.config.load import default_config
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client, Listing
from pumice.kube.resources import EVENTS

Document = dict[str, Any]
SECOND = 1_000_000
NOON = 1_767_268_800 * SECOND  # 2026-01-01T12:00:00Z


class Still(Client):
    """A cluster that never changes."""

    def __init__(self, *objects: Document) -> None:
        super().__init__(Access("http://nowhere"))
        self.objects = objects

    def list(self, path: str, query: Any = None, *, page: int = 0) -> Listing:
        if path == EVENTS.path("default"):
            (uid,) = re.findall("involvedObject.uid=([^,]+),reason=FailedCreate", query["fieldSelector"])
            return Listing([found for found in self.objects if found.get("involvedObject") == {"uid": uid}], "1")
        kind = next(resource.kind for resource in WATCHED_RESOURCES if resource.path() == path)
        return Listing([found for found in self.objects if found["kind"] == kind], "1")

    def get(self, path: str) -> Document:
        for found in self.objects:
            if path == f"/apis/{found['apiVersion']}/namespaces/default/jobs/{found['metadata']['name']}":
                return found
        raise ApiError(404, "NotFound", "not found")


def made(kind: str, name: str, version: str = "v1", owner: str = "", **parts: Any) -> Document:
    about: Document = {"name": name, "namespace": "default", "uid": name}
    if owner:
        owner_kind, _, owner_name = owner.partition("/")
        about["ownerReferences"] = [{"kind": owner_kind, "name": owner_name}]
    return {"apiVersion": version, "kind": kind, "metadata": about | parts.pop("metadata", {}), **parts}


def pod(name: str, group: str = "", **about: Any) -> Document:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    labels = about.pop("labels", {})
    return made("Pod", name, metadata={"annotations": annotations, "labels": labels}, spec={}, **about)


def vcjob(name: str, phase: str, message: str = "", **spec: Any) -> Document:
    state = {"phase": phase} | ({"message": message} if message else {})
    return made("Job", name, "batch.volcano.sh/v1alpha1", spec=spec, status={"state": state})


def refused(job: str, message: str, time: str) -> Document:
    about: Document = {"involvedObject": {"uid": job}, "message": message, "lastTimestamp": f"2026-01-01T{time}Z"}
    return made("Event", f"{job}.{time}", reason="FailedCreate", **about)


def test_every_name_finds_its_group() -> None:
    snapshot = ClusterSnapshot(
        Still(
            made("PodGroup", "own"),
            made("PodGroup", "podgroup-1", owner="Job/work"),
            made("PodGroup", "podgroup-2", owner="ReplicaSet/web-5d4"),
            pod("work-x", "podgroup-1", owner="Job/work"),
            pod("web-5d4-y", "podgroup-2", owner="ReplicaSet/web-5d4", labels={"pod-template-hash": "5d4"}),
        )
    )
    found = {
        name: snapshot.find(name, "default").key
        for name in ("own", "pg/own", "work", "vcjob/work", "work-x", "po/work-x", "web", "deploy/web", "rs/web-5d4")
    }
    assert found == {
        "own": "default/own",
        "pg/own": "default/own",
        "work": "default/podgroup-1",
        "vcjob/work": "default/podgroup-1",
        "work-x": "default/podgroup-1",
        "po/work-x": "default/podgroup-1",
        "web": "default/podgroup-2",
        "deploy/web": "default/podgroup-2",
        "rs/web-5d4": "default/podgroup-2",
    }
    for name in ("pod/own", "job/own", "sts/web", "web-5"):
        with pytest.raises(NoSuchJobError):
            snapshot.find(name, "default")
    assert snapshot.find("work", "default").requested_name == "default/work"


def test_jobs_are_named_whose_controllers_made_their_groups() -> None:
    def group(name: str, version: str, owner: str) -> Document:
        found = made("PodGroup", name, owner=owner)
        found["metadata"]["ownerReferences"][0]["apiVersion"] = version
        return found

    snapshot = ClusterSnapshot(
        Still(
            made("PodGroup", "own"),
            group("train-1f", "batch.volcano.sh/v1alpha1", "Job/train"),
            group("podgroup-1", "batch/v1", "Job/work"),
            group("ray-tune-pg", "ray.io/v1", "RayCluster/tune"),
        )
    )
    assert snapshot.job_names() == {"default/train-1f": "default/train", "default/podgroup-1": "default/work"}


def test_objects_without_podgroup_are_explained() -> None:
    suspended = made("Job", "later", "batch/v1", spec={"suspend": True})
    snapshot = ClusterSnapshot(Still(suspended, vcjob("new", "Pending"), pod("alone")))
    assert snapshot.find("new", "default").verdict == (
        "vcjob default/new waits: it has no PodGroup yet; its phase is Pending."
    )
    assert snapshot.find("later", "default").verdict == (
        "Job default/later waits: it has no PodGroup yet. It is suspended."
    )
    assert "has no PodGroup, so" in snapshot.find("alone", "default").verdict
    assert snapshot.find("new", "default").notes == ["PodGroups are created by pumice controllers: is it running?"]


def test_suspended_or_finished_job_does_not_wait() -> None:
    # The group of a job that has failed is gone, but its pods are there and name it.
    left = pod("lost-main-0", "lost-1", owner="Job/lost")
    snapshot = ClusterSnapshot(Still(vcjob("off", "Aborted"), vcjob("lost", "Failed", "no retry is left"), left))
    suspended, over = snapshot.find("off", "default"), snapshot.find("lost", "default")
    assert suspended.verdict == "vcjob default/off is suspended: its phase is Aborted"
    assert suspended.notes == ["resume it with vresume off"]
    assert over.verdict == "vcjob default/lost is not waiting: it has finished, its phase is Failed (no retry is left)"
    assert not over.key
    assert not over.notes


def test_refused_creations_are_explained() -> None:
    closed, quota = "queue 'q' takes no jobs", "exceeded quota"
    snapshot = ClusterSnapshot(
        Still(
            vcjob("new", "Pending"),
            refused("new", "PodGroup new-1: it was something else", "10:00:00"),
            refused("new", f"PodGroup new-1: {closed}", "11:00:00"),
            vcjob("half", "Running", tasks=[{"replicas": 2}, {}]),
            made("PodGroup", "half-1", metadata={"ownerReferences": [{"kind": "Job", "name": "half", "uid": "half"}]}),
            made("Pod", "half-0", metadata={"ownerReferences": [{"kind": "Job", "name": "half", "uid": "half"}]}),
            refused("half", f"Pod half-1: {quota}", "10:00:00"),
            made("Job", "batch", "batch/v1", spec={}),
            made("Pod", "alone", spec={}, metadata={"ownerReferences": [{"kind": "X", "name": "x", "uid": "batch"}]}),
            refused("alone", "PodGroup podgroup-alone: there is no queue 'nope'", "10:00:00"),
        )
    )
    assert snapshot.find("new", "default").notes == [
        f"the API refused to create its PodGroup: PodGroup new-1: {closed}"
    ]
    for name in ("alone", "batch"):
        assert snapshot.find(name, "default").notes == [
            "the API refused to create its PodGroup: PodGroup podgroup-alone: there is no queue 'nope'"
        ]
    half = snapshot.find("half", "default")
    assert (half.key, half.notes) == ("default/half-1", [f"2 of its 3 pods could not be created: Pod half-1: {quota}"])


def test_checkpoint_comes_from_podgroup_conditions() -> None:
    # 4 cpu, all held. "waits" has found no room for 60 s; for "holds" some has been kept for 10 s.
    conditions = {
        "waits": {"reason": "NotEnoughResources", "lastTransitionTime": "2026-01-01T11:59:00Z"},
        "holds": {"reason": "HoldsRoom", "lastTransitionTime": "2026-01-01T11:59:50Z"},
    }
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    groups = [
        made(
            "PodGroup",
            name,
            "scheduling.volcano.sh/v1beta1",
            spec={"queue": name, "minMember": 1},
            status={"phase": "Inqueue", "conditions": [{"type": "Unschedulable", "status": "True", **condition}]},
        )
        for name, condition in conditions.items()
    ]
    queues = [{**made("Queue", name, "scheduling.volcano.sh/v1beta1"), "spec": {"weight": 1}} for name in conditions]
    node = made("Node", "n", status={"allocatable": {"cpu": "0", "memory": "1Gi", "pods": "9"}})
    pods = [{**pod(f"{name}-0", name), "spec": spec} for name in conditions]
    snapshot = ClusterSnapshot(Still(node, *queues, *groups, *pods))
    engine = snapshot.engine(default_config(), NOON)
    since = {leaf.name: time for leaf, time in engine.context.reclaimers._since.items()}
    # The patience of a hold is 300 s: it must have waited that long before.
    assert since == {"default/waits": NOON - 60 * SECOND, "default/holds": NOON - 310 * SECOND}
    assert engine.now == NOON and snapshot.unreadable == []


def test_gated_pods_are_promised_nothing() -> None:
    spec = {"queue": "q", "minMember": 2, "minResources": {"cpu": "2"}}
    group = made("PodGroup", "g", "scheduling.volcano.sh/v1beta1", spec=spec, status={"phase": "Inqueue"})
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    gated = {**pod("g-0", "g"), "spec": {"containers": containers, "schedulingGates": [{"name": "quota"}]}}
    engine = ClusterSnapshot(Still(group, gated)).engine(default_config(), NOON)
    found = engine.state.jobs["default/g"].spec
    assert found is not None and found.min_resources[0] == 1000


def test_undecodable_objects_are_named_and_ignored() -> None:
    odd = made("PodGroup", "odd", "scheduling.volcano.sh/v1beta1", spec={"minMember": "many"})
    snapshot = ClusterSnapshot(Still(odd))
    engine = snapshot.engine(default_config(), NOON)
    assert engine.state.jobs == {}
    (said,) = snapshot.unreadable
    assert said.startswith("PodGroup default/odd: spec.minMember")


def test_exhausted_quotas_are_listed() -> None:
    status = {"hard": {"pods": "2", "requests.cpu": "4"}, "used": {"pods": "2", "requests.cpu": "3500m"}}
    snapshot = ClusterSnapshot(Still(made("ResourceQuota", "q", status=status)))
    assert snapshot.exhausted_quotas("default") == ["ResourceQuota q of namespace default is exhausted: pods 2"]
    assert snapshot.exhausted_quotas("other") == []
