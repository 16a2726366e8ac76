"""Warnings about the fields of a manifest that have no effect: the same that admission returns to clients."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.effectless_fields import effectless_fields
from pumice.admission.request import JOBS, PODGROUPS, PODS, QUEUES
from pumice.sim.manifest_files import Manifest

RESOURCES = {
    ("batch.volcano.sh", "Job"): JOBS,
    ("scheduling.volcano.sh", "PodGroup"): PODGROUPS,
    ("scheduling.volcano.sh", "Queue"): QUEUES,
    ("v1", "Pod"): PODS,
}


def manifest_warnings(manifest: Manifest) -> Iterator[str]:
    """The warnings about a manifest, each with its file and object."""
    document = manifest.document
    resource = RESOURCES.get((str(document.get("apiVersion") or "").partition("/")[0], manifest.kind))
    if resource is None:
        return
    name = (document.get("metadata") or {}).get("name", "")
    for warning in effectless_fields(resource, dict(document)):
        yield f"{manifest.file}: {manifest.kind}/{name}: {warning}"
