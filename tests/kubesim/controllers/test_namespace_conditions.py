from __future__ import annotations

from kubesim.controllers.namespaces import RemainingContent, deletion_conditions

TYPES = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
]


def test_namespace_conditions_without_remaining_content():
    found = list(deletion_conditions(RemainingContent()))
    assert [entry["type"] for entry in found] == TYPES
    assert {entry["status"] for entry in found} == {"False"}


def test_namespace_conditions_name_remaining_content_and_finalizers():
    rest = RemainingContent()
    rest.resources.update({"pods.": 2, "queues.scheduling.volcano.sh": 1})
    rest.finalizers.update({"example.com/wait": 2, "a/b": 1})
    rest.errors.append("pods: no")
    found = {entry["type"]: entry for entry in deletion_conditions(rest)}
    assert found["NamespaceContentRemaining"] == {
        "type": "NamespaceContentRemaining",
        "status": "True",
        "reason": "SomeResourcesRemain",
        "message": "Some resources are remaining: pods. has 2 resource instances, "
        "queues.scheduling.volcano.sh has 1 resource instances",
    }
    assert found["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a/b in 1 resource instances, example.com/wait in 2 resource instances"
    )
    assert found["NamespaceDeletionContentFailure"]["status"] == "True"
