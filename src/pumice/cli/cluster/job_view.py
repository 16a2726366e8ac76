"""``job view``: describes a job with its tasks, podgroup, pods and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kubebase.ages import age
from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.job_manifest import USER_ANNOTATION
from pumice.cli.cluster.job_table import (
    POD_PHASES,
    phase_of,
    queue_of,
    replicas_of,
    requests_of,
    tasks_of,
)
from pumice.cli.cluster.name_arguments import JOB_NAME_HELP, one_name
from pumice.cli.cluster.name_completion import job_names
from pumice.cli.cluster.object_printer import count_text, styled_state
from pumice.cli.cluster.resource_quantities import format_quantities
from pumice.cli.terminal import echo
from pumice.cli.text_table import Column, Table

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

JOB_NAME = "volcano.sh/job-name"
TASK_SPEC = "volcano.sh/task-spec"
MAX_PODS, MAX_EVENTS = 20, 10


@click.command(
    "view",
    cls=ClusterCommand,
    examples="""
        # A job, its tasks, podgroup and pods, and what happened to it
        {me} train
    """,
)
@click.argument("name", metavar="NAME", default="", shell_complete=job_names)
@click.option("-N", "--name", "other", default="", shell_complete=job_names, help=JOB_NAME_HELP)
@on_cluster(namespaced=True)
def view(cluster: Cluster, name: str, other: str) -> None:
    """Describe a job: its tasks, podgroup, pods and events."""
    from pumice.kube.resources import EVENTS, JOBS, POD_GROUPS, PODS

    wanted, namespace, client = one_name(name, other, needed=True), cluster.namespace, cluster.client
    job = client.get(JOBS.path(namespace, wanted))
    groups = [group for group in client.list(POD_GROUPS.path(namespace)).items if _is_owned_by(group, job)]
    pods = client.list(PODS.path(namespace), {"labelSelector": f"{JOB_NAME}={wanted}"}).items
    events = []
    for kind, about in [("Job", wanted), *(("PodGroup", group["metadata"]["name"]) for group in groups)]:
        chosen = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={about}"}
        events += client.list(EVENTS.path(namespace), chosen).items
    for line in describe_job(job, groups, pods, events):
        echo(line)


def describe_job(
    job: Document, groups: Sequence[Document], pods: Sequence[Document], events: Sequence[Document]
) -> Iterator[str]:
    """The description of a job with its dependents."""
    yield from _fact_lines(job)
    yield ""
    yield from _section("Tasks", *_task_table(job))
    for group in groups:
        yield from _podgroup_lines(group)
    if pods:
        yield ""
        yield from _section("Pods", *_pod_table(pods))
    yield ""
    if not events:
        yield "Events: none"
        return
    yield from _section("Events", *_event_table(events))


def _fact_lines(job: Document) -> Iterator[str]:
    about, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    now = status.get("state") or {}
    since = f" for {age(now['lastTransitionTime'])}" if now.get("lastTransitionTime") else ""
    facts = {
        "Name": str(about["name"]),
        "Namespace": str(about.get("namespace") or ""),
        "Queue": queue_of(job),
        "Routed": str((about.get("annotations") or {}).get("pumice.dev/routed") or ""),
        "User": str((about.get("annotations") or {}).get(USER_ANNOTATION) or ""),
        "Priority": str(spec.get("priorityClassName") or ""),
        "Scheduler": str(spec.get("schedulerName") or ""),
        "Phase": styled_state(phase_of(job)) + since,
        "Reason": str(now.get("reason") or ""),
        "Message": str(now.get("message") or ""),
        "Pods": f"{replicas_of(spec)}, minimum {count_text(spec.get('minAvailable'))}",
        "Retries": f"{count_text(status.get('retryCount'))} of {count_text(spec.get('maxRetry'))}",
        "Created": f"{about.get('creationTimestamp') or 'unknown'} ({age(about.get('creationTimestamp'))} ago)",
    }
    for name, value in facts.items():
        if value:
            yield f"{name + ':':<12}{value}"


def _task_table(job: Document) -> tuple[list[Column], list[list[str]]]:
    counted = (job.get("status") or {}).get("taskStatusCount") or {}
    columns = [
        Column("Name"),
        Column("Replicas", align_right=True),
        Column("Min", align_right=True),
        *(Column(phase.capitalize(), align_right=True) for phase in POD_PHASES),
        Column("Requests"),
        Column("Image"),
    ]
    rows = []
    for task in tasks_of(job.get("spec") or {}):
        phases: Mapping[str, Any] = (counted.get(task.get("name")) or {}).get("phase") or {}
        containers = ((task.get("template") or {}).get("spec") or {}).get("containers") or ()
        least = task.get("minAvailable")
        rows.append(
            [
                str(task.get("name") or "?"),
                count_text(task.get("replicas")),
                "-" if least is None else str(least),
                *(count_text(phases.get(phase.capitalize())) for phase in POD_PHASES),
                format_quantities(requests_of(task)),
                ",".join(dict.fromkeys(str(container.get("image") or "?") for container in containers)) or "-",
            ]
        )
    return columns, rows


def _podgroup_lines(group: Document) -> Iterator[str]:
    about, status = group["metadata"], group.get("status") or {}
    yield ""
    yield f"Podgroup: {about['name']} {styled_state(str(status.get('phase') or 'Pending'))}"
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True":
            said = ": ".join(str(condition[part]) for part in ("reason", "message") if condition.get(part))
            yield f"  {condition.get('type')} for {age(condition.get('lastTransitionTime'))}: {said}"


def _pod_table(pods: Sequence[Document]) -> tuple[list[Column], list[list[str]]]:
    columns = [Column("Name"), Column("Task"), Column("Phase"), Column("Node"), Column("Age", align_right=True)]
    rows = []
    for pod in pods[:MAX_PODS]:
        about = pod["metadata"]
        phase = (
            "Deleting" if about.get("deletionTimestamp") else str((pod.get("status") or {}).get("phase") or "Pending")
        )
        task = (about.get("annotations") or {}).get(TASK_SPEC) or (about.get("labels") or {}).get(TASK_SPEC)
        node = (pod.get("spec") or {}).get("nodeName")
        rows.append([about["name"], task or "-", styled_state(phase), node or "-", age(about.get("creationTimestamp"))])
    if len(pods) > MAX_PODS:
        rows.append([f"and {len(pods) - MAX_PODS:,} more", "", "", "", ""])
    return columns, rows


def _event_table(events: Sequence[Document]) -> tuple[list[Column], list[list[str]]]:
    columns = [Column("Age"), Column("Type"), Column("Reason"), Column("Message")]
    ordered = sorted(events, key=_event_time)[-MAX_EVENTS:]
    return columns, [
        [
            age(_event_time(event)),
            str(event.get("type") or ""),
            str(event.get("reason") or ""),
            str(event.get("message") or ""),
        ]
        for event in ordered
    ]


def _event_time(event: Document) -> str:
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(last or event["metadata"].get("creationTimestamp") or "")


def _section(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    table = Table(columns)
    table.widen(rows)
    yield click.style(f"{title}:", bold=True)
    for line in (table.heading(), *(table.line(row) for row in rows)):
        yield f"  {line}"


def _is_owned_by(child: Document, owner: Document) -> bool:
    references = child["metadata"].get("ownerReferences") or ()
    return any(reference.get("uid") == owner["metadata"].get("uid") for reference in references)
