"""What controllers keep of pods."""

from __future__ import annotations

import json

from pumice.controllers.seen_pods import SEEN_PODS


def test_what_controllers_read_of_a_pod_is_kept_and_nothing_else() -> None:
    about = {"name": "a", "namespace": "b", "uid": "c", "labels": {"l": "1"}, "annotations": {"n": "2"}}
    containers = [{"name": "main", "env": [{"name": "SECRET", "value": "x"}]}]
    ended = [{"name": "main", "restartCount": 2, "state": {"terminated": {"exitCode": 3}}}]
    read = {"nodeName": "here", "schedulerName": "pumice", "priorityClassName": "high"}
    found = SEEN_PODS.decode(
        json.dumps(
            {
                "metadata": {**about, "managedFields": [{"manager": "x"}]},
                "spec": {**read, "containers": containers, "tolerations": [{"operator": "Exists"}], "priority": 5},
                "status": {"phase": "Failed", "containerStatuses": ended, "conditions": [{"type": "Ready"}]},
            }
        ).encode()
    )
    assert found == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": read,
        "status": {"phase": "Failed", "containerStatuses": ended},
    }


def test_a_pod_that_has_no_status_yet() -> None:
    found = SEEN_PODS.decode(b'{"metadata": {"name": "a"}, "spec": {"containers": []}}')
    assert (found["spec"], found["status"]) == ({}, {})
