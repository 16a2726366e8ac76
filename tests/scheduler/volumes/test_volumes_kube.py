"""Pods with claims on a real kube-apiserver with kube-controller-manager, and the rights that Pumice ships.

The test plays the provisioner: a controller outside of Kubernetes that makes a volume for a claim whose node is chosen.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pumice.install.rbac import CONTROLLERS, SCHEDULER
from tests.install.working_day import Day
from tests.support.controller_manager import controller_manager
from tests.support.installed import Component, pumice, real_server, until
from tests.support.kubectl import Namespace

pytestmark = pytest.mark.kube
Object = dict[str, Any]
DRIVER = "disk.example.com"
HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
VOLUME_CONTROLLERS = ("persistentvolume-binder-controller", "garbage-collector-controller")


class Provisioner:
    """Makes a volume on the selected node for every claim that asks this driver for one."""

    def __init__(self, kubectl: Namespace) -> None:
        self._kubectl = kubectl
        self._stop = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            for claim in json.loads(self._kubectl("get", "pvc", "-o", "json"))["items"]:
                annotations = claim["metadata"].get("annotations", {})
                asked = annotations.get("volume.kubernetes.io/storage-provisioner") == DRIVER
                if asked and SELECTED in annotations and not claim["spec"].get("volumeName"):
                    self._provide(claim, annotations[SELECTED])

    def _provide(self, claim: Object, node: str) -> None:
        about, spec = claim["metadata"], claim["spec"]
        reference = {"namespace": about["namespace"], "name": about["name"], "uid": about["uid"]}
        made = volume(f"pvc-{about['uid']}", spec["storageClassName"], node)
        made["spec"] |= {"claimRef": reference, "csi": {"driver": DRIVER, "volumeHandle": about["uid"]}}
        del made["spec"]["hostPath"]
        self._kubectl.tried("create", "-f", "-", given=made)


def volume(name: str, storage_class: str, node: str) -> Object:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "hostPath": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """A cluster with two nodes, a class of each kind, and everything at work."""
    folder = tmp_path_factory.mktemp("volumes")
    with real_server(folder) as real:
        assert pumice(real.admin, "install", "--no-webhooks")[0] == 0
        day = Day(real)
        for name in ("real-1", "real-2"):
            day.node(name)
            day.kubectl("label", "node", name, f"{HOST}={name}")
        for name, provisioner in (("wffc", DRIVER), ("local", "kubernetes.io/no-provisioner")):
            about = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
            day.make({**about, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
        with (
            controller_manager(real.admin, folder / "controllers.log", VOLUME_CONTROLLERS),
            Component(real, CONTROLLERS).running(),
            Component(real, SCHEDULER).running(),
            Provisioner(real.kubectl()).running(),
        ):
            yield day


def make_claim(day: Day, name: str, storage_class: str) -> None:
    about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    day.make({**about, "spec": day.claim(storage_class)})


def make_pod(day: Day, name: str, claim: str) -> None:
    pod = day.pod(name)
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    day.make(pod)


def claim_of(day: Day, name: str) -> Object:
    return day.kubectl.object("pvc", name)


def test_claim_that_waits_gets_the_node_of_its_pod(day: Day) -> None:
    make_claim(day, "data", "wffc")
    make_pod(day, "uses-wffc", "data")
    day.await_bound("uses-wffc")
    found = claim_of(day, "data")
    assert found["metadata"]["annotations"][SELECTED] == day.node_of("uses-wffc")
    assert found["status"]["phase"] == "Bound"


def test_pods_go_where_their_volume_is(day: Day) -> None:
    day.make(volume("local-on-2", "", "real-2"))
    make_claim(day, "on-2", "")
    until(lambda: claim_of(day, "on-2")["status"]["phase"] == "Bound", what="the claim is bound")
    names = [f"on-2-{number}" for number in range(4)]
    for name in names:
        make_pod(day, name, "on-2")
    for name in names:
        day.await_bound(name)
    assert {day.node_of(name) for name in names} == {"real-2"}


def test_claim_takes_a_local_volume_and_its_pod_goes_there(day: Day) -> None:
    day.make(volume("disk", "local", "real-1"))
    make_claim(day, "fast", "local")
    make_pod(day, "reads", "fast")
    day.await_bound("reads")
    assert day.node_of("reads") == "real-1"
    assert claim_of(day, "fast")["spec"]["volumeName"] == "disk"


def test_job_with_an_output_volume_runs(day: Day) -> None:
    volumes = [{"mountPath": "/out", "volumeClaim": day.claim("wffc")}]
    day.make(day.job("output", 2, volumes=volumes))
    day.await_job("output", 2)
    claim = claim_of(day, "output-volume-0")
    assert claim["metadata"]["ownerReferences"][0]["name"] == "output"
    # The volume of the test's provisioner is on one node, and so are both pods.
    assert {day.node_of(pod) for pod in day.pods_of("output")} == {claim["metadata"]["annotations"][SELECTED]}


def test_pod_with_a_missing_claim_says_so(day: Day) -> None:
    make_pod(day, "early", "nowhere")
    said = ("get", "pod", "early", "-o", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}")
    words = '0/2 nodes are available: persistentvolumeclaim "nowhere" not found.'
    until(lambda: day.kubectl(*said) == words, what="its condition names the claim")
    status, output, _ = pumice(day.real.admin, "why", "pod/early")
    assert status == 0
    assert 'persistentvolumeclaim "nowhere" not found' in output
