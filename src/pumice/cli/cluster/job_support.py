"""Whether a cluster carries out what annotations of a job ask for: arrays and the order of jobs.

Pumice's controllers do; Volcano's would start such a job at once, with all its pods. Where Pumice's admission is at
work, it writes the user into every new job, so a trial without effect tells which cluster this is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster
from pumice.cli.cluster.job_manifest import AFTER, ARRAY, USER_ANNOTATION

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document


def check_order(cluster: Cluster, after: Iterable[str]) -> None:
    """Reject jobs to start after that do not exist."""
    from pumice.kube.client.api_errors import ApiError
    from pumice.kube.resource_name import JOB

    for text in after:
        name = text.rpartition(":")[2]
        try:
            cluster.client.get(JOB.path(cluster.namespace, name))
        except ApiError as error:
            if not error.not_found:
                raise
            raise click.ClickException(
                f"--after {text}: there is no job {name} in namespace {cluster.namespace}"
            ) from None


def check_support(cluster: Cluster, job: Document) -> None:
    """Reject a job whose annotations nobody would carry out."""
    from pumice.kube.resource_name import JOB

    about = job.get("metadata") or {}
    annotations = about.get("annotations") or {}
    used = [name for name in (ARRAY, AFTER) if name in annotations]
    if not used:
        return
    unsigned = {key: value for key, value in annotations.items() if key != USER_ANNOTATION}
    trial = {**job, "metadata": {**about, "annotations": unsigned}}
    made = cluster.client.create(JOB.path(about.get("namespace") or cluster.namespace), trial, dry_run=True)
    if USER_ANNOTATION not in (made["metadata"].get("annotations") or {}):
        options = " and ".join({ARRAY: "--array", AFTER: "--after"}[name] for name in used)
        raise click.ClickException(
            f"{options}: Pumice is not installed in this cluster, and Volcano's controllers would start all pods of "
            "the job at once"
        )
