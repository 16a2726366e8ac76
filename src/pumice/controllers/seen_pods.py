"""Pods as the controllers keep them: without the lists and mappings of their spec, and without their conditions.

There are many pods, and those that have ended stay until somebody deletes them. Each has the environment, the volumes
and the tolerations of its template, of which controllers read nothing; they never write a whole pod back.
"""

from __future__ import annotations

from pumice.kube.reduced_resource import reduced_resource
from pumice.kube.resources import PODS, Document

SPEC = ("nodeName", "schedulerName", "priorityClassName")
"""The fields of a spec that controllers read."""
NOT_READ = ("managedFields", "conditions")
"""Fields of metadata and status that no controller reads."""


def reduced_pod(pod: Document) -> Document:
    """The parts of a pod that controllers read."""
    spec = pod.get("spec") or {}
    return {
        **pod,
        "metadata": _kept(pod["metadata"]),
        "spec": {name: spec[name] for name in SPEC if name in spec},
        "status": _kept(pod.get("status") or {}),
    }


def _kept(fields: Document) -> Document:
    return {name: value for name, value in fields.items() if name not in NOT_READ}


SEEN_PODS = reduced_resource(PODS.checked_raw, reduced_pod)
