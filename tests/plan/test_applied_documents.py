"""Merging as ``kubectl apply`` does it, and manifests of queues from a decision log."""

from __future__ import annotations

import json

from kubebase.resource_vector import Registry
from pumice.kube.decode.convert import decode
from pumice.model.specs import Queue
from pumice.plan.applied_documents import LAST_APPLIED, changed_fields, last_applied, merged_document, queue_document


def test_fields_of_others_stay_and_own_fields_that_were_left_out_go() -> None:
    stored = {"spec": {"weight": 2, "reclaimable": True, "capability": {"cpu": "4", "memory": "1Gi"}}}
    applied = {"spec": {"weight": 2, "capability": {"cpu": "4"}}}
    new = {"spec": {"capability": {"memory": "2Gi"}}}
    assert merged_document(stored, applied, new) == {"spec": {"reclaimable": True, "capability": {"memory": "2Gi"}}}


def test_null_removes_a_field_and_lists_are_replaced() -> None:
    stored = {"spec": {"weight": 2, "taints": [1, 2]}}
    assert merged_document(stored, None, {"spec": {"weight": None, "taints": [3]}}) == {"spec": {"taints": [3]}}


def test_annotations_of_others_stay_when_a_manifest_has_none() -> None:
    # kubectl writes "annotations": {} into what it keeps of a manifest without any.
    applied = {"metadata": {"name": "a", "annotations": {}}, "spec": {"weight": 1}}
    own = {LAST_APPLIED: json.dumps(applied), "example.com/by": "a controller"}
    stored = {"metadata": {"name": "a", "annotations": own}, "spec": {"weight": 1}}
    new = {"metadata": {"name": "a"}, "spec": {"weight": 3}}
    merged = merged_document(stored, applied, new)
    assert merged["metadata"]["annotations"] == own
    assert list(changed_fields(stored, merged)) == [("spec.weight", 1, 3)]
    applied["metadata"] = {"name": "a", "annotations": {"example.com/by": "a controller"}}
    assert merged_document(stored, applied, new)["metadata"]["annotations"] == {LAST_APPLIED: own[LAST_APPLIED]}


def test_new_object_is_the_manifest() -> None:
    assert merged_document(None, None, {"kind": "Queue"}) == {"kind": "Queue"}


def test_last_applied_is_read_from_its_annotation() -> None:
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: json.dumps({"spec": {}})}}}) == {"spec": {}}
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: "{"}}}) is None
    assert last_applied({"metadata": {}}) is None


def test_changed_fields_leave_out_what_servers_write() -> None:
    before = {"metadata": {"name": "a", "uid": "1"}, "spec": {"weight": 1, "x": {"y": 1}}, "status": {"state": "Open"}}
    after = {"metadata": {"name": "a"}, "spec": {"weight": 3, "x": {"y": 1, "z": 2}}}
    assert list(changed_fields(before, after)) == [("spec.weight", 1, 3), ("spec.x.z", None, 2)]


def test_queue_document_describes_the_same_queue() -> None:
    registry = Registry()
    cpu, gpu = registry.index("cpu"), registry.index("nvidia.com/gpu")
    queues = [
        Queue("plain"),
        Queue(
            "full",
            weight=3,
            parent="plain",
            priority=5,
            reclaimable=False,
            fifo=True,
            capability=((cpu, 8000), (gpu, 4000)),
            deserved=((cpu, 2500),),
            guarantee=((cpu, 1000),),
            min_user_limit_percent=25,
            user_limit_factor=1.5,
        ),
        Queue("old", path="root/org/old", path_weights="1/2/3"),
    ]
    for queue in queues:
        assert decode(queue_document(queue, registry), registry=registry, created=0) == queue
