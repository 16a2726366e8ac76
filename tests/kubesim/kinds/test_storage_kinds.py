"""PersistentVolumes, claims and storage classes: defaults, refusals in kube-apiserver's words, tables."""

from typing import Any

import pytest

from kubesim.kinds.persistent_volumes import persistent_volume_claims, persistent_volumes
from kubesim.kinds.storage_classes import (
    DEFAULT_CLASS,
    STORAGE_CLASSES,
    csi_drivers,
    csi_nodes,
    csi_storage_capacities,
    storage_classes,
)
from tests.kubesim.kinds.strategy_writes import FakeContext, cells, create, headings, named, rejection_message, update

CLAIMS, VOLUMES, CLASSES = persistent_volume_claims(), persistent_volumes(), storage_classes()
ASKS: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
HAS: dict[str, Any] = {
    "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
    "capacity": {"storage": "1024Mi"},
    "hostPath": {"path": "/x"},
}


def test_claim_starts_pending_with_the_default_class() -> None:
    newer = create(CLASSES, {"metadata": {"name": "a", "annotations": {DEFAULT_CLASS: "true"}}, "provisioner": "p"})
    world = FakeContext(newer, resource=STORAGE_CLASSES)
    found = create(CLAIMS, named(spec=ASKS), world)
    assert (found["spec"]["storageClassName"], found["spec"]["volumeMode"], found["status"]) == (
        "a",
        "Filesystem",
        {"phase": "Pending"},
    )
    assert create(CLAIMS, named(spec={**ASKS, "storageClassName": ""}), world)["spec"]["storageClassName"] == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({**ASKS, "accessModes": []}, "spec.accessModes: Required value: at least 1 access mode is required"),
        ({**ASKS, "resources": {}}, "spec.resources[storage]: Required value"),
        (
            {**ASKS, "accessModes": ["Any"]},
            'spec.accessModes: Unsupported value: "Any": supported values: "ReadOnlyMany", "ReadWriteMany", '
            '"ReadWriteOnce", "ReadWriteOncePod"',
        ),
        (
            {**ASKS, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        ),
    ],
)
def test_claim_is_refused(spec: dict[str, Any], words: str) -> None:
    assert rejection_message(create, CLAIMS, named(spec=spec)) == f'422 PersistentVolumeClaim "it" is invalid: {words}'


def test_claim_changes_only_by_its_binding() -> None:
    claim = create(CLAIMS, named(spec=ASKS))
    bound = update(CLAIMS, claim, {"spec": {"volumeName": "v"}})
    assert bound["spec"]["volumeName"] == "v"
    words = rejection_message(update, CLAIMS, bound, {"spec": {"volumeName": "w"}})
    assert "spec: Forbidden: spec is immutable after creation except resources.requests" in words


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({**HAS, "nfs": {"path": "/", "server": "s"}}, "spec.nfs: Forbidden: may not specify more than 1 volume type"),
        (
            {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}},
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ),
    ],
)
def test_volume_is_refused(spec: dict[str, Any], words: str) -> None:
    assert rejection_message(create, VOLUMES, named(spec=spec)) == f'422 PersistentVolume "it" is invalid: {words}'


def test_tables() -> None:
    volume = create(VOLUMES, named(spec={**HAS, "claimRef": {"namespace": "ns", "name": "c"}}))
    shown = dict(zip((name for name, *_ in headings(VOLUMES)), cells(VOLUMES, volume), strict=True))
    assert (shown["Capacity"], shown["Access Modes"], shown["Claim"], shown["Reclaim Policy"]) == (
        "1Gi",
        "RWO,ROX",
        "ns/c",
        "Retain",
    )
    default = create(CLASSES, {"metadata": {"name": "a", "annotations": {DEFAULT_CLASS: "true"}}, "provisioner": "p"})
    assert cells(CLASSES, default)[:4] == ["a (default)", "p", "Delete", "Immediate"]


def test_storage_class_is_immutable_but_for_expansion() -> None:
    found = create(CLASSES, named(provisioner="p"))
    assert update(CLASSES, found, {"allowVolumeExpansion": True})["allowVolumeExpansion"] is True
    words = rejection_message(update, CLASSES, found, {"provisioner": "q"})
    assert words.endswith('provisioner: Invalid value: "q": field is immutable')
    assert rejection_message(create, CLASSES, named()).endswith("provisioner: Required value")


def test_what_drivers_publish() -> None:
    driver = create(csi_drivers(), named("d", spec={"storageCapacity": True}))
    assert driver["spec"]["attachRequired"] is True
    installed = {"name": "d", "nodeID": "x", "allocatable": {"count": 3}}
    node = create(csi_nodes(), named("n", spec={"drivers": [installed]}))
    assert cells(csi_nodes(), node)[:2] == ["n", 1]
    capacities = csi_storage_capacities()
    assert create(capacities, named("c", storageClassName="a", capacity="2048Mi"))["capacity"] == "2Gi"
    assert 'storageClassName: Invalid value: ""' in rejection_message(create, capacities, named("c"))
