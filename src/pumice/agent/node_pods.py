"""The pods of the node as the API has them. Of one that has ended the agent keeps what it needs to remove it.

Pods that have ended stay in the API until somebody deletes them, often in thousands, with the environment of whoever
submitted them.
"""

from __future__ import annotations

from sys import intern

from msgspec import Struct

from pumice.kube.reduced_resource import reduced_resource
from pumice.kube.resources import PODS, Document, Resource

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases of pods that have ended."""


class EndedPod(Struct, frozen=True, gc=False):
    """A pod that has ended, and is there until it is deleted."""

    namespace: str
    name: str
    deleting: bool


Seen = Document | EndedPod


def node_pods() -> Resource[Seen]:
    """The pods of an informer, reduced as soon as they are decoded."""
    return reduced_resource(PODS.raw, reduced_pod)


def reduced_pod(pod: Document) -> Seen:
    """A pod, or what is kept of it if it has ended."""
    if (pod.get("status") or {}).get("phase") not in ENDED:
        return pod
    about = pod["metadata"]
    return EndedPod(intern(about["namespace"]), about["name"], "deletionTimestamp" in about)
